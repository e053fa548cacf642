/* hf_scales.c - constant factors of embeddings, residuals, attention scores and logits. */
#include <math.h>
#include <string.h>

#include "loader/hf/hf_parts.h"
#include "loader/hf/hf_quant_parts.h"

/* Read Granite's four factors: the defaults of its class are 1. */
static yk_status read_granite_scales(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  double divisor = 1;
  config->attention_scale = 1;
  YK_TRY(yk_json_get_f32(root, file, "embedding_multiplier", false, 1e-6, 1e6, &config->embed_scale, err));
  YK_TRY(yk_json_get_f32(root, file, "residual_multiplier", false, 1e-6, 1e6, &config->residual_scale, err));
  YK_TRY(yk_json_get_f32(root, file, "attention_multiplier", false, 1e-6, 1e6, &config->attention_scale, err));
  YK_TRY(yk_json_get_f64(root, file, "logits_scaling", false, 1e-6, 1e6, &divisor, err));
  config->logit_scale = (float)(1 / divisor);
  return YK_OK;
}

/* "vision" concerns only tokens of images, which attend to each other in both directions; text has none. */
static yk_status refuse_bidirectional(yk_json root, const char *file, const yk_model_config *config, yk_err *err)
{
  static const char key[] = "use_bidirectional_attention";
  const char *kind = yk_json_string(yk_json_get(root, key));
  if (yk_family_is_gemma4(config->family) && kind && strcmp(kind, "vision") == 0) return YK_OK;
  return yk_hf_require_unset(root, file, key, err);
}

/* Gemma's scale of scores and cap of logits; a cap of scores is refused. embed_scale is the root of hidden_size. */
static yk_status read_gemma_scales(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  double scalar = 256; /* the class default */
  YK_TRY(yk_hf_require_unset(root, file, "attn_logit_softcapping", err));
  YK_TRY(refuse_bidirectional(root, file, config, err));
  if (yk_family_is_gemma4(config->family))
    scalar = 1;
  else
    YK_TRY(yk_json_get_f64(root, file, "query_pre_attn_scalar", false, 1e-6, 1e9, &scalar, err));
  YK_TRY(yk_json_get_f32(root, file, "final_logit_softcapping", false, 1e-3, 1e6, &config->logit_cap, err));
  config->attention_scale = (float)(1 / sqrt(scalar));
  config->embed_scale = (float)sqrt(config->hidden_size);
  config->rounds_embed_scale = true;
  return YK_OK;
}

/* Read MiniCPM's three scales. The defaults of its class match no trained model, so the keys are required, except for
 * fm9g7b, a plain Llama without these keys. */
static yk_status read_minicpm_scales(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  int64_t n_experts = 0;
  YK_TRY(yk_json_get_i64(root, file, "num_experts", false, 0, INT32_MAX, &n_experts, err));
  if (n_experts > 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: num_experts %lld is not supported for this family; supported: 0",
                      file, (long long)n_experts);
  const char *model_type;
  YK_TRY(yk_json_get_str(root, file, "model_type", false, &model_type, err));
  bool required = !model_type || strcmp(model_type, "fm9g7b") != 0;
  double layers_root = sqrt(config->n_layers), scale_depth = layers_root, dim_model_base = config->hidden_size;
  YK_TRY(yk_json_get_f32(root, file, "scale_emb", required, 1e-6, 1e6, &config->embed_scale, err));
  YK_TRY(yk_json_get_f64(root, file, "scale_depth", required, 1e-6, 1e6, &scale_depth, err));
  YK_TRY(yk_json_get_f64(root, file, "dim_model_base", required, 1, YK_MAX_HIDDEN, &dim_model_base, err));
  config->residual_scale = (float)(scale_depth / layers_root);
  config->logit_scale = (float)(dim_model_base / config->hidden_size);
  return YK_OK;
}

yk_status yk_hf_read_scales(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  config->embed_scale = config->residual_scale = config->logit_scale = 1;
  if (yk_family_is_gemma(config->family)) return read_gemma_scales(root, file, config, err);
  if (yk_family_is_granite(config->family)) return read_granite_scales(root, file, config, err);
  return config->family == YK_FAMILY_MINICPM ? read_minicpm_scales(root, file, config, err) : YK_OK;
}
