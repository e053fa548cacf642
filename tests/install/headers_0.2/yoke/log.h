/* log.h - messages to whoever runs the engine. A yk_log is passed down by value; there is no global logger.
 *
 * Every message is quoted on its way, so that texts of clients and files in one neither begin a line of their own nor
 * reach a terminal as commands. */
#ifndef YK_LOG_H
#define YK_LOG_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum yk_log_level { YK_LOG_ERROR, YK_LOG_WARN, YK_LOG_INFO, YK_LOG_DEBUG } yk_log_level;

typedef struct yk_log {
  yk_log_level level;                                                 /* messages above it are dropped */
  void (*write)(void *user, yk_log_level level, const char *message); /* any thread; NULL drops everything */
  void *user;
} yk_log;

/* yk_log_stderr - a log that writes "yoke: message" to stderr. */
yk_log yk_log_stderr(yk_log_level level);

#ifdef __cplusplus
}
#endif
#endif
