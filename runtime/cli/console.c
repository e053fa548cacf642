#include "cli/console.h"

#include <math.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"

enum { BAR_CHARS = 30, LINE_BYTES = 1024 };

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
  console->began_bytes = -1;
  console->log = (yk_log){level, write_line, console};
}

void yk_console_clear(yk_console *console)
{
  if (atomic_exchange(&console->bar_drawn, false)) fputs("\r\033[K", stderr);
}

size_t yk_console_columns(int fd)
{
  struct winsize size;
  return isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

char *yk_console_cut(char *text, size_t columns)
{
  size_t n = 0;
  for (char *at = text; *at && columns; at++) {
    if (((unsigned char)*at & 0xc0) == 0x80) continue; /* not the first byte of a character */
    if (n++ < columns) continue;
    *at = '\0';
    break;
  }
  return text;
}

void yk_console_bar(yk_console *console, const char *what, double share, const char *detail)
{
  static const char full[] = "##############################", empty[] = "..............................";
  char line[LINE_BYTES];
  int filled = (int)(share * BAR_CHARS);
  if (!console->has_bar) return;
  if (share >= 0)
    snprintf(line, sizeof line, "%s [%.*s%.*s] %3d%%  %s", what, filled, full, BAR_CHARS - filled, empty,
             (int)(100 * share), detail);
  else
    snprintf(line, sizeof line, "%s  %s", what, detail);
  size_t columns = yk_console_columns(STDERR_FILENO);
  /* one column is reserved for the cursor */
  fprintf(stderr, "\r\033[K%s", yk_console_cut(line, columns > 1 ? columns - 1 : 0));
  atomic_store(&console->bar_drawn, true);
}

/* Whether the bar would look different. */
static bool moves(yk_console *console, int64_t done, int64_t total)
{
  int percent = total > 0 ? (int)(100.0 * (double)done / (double)total) : console->percent;
  bool has_moved = percent != console->percent;
  console->percent = percent;
  return has_moved;
}

/* Bytes per second since the first report, 0 at that report. */
static double rate_of(yk_console *console, int64_t done_bytes)
{
  if (console->began_bytes < 0) {
    console->began_bytes = done_bytes;
    console->began_ns = yk_clock_now_ns();
    return 0;
  }
  return (double)(done_bytes - console->began_bytes) / fmax(yk_clock_seconds_since(console->began_ns), 1e-6);
}

static void draw_bytes(yk_console *console, const char *what, int64_t done_bytes, int64_t total_bytes)
{
  char done[YK_BYTES_TEXT], total[YK_BYTES_TEXT], detail[2 * YK_BYTES_TEXT + 32];
  if (done_bytes == total_bytes) {
    yk_console_clear(console);
    console->began_bytes = -1;
    return;
  }
  double rate = rate_of(console, done_bytes);
  if (!moves(console, done_bytes, total_bytes)) return;
  snprintf(detail, sizeof detail, "%s of %s, %.1f GB/s", yk_bytes_format(done_bytes, done),
           yk_bytes_format(total_bytes, total), rate / 1e9);
  yk_console_bar(console, what, (double)done_bytes / (double)total_bytes, detail);
}

void yk_console_loading(void *user, int64_t done_bytes, int64_t total_bytes)
{
  draw_bytes(user, "loading", done_bytes, total_bytes);
}

void yk_console_converting(yk_console *console, int64_t done_bytes, int64_t total_bytes)
{
  draw_bytes(console, "converting", done_bytes, total_bytes);
}

void yk_console_scoring(void *user, int64_t done_tokens, int64_t total_tokens)
{
  char detail[64];
  if (done_tokens == total_tokens)
    yk_console_clear(user);
  else if (moves(user, done_tokens, total_tokens)) {
    snprintf(detail, sizeof detail, "%lld of %lld tokens", (long long)done_tokens, (long long)total_tokens);
    yk_console_bar(user, "scoring", (double)done_tokens / (double)total_tokens, detail);
  }
}
