#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void yk_log_write(const yk_log *log, yk_log_level level, const char *fmt, ...)
{
  if (!log || !log->write || level > log->level) return;
  char message[512];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  log->write(log->user, level, message);
}

void yk_log_text(const yk_log *log, yk_log_level level, const char *text)
{
  if (log && log->write && level <= log->level) log->write(log->user, level, text);
}

static void write_stderr(void *user, yk_log_level level, const char *message)
{
  (void)user;
  static const char *const prefix[] = {"error: ", "warning: ", "", "debug: "};
  size_t index = (size_t)level;
  fprintf(stderr, "yoke: %s%s\n", index < sizeof prefix / sizeof prefix[0] ? prefix[index] : "", message);
}

yk_log yk_log_stderr(yk_log_level level)
{
  return (yk_log){level, write_stderr, NULL};
}
