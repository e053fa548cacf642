#include <math.h>
#include <string.h>

#include "loader/hf/hf_parts.h"

static const double theta_min = 1.5, theta_max = 1e15; /* YaRN divides by ln theta */
static const double factor_min = 1e-3, factor_max = 1e6;

/* Gemma 4: only the first pairs of a head rotate, with the frequencies of a rotation of all pairs. */
static bool is_proportional(yk_json object, const yk_model_config *config)
{
  const char *type = yk_json_string(yk_json_get(object, "rope_type"));
  return yk_family_is_gemma4(config->family) && type && strcmp(type, "proportional") == 0;
}

static yk_status read_linear(yk_json object, const char *label, yk_rope_config *rope, yk_err *err)
{
  rope->type = YK_ROPE_LINEAR;
  return yk_json_get_f64(object, label, "factor", true, factor_min, factor_max, &rope->factor, err);
}

/* Read the context before scaling. A key outside the rotary settings has priority, as in transformers. */
static yk_status read_original_context(yk_json root, const char *file, yk_json object, const char *label,
                                       yk_rope_config *rope, yk_err *err)
{
  static const char key[] = "original_max_position_embeddings";
  YK_TRY(yk_json_get_f64(object, label, key, false, 1, YK_MAX_POSITIONS, &rope->original_max_positions, err));
  return yk_json_get_f64(root, file, key, false, 1, YK_MAX_POSITIONS, &rope->original_max_positions, err);
}

static yk_status read_llama3(yk_json object, const char *label, yk_rope_config *rope, yk_err *err)
{
  rope->type = YK_ROPE_LLAMA3;
  YK_TRY(yk_json_get_f64(object, label, "factor", true, factor_min, factor_max, &rope->factor, err));
  YK_TRY(yk_json_get_f64(object, label, "low_freq_factor", true, 1e-3, 1e6, &rope->low_freq_factor, err));
  YK_TRY(yk_json_get_f64(object, label, "high_freq_factor", true, 1e-3, 1e6, &rope->high_freq_factor, err));
  if (rope->high_freq_factor < rope->low_freq_factor)
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"high_freq_factor\": expected at least low_freq_factor %g, found %g",
                      label, rope->low_freq_factor, rope->high_freq_factor);
  return YK_OK;
}

static yk_status read_yarn(yk_json object, const char *label, int32_t max_positions, yk_rope_config *rope, yk_err *err)
{
  rope->type = YK_ROPE_YARN;
  rope->factor = fmax(max_positions / rope->original_max_positions, factor_min); /* used if "factor" is null */
  bool has_key = yk_json_get(object, "factor").doc != NULL;
  YK_TRY(yk_json_get_f64(object, label, "factor", !has_key, factor_min, factor_max, &rope->factor, err));
  YK_TRY(yk_json_get_f64(object, label, "beta_fast", false, 1e-3, 1e6, &rope->beta_fast, err));
  YK_TRY(yk_json_get_f64(object, label, "beta_slow", false, 1e-3, 1e6, &rope->beta_slow, err));
  if (rope->beta_fast < rope->beta_slow)
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"beta_fast\": expected at least beta_slow %g, found %g", label,
                      rope->beta_slow, rope->beta_fast);
  YK_TRY(yk_json_get_f64(object, label, "attention_factor", false, 1e-3, 1e3, &rope->attention_factor, err));
  YK_TRY(yk_json_get_f64(object, label, "mscale", false, 0, 1e3, &rope->mscale, err));
  YK_TRY(yk_json_get_f64(object, label, "mscale_all_dim", false, 0, 1e3, &rope->mscale_all_dim, err));
  return yk_json_get_bool(object, label, "truncate", false, &rope->truncate, err);
}

