#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json_doc.h"
#include "base/utf8.h"

enum { MAX_BYTES = (1 << YK_JSON_SIZE_BITS) - 1, FIRST_NODES = 64 };

typedef struct frame {
  uint32_t node, n_inside; /* elements or members so far */
  bool is_object;
} frame;

typedef struct parser {
  yk_json_doc *doc;
  const yk_json_rules *rules;
  const char *name;
  char *text; /* the document's; ends in NUL */
  size_t n_bytes, at;
  size_t line, line_start;
  bool is_silent; /* inside a skipped member: nodes are not kept */
  int silent_depth;
  int depth;
  frame stack[YK_JSON_MAX_DEPTH];
  yk_err *err;
} parser;

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

static yk_status fail_at(parser *p, size_t at, const char *message)
{
  size_t column = at - p->line_start + 1;
  if (p->rules->is_line) return yk_err_set(p->err, YK_E_FORMAT, "JSON: column %zu: %s", column, message);
  return yk_err_set(p->err, YK_E_FORMAT, "%s: line %zu column %zu: %s", p->name, p->line, column, message);
}

/* what: the tokens that are legal at p->at, where another token was found. */
static yk_status expected(parser *p, const char *what)
{
  char message[160];
  unsigned char c = (unsigned char)p->text[p->at];
  if (p->at >= p->n_bytes)
    snprintf(message, sizeof message, "expected %s, found the end of the text", what);
  else if (c > 0x20 && c < 0x7f)
    snprintf(message, sizeof message, "expected %s, found '%c'", what, c);
  else
    snprintf(message, sizeof message, "expected %s, found byte 0x%02x", what, c);
  return fail_at(p, p->at, message);
}

/* ---- Nodes ------------------------------------------------------------------------------------------------------- */

static yk_status add(parser *p, yk_json_kind kind, size_t at, size_t size)
{
  yk_json_doc *doc = p->doc;
  if (p->is_silent) return YK_OK;
  if (p->rules->max_values && doc->n_nodes >= p->rules->max_values) {
    char message[96];
    snprintf(message, sizeof message, "expected at most %zu keys and values, found more", p->rules->max_values);
    return fail_at(p, p->at, message);
  }
  if (doc->n_nodes == doc->capacity) {
    size_t capacity = doc->capacity ? 2 * doc->capacity : FIRST_NODES;
    yk_json_node *nodes = realloc(doc->nodes, capacity * sizeof *nodes);
    if (!nodes) return yk_err_set(p->err, YK_E_NOMEM, "JSON: no memory for %zu values", capacity);
    doc->nodes = nodes;
    doc->capacity = capacity;
  }
  yk_json_node *node = &doc->nodes[doc->n_nodes++];
  node->at = (uint32_t)at;
  node->kind = (unsigned)kind & 15;
  node->size = (unsigned)size & MAX_BYTES;
  return YK_OK;
}

/* ---- Tokens ------------------------------------------------------------------------------------------------------ */

