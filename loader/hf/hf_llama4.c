/* hf_llama4.c - Llama 4: layers without rotation, attention in chunks, and experts. */
#include <string.h>

#include "loader/hf/hf_parts.h"

/* The class defaults. */
enum { UNROTATED_INTERVAL = 4, CHUNK_TOKENS = 8192, FLOOR_SCALE = 8192, EXPERTS_PER_TOKEN = 1 };

/* no_rope_layers: for each layer 1 if it rotates, else 0. An empty list is treated like a missing key. */
static yk_status read_rotating(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  static const char key[] = "no_rope_layers";
  yk_json flags = yk_json_get(root, key);
  if (!yk_json_is_given(flags) || (yk_json_is(flags, YK_JSON_ARRAY) && yk_json_size(flags) == 0)) return YK_OK;
  if (!yk_json_is(flags, YK_JSON_ARRAY) || yk_json_size(flags) < (size_t)config->n_layers)
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: key \"%s\": expected an array of num_hidden_layers = %d flags, found %s of %zu", file, key,
                      config->n_layers, yk_json_type_name(flags), yk_json_size(flags));
  for (int32_t i = 0; i < config->n_layers; i++) {
    int64_t rotates = -1;
    if (!yk_json_to_i64(yk_json_at(flags, (size_t)i), &rotates) || (rotates != 0 && rotates != 1))
      return yk_err_set(err, YK_E_FORMAT, "%s: %s[%d]: expected 1 (the layer rotates) or 0", file, key, i);
    config->is_unrotated[i] = rotates == 0;
  }
  return YK_OK;
}

/* attn_temperature_tuning: a boolean, or in older files a number, where 0 is false. */
static yk_status read_tuning(yk_json root, const char *file, bool *is_on, yk_err *err)
{
  static const char key[] = "attn_temperature_tuning";
  int64_t number = 0;
  *is_on = true;
  if (!yk_json_is_integer(yk_json_get(root, key))) return yk_json_get_bool(root, file, key, false, is_on, err);
  YK_TRY(yk_json_get_i64(root, file, key, true, 0, INT32_MAX, &number, err));
  *is_on = number != 0;
  return YK_OK;
}

yk_status yk_hf_read_llama4_layers(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  int32_t interval = UNROTATED_INTERVAL, period = FLOOR_SCALE;
  float beta = 0.1f;
  bool grows;
  YK_TRY(yk_json_get_i32(root, file, "no_rope_layer_interval", false, 1, INT32_MAX, &interval, err));
  for (int32_t i = 0; i < config->n_layers; i++) config->is_unrotated[i] = (i + 1) % interval == 0;
  YK_TRY(read_rotating(root, file, config, err));
  YK_TRY(read_tuning(root, file, &grows, err));
  YK_TRY(yk_json_get_i32(root, file, "floor_scale", false, 2, YK_MAX_POSITIONS, &period, err));
  YK_TRY(yk_json_get_f32(root, file, "attn_scale", false, 0, 1e3, &beta, err));
  config->growth_is_unrotated = true;
  if (grows) config->score_growth = (yk_score_growth){.beta = beta, .period = period, .shift = 1};
  return YK_OK;
}

yk_status yk_hf_read_llama4_chunks(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  static const char key[] = "attention_chunk_size";
  int32_t chunk = yk_json_get(root, key).doc ? 0 : CHUNK_TOKENS; /* null: full attention */
  bool has_chunks[YK_MAX_LAYERS] = {false};
  YK_TRY(yk_json_get_i32(root, file, key, false, 1, YK_MAX_POSITIONS, &chunk, err));
  for (int32_t i = 0; i < config->n_layers; i++) has_chunks[i] = chunk > 0 && !config->is_unrotated[i];
  YK_TRY(yk_hf_read_layer_types(root, file, config->n_layers, "chunked_attention", has_chunks, err));
  for (int32_t i = 0; i < config->n_layers; i++) {
    if (has_chunks[i] && chunk == 0)
      return yk_err_set(err, YK_E_FORMAT, "%s: layer_types[%d] is \"chunked_attention\", but %s is null", file, i, key);
    config->window_tokens[i] = has_chunks[i] ? chunk : 0;
    config->window_is_chunk = config->window_is_chunk || has_chunks[i];
  }
  return YK_OK;
}

/* The layers with experts: those of the list moe_layers, else every interleave_moe_layer_step-th layer. */
static yk_status read_sparse_layers(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  static const char key[] = "moe_layers";
  int32_t step = 1;
  yk_json layers = yk_json_get(root, key);
  YK_TRY(yk_json_get_i32(root, file, "interleave_moe_layer_step", false, 1, INT32_MAX, &step, err));
  for (int32_t i = 0; i < config->n_layers; i++)
    config->experts.layers[i] = !yk_json_is_given(layers) && (i + 1) % step == 0;
  if (!yk_json_is_given(layers)) return YK_OK;
  if (!yk_json_is(layers, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected an array of layers, found %s", file, key,
                      yk_json_type_name(layers));
  for (size_t i = 0; i < yk_json_size(layers); i++) {
    int64_t layer = -1;
    if (!yk_json_to_i64(yk_json_at(layers, i), &layer) || layer < 0 || layer >= config->n_layers)
      return yk_err_set(err, YK_E_FORMAT, "%s: %s[%zu]: expected a layer from 0 to %d", file, key, i,
                        config->n_layers - 1);
    config->experts.layers[layer] = true;
  }
  return YK_OK;
}

/* The weight of a choice is the sigmoid of the expert's logit, and multiplies the expert's input. */
yk_status yk_hf_read_llama4_experts(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  yk_experts_config *x = &config->experts;
  YK_TRY(yk_json_get_i32(root, file, "num_local_experts", true, 1, YK_MAX_EXPERTS, &x->n_experts, err));
  x->top_k = EXPERTS_PER_TOKEN;
  YK_TRY(yk_json_get_i32(root, file, "num_experts_per_tok", false, 1,
                         x->n_experts < YK_MAX_TOP_K ? x->n_experts : YK_MAX_TOP_K, &x->top_k, err));
  YK_TRY(yk_json_get_i32(root, file, "intermediate_size", true, 1, YK_MAX_FFN, &x->ffn_size, err));
  x->shared_ffn_size = x->ffn_size;
  x->scoring = YK_SCORE_SIGMOID;
  x->weighs_inputs = true;
  YK_TRY(read_sparse_layers(root, file, config, err));
  for (int32_t i = 0; i < config->n_layers; i++)
    if (x->layers[i]) return YK_OK;
  *x = (yk_experts_config){.n_groups = 1, .top_groups = 1, .scale = 1};
  return YK_OK;
}
