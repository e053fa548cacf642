#include "openai/parse/literal.h"

#include <string.h>

#include "base/json_write.h"

const yk_literal_rules yk_literal_python = {0};
const yk_literal_rules yk_literal_gemma4 = {.mark = "<|\"|>", .has_bare_keys = true};
const yk_literal_rules yk_literal_functiongemma = {.mark = "<escape>", .has_bare_keys = true};

static yk_scan_result go(yk_literal *l, yk_literal_state state)
{
  l->state = state;
  return YK_SCAN_MORE;
}

static char container(const yk_literal *l)
{
  return l->open[l->depth - 1];
}

static bool has_keys(const yk_literal *l)
{
  return container(l) == '{' || container(l) == 'c';
}

static yk_scan_result open_container(yk_literal *l, char c, yk_strbuf *out)
{
  if (l->depth == YK_LITERAL_MAX_DEPTH) return YK_SCAN_INVALID;
  l->open[l->depth++] = c;
  yk_strbuf_append_str(out, has_keys(l) ? "{" : "[");
  return go(l, YK_LITERAL_FIRST);
}

static bool closes(const yk_literal *l, char c)
{
  char opened = container(l);
  return c == (opened == '{' ? '}' : opened == '[' ? ']' : ')');
}

static yk_scan_result close(yk_literal *l, yk_strbuf *out)
{
  yk_strbuf_append_str(out, has_keys(l) ? "}" : "]");
  l->has_comma = false;
  return --l->depth == 0 ? YK_SCAN_END : go(l, YK_LITERAL_AFTER);
}

static bool is_word_byte(char c)
{
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || yk_is_one_of(c, "_+-.$");
}

static yk_scan_result add_to_word(yk_literal *l, char c)
{
  if (!is_word_byte(c) || l->n_word == sizeof l->word) return YK_SCAN_INVALID;
  l->word[l->n_word++] = c;
  return YK_SCAN_MORE;
}

static yk_scan_result begin_word(yk_literal *l, char c, yk_literal_state state)
{
  l->n_word = 0;
  l->state = state;
  return add_to_word(l, c);
}

static yk_scan_result begin_string(yk_literal *l, char c, bool is_key, yk_strbuf *out)
{
  l->is_key = is_key;
  yk_strbuf_append_str(out, "\"");
  if (l->rules->mark && c == l->rules->mark[0]) {
    l->n_mark = 1;
    return go(l, YK_LITERAL_MARK);
  }
  l->quote = c;
  l->is_triple = false;
  l->n_quotes = 1;
  return go(l, l->rules->has_bare_keys ? YK_LITERAL_STRING : YK_LITERAL_OPENED);
}

static bool begins_string(const yk_literal *l, char c)
{
  return c == '"' || c == '\'' || (l->rules->mark && c == l->rules->mark[0]);
}

static yk_scan_result end_string(yk_literal *l, yk_strbuf *out)
{
  yk_strbuf_append_str(out, "\"");
  return go(l, l->is_key ? YK_LITERAL_COLON : YK_LITERAL_AFTER);
}

static yk_scan_result begin_value(yk_literal *l, char c, yk_strbuf *out)
{
  if (c == '{' || c == '[' || (c == '(' && !l->rules->has_bare_keys)) return open_container(l, c, out);
  return begins_string(l, c) ? begin_string(l, c, false, out) : begin_word(l, c, YK_LITERAL_WORD);
}

/* An item of an object or an array, or the end. */
static yk_scan_result begin_item(yk_literal *l, char c, yk_strbuf *out)
{
  if (yk_json_is_space(c)) return YK_SCAN_MORE;
  if (closes(l, c)) return close(l, out);
  if (l->has_comma) yk_strbuf_append_str(out, ", ");
  l->has_comma = false;
  if (!has_keys(l)) return begin_value(l, c, out);
  if (container(l) == '{' && begins_string(l, c)) return begin_string(l, c, true, out);
  return begin_word(l, c, YK_LITERAL_KEY);
}

static yk_scan_result end_key(yk_literal *l, char c, yk_strbuf *out)
{
  if (yk_json_is_space(c)) return YK_SCAN_MORE;
  if (c != (container(l) == 'c' ? '=' : ':')) return YK_SCAN_INVALID;
  l->has_key = true;
  yk_strbuf_append_str(out, ": ");
  return go(l, YK_LITERAL_VALUE);
}

static yk_scan_result in_key(yk_literal *l, char c, yk_strbuf *out)
{
  if (is_word_byte(c)) return add_to_word(l, c);
  yk_json_append_string(out, l->word, l->n_word);
  l->state = YK_LITERAL_COLON;
  return end_key(l, c, out);
}

static yk_scan_result after(yk_literal *l, char c, yk_strbuf *out)
{
  if (yk_json_is_space(c)) return YK_SCAN_MORE;
  if (closes(l, c)) return close(l, out);
  l->has_comma = true;
  return c == ',' ? go(l, YK_LITERAL_NEXT) : YK_SCAN_INVALID;
}

static bool word_is(const yk_literal *l, const char *word)
{
  return l->n_word == strlen(word) && memcmp(l->word, word, l->n_word) == 0;
}

static yk_scan_result in_word(yk_literal *l, char c, yk_strbuf *out)
{
  if (is_word_byte(c)) return add_to_word(l, c);
  l->state = YK_LITERAL_AFTER;
  if (word_is(l, "True") || word_is(l, "true")) {
    yk_strbuf_append_str(out, "true");
  } else if (word_is(l, "False") || word_is(l, "false")) {
    yk_strbuf_append_str(out, "false");
  } else if (word_is(l, "None") || word_is(l, "null")) {
    yk_strbuf_append_str(out, "null");
  } else if (yk_json_scan_is_value(l->word, l->n_word)) {
    yk_strbuf_append(out, l->word, l->n_word);
  } else if (l->rules->has_bare_keys) {
    yk_json_append_string(out, l->word, l->n_word);
  } else {
    return YK_SCAN_INVALID;
  }
  return after(l, c, out);
}

