/* log.h - writing log messages. The type is in yoke/log.h; quote.h defines how messages are quoted. */
#ifndef YK_BASE_LOG_H
#define YK_BASE_LOG_H

#include "base/status.h"
#include "yoke/log.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_log_write - format and pass on one line (no newline at the end), at most 511 bytes before and after quoting. */
void yk_log_write(const yk_log *log, yk_log_level level, const char *fmt, ...) YK_PRINTF(3, 4);

/* yk_log_text - pass on one line of any length; nothing if memory has run out. */
void yk_log_text(const yk_log *log, yk_log_level level, const char *text);

#ifdef __cplusplus
}
#endif

#endif
