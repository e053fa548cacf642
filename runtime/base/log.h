/* log.h - messages to whoever runs the engine. A yk_log is passed down by value; there is no global logger.
 *
 * Every message is quoted (quote.h) on its way, so that texts of clients and files in one neither begin a line of their
 * own nor reach a terminal as commands. */
#ifndef YK_BASE_LOG_H
#define YK_BASE_LOG_H

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum yk_log_level { YK_LOG_ERROR, YK_LOG_WARN, YK_LOG_INFO, YK_LOG_DEBUG } yk_log_level;

typedef struct yk_log {
  yk_log_level level;                                                 /* messages above it are dropped */
  void (*write)(void *user, yk_log_level level, const char *message); /* any thread; NULL drops everything */
  void *user;
} yk_log;

/* yk_log_write - format and hand over one line (no newline at its end), at most 511 bytes before and after quoting. */
void yk_log_write(const yk_log *log, yk_log_level level, const char *fmt, ...) YK_PRINTF(3, 4);

/* yk_log_text - hand over one line, however long; none where memory has run out. */
void yk_log_text(const yk_log *log, yk_log_level level, const char *text);

/* yk_log_stderr - a log that writes "yoke: message" to stderr. */
yk_log yk_log_stderr(yk_log_level level);

#ifdef __cplusplus
}
#endif

#endif
