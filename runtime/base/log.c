#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/quote.h"
#include "base/utf8.h"

enum { LINE_BYTES = 512 };

void yk_log_write(const yk_log *log, yk_log_level level, const char *fmt, ...)
{
  if (!log || !log->write || level > log->level) return;
  char message[LINE_BYTES], quoted[LINE_BYTES];
  va_list args;
  va_start(args, fmt);
  vsnprintf(message, sizeof message, fmt, args);
  va_end(args);
  size_t n_bytes = strlen(message);
  if (n_bytes == sizeof message - 1) n_bytes = yk_utf8_drop_cut(message, n_bytes);
  yk_quote(message, n_bytes, quoted, sizeof quoted);
  log->write(log->user, level, quoted);
}

void yk_log_text(const yk_log *log, yk_log_level level, const char *text)
{
  if (!log || !log->write || level > log->level) return;
  yk_strbuf quoted = YK_STRBUF_INIT;
  yk_strbuf_append(&quoted, "", 0);
  yk_quote_append(&quoted, text, strlen(text));
  if (!quoted.failed) log->write(log->user, level, quoted.data);
  yk_strbuf_free(&quoted);
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
