/* console.h - stderr for the user: log lines, and a progress bar if it is a terminal. */
#ifndef YK_CLI_CONSOLE_H
#define YK_CLI_CONSOLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

typedef struct yk_console {
  bool has_bar;          /* stderr is a terminal and the log level permits progress */
  atomic_bool bar_drawn; /* the cursor is behind a bar, which the next message must erase */
  int percent;           /* drawn last */
  int64_t began_ns;      /* time of the first report of bytes */
  int64_t began_bytes;   /* bytes of that report, start of the rate; -1: none since the last end */
  yk_log log;            /* writes to this console; any thread */
} yk_console;

/* yk_console_init - the struct must not move afterwards: its log points to it. */
void yk_console_init(yk_console *console, yk_log_level level);

/* yk_console_columns - width of the terminal at a descriptor; 0: not a terminal, or of unknown width. */
size_t yk_console_columns(int fd);

/* yk_console_cut - truncates UTF-8 text to `columns` characters; 0: no limit. Returns text. */
char *yk_console_cut(char *text, size_t columns);

/* yk_console_bar - replace the bar by "what [###...] 42%  detail", cut to the terminal's width; no effect if there are
 *   no bars. share: finished part of the work, 0 to 1; negative draws only the words. */
void yk_console_bar(yk_console *console, const char *what, double share, const char *detail);

/* yk_console_loading - for yk_engine_options.progress, with the console as its user: bytes done, and bytes per second.
 *   Erases the bar at the end. */
void yk_console_loading(void *console, int64_t done_bytes, int64_t total_bytes);

/* yk_console_converting - the same for a conversion. */
void yk_console_converting(yk_console *console, int64_t done_bytes, int64_t total_bytes);

/* yk_console_scoring - the same for yk_score_tokens. */
void yk_console_scoring(void *console, int64_t done_tokens, int64_t total_tokens);

/* yk_console_clear - erase the bar if one is drawn. */
void yk_console_clear(yk_console *console);

#endif
