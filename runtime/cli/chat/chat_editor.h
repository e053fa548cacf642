/* chat_editor.h - lines typed at a terminal, by libedit: arrows, history, searching (Ctrl-R), and whatever ~/.editrc
 * says. What is pasted comes as one message, line feeds and all; Alt-Enter puts one in by hand. What is typed while no
 * line is read is shown when the next one is. One thread. */
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
  YK_EDITOR_SIGNAL /* caught by interrupt: what was typed is dropped */
} yk_editor_event;

typedef struct yk_editor_line {
  yk_editor_event event;
  const char *text; /* [n_bytes] without the end of the line; until the next call */
  size_t n_bytes;
  int signal; /* YK_EDITOR_SIGNAL: its number */
} yk_editor_line;

/* yk_chat_editor_create - *out: NULL where standard input or error is no terminal, or one that cannot move its cursor
 *   (TERM). Until the first line is read, nothing that is typed is echoed; interrupt puts the terminal back where a
 *   signal ends the program. keeps_history: in a file that its owner alone may read, below XDG_STATE_HOME, else
 *   ~/.local/state; where that cannot be read or written, log says so, and the history is that of this program alone.
 *   Errors: YK_E_NOMEM. */
yk_status yk_chat_editor_create(yk_interrupt *interrupt, bool keeps_history, const yk_log *log, yk_chat_editor **out,
                                yk_err *err);

/* yk_chat_editor_free - the terminal becomes as it was. NULL is allowed. */
void yk_chat_editor_free(yk_chat_editor *editor);

/* yk_chat_editor_read - let a line be typed behind the prompt. */
void yk_chat_editor_read(yk_chat_editor *editor, const char *prompt, yk_editor_line *out);

/* yk_chat_editor_remember - a message that was sent, NUL-terminated, for the arrows and the file. */
void yk_chat_editor_remember(yk_chat_editor *editor, const char *message);

#endif
