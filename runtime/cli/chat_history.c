#include "cli/chat_history.h"

#include <string.h>

#include "text/utf8.h"

yk_status yk_chat_history_init(yk_chat_history *history, yk_err *err)
{
  history->messages = json_array();
  return history->messages ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for a conversation");
}

void yk_chat_history_free(yk_chat_history *history)
{
  json_decref(history->messages);
  history->messages = NULL;
}

static yk_status make_message(const char *role, const char *text, size_t n_bytes, json_t **out, yk_err *err)
{
  size_t n_valid = yk_utf8_valid_bytes(text, n_bytes);
  if (n_valid < n_bytes)
    return yk_err_set(err, YK_E_INVAL, "message: expected UTF-8, found byte 0x%02X at offset %zu",
                      (unsigned char)text[n_valid], n_valid);
  *out = json_pack("{s:s, s:o}", "role", role, "content", json_stringn(text, n_bytes));
  return *out ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for a message of %zu bytes", n_bytes);
}

yk_status yk_chat_history_add(yk_chat_history *history, const char *role, const char *text, size_t n_bytes, yk_err *err)
{
  json_t *message;
  YK_TRY(make_message(role, text, n_bytes, &message, err));
  if (json_array_append_new(history->messages, message) == 0) return YK_OK;
  return yk_err_set(err, YK_E_NOMEM, "no memory for a message of %zu bytes", n_bytes);
}

static bool is_from(const yk_chat_history *history, size_t index, const char *role)
{
  const char *found = json_string_value(json_object_get(json_array_get(history->messages, index), "role"));
  return found && strcmp(found, role) == 0;
}

yk_status yk_chat_history_set_system(yk_chat_history *history, const char *text, size_t n_bytes, yk_err *err)
{
  json_t *message = NULL;
  if (n_bytes > 0) YK_TRY(make_message("system", text, n_bytes, &message, err));
  bool has_one = is_from(history, 0, "system");
  int failed = 0;
  if (message && has_one)
    failed = json_array_set_new(history->messages, 0, message);
  else if (message)
    failed = json_array_insert_new(history->messages, 0, message);
  else if (has_one)
    failed = json_array_remove(history->messages, 0);
  return failed ? yk_err_set(err, YK_E_NOMEM, "no memory for a message of %zu bytes", n_bytes) : YK_OK;
}

/* Forget messages until n are left. */
static void cut(yk_chat_history *history, size_t n)
{
  while (json_array_size(history->messages) > n)
    json_array_remove(history->messages, json_array_size(history->messages) - 1);
}

bool yk_chat_history_undo(yk_chat_history *history)
{
  size_t n = json_array_size(history->messages);
  while (n > 0 && !is_from(history, n - 1, "user")) n--;
  if (n > 0) cut(history, n - 1);
  return n > 0;
}

void yk_chat_history_clear(yk_chat_history *history)
{
  cut(history, is_from(history, 0, "system") ? 1 : 0);
}
