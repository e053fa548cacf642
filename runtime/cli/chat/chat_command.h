/* chat_command.h - commands of a chat: lines that begin with a slash. */
#ifndef YK_CLI_CHAT_COMMAND_H
#define YK_CLI_CHAT_COMMAND_H

#include "cli/chat/chat_session.h"

/* yk_chat_command - run the command in text, which begins with a slash. An unknown or invalid command is reported and
 *   counted. Returns false if the chat shall end. */
bool yk_chat_command(yk_chat_session *session, const char *text, size_t n_bytes);

#endif
