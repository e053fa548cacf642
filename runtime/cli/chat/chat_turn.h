/* chat_turn.h - one turn of a chat: a message and its answer. */
#ifndef YK_CLI_CHAT_TURN_H
#define YK_CLI_CHAT_TURN_H

#include "cli/chat/chat_session.h"

/* yk_chat_turn - add the user's message, print the answer on stdout and add it to the history. A signal ends the
 *   answer, and the text so far is kept; the caller handles the signal (yk_interrupt_take).
 *   A failure of the turn alone (the template refuses the message, the context is full, the request failed) is reported
 *   and counted, and the turn is removed. Errors, which end the chat: YK_E_IO if stdout fails, and the engine's own. */
yk_status yk_chat_turn(yk_chat_session *session, const char *text, size_t n_bytes, yk_err *err);

#endif
