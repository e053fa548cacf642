/* wide_seed.h - seeds from 2^63 to 2^64 - 1 in a JSON text, whose other integers end at 2^63 - 1: jansson's are signed,
 * and refuse them. So the text is read again with 0 in such a seed's place, and its value kept beside. */
#ifndef YK_OPENAI_WIDE_SEED_H
#define YK_OPENAI_WIDE_SEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* yk_wide_seed_take - where a key "seed" has an integer of 2^63 or more, give its value and write 0 and spaces over it.
 *   text [n_bytes]: NUL-terminated; need not be valid JSON. *found: whether there was one.
 *   Errors: YK_E_INVAL for 2^64 or more. */
yk_status yk_wide_seed_take(char *text, size_t n_bytes, uint64_t *seed, bool *found, yk_err *err);

#endif
