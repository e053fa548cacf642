/* chat_editor.h - reads lines at a terminal with libedit: arrow keys, history, search (Ctrl-R), and the settings of
 * ~/.editrc. Pasted text becomes one message with its line feeds; Alt-Enter inserts a line feed. Text typed while no
 * line is read is shown at the next line. One thread. */
#ifndef YK_CLI_CHAT_EDITOR_H
#define YK_CLI_CHAT_EDITOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"
#include "base/status.h"
#include "cli/interrupt.h"

typedef struct yk_chat_editor yk_chat_editor;

typedef enum yk_editor_event {
  YK_EDITOR_LINE,
  YK_EDITOR_END,   /* Ctrl-D on an empty line, or the terminal is gone */
  YK_EDITOR_SIGNAL /* caught by interrupt: the typed text is dropped */
} yk_editor_event;

typedef struct yk_editor_line {
  yk_editor_event event;
  const char *text; /* [n_bytes] without the line end; valid until the next call */
  size_t n_bytes;
  int signal; /* YK_EDITOR_SIGNAL: its number */
} yk_editor_line;

/* yk_chat_editor_create - *out: NULL if standard input or error is not a terminal, or a terminal without a movable
 *   cursor (TERM). Until the first line is read, typed text is not echoed; interrupt restores the terminal if a signal
 *   ends the program. keeps_history: in a file that only its owner can read, below XDG_STATE_HOME, else ~/.local/state;
 *   if that cannot be read or written, a message is logged, and the history lasts for this program only. Errors:
 *   YK_E_NOMEM. */
yk_status yk_chat_editor_create(yk_interrupt *interrupt, bool keeps_history, const yk_log *log, yk_chat_editor **out,
                                yk_err *err);

/* yk_chat_editor_free - restore the terminal. NULL is allowed. */
void yk_chat_editor_free(yk_chat_editor *editor);

/* yk_chat_editor_read - show the prompt and read a line. */
void yk_chat_editor_read(yk_chat_editor *editor, const char *prompt, yk_editor_line *out);

/* yk_chat_editor_remember - add a sent message, NUL-terminated, to the history and its file. */
void yk_chat_editor_remember(yk_chat_editor *editor, const char *message);

#endif
