#include "quantize/output_files.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_tree.h"
#include "loader/dir.h"

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

static int add_to_index(const yk_quantize_plan *plan, const yk_planned_tensor *tensor, json_t *weight_map,
                        int64_t *total_bytes)
{
  yk_tensor made[YK_QUANTISED_TENSORS];
  int n = yk_quantize_tensors(plan, tensor, made), failed = n == 0;
  for (int i = 0; i < n; i++) {
    failed |= json_object_set_new(weight_map, made[i].name, json_string(tensor->file));
    *total_bytes += (int64_t)made[i].n_bytes;
    if (tensor->is_quantised) free((char *)made[i].name);
  }
  return failed;
}

/* text: taken over; NULL where memory was short. */
static yk_status write_text(const char *dir, const char *name, char *text, yk_err *err)
{
  char path[YK_PATH_BYTES];
  yk_status status = yk_dir_path(dir, name, path, err);
  if (status == YK_OK)
    status = text ? yk_file_replace(path, text, strlen(text), err) : yk_err_set(err, YK_E_NOMEM, "%s: no memory", path);
  free(text);
  return status;
}

yk_status yk_quantize_write_index(const char *dir, const yk_quantize_plan *plan, yk_err *err)
{
  json_t *weight_map = json_object(), *metadata = json_object(), *index = json_object();
  int64_t total_bytes = 0;
  int failed = !weight_map || !metadata || !index;
  for (size_t i = 0; i < plan->n_tensors && !failed; i++)
    failed = add_to_index(plan, &plan->tensors[i], weight_map, &total_bytes);
  failed |= json_object_set_new(metadata, "total_size", json_integer(total_bytes));
  failed |= json_object_set_new(index, "metadata", metadata);
  failed |= json_object_set_new(index, "weight_map", weight_map);
  yk_status status =
      failed ? yk_err_set(err, YK_E_NOMEM, "%s: no memory for an index", dir)
             : write_text(dir, YK_SAFETENSORS_INDEX, yk_tree_text(index, JSON_INDENT(2) | JSON_SORT_KEYS), err);
  json_decref(index);
  return status;
}

/* ---- config.json ------------------------------------------------------------------------------------------------- */

yk_status yk_quantize_write_config(const char *dir, const yk_quantize_plan *plan, yk_err *err)
{
  json_t *config = json_copy(plan->config), *quant = json_object();
  int failed = !config || !quant;
  failed |= json_object_set_new(quant, "quant_method", json_string("awq"));
  failed |= json_object_set_new(quant, "bits", json_integer(4));
  failed |= json_object_set_new(quant, "group_size", json_integer(plan->group_size));
  failed |= json_object_set_new(quant, "zero_point", json_true());
  failed |= json_object_set_new(quant, "version", json_string("gemm"));
  failed |= json_object_set(quant, "modules_to_not_convert", plan->kept);
  failed |= json_object_set_new(config, "quantization_config", quant);
  yk_status status = failed ? yk_err_set(err, YK_E_NOMEM, "%s: no memory for config.json", dir)
                            : write_text(dir, "config.json", yk_tree_dump_same(config), err);
  json_decref(config);
  return status;
}
