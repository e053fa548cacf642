#include "cli/console.h"

#include <stdio.h>
#include <unistd.h>

#include "base/units.h"

enum { BAR_CHARS = 30 };

static void write_line(void *user, yk_log_level level, const char *message)
{
  yk_console_clear(user);
  yk_log plain = yk_log_stderr(level);
  plain.write(plain.user, level, message);
}

void yk_console_init(yk_console *console, yk_log_level level)
{
  console->has_bar = level >= YK_LOG_INFO && isatty(STDERR_FILENO);
  atomic_init(&console->bar_drawn, false);
  console->percent = -1;
  console->log = (yk_log){level, write_line, console};
}

void yk_console_clear(yk_console *console)
{
  if (atomic_exchange(&console->bar_drawn, false)) fputs("\r\033[K", stderr);
}

void yk_console_progress(void *user, int64_t done_bytes, int64_t total_bytes)
{
  yk_console *console = user;
  if (!console->has_bar || total_bytes <= 0) return;
  int percent = (int)(100.0 * (double)done_bytes / (double)total_bytes);
  if (done_bytes == total_bytes) {
    yk_console_clear(console);
  } else if (percent != console->percent) {
    static const char full[] = "##############################", empty[] = "..............................";
    char done[YK_BYTES_TEXT], total[YK_BYTES_TEXT];
    int filled = percent * BAR_CHARS / 100;
    fprintf(stderr, "\r\033[Kloading [%.*s%.*s] %3d%%  %s of %s", filled, full, BAR_CHARS - filled, empty, percent,
            yk_bytes_format(done_bytes, done), yk_bytes_format(total_bytes, total));
    atomic_store(&console->bar_drawn, true);
  }
  console->percent = percent;
}
