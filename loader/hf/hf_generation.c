#include <math.h>
#include <stdio.h>

#include "base/checked.h"
#include "loader/hf/hf_parts.h"

static const char bos_key[] = "bos_token_id", eos_key[] = "eos_token_id";

/* Ids of one key that are outside the vocabulary (-1 for none, or another model's ids). The model never generates them:
 * they are ignored, with one warning per key. Negative numbers other than -1 are an error. */
typedef struct ignored_ids {
  yk_json first;
  size_t n;
} ignored_ids;

static void warn_ignored(const yk_log *log, const char *file, const char *key, int32_t vocab_size,
                         const ignored_ids *ignored)
{
  char more[40] = "";
  if (ignored->n > 1) snprintf(more, sizeof more, " (%zu in all)", ignored->n);
  if (ignored->n > 0)
    yk_log_write(log, YK_LOG_WARN, "%s: %s: expected 0 to %d (vocab_size - 1), found %.40s%s: ignored", file, key,
                 vocab_size - 1, yk_json_text(ignored->first), more);
}

/* Read one token id; *out is -1 if the id is ignored. */
static yk_status read_id(yk_json value, const char *file, const char *key, int32_t vocab_size, ignored_ids *ignored,
                         int32_t *out, yk_err *err)
{
  int64_t id = -1;
  *out = -1;
  if (!yk_json_is_integer(value))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected a token id, found %s", file, key,
                      yk_json_type_name(value));
  bool is_small = yk_json_to_i64(value, &id);
  if (is_small && id < -1)
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected a token id from 0 on, or -1 for none, found %.40s",
                      file, key, yk_json_text(value));
  if (is_small && id >= 0 && id < vocab_size)
    *out = (int32_t)id;
  else if (ignored->n++ == 0)
    ignored->first = value;
  return YK_OK;
}

static yk_status add_eos(yk_json value, const char *file, ignored_ids *ignored, yk_model_config *config, yk_err *err)
{
  int32_t id;
  YK_TRY(read_id(value, file, eos_key, config->vocab_size, ignored, &id, err));
  if (id < 0) return YK_OK;
  for (int32_t i = 0; i < config->n_eos_ids; i++)
    if (config->eos_ids[i] == id) return YK_OK;
  if (config->n_eos_ids == YK_MAX_EOS_IDS)
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected at most %d different ids", file, eos_key,
                      YK_MAX_EOS_IDS);
  config->eos_ids[config->n_eos_ids++] = id;
  return YK_OK;
}

/* Add an id, a list of ids, null, or nothing if the key is missing. */
static yk_status add_all_eos(const yk_log *log, yk_json object, const char *file, yk_model_config *config, yk_err *err)
{
  yk_json value = yk_json_get(object, eos_key);
  ignored_ids ignored = {0};
  if (!yk_json_is_given(value)) return YK_OK;
  if (!yk_json_is(value, YK_JSON_ARRAY)) YK_TRY(add_eos(value, file, &ignored, config, err));
  YK_JSON_EACH(element, value)
  {
    YK_TRY(add_eos(element, file, &ignored, config, err));
  }
  warn_ignored(log, file, eos_key, config->vocab_size, &ignored);
  return YK_OK;
}

static yk_status read_bos(const yk_log *log, yk_json object, const char *file, yk_model_config *config, yk_err *err)
{
  yk_json value = yk_json_get(object, bos_key);
  ignored_ids ignored = {0};
  if (!yk_json_is_given(value)) return YK_OK;
  YK_TRY(read_id(value, file, bos_key, config->vocab_size, &ignored, &config->bos_id, err));
  warn_ignored(log, file, bos_key, config->vocab_size, &ignored);
  return YK_OK;
}

/* The ids of a family's class. */
typedef struct class_ids {
  yk_model_family family;
  int32_t bos, eos[3]; /* -1: none */
} class_ids;

static class_ids find_class_ids(yk_model_family family)
{
  static const class_ids others[] = {
      {YK_FAMILY_QWEN2, -1, {-1, -1, -1}},
      {YK_FAMILY_QWEN3, -1, {-1, -1, -1}},
      {YK_FAMILY_QWEN2_MOE, -1, {-1, -1, -1}},
      {YK_FAMILY_QWEN3_MOE, -1, {-1, -1, -1}},
      {YK_FAMILY_CHATGLM, -1, {-1, -1, -1}},
      {YK_FAMILY_GLM, -1, {151329, 151336, 151338}},
      {YK_FAMILY_GLM4, -1, {151329, 151336, 151338}},
      {YK_FAMILY_MINIMAX_M2, 200034, {200020, -1, -1}},
      {YK_FAMILY_GLM4_MOE, -1, {-1, -1, -1}},
      {YK_FAMILY_GPT_OSS, -1, {-1, -1, -1}},
      {YK_FAMILY_GLM4_MOE_LITE, 0, {1, -1, -1}},
      {YK_FAMILY_GLM_MOE_DSA, 0, {1, -1, -1}},
      {YK_FAMILY_DEEPSEEK_V3, 0, {1, -1, -1}},
      {YK_FAMILY_DEEPSEEK_V32, 0, {1, -1, -1}},
      {YK_FAMILY_KIMI_K25, 0, {1, -1, -1}},
      {YK_FAMILY_SEED_OSS, 0, {2, -1, -1}},
      {YK_FAMILY_PHI3, 1, {32000, -1, -1}},
      {YK_FAMILY_GEMMA3, 2, {1, -1, -1}},
      {YK_FAMILY_GEMMA3_VL, 2, {1, -1, -1}},
  };
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (others[i].family == family) return others[i];
  if (yk_family_is_hybrid(family)) return (class_ids){family, -1, {-1, -1, -1}};
  return (class_ids){family, 1, {2, -1, -1}};
}

