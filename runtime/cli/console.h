/* console.h - stderr as the user sees it: log lines, and a progress bar where it is a terminal. */
#ifndef YK_CLI_CONSOLE_H
#define YK_CLI_CONSOLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"

typedef struct yk_console {
  bool has_bar;          /* stderr is a terminal and the level lets progress through */
  atomic_bool bar_drawn; /* the cursor stands behind a bar, which the next message must erase */
  int percent;           /* last drawn */
  int64_t began_ns;      /* when bytes were first reported, and */
  int64_t began_bytes;   /* how many: what a rate is of; -1: none since the last end */
  yk_log log;            /* writes to this console; any thread */
} yk_console;

/* yk_console_init - the struct must not move afterwards: its log points to it. */
void yk_console_init(yk_console *console, yk_log_level level);

/* yk_console_columns - how wide the terminal behind a descriptor is; 0: no terminal, or none that says so. */
size_t yk_console_columns(int fd);

/* yk_console_cut - end UTF-8 text behind so many characters; 0: never. Returns text. */
char *yk_console_cut(char *text, size_t columns);

/* yk_console_bar - draw "what [###...] 42%  detail" in place of the bar before, where there are bars, cut to a line of
 *   the terminal. share: 0 to 1 of the work that is done; negative draws the words alone. */
void yk_console_bar(yk_console *console, const char *what, double share, const char *detail);

/* yk_console_loading - for yk_engine_options.progress, with the console as its user: bytes of all, and bytes a second.
 *   Erases the bar at the end. */
void yk_console_loading(void *console, int64_t done_bytes, int64_t total_bytes);

/* yk_console_converting - the same while a model is written in another format. */
void yk_console_converting(yk_console *console, int64_t done_bytes, int64_t total_bytes);

/* yk_console_scoring - the same for yk_score_tokens. */
void yk_console_scoring(void *console, int64_t done_tokens, int64_t total_tokens);

/* yk_console_clear - erase the bar where one is drawn. */
void yk_console_clear(yk_console *console);

#endif