/* Refuse settings of a scaling whose type is missing. */
static yk_status check_untyped(yk_json object, const char *label, yk_err *err)
{
  static const char *const keys[] = {"factor",          "original_max_position_embeddings",
                                     "beta_fast",       "beta_slow",
                                     "mscale",          "mscale_all_dim",
                                     "short_factor",    "long_factor",
                                     "truncate",        "attention_factor",
                                     "alpha",           "low_freq_factor",
                                     "high_freq_factor"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
    if (yk_json_is_given(yk_json_get(object, keys[i])))
      return yk_err_set(err, YK_E_FORMAT,
                        "%s: key \"rope_type\" is missing beside \"%s\", expected default, dynamic, linear, llama3, "
                        "yarn or longrope",
                        label, keys[i]);
  return YK_OK;
}

/* Phi-3's class treats "yarn" and "su" as longrope, and has its own key for the original context. */
static yk_status read_phi3_scaling(yk_json root, const char *file, yk_json object, const char *label, const char *type,
                                   int32_t n_pairs, yk_model_config *config, yk_err *err)
{
  if (strcmp(type, "longrope") != 0 && strcmp(type, "su") != 0 && strcmp(type, "yarn") != 0)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: rotary type \"%s\" is not supported for this family; supported: default, longrope", label,
                      type);
  config->rope.original_max_positions = 4096;
  YK_TRY(yk_json_get_f64(root, file, "original_max_position_embeddings", false, 2, YK_MAX_POSITIONS,
                         &config->rope.original_max_positions, err));
  return yk_hf_read_longrope(object, label, n_pairs, config, err);
}

/* "dynamic": the base depends on the length only in contexts beyond max_position_embeddings, which are refused. */
static yk_status check_dynamic(yk_json object, const char *label, yk_err *err)
{
  double factor;
  return yk_json_get_f64(object, label, "factor", true, factor_min, factor_max, &factor, err);
}

/* Hunyuan: "dynamic" with alpha raises the base, for contexts of any length. */
static yk_status read_alpha(yk_json object, const char *label, yk_model_config *config, yk_err *err)
{
  double alpha = 0, dim = config->head_dim;
  YK_TRY(yk_json_get_f64(object, label, "alpha", false, 0, factor_max, &alpha, err));
  if (alpha == 0) return check_dynamic(object, label, err);
  if (alpha < factor_min || dim < 4)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: rotary type \"dynamic\" with alpha %g and heads of %d is not supported; supported: alpha 0 "
                      "or from %g, heads from 4",
                      label, alpha, config->head_dim, factor_min);
  config->rope.theta *= pow(alpha, dim / (dim - 2));
  return YK_OK;
}

static yk_status read_proportional(yk_json object, const char *label, yk_rope_config *rope, yk_err *err)
{
  rope->type = YK_ROPE_PROPORTIONAL;
  rope->share = 1;
  YK_TRY(yk_json_get_f64(object, label, "partial_rotary_factor", false, 0, 1, &rope->share, err));
  return yk_json_get_f64(object, label, "factor", false, factor_min, factor_max, &rope->factor, err);
}

/* n_pairs: half of the rotating elements of a head. */
static yk_status read_scaling(yk_json root, const char *file, yk_json object, const char *label, int32_t n_pairs,
                              yk_model_config *config, yk_err *err)
{
  yk_rope_config *rope = &config->rope;
  const char *type, *old_type;
  YK_TRY(yk_json_get_str(object, label, "rope_type", false, &type, err));
  YK_TRY(yk_json_get_str(object, label, "type", false, &old_type, err));
  if (!type) type = old_type;
  if (!type) return check_untyped(object, label, err);
  /* mrope: positions of images have three numbers, which are equal for text. */
  if (strcmp(type, "default") == 0 || strcmp(type, "mrope") == 0) return YK_OK;
  if (config->family == YK_FAMILY_PHI3) return read_phi3_scaling(root, file, object, label, type, n_pairs, config, err);
  if (strcmp(type, "dynamic") == 0)
    return yk_family_is_hunyuan(config->family) ? read_alpha(object, label, config, err)
                                                : check_dynamic(object, label, err);
  if (is_proportional(object, config)) return read_proportional(object, label, rope, err);
  if (strcmp(type, "linear") == 0) return read_linear(object, label, rope, err);
  if (strcmp(type, "llama3") == 0) {
    YK_TRY(read_original_context(root, file, object, label, rope, err));
    return read_llama3(object, label, rope, err);
  }
  if (strcmp(type, "yarn") == 0) {
    YK_TRY(read_original_context(root, file, object, label, rope, err));
    return read_yarn(object, label, config->max_position_embeddings, rope, err);
  }
  if (strcmp(type, "longrope") == 0) {
    YK_TRY(read_original_context(root, file, object, label, rope, err));
    return yk_hf_read_longrope(object, label, n_pairs, config, err);
  }
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "%s: rotary type \"%s\" is not supported; supported: default, dynamic, linear, llama3, yarn, "
                    "longrope",
                    label, type);
}

