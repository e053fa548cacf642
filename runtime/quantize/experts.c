#include "quantize/experts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/model/weight_names.h"

enum { MAX_NAME_BYTES = 512 };

/* The end of a fused tensor's name, and the number of layers of each expert in it. */
typedef struct fused_end {
  const char *text;
  int64_t n_parts;
} fused_end;

static const fused_end ends[] = {
    {".experts.gate_up_proj", 2}, {".experts.down_proj", 1}, {".input_linear.weight", 2}, {".output_linear.weight", 1}};
static const char mixtral[] = "block_sparse_moe", llama4[] = "feed_forward";

static bool ends_with(const char *text, size_t n, const char *end)
{
  size_t n_end = strlen(end);
  return n >= n_end && memcmp(text + n - n_end, end, n_end) == 0;
}

static const fused_end *end_of(const yk_tensor *tensor)
{
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    if (ends_with(tensor->name, strlen(tensor->name), ends[i].text)) return &ends[i];
  return NULL;
}

/* Whether experts are [experts, inputs, outputs]. */
static bool is_transposed(const yk_tensor *tensor)
{
  const fused_end *end = end_of(tensor);
  return end && ends_with(tensor->name, strlen(tensor->name) - strlen(end->text), llama4);
}

int64_t yk_experts_count(const yk_tensor *tensor)
{
  const fused_end *end = end_of(tensor);
  bool is_float = tensor->dtype == YK_TENSOR_F16 || tensor->dtype == YK_TENSOR_BF16 || tensor->dtype == YK_TENSOR_F32;
  if (tensor->n_dims != 3 || !is_float || !yk_weight_within_layer(tensor->name)) return 0;
  return end ? end->n_parts * tensor->shape[0] : 0;
}

yk_status yk_experts_check(const yk_tensor *tensor, yk_json config, yk_err *err)
{
  int64_t hidden = 0;
  const int64_t *shape = tensor->shape;
  const char *type = yk_json_string(yk_json_get(config, "model_type"));
  if (type && strcmp(type, "mixtral") == 0 && !strstr(tensor->name, mixtral))
    return yk_err_set(
        err, YK_E_UNSUPPORTED,
        "tensor %s: this name of Mixtral's experts is not supported; supported: block_sparse_moe.experts, "
        "as save_pretrained writes them unless save_original_format is false",
        tensor->name);
  yk_json text = yk_json_get(config, "text_config");
  if (yk_json_is(text, YK_JSON_OBJECT)) config = text;
  YK_TRY(yk_json_get_i64(config, "config.json", "hidden_size", true, 1, INT64_MAX, &hidden, err));
  const int64_t n_inputs = is_transposed(tensor) ? shape[1] : shape[2];
  const int64_t n_outputs = is_transposed(tensor) ? shape[2] : shape[1];
  bool is_sound = end_of(tensor)->n_parts == 2 ? n_inputs == hidden && n_outputs % 2 == 0 : n_outputs == hidden;
  if (is_sound) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "tensor %s: expected experts as [experts, %s] with hidden_size %" PRId64 ", found [%" PRId64
                    ", %" PRId64 ", %" PRId64 "]",
                    tensor->name, is_transposed(tensor) ? "inputs, outputs" : "outputs, inputs", hidden, shape[0],
                    shape[1], shape[2]);
}

yk_status yk_experts_layer(const yk_tensor *tensor, int64_t i, yk_tensor *out, yk_err *err)
{
  static const char *const names[2][3] = {{"gate_proj", "up_proj", "down_proj"}, {"w1", "w3", "w2"}};
  const fused_end *end = end_of(tensor);
  int64_t parts = end->n_parts, expert = i / parts;
  size_t n_prefix = strlen(tensor->name) - strlen(end->text);
  const char *layer = names[ends_with(tensor->name, n_prefix, mixtral)][parts == 2 ? i % 2 : 2];
  char name[MAX_NAME_BYTES];
  snprintf(name, sizeof name, "%.*s.experts.%" PRId64 ".%s.weight", (int)n_prefix, tensor->name, expert, layer);
  *out = (yk_tensor){.name = strdup(name),
                     .dtype = tensor->dtype,
                     .n_dims = 2,
                     .shape = {tensor->shape[1] / parts, tensor->shape[2]},
                     .n_bytes = tensor->n_bytes / (uint64_t)(tensor->shape[0] * parts)};
  out->data = (const char *)tensor->data + (uint64_t)i * out->n_bytes;
  if (is_transposed(tensor)) {
    out->column_stride = tensor->shape[2];
    out->shape[0] = tensor->shape[2] / parts;
    out->shape[1] = tensor->shape[1];
    const uint64_t column_bytes = out->n_bytes / (uint64_t)(out->shape[1] > 0 ? out->shape[1] : 1);
    out->data = (const char *)tensor->data + (uint64_t)expert * (uint64_t)parts * out->n_bytes +
                (uint64_t)(i % parts) * column_bytes;
  }
  return out->name ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for the names of experts");
}
