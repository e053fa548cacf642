/* log.h - messages as the code of the project writes them. The type: yoke/log.h. quote.h says how they are quoted. */
#ifndef YK_BASE_LOG_H
#define YK_BASE_LOG_H

#include "base/status.h"
#include "yoke/log.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_log_write - format and hand over one line (no newline at its end), at most 511 bytes before and after quoting. */
void yk_log_write(const yk_log *log, yk_log_level level, const char *fmt, ...) YK_PRINTF(3, 4);

/* yk_log_text - hand over one line, however long; none where memory has run out. */
void yk_log_text(const yk_log *log, yk_log_level level, const char *text);

#ifdef __cplusplus
}
#endif

#endif