static bool is_glm(yk_model_family family)
{
  return family == YK_FAMILY_GLM || family == YK_FAMILY_GLM4;
}

/* Whether a family's heads may have partial rotary embedding. */
static bool rotates_in_part(const yk_model_config *config)
{
  return is_glm(config->family) || config->family == YK_FAMILY_GLM4_MOE || config->family == YK_FAMILY_PHI3 ||
         config->family == YK_FAMILY_MINIMAX_M2 || yk_family_is_hybrid(config->family);
}

/* partial_rotary_factor: the share of each head that rotates. */
static yk_status read_partial(yk_json object, const char *label, const yk_model_config *config, double *factor,
                              yk_err *err)
{
  if (is_proportional(object, config)) return YK_OK;
  YK_TRY(yk_json_get_f64(object, label, "partial_rotary_factor", false, 0, 1, factor, err));
  if (yk_family_is_mistral4(config->family)) { /* of a head's elements without and with rotation; head_dim: with it */
    const double share = (double)config->head_dim / (config->latent.nope_dim + config->head_dim);
    if (*factor == 1 || fabs(*factor - share) < 1e-6) *factor = 1;
  }
  if (*factor != 1 && !rotates_in_part(config))
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: partial_rotary_factor %g is not supported; supported: 1", label,
                      *factor);
  return YK_OK;
}

/* MiniMax-M2 also names the rotating elements of a head. */
static yk_status read_rotary_dim(yk_json root, const char *file, const yk_model_config *config, double *factor,
                                 yk_err *err)
{
  int32_t n = config->head_dim;
  YK_TRY(yk_json_get_i32(root, file, "rotary_dim", false, 2, config->head_dim, &n, err));
  *factor = nextafter((double)n / config->head_dim, 1); /* head_dim * factor is then truncated to n, not to n - 1 */
  return YK_OK;
}

static yk_status set_rotary_dim(const char *file, double factor, yk_model_config *config, yk_err *err)
{
  bool has_pairs = is_glm(config->family) || config->family == YK_FAMILY_ERNIE4_5 ||
                   config->family == YK_FAMILY_ERNIE4_5_MOE || yk_family_is_llama4(config->family);
  config->rotary_interleaved = config->rotary_interleaved || has_pairs;
  config->rotary_dim = (int32_t)(config->head_dim * factor);
  if (config->rotary_dim < 2 || config->rotary_dim % 2 != 0)
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: partial_rotary_factor %g: expected an even number of at least 2 of head_dim %d, found %d",
                      file, factor, config->head_dim, config->rotary_dim);
  return YK_OK;
}

/* The settings of one layer type; absent if the key is missing. */
static yk_status find_of_type(yk_json settings, const char *label, const char *type, yk_json *out, yk_err *err)
{
  *out = yk_json_get(settings, type);
  if (!yk_json_is_given(*out)) *out = YK_JSON_NONE;
  return !out->doc || yk_json_is(*out, YK_JSON_OBJECT) ? YK_OK
                                                       : yk_json_wrong_type(label, type, "an object", *out, err);
}

/* Find rope_scaling (old) or rope_parameters (new), with its label for messages; absent if neither exists. Gemma: the
 * settings of layers without a window. */
