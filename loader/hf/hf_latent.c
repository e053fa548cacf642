/* hf_latent.c - sizes of multi-head latent attention: the keys of DeepSeek-V2 and V3. */
#include "loader/hf/hf_parts.h"

/* null: q is one projection. Both classes have a default of 1536, which fits only their largest models, so the key is
 * required. */
static yk_status read_q_rank(yk_json root, const char *file, yk_latent_config *latent, yk_err *err)
{
  static const char key[] = "q_lora_rank";
  latent->q_rank = 0;
  return yk_json_get_i32(root, file, key, !yk_json_get(root, key).doc, 1, YK_MAX_HIDDEN, &latent->q_rank, err);
}

/* mlp_bias exists in transformers' class of DeepSeek-V2, but in no published model and not in the models' original
 * class. */
static yk_status refuse_mlp_bias(yk_json root, const char *file, const yk_model_config *config, yk_err *err)
{
  bool mlp_bias = false;
  if (config->family != YK_FAMILY_DEEPSEEK_V2) return YK_OK;
  YK_TRY(yk_json_get_bool(root, file, "mlp_bias", false, &mlp_bias, err));
  if (!mlp_bias) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: mlp_bias true is not supported for this family; supported: false",
                    file);
}

yk_status yk_hf_read_latent(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  yk_latent_config *latent = &config->latent;
  YK_TRY(refuse_mlp_bias(root, file, config, err));
  YK_TRY(read_q_rank(root, file, latent, err));
  YK_TRY(yk_json_get_i32(root, file, "kv_lora_rank", true, 1, YK_MAX_HEAD_DIM, &latent->kv_rank, err));
  YK_TRY(yk_json_get_i32(root, file, "qk_nope_head_dim", true, 1, YK_MAX_HEAD_DIM, &latent->nope_dim, err));
  YK_TRY(yk_json_get_i32(root, file, "qk_rope_head_dim", true, 2, YK_MAX_HEAD_DIM, &config->head_dim, err));
  YK_TRY(yk_json_get_i32(root, file, "v_head_dim", true, 1, YK_MAX_HEAD_DIM, &latent->value_dim, err));
  if (config->head_dim % 2 != 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: qk_rope_head_dim: expected an even number, found %d", file,
                      config->head_dim);
  config->n_kv_heads = 1;
  config->rotary_interleaved = true;
  return yk_json_get_bool(root, file, "rope_interleave", false, &config->rotary_interleaved, err);
}
