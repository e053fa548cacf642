#include "quantize/output_files.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_write.h"
#include "loader/hf/json_edit.h"
#include "loader/own_head.h"
#include "loader/safetensors/dir.h"

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

static char *name_of(const char *module, const char *suffix)
{
  char *name = malloc(strlen(module) + strlen(suffix) + 1);
  if (name) strcat(strcpy(name, module), suffix);
  return name;
}

int yk_quantize_tensors(const yk_quantize_plan *plan, const yk_planned_tensor *tensor,
                        yk_tensor out[YK_QUANTISED_TENSORS])
{
  out[0] = *tensor->source;
  if (!tensor->is_quantised) return 1;
  int64_t n = tensor->source->shape[0], k = tensor->source->shape[1];
  int64_t n_groups = k / yk_quantize_group(plan->group_size, k);
  const char *const suffixes[] = {".qweight", ".qzeros", ".scales"};
  const int64_t shapes[][2] = {{k, n / 8}, {n_groups, n / 8}, {n_groups, n}};
  bool has_memory = true;
  for (int i = 0; i < YK_QUANTISED_TENSORS; i++) {
    out[i] = (yk_tensor){.name = name_of(tensor->module, suffixes[i]),
                         .dtype = i < 2 ? YK_TENSOR_I32 : YK_TENSOR_F16,
                         .n_dims = 2,
                         .shape = {shapes[i][0], shapes[i][1]}};
    yk_tensor_bytes(&out[i], &out[i].n_bytes);
    has_memory = has_memory && out[i].name;
  }
  for (int i = 0; !has_memory && i < YK_QUANTISED_TENSORS; i++) free((char *)out[i].name);
  return has_memory ? YK_QUANTISED_TENSORS : 0;
}

/* ---- The index --------------------------------------------------------------------------------------------------- */

typedef struct listed {
  char *name;
  const char *file;
} listed;

static int by_name(const void *a, const void *b)
{
  return strcmp(((const listed *)a)->name, ((const listed *)b)->name);
}

/* List all written tensors of the plan. list: capacity for YK_QUANTISED_TENSORS per tensor. The caller frees the names,
 * also on failure. */
static yk_status list_made(const yk_quantize_plan *plan, listed *list, size_t *n, uint64_t *total_bytes, yk_err *err)
{
  for (size_t i = 0; i < plan->n_tensors; i++) {
    const yk_planned_tensor *tensor = &plan->tensors[i];
    yk_tensor made[YK_QUANTISED_TENSORS];
    int n_made = yk_quantize_tensors(plan, tensor, made);
    if (n_made == 0) return yk_err_set(err, YK_E_NOMEM, "no memory for the names of tensors");
    for (int j = 0; j < n_made; j++) {
      char *name = tensor->is_quantised ? (char *)made[j].name : strdup(made[j].name);
      *total_bytes += made[j].n_bytes;
      list[(*n)++] = (listed){name, tensor->file};
      if (!name) return yk_err_set(err, YK_E_NOMEM, "no memory for the names of tensors");
    }
  }
  return YK_OK;
}

/* Takes ownership of text. */
static yk_status write_text(const char *dir, const char *name, yk_strbuf *text, yk_err *err)
{
  char path[YK_PATH_BYTES];
  yk_status status = yk_dir_path(dir, name, path, err);
  if (status == YK_OK)
    status = text->failed ? yk_err_set(err, YK_E_NOMEM, "%s: no memory", path)
                          : yk_file_replace(path, text->data, text->length, err);
  yk_strbuf_free(text);
  return status;
}

yk_status yk_quantize_write_index(const char *dir, const yk_quantize_plan *plan, yk_err *err)
{
  size_t n = 0;
  uint64_t total_bytes = 0;
  yk_strbuf text = YK_STRBUF_INIT;
  listed *list = calloc(YK_QUANTISED_TENSORS * plan->n_tensors + 1, sizeof *list);
  yk_status status = list ? list_made(plan, list, &n, &total_bytes, err)
                          : yk_err_set(err, YK_E_NOMEM, "%s: no memory for an index", dir);
  if (status == YK_OK) qsort(list, n, sizeof *list, by_name);
  yk_strbuf_append_fmt(&text, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {",
                       total_bytes);
  for (size_t i = 0; i < n; i++) {
    yk_strbuf_append_str(&text, i ? ",\n    " : "\n    ");
    if (list[i].name) yk_json_append_string(&text, list[i].name, strlen(list[i].name));
    yk_strbuf_append_str(&text, ": ");
    yk_json_append_string(&text, list[i].file, strlen(list[i].file));
    free(list[i].name);
  }
  yk_strbuf_append_str(&text, "\n  }\n}");
  free(list);
  if (status == YK_OK) return write_text(dir, YK_SAFETENSORS_INDEX, &text, err);
  yk_strbuf_free(&text);
  return status;
}

/* ---- config.json ------------------------------------------------------------------------------------------------- */

yk_status yk_quantize_write_config(const char *dir, const yk_quantize_plan *plan, yk_err *err)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_json_doc *config;
  bool is_tied = yk_json_is(yk_json_get(yk_json_root(plan->config), "tie_word_embeddings"), YK_JSON_TRUE);
  bool is_untied = is_tied && yk_head_of(plan->shards, "model.embed_tokens", "lm_head") == YK_HEAD_OWN;
  yk_strbuf_append_fmt(&text,
                       "{\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": %d, "
                       "\"zero_point\": true, \"version\": \"gemm\", \"modules_to_not_convert\": [%s]}%s}",
                       plan->group_size, plan->kept.data, is_untied ? ", \"tie_word_embeddings\": false" : "");
  YK_TRY(yk_json_edit("config.json", yk_json_root(plan->config), &text, NULL, &config, err));
  yk_json_append(&text, yk_json_root(config), 2);
  yk_json_free(config);
  return write_text(dir, "config.json", &text, err);
}
