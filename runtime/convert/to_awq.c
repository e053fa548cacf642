#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/model_path.h"
#include "convert/formats.h"
#include "convert/stream.h"
#include "kernels/gated_delta.h"
#include "kernels/mamba.h"
#include "loader/hf/awq_kept.h"
#include "loader/hf/json_edit.h"
#include "loader/hf/side_files.h"
#include "loader/safetensors/dir.h"
#include "loader/safetensors/safetensors_write.h"

enum { NAME_BYTES = YK_WEIGHT_NAME_BYTES + 32, MAX_PER_ITEM = 4 };

typedef struct tensors {
  yk_tensor *list;
  char (*names)[NAME_BYTES];
  size_t n;
  int64_t n_bytes;
} tensors;

/* ---- The tensors ------------------------------------------------------------------------------------------------- */

static yk_tensor_dtype dtype_of(yk_dtype dtype)
{
  return dtype == YK_F16 ? YK_TENSOR_F16 : dtype == YK_BF16 ? YK_TENSOR_BF16 : YK_TENSOR_F32;
}

/* n_rows 0: the tensor has one dimension. */
static void add(tensors *t, const char *module, const char *suffix, yk_tensor_dtype dtype, int64_t n_rows,
                int64_t n_columns)
{
  yk_tensor *tensor = &t->list[t->n];
  snprintf(t->names[t->n], NAME_BYTES, "%s%s%s", module, suffix ? "." : "", suffix ? suffix : "");
  *tensor = (yk_tensor){.name = t->names[t->n], .dtype = dtype, .n_dims = n_rows ? 2 : 1};
  tensor->shape[0] = n_rows ? n_rows : n_columns;
  tensor->shape[1] = n_rows ? n_columns : 0;
  yk_tensor_bytes(tensor, &tensor->n_bytes);
  t->n_bytes += (int64_t)tensor->n_bytes;
  t->n++;
}

/* [channels, 1, n_taps] in place of one dimension. */
static void shape_convolution(yk_tensor *tensor, int n_taps)
{
  tensor->n_dims = 3;
  tensor->shape[0] /= n_taps;
  tensor->shape[1] = 1;
  tensor->shape[2] = n_taps;
}

static void add_item(tensors *t, const yk_convert_item *item, int32_t group_size)
{
  const yk_weight_view *w = &item->weight;
  if (item->kind == YK_CONVERT_VECTOR) {
    add(t, item->module, item->suffix, dtype_of(item->vector.dtype), 0, item->vector.n);
    if (item->role == YK_ROLE_DELTA_CONV) shape_convolution(&t->list[t->n - 1], YK_DELTA_TAPS);
    if (item->role == YK_ROLE_MAMBA_CONV) shape_convolution(&t->list[t->n - 1], YK_MAMBA_TAPS);
    return;
  }
  if (yk_convert_is_quantised(item)) {
    int64_t n_groups = group_size == -1 ? 1 : w->k / group_size;
    add(t, item->module, "qweight", YK_TENSOR_I32, w->k, w->n / 8);
    add(t, item->module, "qzeros", YK_TENSOR_I32, n_groups, w->n / 8);
    add(t, item->module, "scales", dtype_of(w->dtype), n_groups, w->n);
  } else {
    add(t, item->module, "weight", dtype_of(w->dtype), w->n, w->k);
  }
  if (w->bias) add(t, item->module, "bias", dtype_of(w->bias_dtype), 0, w->n);
}

static yk_status make_list(const yk_convert_source *source, tensors *t, yk_err *err)
{
  size_t n_max = source->n_items * MAX_PER_ITEM;
  t->list = calloc(n_max, sizeof *t->list);
  t->names = calloc(n_max, sizeof *t->names);
  if (!t->list || !t->names) return yk_err_set(err, YK_E_NOMEM, "no memory for a table of %zu tensors", n_max);
  for (size_t i = 0; i < source->n_items; i++) add_item(t, &source->items[i], source->group_size);
  return YK_OK;
}

/* ---- Weights ----------------------------------------------------------------------------------------------------- */

static yk_status put_to_writer(void *file, const void *bytes, size_t n_bytes, yk_err *err)
{
  return yk_safetensors_writer_put(file, bytes, n_bytes, err);
}

static yk_status put_item(yk_convert_stream *stream, const yk_convert_item *item, int32_t group_size, yk_err *err)
{
  const yk_weight_view *w = &item->weight;
  const yk_vector_view *v = &item->vector;
  if (item->kind == YK_CONVERT_VECTOR)
    return yk_convert_put(stream, v->data, v->n * (int64_t)yk_dtype_bytes(v->dtype), err);
  if (yk_convert_is_quantised(item))
    YK_TRY(yk_convert_put_int4(stream, w, group_size, NULL, err));
  else
    YK_TRY(yk_convert_put(stream, w->plain, w->n * w->k * (int64_t)yk_dtype_bytes(w->dtype), err));
  return w->bias ? yk_convert_put(stream, w->bias, w->n * (int64_t)yk_dtype_bytes(w->bias_dtype), err) : YK_OK;
}