static void skip_space(parser *p)
{
  for (;; p->at++) {
    char c = p->text[p->at];
    if (c == '\n') {
      p->line++;
      p->line_start = p->at + 1;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

/* Value of four hexadecimal digits; -1: not such digits. */
static int32_t hex4(const char *s)
{
  int32_t value = 0;
  for (int i = 0; i < 4; i++) {
    char c = s[i];
    int digit = c >= '0' && c <= '9'   ? c - '0'
                : c >= 'a' && c <= 'f' ? c - 'a' + 10
                : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                       : -1;
    if (digit < 0) return -1;
    value = value << 4 | digit;
  }
  return value;
}

/* p->at: the backslash; moves past the escape, and *to past the decoded character. */
static yk_status read_escape(parser *p, char **to)
{
  static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
  char c = p->text[++p->at];
  const char *letter = c ? strchr(letters, c) : NULL;
  if (letter) {
    *(*to)++ = values[letter - letters];
    p->at++;
    return YK_OK;
  }
  if (c != 'u') return expected(p, "an escape of \", \\, /, b, f, n, r, t or u");
  int32_t first = hex4(p->text + ++p->at);
  if (first < 0) return expected(p, "four hexadecimal digits");
  p->at += 4;
  uint32_t character = (uint32_t)first;
  if (first >= 0xd800 && first < 0xe000) {
    int32_t second =
        first < 0xdc00 && p->text[p->at] == '\\' && p->text[p->at + 1] == 'u' ? hex4(p->text + p->at + 2) : -1;
    bool is_pair = second >= 0xdc00 && second < 0xe000;
    character = is_pair ? 0x10000 + ((character - 0xd800) << 10) + (uint32_t)(second - 0xdc00) : 0xfffd;
    if (is_pair) p->at += 6;
  }
  *to += yk_utf8_encode(character, *to);
  return YK_OK;
}

/* p->at: the opening quote; moves past the closing quote. Decoding never lengthens a text. */
static yk_status read_string(parser *p)
{
  size_t begin = ++p->at;
  char *to = p->text + begin;
  for (;;) {
    unsigned char c = (unsigned char)p->text[p->at];
    size_t n = 1;
    uint32_t character;
    if (c == '"') break;
    if (c == '\\') {
      YK_TRY(read_escape(p, &to));
      continue;
    }
    if (c < 0x20) return expected(p, p->at >= p->n_bytes ? "'\"'" : "a control character to be escaped");
    if (c >= 0x80 && (n = yk_utf8_decode(p->text + p->at, p->n_bytes - p->at, &character)) == 0)
      return expected(p, "UTF-8");
    for (; n; n--) *to++ = p->text[p->at++];
  }
  p->at++;
  YK_TRY(add(p, YK_JSON_STRING, begin, (size_t)(to - p->text) - begin));
  *to = '\0';
  return YK_OK;
}

static size_t digits_at(const parser *p, size_t at)
{
  size_t n = 0;
  while (p->text[at + n] >= '0' && p->text[at + n] <= '9') n++;
  return n;
}

static yk_status read_number(parser *p)
{
  size_t begin = p->at, n;
  if (p->text[p->at] == '-') p->at++;
  if (p->text[p->at] == '0')
    p->at++;
  else if ((n = digits_at(p, p->at)))
    p->at += n;
  else
    return expected(p, "a digit");
  if (p->text[p->at] == '.') {
    p->at++;
    if (!(n = digits_at(p, p->at))) return expected(p, "a digit");
    p->at += n;
  }
  if (p->text[p->at] == 'e' || p->text[p->at] == 'E') {
    p->at++;
    if (p->text[p->at] == '+' || p->text[p->at] == '-') p->at++;
    if (!(n = digits_at(p, p->at))) return expected(p, "a digit");
    p->at += n;
  }
  return add(p, YK_JSON_NUMBER, begin, p->at - begin);
}

static yk_status read_scalar(parser *p)
{
  static const struct {
    const char *word;
    yk_json_kind kind;
  } words[] = {{"null", YK_JSON_NULL},        {"true", YK_JSON_TRUE},       {"false", YK_JSON_FALSE},
               {"-Infinity", YK_JSON_NUMBER}, {"Infinity", YK_JSON_NUMBER}, {"NaN", YK_JSON_NUMBER}};
  const char *text = p->text + p->at;
  if (*text == '"') return read_string(p);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    size_t n = strlen(words[i].word);
    if (strncmp(text, words[i].word, n) != 0) continue;
    p->at += n;
    return add(p, words[i].kind, p->at - n, n);
  }
  if (*text == '-' || (*text >= '0' && *text <= '9')) return read_number(p);
  return expected(p, "a value");
}

/* ---- Containers -------------------------------------------------------------------------------------------------- */

/* Read a key and its colon. A root member that is not kept becomes silent with its value. */
static yk_status read_key(parser *p)
{
  skip_space(p);
  if (p->text[p->at] != '"') return expected(p, "a key in double quotes");
  YK_TRY(read_string(p));
  const yk_json_node *key = p->is_silent ? NULL : &p->doc->nodes[p->doc->n_nodes - 1];
  skip_space(p);
  if (p->text[p->at] != ':') return expected(p, "':'");
  p->at++;
  if (!key || p->depth != 1 || !p->rules->keeps || p->rules->keeps(p->text + key->at)) return YK_OK;
  skip_space(p);
  YK_TRY(add(p, strncmp(p->text + p->at, "null", 4) == 0 ? YK_JSON_NULL : YK_JSON_SKIPPED, p->at, 0));
  p->is_silent = true;
  p->silent_depth = p->depth;
  return YK_OK;
}

static yk_status open_container(parser *p, bool is_object)
{
  if (p->depth >= p->rules->max_depth) {
    char message[96];
    snprintf(message, sizeof message, "expected at most %d objects and arrays inside each other, found more",
             p->rules->max_depth);
    return fail_at(p, p->at, message);
  }
  p->at++;
  p->stack[p->depth++] = (frame){(uint32_t)p->doc->n_nodes, 0, is_object};
  return add(p, is_object ? YK_JSON_OBJECT : YK_JSON_ARRAY, 0, 0);
}

static yk_status close_container(parser *p)
{
  const frame *top = &p->stack[--p->depth];
  p->at++;
  if (p->is_silent) return YK_OK;
  yk_json_node *node = &p->doc->nodes[top->node];
  node->at = (uint32_t)p->doc->n_nodes;
  node->size = top->n_inside & MAX_BYTES;
  if (!top->is_object) return YK_OK;
  const char *twice;
  YK_TRY(yk_json_keys_settle(p->doc, top->node, top->n_inside, &twice, p->err));
  if (!twice || !p->rules->unique_keys) return YK_OK;
  char message[160];
  snprintf(message, sizeof message, "duplicate object key \"%.80s\" in the object that ends here", twice);
  return fail_at(p, p->at - 1, message);
}

/* After a value: close the containers that end here, and read the comma (and key) before the next value. */
static yk_status after_value(parser *p)
{
  while (p->depth > 0) {
    frame *top = &p->stack[p->depth - 1];
    if (p->is_silent && p->depth == p->silent_depth) p->is_silent = false;
    top->n_inside++;
    skip_space(p);
    char c = p->text[p->at];
    if (c == ',') {
      p->at++;
      return top->is_object ? read_key(p) : YK_OK;
    }
    if (c != (top->is_object ? '}' : ']')) return expected(p, top->is_object ? "',' or '}'" : "',' or ']'");
    YK_TRY(close_container(p));
  }
  return YK_OK;
}

static yk_status read_value(parser *p)
{
  do {
    skip_space(p);
    char c = p->text[p->at];
    if (c == '{' || c == '[') {
      YK_TRY(open_container(p, c == '{'));
      skip_space(p);
      if (p->text[p->at] != (c == '{' ? '}' : ']')) {
        if (c == '{') YK_TRY(read_key(p));
        continue;
      }
      YK_TRY(close_container(p));
    } else {
      YK_TRY(read_scalar(p));
    }
    YK_TRY(after_value(p));
  } while (p->depth > 0);
  skip_space(p);
  return p->at == p->n_bytes ? YK_OK : expected(p, "the end of the text");
}

static yk_status parse(parser *p)
{
  if (p->n_bytes > MAX_BYTES)
    return yk_err_set(p->err, YK_E_FORMAT, "%s: expected at most %d bytes of JSON, found %zu", p->name, MAX_BYTES,
                      p->n_bytes);
  if (strncmp(p->text, "\xef\xbb\xbf", 3) == 0) p->at = p->line_start = 3;
  YK_TRY(read_value(p));
  yk_json_doc *doc = p->doc;
  for (size_t i = 0; i < doc->n_nodes; i++) /* the NUL may overwrite the byte after a number only after parsing */
    if (doc->nodes[i].kind == YK_JSON_NUMBER) doc->text[doc->nodes[i].at + doc->nodes[i].size] = '\0';
  return YK_OK;
}

/* Takes ownership of text, malloc'd and NUL-terminated, on failure too. */
static yk_status parse_owned(const char *name, char *text, size_t n_bytes, const yk_json_rules *rules,
                             yk_json_doc **out, yk_err *err)
{
  static const yk_json_rules file_rules = {.max_depth = YK_JSON_MAX_DEPTH};
  yk_json_doc *doc = calloc(1, sizeof *doc);
  parser *p = calloc(1, sizeof *p);
  yk_status status = YK_OK;
  if (!doc || !p) {
    free(text);
    status = yk_err_set(err, YK_E_NOMEM, "%s: no memory for a JSON document", rules && rules->is_line ? "JSON" : name);
  } else {
    doc->text = text;
    *p = (parser){.doc = doc,
                  .rules = rules ? rules : &file_rules,
                  .name = name,
                  .text = text,
                  .n_bytes = n_bytes,
                  .line = 1,
                  .err = err};
    status = parse(p);
  }
  free(p);
  if (status == YK_OK)
    *out = doc;
  else
    yk_json_free(doc);
  return status;
}

yk_status yk_json_parse(const char *name, const char *text, size_t n_bytes, const yk_json_rules *rules,
                        yk_json_doc **out, yk_err *err)
{
  char *copy = malloc(n_bytes + 1);
  if (!copy)
    return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %zu bytes", rules && rules->is_line ? "JSON" : name, n_bytes);
  if (n_bytes) memcpy(copy, text, n_bytes);
  copy[n_bytes] = '\0';
  return parse_owned(name, copy, n_bytes, rules, out, err);
}

yk_status yk_json_parse_file(const char *path, const yk_json_rules *rules, yk_json_doc **out, yk_err *err)
{
  char *text;
  size_t n_bytes;
  YK_TRY(yk_file_read(path, MAX_BYTES, &text, &n_bytes, err));
  return parse_owned(path, text, n_bytes, rules, out, err);
}

void yk_json_free(yk_json_doc *doc)
{
  if (!doc) return;
  free(doc->text);
  free(doc->nodes);
  free(doc->is_read);
  free(doc);
}