/* In the order in which a key of bos_token_id is replaced by the next one. */
typedef struct id_source {
  yk_json object;
  const char *file;
} id_source;

static yk_status read_special_ids(const id_source *sources, size_t n_sources, const yk_log *log,
                                  yk_model_config *config, yk_err *err)
{
  bool has_bos = false, has_eos = false;
  config->bos_id = -1;
  for (size_t i = 0; i < n_sources; i++) {
    has_bos = has_bos || yk_json_get(sources[i].object, bos_key).doc;
    has_eos = has_eos || yk_json_get(sources[i].object, eos_key).doc;
    YK_TRY(read_bos(log, sources[i].object, sources[i].file, config, err));
  }
  for (size_t i = n_sources; i-- > 0;) YK_TRY(add_all_eos(log, sources[i].object, sources[i].file, config, err));
  const class_ids ids = find_class_ids(config->family);
  if (!has_bos && ids.bos < config->vocab_size) config->bos_id = ids.bos;
  for (size_t i = 0; !has_eos && i < sizeof ids.eos / sizeof *ids.eos; i++)
    if (ids.eos[i] >= 0 && ids.eos[i] < config->vocab_size) config->eos_ids[config->n_eos_ids++] = ids.eos[i];
  return YK_OK;
}

/* Other software accepts other ranges, and a default that is illegal in requests would fail every request that does not
 * set the value. A value outside the range of requests (yoke/requests.h) is therefore clamped. */
static yk_status clip_f32(yk_json object, const char *file, const char *key, double min, double max, const yk_log *log,
                          float *out, yk_err *err)
{
  double found = (double)*out;
  YK_TRY(yk_json_get_f64(object, file, key, false, -INFINITY, INFINITY, &found, err));
  double taken = fmin(fmax(found, min), max);
  if (taken != found)
    yk_log_write(log, YK_LOG_WARN, "%s: %s: expected %g to %g, found %g: %g is taken", file, key, min, max, found,
                 taken);
  *out = (float)taken;
  return YK_OK;
}

/* The same for an integer of any length; below min the result is 0: no default. */
static yk_status clip_i32(yk_json object, const char *file, const char *key, int32_t min, const yk_log *log,
                          int32_t *out, yk_err *err)
{
  int64_t found = *out;
  double real;
  yk_json value = yk_json_get(object, key);
  if (!yk_json_is_given(value)) return YK_OK;
  if (!yk_json_to_i64(value, &found)) {
    if (!yk_json_to_f64(value, &real) || real != floor(real))
      return yk_json_read_i64(value, file, key, INT64_MIN, INT64_MAX, &found, err);
    found = real < 0 ? INT64_MIN : INT64_MAX;
  }
  int32_t taken = found < min ? 0 : (int32_t)yk_min_i64(found, INT32_MAX);
  if (taken != found)
    yk_log_write(log, YK_LOG_WARN, "%s: %s: expected %d to %d, found %.40s: %d%s is taken", file, key, min, INT32_MAX,
                 yk_json_text(value), taken, taken ? "" : " (none)");
  *out = taken;
  return YK_OK;
}

static yk_status read_sampling(yk_json object, const char *file, int32_t vocab_size, const yk_log *log,
                               yk_generation_defaults *out, yk_err *err)
{
  const double least = 1e-6; /* minimum of values that must be above 0 */
  YK_TRY(clip_f32(object, file, "temperature", 0, 100, log, &out->temperature, err));
  YK_TRY(clip_f32(object, file, "top_p", least, 1, log, &out->top_p, err));
  YK_TRY(clip_f32(object, file, "min_p", 0, 1, log, &out->min_p, err));
  YK_TRY(clip_i32(object, file, "top_k", -1, log, &out->top_k, err));
  out->top_k = out->top_k < 0 ? 0 : out->top_k > vocab_size ? vocab_size : out->top_k;
  YK_TRY(clip_f32(object, file, "repetition_penalty", least, 10, log, &out->repetition_penalty, err));
  YK_TRY(clip_i32(object, file, "max_new_tokens", 1, log, &out->max_new_tokens, err));
  bool do_sample = true;
  YK_TRY(yk_json_get_bool(object, file, "do_sample", false, &do_sample, err));
  if (!do_sample) out->temperature = 0;
  return YK_OK;
}

yk_status yk_hf_read_generation(yk_json root, yk_json text, const char *file, yk_json generation,
                                const char *generation_file, const yk_log *log, yk_model_config *config, yk_err *err)
{
  if (generation.doc && !yk_json_is(generation, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", generation_file,
                      yk_json_type_name(generation));
  config->generation = (yk_generation_defaults){.temperature = 1, .top_p = 1, .repetition_penalty = 1};
  const id_source sources[] = {{generation, generation_file}, {root, file}, {text, file}};
  YK_TRY(read_special_ids(sources, text.node == root.node ? 2 : 3, log, config, err));
  return read_sampling(generation, generation_file, config->vocab_size, log, &config->generation, err);
}