/* ---- Strings ----------------------------------------------------------------------------------------------------- */

static void append_byte(yk_strbuf *out, char c)
{
  if ((unsigned char)c >= 0x80)
    yk_strbuf_append(out, &c, 1); /* part of a character */
  else
    yk_json_append_escaped(out, &c, 1);
}

static yk_scan_result in_string(yk_literal *l, char c, yk_strbuf *out)
{
  if (c == l->quote) {
    if (!l->is_triple) return end_string(l, out);
    if (++l->n_quotes == 3) return end_string(l, out);
    return YK_SCAN_MORE;
  }
  for (; l->is_triple && l->n_quotes > 0; l->n_quotes--) append_byte(out, l->quote);
  if (c == '\\') return go(l, YK_LITERAL_ESCAPE);
  append_byte(out, c);
  return YK_SCAN_MORE;
}

/* Three quotes open a string that may contain its quote; two are an empty string. */
static yk_scan_result behind_opening(yk_literal *l, char c, yk_strbuf *out)
{
  if (c == l->quote) {
    if (++l->n_quotes < 3) return YK_SCAN_MORE;
    l->is_triple = true;
    l->n_quotes = 0;
    return go(l, YK_LITERAL_STRING);
  }
  if (l->n_quotes == 2) {
    end_string(l, out);
    return yk_literal_byte(l, c, out);
  }
  l->n_quotes = 0;
  l->state = YK_LITERAL_STRING;
  return in_string(l, c, out);
}

static yk_scan_result in_escape(yk_literal *l, char c, yk_strbuf *out)
{
  static const char names[] = "nrtbf\"\\/", *const others = "'av0\n";
  l->state = YK_LITERAL_STRING;
  l->code = 0;
  l->n_hex = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (l->n_hex) return go(l, YK_LITERAL_HEX);
  const char *other = c ? strchr(others, c) : NULL;
  if (yk_is_one_of(c, names)) {
    yk_strbuf_append(out, (char[]){'\\', c}, 2);
  } else if (!other) {
    append_byte(out, '\\'); /* no escape */
    append_byte(out, c);
  } else if (*other != '\n') {
    append_byte(out, "'\a\v\0"[other - others]);
  }
  return YK_SCAN_MORE;
}

static yk_scan_result in_hex(yk_literal *l, char c, yk_strbuf *out)
{
  static const char digits[] = "0123456789abcdef";
  char lower = c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
  const char *digit = lower ? strchr(digits, lower) : NULL;
  if (!digit) return YK_SCAN_INVALID;
  l->code = l->code << 4 | (uint32_t)(digit - digits);
  if (--l->n_hex > 0) return YK_SCAN_MORE;
  if (l->code > 0x10FFFF) return YK_SCAN_INVALID;
  if (l->code < 0x10000)
    yk_strbuf_append_fmt(out, "\\u%04x", l->code);
  else
    yk_strbuf_append_fmt(out, "\\u%04x\\u%04x", 0xD7C0 + (l->code >> 10), 0xDC00 + (l->code & 0x3FF));
  return go(l, YK_LITERAL_STRING);
}

static yk_scan_result in_mark(yk_literal *l, char c)
{
  if (c != l->rules->mark[l->n_mark]) return YK_SCAN_INVALID;
  if (l->rules->mark[++l->n_mark]) return YK_SCAN_MORE;
  l->n_mark = 0;
  return go(l, YK_LITERAL_MARKED);
}

static yk_scan_result in_marked(yk_literal *l, char c, yk_strbuf *out)
{
  const char *mark = l->rules->mark;
  if (c == mark[l->n_mark]) {
    if (mark[++l->n_mark]) return YK_SCAN_MORE;
    return end_string(l, out);
  }
  yk_json_append_escaped(out, mark, l->n_mark);
  l->n_mark = 0;
  if (c == mark[0])
    l->n_mark = 1;
  else
    append_byte(out, c);
  return YK_SCAN_MORE;
}

/* ---- Interface --------------------------------------------------------------------------------------------------- */

void yk_literal_begin(yk_literal *literal, const yk_literal_rules *rules, char c, yk_strbuf *out)
{
  *literal = (yk_literal){.rules = rules};
  open_container(literal, c == '(' ? 'c' : c, out);
}

yk_scan_result yk_literal_byte(yk_literal *l, char c, yk_strbuf *out)
{
  switch (l->state) {
  case YK_LITERAL_FIRST:
  case YK_LITERAL_NEXT: return begin_item(l, c, out);
  case YK_LITERAL_KEY: return in_key(l, c, out);
  case YK_LITERAL_COLON: return end_key(l, c, out);
  case YK_LITERAL_VALUE: return yk_json_is_space(c) ? YK_SCAN_MORE : begin_value(l, c, out);
  case YK_LITERAL_WORD: return in_word(l, c, out);
  case YK_LITERAL_OPENED: return behind_opening(l, c, out);
  case YK_LITERAL_STRING: return in_string(l, c, out);
  case YK_LITERAL_ESCAPE: return in_escape(l, c, out);
  case YK_LITERAL_HEX: return in_hex(l, c, out);
  case YK_LITERAL_MARK: return in_mark(l, c);
  case YK_LITERAL_MARKED: return in_marked(l, c, out);
  case YK_LITERAL_AFTER: return after(l, c, out);
  }
  return YK_SCAN_INVALID;
}
