/* chat_turn.h - one turn of a chat: a message, and the answer while it is written. */
#ifndef YK_CLI_CHAT_TURN_H
#define YK_CLI_CHAT_TURN_H

#include "cli/chat/chat_session.h"

/* yk_chat_turn - add the user's message, print the answer on stdout and keep it. A signal ends the answer, and what was
 *   said until then is kept; the signal is left to the caller (yk_interrupt_take).
 *   What concerns the turn alone (a template that refuses it, a context that is full, a request that failed) is
 *   reported and counted, and the turn taken back. Errors, which end the chat: YK_E_IO where stdout fails, and the
 *   engine's own. */
yk_status yk_chat_turn(yk_chat_session *session, const char *text, size_t n_bytes, yk_err *err);

#endif