static yk_status find_settings(yk_json root, const char *file, bool is_gemma, yk_json *object, const char **label,
                               yk_err *err)
{
  yk_json full, sliding;
  static const char *const keys[] = {"rope_scaling", "rope_parameters"};
  static const char *const labels[] = {"config.json: rope_scaling", "config.json: rope_parameters"};
  *object = YK_JSON_NONE;
  *label = file;
  for (int i = 0; i < 2 && !object->doc; i++) {
    yk_json value = yk_json_get(root, keys[i]);
    if (!yk_json_is_given(value)) continue;
    if (!yk_json_is(value, YK_JSON_OBJECT))
      return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected an object, found %s", file, keys[i],
                        yk_json_type_name(value));
    if (yk_json_size(value) == 0) continue;
    *object = value;
    *label = labels[i];
  }
  YK_TRY(find_of_type(*object, *label, "full_attention", &full, err));
  YK_TRY(find_of_type(*object, *label, "sliding_attention", &sliding, err));
  if (!full.doc && !sliding.doc) return YK_OK;
  if (!is_gemma) return yk_err_set(err, YK_E_UNSUPPORTED, "%s: settings per layer type are not supported", *label);
  YK_JSON_EACH_KEY(key, *object)
  {
    const char *name = yk_json_string(key);
    if (strcmp(name, "full_attention") != 0 && strcmp(name, "sliding_attention") != 0)
      return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected only full_attention and sliding_attention together",
                        *label, name);
  }
  *object = full;
  return YK_OK;
}

/* Gemma: layers with a window have a separate base and no scaling. */
static yk_status read_local(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  static const char label[] = "config.json: rope_parameters: sliding_attention";
  yk_json object;
  config->has_local_rope = true;
  config->local_rope = yk_hf_rope_default(config->max_position_embeddings);
  YK_TRY(
      yk_json_get_f64(root, file, "rope_local_base_freq", false, theta_min, theta_max, &config->local_rope.theta, err));
  YK_TRY(find_of_type(yk_json_get(root, "rope_parameters"), "config.json: rope_parameters", "sliding_attention",
                      &object, err));
  if (!object.doc) return YK_OK;
  const char *type;
  YK_TRY(yk_json_get_str(object, label, "rope_type", false, &type, err));
  if (!type) YK_TRY(check_untyped(object, label, err));
  if (type && strcmp(type, "default") != 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: rotary type \"%s\" is not supported; supported: default", label,
                      type);
  return yk_json_get_f64(object, label, "rope_theta", false, theta_min, theta_max, &config->local_rope.theta, err);
}

/* The longest context, derived as in vLLM: linear and yarn multiply the context; llama3 checkpoints already contain the
 * extended context. */
static int32_t longest_context(const yk_model_config *config)
{
  const yk_rope_config *rope = &config->rope;
  double extended = 0;
  if (config->has_local_rope) return config->max_position_embeddings; /* as in vLLM: already the extended one */
  if (rope->type == YK_ROPE_LINEAR) extended = config->max_position_embeddings * rope->factor;
  if (rope->type == YK_ROPE_YARN) extended = rope->original_max_positions * rope->factor;
  return (int32_t)fmin(fmax(extended, config->max_position_embeddings), YK_MAX_POSITIONS);
}

yk_rope_config yk_hf_rope_default(int32_t max_position_embeddings)
{
  return (yk_rope_config){.type = YK_ROPE_DEFAULT,
                          .theta = 10000,
                          .factor = 1,
                          .original_max_positions = max_position_embeddings,
                          .low_freq_factor = 1,
                          .high_freq_factor = 4,
                          .beta_fast = 32,
                          .beta_slow = 1,
                          .truncate = true,
                          .share = 1};
}

/* Families whose class has a scaling if the file has no rotary settings. */
static void set_class_scaling(yk_model_config *config)
{
  yk_rope_config *rope = &config->rope;
  const bool is_gpt_oss = config->family == YK_FAMILY_GPT_OSS, is_mistral4 = yk_family_is_mistral4(config->family);
  if (yk_family_is_gemma4(config->family)) {
    rope->type = YK_ROPE_PROPORTIONAL;
    rope->share = 0.25;
  }
  if (!is_gpt_oss && !is_mistral4 && !yk_family_is_ministral3(config->family)) return;
  rope->type = YK_ROPE_YARN;
  rope->factor = is_gpt_oss ? 32 : is_mistral4 ? 128 : 16;
  rope->original_max_positions = is_gpt_oss ? 4096 : is_mistral4 ? 8192 : 16384;
  rope->truncate = !is_gpt_oss;
  if (is_gpt_oss) return;
  rope->mscale = rope->mscale_all_dim = 1;
  config->score_growth = (yk_score_growth){.beta = 0.1f, .period = (int32_t)rope->original_max_positions};
}

