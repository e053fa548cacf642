#define _GNU_SOURCE /* memmem */
#include "chat/marking.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/plain_marks.h"
#include "text/utf8.h"

yk_status yk_marking_choose(const char *const *texts, size_t n_texts, char mark[YK_MARK_BYTES], yk_err *err)
{
  for (uint32_t code_point = 0xFDD0; code_point < 0xFFFFE;
       code_point = code_point == 0xFDEF ? 0xF0000 : code_point + 1) {
    bool used = false;
    mark[yk_utf8_encode(code_point, mark)] = '\0';
    for (size_t i = 0; i < n_texts && !used; i++) used = texts[i] && strstr(texts[i], mark) != NULL;
    if (!used) return YK_OK;
  }
  return yk_err_set(err, YK_E_INVAL, "the conversation holds every character that could serve as a mark");
}

/* What a copy with marks is made with; memory is used from text to text. */
typedef struct marker {
  const yk_tokenizer *tokenizer;
  const char *mark;
  size_t n_marks;
  yk_spans found;
  yk_strbuf escaped, text;
  yk_spans origins; /* of each character of escaped: the character of the text that it stands for, or is part of */
} marker;

static yk_status no_memory(yk_err *err)
{
  return yk_err_set(err, YK_E_NOMEM, "no memory for a conversation with marks");
}

/* How JSON writes an ASCII character in a string. */
static void escape(unsigned char c, char out[8])
{
  static const char SHORT[] = "\bb\ff\nn\rr\tt\"\"\\\\"; /* characters and the letters of their escapes */
  for (size_t i = 0; i + 1 < sizeof SHORT; i += 2)
    if ((unsigned char)SHORT[i] == c) {
      out[0] = '\\';
      out[1] = SHORT[i + 1];
      out[2] = '\0';
      return;
    }
  snprintf(out, 8, c < 0x20 ? "\\u%04x" : "%c", c);
}

/* The text as a string of JSON without its quotes, in marker->escaped. Returns whether it differs from the text. */
static yk_status escape_text(marker *marking, const char *text, size_t n_bytes, bool *differs, yk_err *err)
{
  *differs = false;
  yk_strbuf_clear(&marking->escaped);
  marking->origins.n = 0;
  for (size_t i = 0; i < n_bytes && !*differs; i++)
    *differs = (unsigned char)text[i] < 0x20 || text[i] == '"' || text[i] == '\\';
  for (size_t at = 0; at < n_bytes && *differs;) {
    char shown[8] = {0};
    uint32_t code_point;
    size_t length = yk_utf8_decode(text + at, n_bytes - at, &code_point), begin = marking->escaped.length;
    if (length == 1)
      escape((unsigned char)text[at], shown);
    else
      memcpy(shown, text + at, length);
    yk_strbuf_append_str(&marking->escaped, shown);
    for (size_t i = begin; i < marking->escaped.length; i++)
      if (!yk_spans_append(&marking->origins, at, at + length)) return no_memory(err);
    at += length;
  }
  return marking->escaped.failed ? no_memory(err) : YK_OK;
}

/* Set is_marked[begin] of every character that has to be plain, in the text or in JSON that a template makes of it. */
static yk_status find_marks(marker *marking, const char *text, size_t n_bytes, bool *is_marked, yk_err *err)
{
  bool differs;
  YK_TRY(yk_tokenizer_find_plain_marks(marking->tokenizer, text, n_bytes, &marking->found, err));
  for (size_t i = 0; i < marking->found.n; i++) is_marked[marking->found.items[i].begin] = true;
  YK_TRY(escape_text(marking, text, n_bytes, &differs, err));
  if (!differs) return YK_OK;
  const yk_strbuf *escaped = &marking->escaped;
  YK_TRY(yk_tokenizer_find_plain_marks(marking->tokenizer, escaped->data, escaped->length, &marking->found, err));
  for (size_t i = 0; i < marking->found.n; i++)
    is_marked[marking->origins.items[marking->found.items[i].begin].begin] = true;
  return YK_OK;
}

/* The text with its marks, in marker->text. */
static yk_status mark_text(marker *marking, const char *text, size_t n_bytes, yk_err *err)
{
  bool *is_marked = calloc(n_bytes + 1, sizeof *is_marked);
  yk_status status = is_marked ? find_marks(marking, text, n_bytes, is_marked, err) : no_memory(err);
  yk_strbuf_clear(&marking->text);
  yk_strbuf_append(&marking->text, "", 0);
  for (size_t at = 0; at < n_bytes && status == YK_OK;) {
    uint32_t code_point;
    size_t length = yk_utf8_decode(text + at, n_bytes - at, &code_point);
    yk_strbuf_append(&marking->text, text + at, length);
    if (is_marked[at]) yk_strbuf_append_str(&marking->text, marking->mark);
    marking->n_marks += is_marked[at];
    at += length;
  }
  free(is_marked);
  if (status == YK_OK && marking->text.failed) status = no_memory(err);
  return status;
}

static yk_status copy_value(marker *marking, const json_t *value, json_t **out, yk_err *err);

