/* values.h - single values of a request's fields. Errors name the field, what was expected and what was found:
 * YK_E_FORMAT for the wrong type, YK_E_INVAL for a value out of range, YK_E_NOMEM. */
#ifndef YK_OPENAI_VALUES_H
#define YK_OPENAI_VALUES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

/* yk_value_wrong_type - the error of a value that is not as expected ("a string"). */
yk_status yk_value_wrong_type(const char *key, const char *expected, const json_t *value, yk_err *err);

/* Integers may be written 10.0, as some programs do. */
yk_status yk_value_read_i64(const char *key, const json_t *value, int64_t min, int64_t max, int64_t *out, yk_err *err);
yk_status yk_value_read_i32(const char *key, const json_t *value, int32_t min, int32_t max, int32_t *out, yk_err *err);

/* The range is that of float; what the engine takes is narrower and named by it. */
yk_status yk_value_read_f32(const char *key, const json_t *value, float *out, yk_err *err);
yk_status yk_value_read_flag(const char *key, const json_t *value, bool *out, yk_err *err);

/* yk_value_read_string - *out is borrowed from value. */
yk_status yk_value_read_string(const char *key, const json_t *value, const char **out, yk_err *err);

/* yk_value_read_ids - an array of token ids into malloc'd memory, which replaces *out (freed). */
yk_status yk_value_read_ids(const char *key, const json_t *array, int32_t **out, size_t *n_out, yk_err *err);

/* yk_value_is_given - a field that is there and not null; null means that it is not given. */
static inline bool yk_value_is_given(const json_t *value)
{
  return value && !json_is_null(value);
}

#endif