/* Ministral-3 and Mistral-Small-4: the growth of scores with the position. */
static yk_status read_score_growth(yk_json object, const char *label, yk_model_config *config, yk_err *err)
{
  float beta = 0;
  double period = config->rope.original_max_positions;
  if (!yk_family_is_ministral3(config->family) && !yk_family_is_mistral4(config->family)) return YK_OK;
  YK_TRY(yk_json_get_f32(object, label, "llama_4_scaling_beta", false, 0, 1e3, &beta, err));
  YK_TRY(yk_json_get_f64(object, label, "original_max_position_embeddings", false, 1, YK_MAX_POSITIONS, &period, err));
  config->score_growth = (yk_score_growth){.beta = beta, .period = (int32_t)period};
  return YK_OK;
}

yk_status yk_hf_read_rope(yk_json root, const char *file, yk_model_config *config, yk_err *err)
{
  yk_rope_config *rope = &config->rope;
  bool has_half = is_glm(config->family) || config->family == YK_FAMILY_GLM4_MOE;
  double partial = yk_family_is_hybrid(config->family) ? 0.25 : has_half ? 0.5 : 1;
  *rope = yk_hf_rope_default(config->max_position_embeddings);
  config->max_model_tokens = config->max_position_embeddings;
  const char *position = NULL;
  if (config->family == YK_FAMILY_GRANITE_HYBRID)
    YK_TRY(yk_json_get_str(root, file, "position_embedding_type", false, &position, err));
  const bool has_rope = position && strcmp(position, "rope") == 0;
  if (config->family == YK_FAMILY_NEMOTRON_H || (config->family == YK_FAMILY_GRANITE_HYBRID && !has_rope))
    return YK_OK;                                             /* nothing rotates */
  if (config->family == YK_FAMILY_MIXTRAL) rope->theta = 1e6; /* a class default, as all below */
  if (config->family == YK_FAMILY_ERNIE4_5 || config->family == YK_FAMILY_ERNIE4_5_MOE) rope->theta = 5e5;
  if (yk_family_is_llama4(config->family)) {
    rope->theta = 5e5;
    YK_TRY(yk_hf_read_llama4_layers(root, file, config, err));
  }
  if (config->family == YK_FAMILY_GPT_OSS) rope->theta = 1.5e5;
  if (config->family == YK_FAMILY_MINIMAX_M2) rope->theta = 5e6;
  if (yk_family_is_ministral3(config->family) && !yk_json_is_given(yk_json_get(root, "rope_parameters")))
    rope->theta = 1e6;
  const bool is_gemma = yk_family_is_gemma(config->family);
  if (is_gemma) rope->theta = 1e6;
  YK_TRY(yk_json_get_f64(root, file, "rope_theta", false, theta_min, theta_max, &rope->theta, err));
  if (config->family == YK_FAMILY_MINIMAX_M2) YK_TRY(read_rotary_dim(root, file, config, &partial, err));
  YK_TRY(read_partial(root, file, config, &partial, err));
  yk_json object;
  const char *label;
  YK_TRY(find_settings(root, file, is_gemma, &object, &label, err));
  if (object.doc) {
    YK_TRY(yk_json_get_f64(object, label, "rope_theta", false, theta_min, theta_max, &rope->theta, err));
    YK_TRY(read_partial(object, label, config, &partial, err));
    YK_TRY(read_scaling(root, file, object, label, (int32_t)(config->head_dim * partial) / 2, config, err));
    YK_TRY(read_score_growth(object, label, config, err));
  } else {
    set_class_scaling(config);
  }
  if (is_gemma) YK_TRY(read_local(root, file, config, err));
  config->max_model_tokens = longest_context(config);
  return set_rotary_dim(file, partial, config, err);
}
