/* chat_history.h - what has been said in a chat, as the messages that a template takes. */
#ifndef YK_CLI_CHAT_HISTORY_H
#define YK_CLI_CHAT_HISTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

typedef struct yk_chat_history {
  json_t *messages; /* owned: one of the system or none, then those of user and assistant by turns */
} yk_chat_history;

/* yk_chat_history_init - nothing has been said. Errors: YK_E_NOMEM. */
yk_status yk_chat_history_init(yk_chat_history *history, yk_err *err);
void yk_chat_history_free(yk_chat_history *history);

/* yk_chat_history_add - a message of role at the end. Errors: YK_E_INVAL (text [n_bytes] is not UTF-8, with the byte),
 *   YK_E_NOMEM. The history is then as before. */
yk_status yk_chat_history_add(yk_chat_history *history, const char *role, const char *text, size_t n_bytes,
                              yk_err *err);

/* yk_chat_history_set_system - the system's message in place of the one before; an empty text takes it away. Errors: as
 *   above. */
yk_status yk_chat_history_set_system(yk_chat_history *history, const char *text, size_t n_bytes, yk_err *err);

/* yk_chat_history_undo - take back the user's last message and what follows it. False: there is none. */
bool yk_chat_history_undo(yk_chat_history *history);

/* yk_chat_history_clear - forget everything but the system's message. */
void yk_chat_history_clear(yk_chat_history *history);

#endif
