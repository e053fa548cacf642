/* hf_longrope.c - the keys of longrope: a divisor for each frequency, for short and for long contexts. */
#include <math.h>

#include "loader/hf/hf_parts.h"

static const double divisor_min = 1e-3, divisor_max = 1e6;

static yk_status read_divisors(yk_json object, const char *label, const char *key, int32_t n, float *out, yk_err *err)
{
  yk_json values = yk_json_get(object, key);
  if (!yk_json_is_given(values)) return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\" is missing", label, key);
  if (!yk_json_is(values, YK_JSON_ARRAY) || yk_json_size(values) != (size_t)n)
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: key \"%s\": expected an array of %d numbers, half of the rotating elements of a head, found "
                      "%s of %zu",
                      label, key, n, yk_json_type_name(values), yk_json_size(values));
  for (int32_t i = 0; i < n; i++) {
    double value = 0;
    if (!yk_json_to_f64(yk_json_at(values, (size_t)i), &value) || !(value >= divisor_min && value <= divisor_max))
      return yk_err_set(err, YK_E_FORMAT, "%s: %s[%d]: expected a number from %g to %g", label, key, i, divisor_min,
                        divisor_max);
    out[i] = (float)value;
  }
  return YK_OK;
}

yk_status yk_hf_read_longrope(yk_json object, const char *label, int32_t n_pairs, yk_model_config *config, yk_err *err)
{
  yk_rope_config *rope = &config->rope;
  const double context = config->max_position_embeddings;
  if (rope->original_max_positions < 2) /* the attention factor below divides by its logarithm */
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: key \"original_max_position_embeddings\": expected at least 2 for longrope, found %g", label,
                      rope->original_max_positions);
  rope->type = YK_ROPE_LONGROPE;
  rope->factor = context / rope->original_max_positions;
  YK_TRY(yk_json_get_f64(object, label, "factor", false, 1e-3, 1e6, &rope->factor, err));
  if (rope->factor > 1) rope->attention_factor = sqrt(1 + log(rope->factor) / log(rope->original_max_positions));
  YK_TRY(yk_json_get_f64(object, label, "attention_factor", false, 1e-3, 1e3, &rope->attention_factor, err));
  YK_TRY(read_divisors(object, label, "short_factor", n_pairs, rope->short_divisors, err));
  YK_TRY(read_divisors(object, label, "long_factor", n_pairs, rope->long_divisors, err));
  if (rope->original_max_positions < context) config->default_model_tokens = (int32_t)rope->original_max_positions;
  return YK_OK;
}
