#include "study/shapes.h"

#include <stdio.h>
#include <string.h>

#include "base/json_tree.h"
#include "base/model_path.h"

enum { SIZE_MAX_VALUE = 1 << 30 };

/* Weights of b bits in groups of g, with a scale of 16 bits and a zero point of b bits for each group. */
static yk_status read_quantisation(const json_t *config, const char *path, yk_model_shapes *out, yk_err *err)
{
  int64_t bits = 4, group_size = 128;
  const json_t *quantisation = json_object_get(config, "quantization_config");
  if (!json_is_object(quantisation)) return YK_OK;
  YK_TRY(yk_tree_get_i64(quantisation, path, "bits", false, 1, 16, &bits, err));
  YK_TRY(yk_tree_get_i64(quantisation, path, "group_size", false, -1, SIZE_MAX_VALUE, &group_size, err));
  double per_group = group_size > 0 ? (16.0 + (double)bits) / (double)group_size : 0;
  out->linear_element_bytes = ((double)bits + per_group) / 8;
  out->group_size = group_size > 0 ? group_size : out->intermediate_size; /* else one group spans all of K */
  return YK_OK;
}

static yk_status read_sizes(const json_t *config, const char *path, yk_model_shapes *out, yk_err *err)
{
  const struct {
    const char *key;
    int64_t *value;
  } sizes[] = {{"num_hidden_layers", &out->n_layers},
               {"hidden_size", &out->hidden_size},
               {"num_attention_heads", &out->n_heads},
               {"vocab_size", &out->vocab_size}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    YK_TRY(yk_tree_get_i64(config, path, sizes[i].key, true, 1, SIZE_MAX_VALUE, sizes[i].value, err));
  bool has_experts = json_object_get(config, "moe_intermediate_size"); /* dense layers may then be absent */
  YK_TRY(yk_tree_get_i64(config, path, "intermediate_size", !has_experts, 0, SIZE_MAX_VALUE, &out->intermediate_size,
                         err));
  out->n_kv_heads = out->n_heads;
  out->head_dim = out->hidden_size / out->n_heads;
  YK_TRY(yk_tree_get_i64(config, path, "num_key_value_heads", false, 1, SIZE_MAX_VALUE, &out->n_kv_heads, err));
  YK_TRY(yk_tree_get_i64(config, path, "head_dim", false, 1, SIZE_MAX_VALUE, &out->head_dim, err));
  return yk_tree_get_i64(config, path, "max_position_embeddings", false, 1, SIZE_MAX_VALUE, &out->max_model_tokens,
                         err);
}

static yk_status read_latent(const json_t *config, const char *path, yk_model_shapes *out, yk_err *err)
{
  if (!json_object_get(config, "kv_lora_rank")) return YK_OK;
  const json_t *q_rank = json_object_get(config, "q_lora_rank");
  if (q_rank && !json_is_null(q_rank))
    YK_TRY(yk_tree_get_i64(config, path, "q_lora_rank", true, 1, SIZE_MAX_VALUE, &out->q_rank, err));
  YK_TRY(yk_tree_get_i64(config, path, "qk_nope_head_dim", true, 1, SIZE_MAX_VALUE, &out->nope_dim, err));
  YK_TRY(yk_tree_get_i64(config, path, "qk_rope_head_dim", true, 1, SIZE_MAX_VALUE, &out->rope_dim, err));
  YK_TRY(yk_tree_get_i64(config, path, "v_head_dim", true, 1, SIZE_MAX_VALUE, &out->value_dim, err));
  return yk_tree_get_i64(config, path, "kv_lora_rank", true, 1, SIZE_MAX_VALUE, &out->kv_rank, err);
}

/* Layers by their types, else all but each full_attention_interval-th. */
static yk_status read_delta(const json_t *config, const char *path, yk_model_shapes *out, yk_err *err)
{
  const json_t *types = json_object_get(config, "layer_types"), *gates = json_object_get(config, "attn_output_gate");
  const struct {
    const char *key;
    int64_t *value;
  } sizes[] = {{"linear_num_key_heads", &out->delta_key_heads},
               {"linear_num_value_heads", &out->delta_value_heads},
               {"linear_key_head_dim", &out->delta_key_dim},
               {"linear_value_head_dim", &out->delta_value_dim}};
  int64_t interval = 4;
  if (!json_object_get(config, sizes[0].key)) return YK_OK;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    YK_TRY(yk_tree_get_i64(config, path, sizes[i].key, true, 1, SIZE_MAX_VALUE, sizes[i].value, err));
  YK_TRY(yk_tree_get_i64(config, path, "full_attention_interval", false, 1, SIZE_MAX_VALUE, &interval, err));
  out->has_attention_gates = !json_is_false(gates);
  if (!json_is_array(types)) out->n_delta_layers = out->n_layers - out->n_layers / interval;
  for (size_t i = 0; i < json_array_size(types); i++) {
    const char *type = json_string_value(json_array_get(types, i));
    out->n_delta_layers += type && strcmp(type, "linear_attention") == 0;
  }
  return YK_OK;
}

/* Counts layers with experts: by Qwen's keys, else by DeepSeek's, else all layers. */
static yk_status count_expert_layers(const json_t *config, const char *path, yk_model_shapes *out, yk_err *err)
{
  const json_t *dense = json_object_get(config, "mlp_only_layers");
  int64_t step = 1, n_dense = 0;
  YK_TRY(yk_tree_get_i64(config, path, "decoder_sparse_step", false, 1, SIZE_MAX_VALUE, &step, err));
  YK_TRY(yk_tree_get_i64(config, path, "first_k_dense_replace", false, 0, SIZE_MAX_VALUE, &n_dense, err));
  out->n_expert_layers = out->n_layers / step - n_dense;
  for (size_t i = 0; i < json_array_size(dense); i++) {
    json_int_t layer = json_integer_value(json_array_get(dense, i));
    out->n_expert_layers -= layer < out->n_layers && (layer + 1) % step == 0;
  }
  if (out->n_expert_layers < 0) out->n_expert_layers = 0;
  return YK_OK;
}

static yk_status read_experts(const json_t *config, const char *path, yk_model_shapes *out, yk_err *err)
{
  static const char *const counts[] = {"num_experts", "num_local_experts", "n_routed_experts"};
  int64_t n_shared = 0;
  for (size_t i = 0; i < sizeof counts / sizeof *counts && out->n_experts == 0; i++)
    YK_TRY(yk_tree_get_i64(config, path, counts[i], false, 0, SIZE_MAX_VALUE, &out->n_experts, err));
  if (out->n_experts == 0) return YK_OK;
  out->expert_size = out->intermediate_size;
  YK_TRY(yk_tree_get_i64(config, path, "num_experts_per_tok", true, 1, out->n_experts, &out->top_k, err));
  YK_TRY(yk_tree_get_i64(config, path, "moe_intermediate_size", false, 1, SIZE_MAX_VALUE, &out->expert_size, err));
  YK_TRY(yk_tree_get_i64(config, path, "n_shared_experts", false, 0, SIZE_MAX_VALUE, &n_shared, err));
  out->shared_size = n_shared * out->expert_size;
  YK_TRY(yk_tree_get_i64(config, path, "shared_expert_intermediate_size", false, 0, SIZE_MAX_VALUE, &out->shared_size,
                         err));
  return count_expert_layers(config, path, out, err);
}

/* Sizes as these are of layers with two sublayers. */
static yk_status refuse_blocks(const json_t *config, const char *path, yk_err *err)
{
  static const char *const keys[] = {"hybrid_override_pattern", "layers_block_type"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (json_object_get(config, keys[i]))
      return yk_err_set(err, YK_E_UNSUPPORTED,
                        "%s: limits of models whose layers are one sublayer (%s) are not supported", path, keys[i]);
  return YK_OK;
}

yk_status yk_model_shapes_read(const char *model_dir, yk_model_shapes *out, yk_err *err)
{
  char dir[YK_MODEL_PATH_BYTES], path[YK_MODEL_PATH_BYTES + sizeof "/config.json"];
  json_t *config;
  *out = (yk_model_shapes){0};
  YK_TRY(yk_model_path_dir(model_dir, dir, err));
  snprintf(path, sizeof path, "%s/config.json", dir);
  YK_TRY(yk_tree_parse_file(path, &config, err));
  const json_t *text = json_object_get(config, "text_config");
  if (!json_is_object(text)) text = config;
  yk_status status = YK_OK;
  if (!json_is_object(config))
    status = yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", path, yk_tree_type_name(config));
  else
    status = refuse_blocks(text, path, err);
  if (status == YK_OK) status = read_sizes(text, path, out, err);
  const json_t *quantised = json_object_get(config, "quantization_config") ? config : text;
  if (status == YK_OK) status = read_quantisation(quantised, path, out, err);
  if (status == YK_OK) status = read_experts(text, path, out, err);
  if (status == YK_OK) status = read_latent(text, path, out, err);
  if (status == YK_OK) status = read_delta(text, path, out, err);
  json_decref(config);
  return status;
}
