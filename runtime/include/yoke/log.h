/* log.h - messages to the operator of the engine. A yk_log is passed by value; there is no global logger.
 *
 * Every message is quoted before it is written, so that texts of clients and files in a message neither begin a new
 * line nor reach a terminal as control sequences. */
#ifndef YK_LOG_H
#define YK_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum yk_log_level { YK_LOG_ERROR, YK_LOG_WARN, YK_LOG_INFO, YK_LOG_DEBUG } yk_log_level;

typedef struct yk_log {
  yk_log_level level;                                                 /* messages above this level are dropped */
  void (*write)(void *user, yk_log_level level, const char *message); /* any thread; NULL drops everything */
  void *user;
} yk_log;

/* yk_log_stderr - a log that writes "yoke: message" to stderr. */
yk_log yk_log_stderr(yk_log_level level);

#ifdef __cplusplus
}
#endif
#endif
