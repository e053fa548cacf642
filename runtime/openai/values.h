/* values.h - values of a request's fields that base/json.h has no reader for. Errors name the field, the expected and
 * the found value: YK_E_FORMAT, YK_E_NOMEM. */
#ifndef YK_OPENAI_VALUES_H
#define YK_OPENAI_VALUES_H

#include "base/json.h"

/* Any number; beyond a float an infinity. The engine refuses those, NaN and others with the range that it takes. */
yk_status yk_value_read_f32(const char *key, yk_json value, float *out, yk_err *err);

/* yk_value_read_ids - an array of token ids into malloc'd memory, which replaces *out (freed). */
yk_status yk_value_read_ids(const char *key, yk_json array, int32_t **out, size_t *n_out, yk_err *err);

#endif
