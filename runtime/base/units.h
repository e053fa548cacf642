/* units.h - amounts of memory as people write and read them. */
#ifndef YK_BASE_UNITS_H
#define YK_BASE_UNITS_H

#include <stdint.h>

#include "base/status.h"

enum { YK_BYTES_TEXT = 32 };

/* yk_bytes_parse - "80GiB", "1.5 GB", "4096": a number and B, KiB, MiB, GiB, TiB (powers of 1024) or KB, MB, GB, TB (of
 *   1000), in any case; whole bytes where nothing follows. Errors: YK_E_INVAL with what was found. */
yk_status yk_bytes_parse(const char *text, int64_t *out, yk_err *err);

/* yk_bytes_format - "1.25 GiB" into buffer, which is returned. */
const char *yk_bytes_format(int64_t n_bytes, char buffer[YK_BYTES_TEXT]);

#endif
