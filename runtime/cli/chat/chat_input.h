/* chat_input.h - reads the messages of a chat: lines of standard input, through an editor on a terminal. A line that
 * ends in a backslash continues in the next line. */
#ifndef YK_CLI_CHAT_INPUT_H
#define YK_CLI_CHAT_INPUT_H

#include "base/jsonl.h"
#include "base/strbuf.h"
#include "cli/chat/chat_editor.h"
#include "cli/chat/chat_session.h"

typedef struct yk_chat_input {
  yk_chat_editor *editor; /* owned; NULL: the reader reads lines */
  yk_jsonl_reader reader;
  yk_strbuf message; /* NUL-terminated; the result of yk_chat_input_read */
  int signal;        /* the signal that ended the chat, or 0 */
} yk_chat_input;

/* yk_chat_input_init - editor: ownership is taken; NULL: lines are read without an editor. */
void yk_chat_input_init(yk_chat_input *input, yk_chat_editor *editor);
void yk_chat_input_free(yk_chat_input *input);

/* yk_chat_input_read - wait for the next message that is not blank. *got: false at the input's end and if a signal ends
 *   the chat: any signal if the input is not a terminal; on a terminal SIGTERM, and a second Ctrl-C at the prompt, the
 *   first of which drops the typed text. A message that is too long is reported and counted.
 *   Errors: YK_E_IO, YK_E_NOMEM. */
yk_status yk_chat_input_read(yk_chat_input *input, yk_chat_session *session, bool *got, yk_err *err);

#endif
