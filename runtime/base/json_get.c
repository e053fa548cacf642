#include <math.h>
#include <stdio.h>

#include "base/json.h"

enum { SHOWN_BYTES = 40 }; /* bytes of a number shown in a message */

static yk_status wrong_value(const char *file, const char *key, const char *expected, const char *found, yk_err *err)
{
  return yk_err_set(err, YK_E_FORMAT, "%s%skey \"%s\": expected %s, found %s", file ? file : "", file ? ": " : "", key,
                    expected, found);
}

yk_status yk_json_wrong_type(const char *file, const char *key, const char *expected, yk_json found, yk_err *err)
{
  return wrong_value(file, key, expected, yk_json_type_name(found), err);
}

yk_status yk_json_wrong_or_empty(const char *file, const char *key, const char *expected, yk_json found, yk_err *err)
{
  const char *name = yk_json_type_name(found);
  if (yk_json_is(found, YK_JSON_STRING) && yk_json_length(found) == 0) name = "an empty one";
  if (yk_json_is(found, YK_JSON_ARRAY) && yk_json_size(found) == 0) name = "an empty one";
  return wrong_value(file, key, expected, name, err);
}

static yk_status out_of_range(const char *file, const char *key, const char *range, yk_json found, yk_err *err)
{
  return yk_err_set(err, YK_E_FORMAT, "%s%skey \"%s\": expected %s, found %.*s%s", file ? file : "", file ? ": " : "",
                    key, range, SHOWN_BYTES, yk_json_text(found), yk_json_length(found) > SHOWN_BYTES ? "..." : "");
}

yk_status yk_json_read_i64(yk_json value, const char *file, const char *key, int64_t min, int64_t max, int64_t *out,
                           yk_err *err)
{
  char range[64];
  double real;
  int64_t number;
  bool fits = yk_json_to_i64(value, &number);
  bool is_whole = fits || yk_json_is_integer(value) || (yk_json_to_f64(value, &real) && real == floor(real));
  if (!is_whole) return yk_json_wrong_type(file, key, "an integer", value, err);
  snprintf(range, sizeof range, "%lld to %lld", (long long)min, (long long)max);
  if (!fits || number < min || number > max) return out_of_range(file, key, range, value, err);
  *out = number;
  return YK_OK;
}

yk_status yk_json_read_i32(yk_json value, const char *file, const char *key, int32_t min, int32_t max, int32_t *out,
                           yk_err *err)
{
  int64_t number;
  YK_TRY(yk_json_read_i64(value, file, key, min, max, &number, err));
  *out = (int32_t)number;
  return YK_OK;
}

yk_status yk_json_read_f64(yk_json value, const char *file, const char *key, double min, double max, double *out,
                           yk_err *err)
{
  char range[64];
  double number;
  if (!yk_json_to_f64(value, &number)) return yk_json_wrong_type(file, key, "a number", value, err);
  snprintf(range, sizeof range, "%g to %g", min, max);
  if (!(number >= min && number <= max)) return out_of_range(file, key, range, value, err);
  *out = number;
  return YK_OK;
}

yk_status yk_json_read_bool(yk_json value, const char *file, const char *key, bool *out, yk_err *err)
{
  if (!yk_json_is_bool(value)) return yk_json_wrong_type(file, key, "true or false", value, err);
  *out = yk_json_is(value, YK_JSON_TRUE);
  return YK_OK;
}

yk_status yk_json_read_str(yk_json value, const char *file, const char *key, const char **out, yk_err *err)
{
  if (!yk_json_is(value, YK_JSON_STRING)) return yk_json_wrong_type(file, key, "a string", value, err);
  *out = yk_json_string(value);
  return YK_OK;
}

/* *out is the value of a key; not given if the key is optional and missing. */
static yk_status find(yk_json object, const char *file, const char *key, bool required, const char *expected,
                      yk_json *out, yk_err *err)
{
  *out = yk_json_get(object, key);
  if (required && !yk_json_is_given(*out))
    return yk_err_set(err, YK_E_FORMAT, "%s%skey \"%s\" is missing, expected %s", file ? file : "", file ? ": " : "",
                      key, expected);
  return YK_OK;
}

yk_status yk_json_get_i64(yk_json object, const char *file, const char *key, bool required, int64_t min, int64_t max,
                          int64_t *out, yk_err *err)
{
  yk_json value;
  YK_TRY(find(object, file, key, required, "an integer", &value, err));
  return yk_json_is_given(value) ? yk_json_read_i64(value, file, key, min, max, out, err) : YK_OK;
}

yk_status yk_json_get_i32(yk_json object, const char *file, const char *key, bool required, int32_t min, int32_t max,
                          int32_t *out, yk_err *err)
{
  yk_json value;
  YK_TRY(find(object, file, key, required, "an integer", &value, err));
  return yk_json_is_given(value) ? yk_json_read_i32(value, file, key, min, max, out, err) : YK_OK;
}

yk_status yk_json_get_f64(yk_json object, const char *file, const char *key, bool required, double min, double max,
                          double *out, yk_err *err)
{
  yk_json value;
  YK_TRY(find(object, file, key, required, "a number", &value, err));
  return yk_json_is_given(value) ? yk_json_read_f64(value, file, key, min, max, out, err) : YK_OK;
}

yk_status yk_json_get_f32(yk_json object, const char *file, const char *key, bool required, double min, double max,
                          float *out, yk_err *err)
{
  double number = (double)*out;
  YK_TRY(yk_json_get_f64(object, file, key, required, min, max, &number, err));
  *out = (float)number;
  return YK_OK;
}

yk_status yk_json_get_bool(yk_json object, const char *file, const char *key, bool required, bool *out, yk_err *err)
{
  yk_json value;
  YK_TRY(find(object, file, key, required, "true or false", &value, err));
  return yk_json_is_given(value) ? yk_json_read_bool(value, file, key, out, err) : YK_OK;
}

yk_status yk_json_get_str(yk_json object, const char *file, const char *key, bool required, const char **out,
                          yk_err *err)
{
  yk_json value;
  *out = NULL;
  YK_TRY(find(object, file, key, required, "a string", &value, err));
  return yk_json_is_given(value) ? yk_json_read_str(value, file, key, out, err) : YK_OK;
}
