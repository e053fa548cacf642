/* values.h - readers of request values that base/json.h lacks. Errors name the field, the expected and the found value:
 * YK_E_FORMAT, YK_E_NOMEM. */
#ifndef YK_OPENAI_VALUES_H
#define YK_OPENAI_VALUES_H

#include "base/json.h"

/* Any number; infinity beyond the range of a float. The engine refuses infinities, NaN and other values outside its
 * range. */
yk_status yk_value_read_f32(const char *key, yk_json value, float *out, yk_err *err);

/* yk_value_read_ids - an array of token ids in malloc'd memory, which replaces *out (freed). */
yk_status yk_value_read_ids(const char *key, yk_json array, int32_t **out, size_t *n_out, yk_err *err);

#endif
