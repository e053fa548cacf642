/* chat_history.h - what has been said in a chat, as the messages that a template takes. */
#ifndef YK_CLI_CHAT_HISTORY_H
#define YK_CLI_CHAT_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "base/status.h"

typedef struct yk_chat_message {
  const char *role; /* borrowed: outlives the history */
  char *text;       /* [n_bytes] of UTF-8, owned */
  size_t n_bytes;
} yk_chat_message;

/* Start from {0}. */
typedef struct yk_chat_history {
  yk_chat_message *messages; /* [n], owned: one of the system or none, then those of user and assistant by turns */
  size_t n, capacity;
} yk_chat_history;

void yk_chat_history_free(yk_chat_history *history);

/* yk_chat_history_document - the messages as the list that yk_chat_conversation takes; freed by the caller with
 *   yk_json_free. Errors: YK_E_NOMEM. */
yk_status yk_chat_history_document(const yk_chat_history *history, yk_json_doc **out, yk_err *err);

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
