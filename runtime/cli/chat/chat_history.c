#include "cli/chat/chat_history.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "base/utf8.h"

/* Removes the last messages until n are left. */
static void cut(yk_chat_history *history, size_t n)
{
  while (history->n > n) free(history->messages[--history->n].text);
}

void yk_chat_history_free(yk_chat_history *history)
{
  cut(history, 0);
  free(history->messages);
  *history = (yk_chat_history){0};
}

yk_status yk_chat_history_document(const yk_chat_history *history, yk_json_doc **out, yk_err *err)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_strbuf_append_str(&text, "[");
  for (size_t i = 0; i < history->n; i++) {
    const yk_chat_message *message = &history->messages[i];
    yk_strbuf_append_fmt(&text, "%s{\"role\": \"%s\", \"content\": ", i ? ", " : "", message->role);
    yk_json_append_string(&text, message->text, message->n_bytes);
    yk_strbuf_append_str(&text, "}");
  }
  yk_strbuf_append_str(&text, "]");
  yk_status status = text.failed ? yk_err_set(err, YK_E_NOMEM, "no memory for a conversation")
                                 : yk_json_parse("conversation", text.data, text.length, NULL, out, err);
  yk_strbuf_free(&text);
  return status;
}

static yk_status make_message(const char *role, const char *text, size_t n_bytes, yk_chat_message *out, yk_err *err)
{
  size_t n_valid = yk_utf8_valid_bytes(text, n_bytes);
  if (n_valid < n_bytes)
    return yk_err_set(err, YK_E_INVAL, "message: expected UTF-8, found byte 0x%02X at offset %zu",
                      (unsigned char)text[n_valid], n_valid);
  *out = (yk_chat_message){role, malloc(n_bytes + 1), n_bytes};
  if (!out->text) return yk_err_set(err, YK_E_NOMEM, "no memory for a message of %zu bytes", n_bytes);
  memcpy(out->text, text, n_bytes);
  return YK_OK;
}

/* Inserts a new message at index. */
static yk_status insert(yk_chat_history *history, size_t index, const char *role, const char *text, size_t n_bytes,
                        yk_err *err)
{
  yk_chat_message message;
  YK_TRY(make_message(role, text, n_bytes, &message, err));
  if (history->n == history->capacity) {
    size_t capacity = history->capacity ? 2 * history->capacity : 16;
    yk_chat_message *messages = realloc(history->messages, capacity * sizeof *messages);
    if (!messages) {
      free(message.text);
      return yk_err_set(err, YK_E_NOMEM, "no memory for %zu messages", capacity);
    }
    history->messages = messages;
    history->capacity = capacity;
  }
  memmove(history->messages + index + 1, history->messages + index, (history->n - index) * sizeof message);
  history->messages[index] = message;
  history->n++;
  return YK_OK;
}

yk_status yk_chat_history_add(yk_chat_history *history, const char *role, const char *text, size_t n_bytes, yk_err *err)
{
  return insert(history, history->n, role, text, n_bytes, err);
}

static bool is_from(const yk_chat_history *history, size_t index, const char *role)
{
  return index < history->n && strcmp(history->messages[index].role, role) == 0;
}

static void remove_first(yk_chat_history *history)
{
  free(history->messages[0].text);
  memmove(history->messages, history->messages + 1, --history->n * sizeof *history->messages);
}

yk_status yk_chat_history_set_system(yk_chat_history *history, const char *text, size_t n_bytes, yk_err *err)
{
  bool has_one = is_from(history, 0, "system");
  yk_chat_message message;
  if (n_bytes == 0) {
    if (has_one) remove_first(history);
    return YK_OK;
  }
  if (!has_one) return insert(history, 0, "system", text, n_bytes, err);
  YK_TRY(make_message("system", text, n_bytes, &message, err));
  free(history->messages[0].text);
  history->messages[0] = message;
  return YK_OK;
}

bool yk_chat_history_undo(yk_chat_history *history)
{
  size_t n = history->n;
  while (n > 0 && !is_from(history, n - 1, "user")) n--;
  if (n > 0) cut(history, n - 1);
  return n > 0;
}

void yk_chat_history_clear(yk_chat_history *history)
{
  cut(history, is_from(history, 0, "system") ? 1 : 0);
}
