/* units.h - memory sizes as text. */
#ifndef YK_BASE_UNITS_H
#define YK_BASE_UNITS_H

#include <stdint.h>

#include "base/status.h"

enum { YK_BYTES_TEXT = 32 };

/* yk_bytes_parse - "80GiB", "1.5 GB", "4096": a number and B, KiB, MiB, GiB, TiB (powers of 1024) or KB, MB, GB, TB
 *   (powers of 1000), in any case; bytes without a unit. Errors: YK_E_INVAL with the text found. */
yk_status yk_bytes_parse(const char *text, int64_t *out, yk_err *err);

/* yk_bytes_format - write "1.25 GiB" to buffer and return buffer. */
const char *yk_bytes_format(int64_t n_bytes, char buffer[YK_BYTES_TEXT]);

#endif
