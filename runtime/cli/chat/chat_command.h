/* chat_command.h - lines of a chat that begin with a slash. */
#ifndef YK_CLI_CHAT_COMMAND_H
#define YK_CLI_CHAT_COMMAND_H

#include "cli/chat/chat_session.h"

/* yk_chat_command - carry out text, which begins with a slash. One that is unknown or lacks sense is reported and
 *   counted. Returns false where the chat is to end. */
bool yk_chat_command(yk_chat_session *session, const char *text, size_t n_bytes);

#endif
