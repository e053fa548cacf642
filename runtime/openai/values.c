#include "openai/values.h"

#include <math.h>
#include <stdlib.h>

#include "base/json_tree.h"

yk_status yk_value_wrong_type(const char *key, const char *expected, const json_t *value, yk_err *err)
{
  return yk_err_set(err, YK_E_FORMAT, "key \"%s\": expected %s, found %s", key, expected, yk_tree_type_name(value));
}

yk_status yk_value_read_i64(const char *key, const json_t *value, int64_t min, int64_t max, int64_t *out, yk_err *err)
{
  double number = json_number_value(value);
  if (json_is_integer(value))
    *out = json_integer_value(value);
  else if (json_is_real(value) && fabs(number) < 0x1p53 && number == floor(number))
    *out = (int64_t)number;
  else
    return yk_value_wrong_type(key, "an integer", value, err);
  if (*out >= min && *out <= max) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "%s: expected %lld to %lld, found %lld", key, (long long)min, (long long)max,
                    (long long)*out);
}

yk_status yk_value_read_i32(const char *key, const json_t *value, int32_t min, int32_t max, int32_t *out, yk_err *err)
{
  int64_t number;
  YK_TRY(yk_value_read_i64(key, value, min, max, &number, err));
  *out = (int32_t)number;
  return YK_OK;
}

yk_status yk_value_read_f32(const char *key, const json_t *value, float *out, yk_err *err)
{
  if (!json_is_number(value)) return yk_value_wrong_type(key, "a number", value, err);
  double number = json_number_value(value);
  if (!(number >= -1e30 && number <= 1e30))
    return yk_err_set(err, YK_E_INVAL, "%s: expected a number of ordinary size, found %g", key, number);
  *out = (float)number;
  return YK_OK;
}

yk_status yk_value_read_flag(const char *key, const json_t *value, bool *out, yk_err *err)
{
  if (!json_is_boolean(value)) return yk_value_wrong_type(key, "true or false", value, err);
  *out = json_is_true(value);
  return YK_OK;
}

yk_status yk_value_read_string(const char *key, const json_t *value, const char **out, yk_err *err)
{
  if (!json_is_string(value)) return yk_value_wrong_type(key, "a string", value, err);
  *out = json_string_value(value);
  return YK_OK;
}

yk_status yk_value_read_ids(const char *key, const json_t *array, int32_t **out, size_t *n_out, yk_err *err)
{
  size_t n = json_array_size(array);
  if (!json_is_array(array)) return yk_value_wrong_type(key, "an array of token ids", array, err);
  int32_t *ids = malloc((n + 1) * sizeof *ids);
  if (!ids) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %zu ids", key, n);
  free(*out);
  *out = ids;
  *n_out = n;
  for (size_t i = 0; i < n; i++) YK_TRY(yk_value_read_i32(key, json_array_get(array, i), 0, INT32_MAX, &ids[i], err));
  return YK_OK;
}
