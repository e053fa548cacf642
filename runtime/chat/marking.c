#define _GNU_SOURCE /* memmem */
#include "chat/marking.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "base/utf8.h"
#include "text/plain_marks.h"

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

/* State of marking, with memory that is reused from text to text. */
typedef struct marker {
  const yk_tokenizer *tokenizer;
  const char *mark;
  size_t n_marks;
  yk_spans found;
  yk_strbuf escaped, text;
  yk_spans origins; /* for each byte of escaped: the range of the text's character that it belongs to */
} marker;

static yk_status no_memory(yk_err *err)
{
  return yk_err_set(err, YK_E_NOMEM, "no memory for a conversation with marks");
}

/* Writes an ASCII character as in a JSON string. */
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

/* Writes the text as a JSON string without quotes to marker->escaped. *differs: escaping changes the text; else escaped
 * is empty. */
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

/* Sets is_marked[begin] of every character that must be plain, in the text itself or in the JSON that a template makes
 * of it. */
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

/* Writes the text with its marks to marker->text. */
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

static yk_status append_text(marker *marking, yk_json text, yk_strbuf *out, yk_err *err)
{
  YK_TRY(mark_text(marking, yk_json_text(text), yk_json_length(text), err));
  yk_json_append_string(out, marking->text.data, marking->text.length);
  return YK_OK;
}

static yk_status append_value(marker *marking, yk_json value, yk_strbuf *out, yk_err *err)
{
  const char *separator = "";
  bool is_object = yk_json_is(value, YK_JSON_OBJECT);
  if (yk_json_is(value, YK_JSON_STRING)) return append_text(marking, value, out, err);
  if (!is_object && !yk_json_is(value, YK_JSON_ARRAY)) {
    yk_json_append(out, value, 0);
    return YK_OK;
  }
  yk_strbuf_append_str(out, is_object ? "{" : "[");
  YK_JSON_EACH(item, value)
  {
    yk_strbuf_append_str(out, separator);
    YK_TRY(append_value(marking, item, out, err));
    separator = ", ";
  }
  YK_JSON_EACH_KEY(key, value)
  {
    yk_strbuf_append_str(out, separator);
    YK_TRY(append_text(marking, key, out, err));
    yk_strbuf_append_str(out, ": ");
    YK_TRY(append_value(marking, yk_json_member(key), out, err));
    separator = ", ";
  }
  yk_strbuf_append_str(out, is_object ? "}" : "]");
  return YK_OK;
}

/* Whether the text under a key of a message needs no marks, since the template or the model wrote it. */
static bool stays(yk_json message, yk_json key)
{
  bool is_assistants = yk_json_equals(yk_json_get(message, "role"), "assistant");
  return yk_json_equals(key, "role") || (is_assistants && !yk_json_equals(key, "tool_calls"));
}

static yk_status append_message(marker *marking, yk_json message, yk_strbuf *out, yk_err *err)
{
  const char *separator = "";
  yk_strbuf_append_str(out, "{");
  YK_JSON_EACH_KEY(key, message)
  {
    yk_strbuf_append_str(out, separator);
    yk_json_append(out, key, 0);
    yk_strbuf_append_str(out, ": ");
    if (stays(message, key))
      yk_json_append(out, yk_json_member(key), 0);
    else
      YK_TRY(append_value(marking, yk_json_member(key), out, err));
    separator = ", ";
  }
  yk_strbuf_append_str(out, "}");
  return YK_OK;
}

static yk_status append_messages(marker *marking, yk_json messages, yk_strbuf *out, yk_err *err)
{
  const char *separator = "";
  yk_strbuf_append_str(out, "[");
  YK_JSON_EACH(message, messages)
  {
    yk_strbuf_append_str(out, separator);
    YK_TRY(append_message(marking, message, out, err));
    separator = ", ";
  }
  yk_strbuf_append_str(out, "]");
  return YK_OK;
}

/* Frees the memory and counts the marks. */
static yk_status finish(marker *marking, yk_status status, const yk_strbuf *out, size_t *n_marks, yk_err *err)
{
  *n_marks += marking->n_marks;
  free(marking->found.items);
  free(marking->origins.items);
  yk_strbuf_free(&marking->escaped);
  yk_strbuf_free(&marking->text);
  return status == YK_OK && out->failed ? no_memory(err) : status;
}

yk_status yk_marking_append(yk_json value, const yk_tokenizer *tokenizer, const char *mark, yk_strbuf *out,
                            size_t *n_marks, yk_err *err)
{
  marker marking = {.tokenizer = tokenizer, .mark = mark};
  return finish(&marking, append_value(&marking, value, out, err), out, n_marks, err);
}

yk_status yk_marking_append_messages(yk_json messages, const yk_tokenizer *tokenizer, const char *mark, yk_strbuf *out,
                                     size_t *n_marks, yk_err *err)
{
  marker marking = {.tokenizer = tokenizer, .mark = mark};
  return finish(&marking, append_messages(&marking, messages, out, err), out, n_marks, err);
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
      ok = yk_spans_append(plain, yk_utf8_character_begin(out->data, out->length), out->length);
    at = found ? end + mark_bytes : n_bytes;
  }
  return ok && !out->failed ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for a prompt of %zu bytes", n_bytes);
}
