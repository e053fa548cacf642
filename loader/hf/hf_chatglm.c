/* hf_chatglm.c - the configuration keys of ChatGLM2, ChatGLM3 and of GLM-4 in the form of its original code.
 * Source of keys, defaults and arithmetic: configuration_chatglm.py and modeling_chatglm.py in the repositories of
 * those models. */
#include <string.h>

#include "loader/hf/hf_parts.h"
#include "loader/hf/hf_quant_parts.h"

/* A key with the only supported value, which is also the default. */
typedef struct presumed {
  const char *key;
  bool value;
} presumed;

/* Without multi_query_attention the fused tensor would interleave q, k and v head by head. */
static yk_status check_presumed(yk_json root, const char *file, yk_err *err)
{
  static const presumed keys[] = {{"rmsnorm", true},
                                  {"post_layer_norm", true},
                                  {"original_rope", true},
                                  {"multi_query_attention", true},
                                  {"apply_residual_connection_post_layernorm", false}};
  static const char *const unset[] = {"pre_seq_len", "position_encoding_2d", "alibi", "use_alibi"};
  for (size_t i = 0; i < sizeof unset / sizeof *unset; i++) YK_TRY(yk_hf_require_unset(root, file, unset[i], err));
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    bool value = keys[i].value;
    bool is_needed = strcmp(keys[i].key, "multi_query_attention") == 0; /* its class default is false */
    YK_TRY(yk_json_get_bool(root, file, keys[i].key, is_needed, &value, err));
    if (value != keys[i].value)
      return yk_hf_refuse_value(root, file, keys[i].key, keys[i].value ? "true" : "false", err);
  }
  int64_t bits = 0;
  YK_TRY(yk_json_get_i64(root, file, "quantization_bit", false, 0, INT32_MAX, &bits, err));
  return bits == 0 ? YK_OK : yk_hf_refuse_value(root, file, "quantization_bit", "0", err);
}

static yk_status read_heads(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  static const char kv_channels[] = "kv_channels";
  yk_json channels = yk_json_get(root, kv_channels);
  YK_TRY(yk_json_get_i32(root, file, "num_attention_heads", true, 1, YK_MAX_HEADS, &config->n_heads, err));
  YK_TRY(yk_json_get_i32(root, file, "multi_query_group_num", true, 1, config->n_heads, &config->n_kv_heads, err));
  if (config->n_heads % config->n_kv_heads != 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: num_attention_heads %d: expected a multiple of multi_query_group_num %d",
                      file, config->n_heads, config->n_kv_heads);
  config->head_dim = yk_json_is(channels, YK_JSON_NULL) ? config->hidden_size / config->n_heads : 128;
  YK_TRY(yk_json_get_i32(root, file, kv_channels, false, 4, YK_MAX_HEAD_DIM, &config->head_dim, err));
  if (config->head_dim % 4 != 0 || config->head_dim < 4 || config->head_dim > YK_MAX_HEAD_DIM)
    return yk_err_set(err, YK_E_FORMAT, "%s: kv_channels: expected a multiple of 4 up to %d, found %d", file,
                      YK_MAX_HEAD_DIM, config->head_dim);
  return YK_OK;
}

static yk_status read_sizes(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  YK_TRY(yk_json_get_i32(root, file, "padded_vocab_size", true, 1, YK_MAX_VOCAB, &config->vocab_size, err));
  YK_TRY(yk_json_get_i32(root, file, "hidden_size", true, 1, YK_MAX_HIDDEN, &config->hidden_size, err));
  YK_TRY(yk_json_get_i32(root, file, "ffn_hidden_size", true, 1, YK_MAX_FFN, &config->ffn_size, err));
  YK_TRY(yk_json_get_i32(root, file, "num_layers", true, 1, YK_MAX_LAYERS, &config->n_layers, err));
  YK_TRY(read_heads(root, file, config, err));
  YK_TRY(yk_json_get_i32(root, file, "seq_length", true, 1, YK_MAX_POSITIONS, &config->max_position_embeddings, err));
  config->rms_norm_eps = 1e-5f;
  return yk_json_get_f32(root, file, "layernorm_epsilon", false, 1e-20, 1, &config->rms_norm_eps, err);
}

static yk_status read_biases(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  bool linear = false, qkv = false;
  YK_TRY(yk_json_get_bool(root, file, "add_bias_linear", false, &linear, err));
  YK_TRY(yk_json_get_bool(root, file, "add_qkv_bias", false, &qkv, err));
  config->qkv_bias = linear || qkv;
  config->o_bias = config->mlp_bias = linear;
  return yk_json_get_bool(root, file, "tie_word_embeddings", false, &config->tie_word_embeddings, err);
}

/* The first half of each head rotates. rope_ratio: ChatGLM3 and GLM-4 multiply the base by rope_ratio; the code of
 * ChatGLM2's long variant divides positions by it. Only the model's name distinguishes the two. */
static yk_status read_rope(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  double ratio = 1;
  const char *name;
  YK_TRY(yk_json_get_f64(root, file, "rope_ratio", false, 1e-3, 1e6, &ratio, err));
  YK_TRY(yk_json_get_str(root, file, "_name_or_path", false, &name, err));
  config->rope = yk_hf_rope_default(config->max_position_embeddings);
  config->max_model_tokens = config->max_position_embeddings;
  config->rotary_dim = config->head_dim / 2;
  config->rotary_interleaved = true;
  if (ratio != 1 && name && strstr(name, "chatglm2")) {
    config->rope.type = YK_ROPE_LINEAR;
    config->rope.factor = ratio;
  } else {
    config->rope.theta *= ratio;
  }
  return YK_OK;
}

yk_status yk_hf_read_chatglm(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  YK_TRY(check_presumed(root, file, err));
  YK_TRY(read_sizes(root, file, config, err));
  YK_TRY(read_biases(root, file, config, err));
  config->embed_scale = config->residual_scale = config->logit_scale = 1;
  return read_rope(root, file, config, err);
}
