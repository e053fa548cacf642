/* chat_input.h - the messages of a chat: lines of standard input, typed in an editor where that is a terminal. Lines
 * that end in a backslash go on in the next one. */
#ifndef YK_CLI_CHAT_INPUT_H
#define YK_CLI_CHAT_INPUT_H

#include "base/jsonl.h"
#include "base/strbuf.h"
#include "cli/chat/chat_editor.h"
#include "cli/chat/chat_session.h"

typedef struct yk_chat_input {
  yk_chat_editor *editor; /* owned; NULL: lines come from the reader */
  yk_jsonl_reader reader;
  yk_strbuf message; /* NUL-terminated; of yk_chat_input_read */
  int signal;        /* that ended the chat, or 0 */
} yk_chat_input;

/* yk_chat_input_init - editor: owned from now on; NULL reads lines as they come. */
void yk_chat_input_init(yk_chat_input *input, yk_chat_editor *editor);
void yk_chat_input_free(yk_chat_input *input);

/* yk_chat_input_read - wait for the next message that is not blank. *got: false at the input's end and where a signal
 *   ends the chat: any on an input that is no terminal; on a terminal SIGTERM, and a second Ctrl-C at the prompt, of
 *   which the first drops what has been typed. A message that is too long is reported and counted.
 *   Errors: YK_E_IO, YK_E_NOMEM. */
yk_status yk_chat_input_read(yk_chat_input *input, yk_chat_session *session, bool *got, yk_err *err);

#endif
