#include "openai/values.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

yk_status yk_value_read_f32(const char *key, yk_json value, float *out, yk_err *err)
{
  double number;
  if (!yk_json_to_f64(value, &number)) return yk_json_wrong_type(NULL, key, "a number", value, err);
  bool is_float = isnan(number) || fabs(number) <= FLT_MAX;
  *out = is_float ? (float)number : number > 0 ? INFINITY : -INFINITY;
  return YK_OK;
}

yk_status yk_value_read_ids(const char *key, yk_json array, int32_t **out, size_t *n_out, yk_err *err)
{
  size_t n = yk_json_size(array), i = 0;
  if (!yk_json_is(array, YK_JSON_ARRAY)) return yk_json_wrong_type(NULL, key, "an array of token ids", array, err);
  int32_t *ids = malloc((n + 1) * sizeof *ids);
  if (!ids) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %zu ids", key, n);
  free(*out);
  *out = ids;
  *n_out = n;
  YK_JSON_EACH(id, array)
  {
    char name[96];
    if (yk_json_read_i32(id, NULL, key, 0, INT32_MAX, &ids[i], NULL) == YK_OK) {
      i++;
      continue;
    }
    snprintf(name, sizeof name, "%s[%zu]", key, i);
    return yk_json_read_i32(id, NULL, name, 0, INT32_MAX, &ids[i], err);
  }
  return YK_OK;
}