static yk_status copy_list(marker *marking, const json_t *list, json_t *copy, yk_err *err)
{
  const json_t *item;
  size_t i;
  json_array_foreach(list, i, item)
  {
    json_t *marked;
    YK_TRY(copy_value(marking, item, &marked, err));
    if (json_array_append_new(copy, marked) != 0) return no_memory(err);
  }
  return YK_OK;
}

static yk_status copy_object(marker *marking, const json_t *object, json_t *copy, yk_err *err)
{
  const char *key;
  size_t key_bytes;
  json_t *item;
  json_object_keylen_foreach((json_t *)object, key, key_bytes, item)
  {
    json_t *marked;
    YK_TRY(copy_value(marking, item, &marked, err));
    yk_status status = mark_text(marking, key, key_bytes, err);
    if (status != YK_OK) {
      json_decref(marked);
      return status;
    }
    if (json_object_setn_new(copy, marking->text.data, marking->text.length, marked) != 0) return no_memory(err);
  }
  return YK_OK;
}

static yk_status copy_value(marker *marking, const json_t *value, json_t **out, yk_err *err)
{
  yk_status status = YK_OK;
  json_t *copy = NULL;
  if (json_is_string(value)) {
    YK_TRY(mark_text(marking, json_string_value(value), json_string_length(value), err));
    copy = json_stringn(marking->text.data, marking->text.length);
  } else if (json_is_array(value)) {
    copy = json_array();
    if (copy) status = copy_list(marking, value, copy, err);
  } else if (json_is_object(value)) {
    copy = json_object();
    if (copy) status = copy_object(marking, value, copy, err);
  } else {
    copy = json_deep_copy(value);
  }
  if (!copy) return no_memory(err);
  if (status == YK_OK)
    *out = copy;
  else
    json_decref(copy);
  return status;
}

/* Whether the text under a key of a message is as the template, or the model, has written it. */
static bool stays(const json_t *message, const char *key)
{
  const char *role = json_string_value(json_object_get(message, "role"));
  return strcmp(key, "role") == 0 || (role && strcmp(role, "assistant") == 0 && strcmp(key, "tool_calls") != 0);
}

static yk_status copy_message(marker *marking, const json_t *message, json_t *copy, yk_err *err)
{
  const char *key;
  size_t key_bytes;
  json_t *item, *marked;
  json_object_keylen_foreach((json_t *)message, key, key_bytes, item)
  {
    if (stays(message, key))
      marked = json_deep_copy(item);
    else
      YK_TRY(copy_value(marking, item, &marked, err));
    if (json_object_setn_new(copy, key, key_bytes, marked) != 0) return no_memory(err);
  }
  return YK_OK;
}

static yk_status copy_messages(marker *marking, const json_t *messages, json_t **out, yk_err *err)
{
  json_t *list = json_array(), *message;
  yk_status status = list ? YK_OK : no_memory(err);
  for (size_t i = 0; i < json_array_size(messages) && status == YK_OK; i++) {
    message = json_object();
    if (json_array_append_new(list, message) != 0)
      status = no_memory(err);
    else
      status = copy_message(marking, json_array_get(messages, i), message, err);
  }
  if (status == YK_OK)
    *out = list;
  else
    json_decref(list);
  return status;
}

/* What marking has cost. */
static yk_status finish(marker *marking, yk_status status, size_t *n_marks)
{
  *n_marks += marking->n_marks;
  free(marking->found.items);
  free(marking->origins.items);
  yk_strbuf_free(&marking->escaped);
  yk_strbuf_free(&marking->text);
  return status;
}

yk_status yk_marking_add(const json_t *value, const yk_tokenizer *tokenizer, const char *mark, json_t **out,
                         size_t *n_marks, yk_err *err)
{
  marker marking = {.tokenizer = tokenizer, .mark = mark};
  return finish(&marking, copy_value(&marking, value, out, err), n_marks);
}

yk_status yk_marking_add_to_messages(const json_t *messages, const yk_tokenizer *tokenizer, const char *mark,
                                     json_t **out, size_t *n_marks, yk_err *err)
{
  marker marking = {.tokenizer = tokenizer, .mark = mark};
  return finish(&marking, copy_messages(&marking, messages, out, err), n_marks);
}

/* Where the character begins that ends at end > 0. */
static size_t character_before(const char *text, size_t end)
{
  do end--;
  while (end > 0 && ((unsigned char)text[end] & 0xC0u) == 0x80u);
  return end;
}

yk_status yk_marking_take(const char *text, size_t n_bytes, const char *mark, yk_strbuf *out, yk_spans *plain,
                          yk_err *err)
{
  size_t mark_bytes = strlen(mark), at = 0;
  bool ok = true;
  while (at < n_bytes && ok) {
    const char *found = memmem(text + at, n_bytes - at, mark, mark_bytes);
    size_t end = found ? (size_t)(found - text) : n_bytes;
    yk_strbuf_append(out, text + at, end - at);
    if (found && end > at && !out->failed)
      ok = yk_spans_append(plain, character_before(out->data, out->length), out->length);
    at = found ? end + mark_bytes : n_bytes;
  }
  return ok && !out->failed ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for a prompt of %zu bytes", n_bytes);
}
