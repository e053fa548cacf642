/* chat_history.h - the messages of a chat so far, in the form that a template takes. */
#ifndef YK_CLI_CHAT_HISTORY_H
#define YK_CLI_CHAT_HISTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/json.h"
#include "base/status.h"

typedef struct yk_chat_message {
  const char *role; /* borrowed: must outlive the history */
  char *text;       /* [n_bytes] of UTF-8, owned */
  size_t n_bytes;
} yk_chat_message;

/* Start from {0}. */
typedef struct yk_chat_history {
  yk_chat_message *messages; /* [n], owned: at most one system message, then those of user and assistant alternately */
  size_t n, capacity;
} yk_chat_history;

void yk_chat_history_free(yk_chat_history *history);

/* yk_chat_history_document - the messages as the list of a yk_chat_conversation; the caller frees it with yk_json_free.
 *   Errors: YK_E_NOMEM. */
yk_status yk_chat_history_document(const yk_chat_history *history, yk_json_doc **out, yk_err *err);

/* yk_chat_history_add - append a message with this role. Errors: YK_E_INVAL (text [n_bytes] is not UTF-8, with the
 *   byte), YK_E_NOMEM. The history is then unchanged. */
yk_status yk_chat_history_add(yk_chat_history *history, const char *role, const char *text, size_t n_bytes,
                              yk_err *err);

/* yk_chat_history_set_system - replace the system message; an empty text removes it. Errors: as above. */
yk_status yk_chat_history_set_system(yk_chat_history *history, const char *text, size_t n_bytes, yk_err *err);

/* yk_chat_history_undo - remove the user's last message and all later messages. False: there is none. */
bool yk_chat_history_undo(yk_chat_history *history);

/* yk_chat_history_clear - remove everything except the system message. */
void yk_chat_history_clear(yk_chat_history *history);

#endif