static yk_status write_weights(const yk_convert_source *source, const yk_convert_options *options, const char *dir,
                               const tensors *t, yk_err *err)
{
  yk_safetensors_writer *writer;
  YK_TRY(yk_safetensors_writer_open(dir, t->list, t->n, options->shard_bytes, &writer, err));
  yk_convert_stream stream = {.put = put_to_writer,
                              .file = writer,
                              .progress = options->progress,
                              .progress_user = options->progress_user,
                              .total_bytes = t->n_bytes};
  yk_status status = YK_OK;
  for (size_t i = 0; i < source->n_items && status == YK_OK; i++)
    status = put_item(&stream, &source->items[i], source->group_size, err);
  if (status == YK_OK) status = yk_safetensors_writer_finish(writer, err);
  yk_safetensors_writer_close(writer);
  return status;
}

/* ---- config.json ------------------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Append the names of linear layers that stay unquantised, or null if there are none. lm_head stays unquantised in
 * every AWQ model and is not listed. */
static yk_status append_kept(const yk_convert_source *source, const yk_log *log, yk_strbuf *out, yk_err *err)
{
  size_t n = source->n_items, n_kept = 0, n_quantised = 0;
  const char **kept = calloc(2 * n, sizeof *kept);
  yk_strbuf list = YK_STRBUF_INIT;
  if (!kept) return yk_err_set(err, YK_E_NOMEM, "no memory for the names of layers");
  const char **quantised = kept + n;
  for (size_t i = 0; i < n; i++) {
    const yk_convert_item *item = &source->items[i];
    bool is_linear =
        item->kind == YK_CONVERT_MATRIX && item->role != YK_ROLE_EMBEDDING && item->role != YK_ROLE_LAYER_EMBEDDING;
    if (yk_convert_is_quantised(item))
      quantised[n_quantised++] = item->module;
    else if (is_linear && item->role != YK_ROLE_LM_HEAD)
      kept[n_kept++] = item->module;
  }
  qsort(quantised, n_quantised, sizeof *quantised, by_name);
  const yk_awq_modules modules = {kept, n_kept, quantised, n_quantised};
  yk_awq_kept_warn(&modules, source->group_size, log);
  yk_awq_kept_append(&modules, &list);
  free(kept);
  out->failed = out->failed || list.failed;
  if (list.length > 0)
    yk_strbuf_append_fmt(out, "[%s]", list.data);
  else
    yk_strbuf_append_str(out, "null");
  yk_strbuf_free(&list);
  return YK_OK;
}

/* lm_head: true for 4 bits, because vLLM accepts a quantised lm_head only with this key. */
static yk_status append_quantization(const yk_convert_source *source, const yk_log *log, yk_strbuf *out, yk_err *err)
{
  const yk_convert_item *head = yk_convert_source_find(source, YK_ROLE_LM_HEAD, 0);
  yk_strbuf_append_fmt(out,
                       "{\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": %d, "
                       "\"zero_point\": true, \"version\": \"gemm\", ",
                       source->group_size);
  if (head && yk_convert_is_quantised(head)) yk_strbuf_append_str(out, "\"lm_head\": true, ");
  yk_strbuf_append_str(out, "\"modules_to_not_convert\": ");
  YK_TRY(append_kept(source, log, out, err));
  yk_strbuf_append_str(out, "}}");
  return YK_OK;
}

static yk_status edit_config(const yk_convert_source *source, const yk_convert_options *options, yk_json config,
                             yk_json_doc **edited, yk_err *err)
{
  yk_strbuf changes = YK_STRBUF_INIT;
  yk_status status = append_quantization(source, &options->log, &changes, err);
  if (status == YK_OK) return yk_json_edit("config.json", config, &changes, "compression_config", edited, err);
  yk_strbuf_free(&changes);
  return status;
}

static yk_status write_config(const yk_convert_source *source, const yk_convert_options *options, const char *dir,
                              yk_err *err)
{
  char path[YK_PATH_BYTES], *text;
  yk_json_doc *config, *edited;
  YK_TRY(yk_dir_path(dir, "config.json", path, err));
  YK_TRY(yk_checkpoint_config_text(source->checkpoint, options->model_dir, &text, err));
  yk_status status = yk_json_parse("config.json", text, strlen(text), NULL, &config, err);
  free(text);
  YK_TRY(status);
  status = edit_config(source, options, yk_json_root(config), &edited, err);
  yk_json_free(config);
  YK_TRY(status);
  text = yk_json_to_text(yk_json_root(edited));
  yk_json_free(edited);
  status = text ? yk_file_replace(path, text, strlen(text), err) : yk_err_set(err, YK_E_NOMEM, "%s: no memory", path);
  free(text);
  return status;
}

/* ---- Conversion -------------------------------------------------------------------------------------------------- */

yk_status yk_convert_write_awq(const yk_convert_source *source, const yk_convert_options *options, const char *dir,
                               yk_err *err)
{
  char from[YK_MODEL_PATH_BYTES];
  tensors t = {0};
  YK_TRY(yk_model_path_dir(options->model_dir, from, err));
  yk_status status = make_list(source, &t, err);
  if (status == YK_OK) status = write_weights(source, options, dir, &t, err);
  if (status == YK_OK) status = yk_side_files_copy(from, dir, err);
  if (status == YK_OK) status = write_config(source, options, dir, err);
  free(t.list);
  free(t.names);
  return status;
}
