/* regex_syntax.c - passes operators on; every character and set of characters becomes a set of code points.
 *
 * Operators with different meanings in the two syntaxes are refused:
 *   x{2}+ x{2}?  repeated interval in Oniguruma, possessive and lazy in PCRE2
 *   (?m) (?s) .. other letters have other meanings; (?i) only at the front, where its scope is the same
 * So is everything that sets cannot express: sets inside sets, && (intersection), and, if case is ignored, characters
 * that stand for several (U+00DF for ss). */
#include "text/regex_syntax.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "text/unicode_property.h"

enum { MAX_DEPTH = 256, N_RECENT = 3 };

typedef struct reader {
  const char *name;
  const char *pattern;
  size_t at, length;
  yk_regex_syntax *out;
  yk_err *err;
  bool ignores_case;
  bool outer_ignores_case[MAX_DEPTH]; /* value to restore after each open group */
  int depth;
  uint32_t recent[N_RECENT]; /* the last plain characters in a row with case ignored, the latest last */
  size_t n_recent;
} reader;

static yk_status unsupported(const reader *in, size_t at, size_t n_bytes, const char *why)
{
  if (n_bytes > in->length - at) n_bytes = in->length - at;
  return yk_err_set(in->err, YK_E_UNSUPPORTED, "%s: pattern: \"%.*s\" at byte %zu is not supported: %s", in->name,
                    (int)n_bytes, in->pattern + at, at, why);
}

static bool looking_at(const reader *in, const char *text)
{
  size_t n = strlen(text);
  return n <= in->length - in->at && memcmp(in->pattern + in->at, text, n) == 0;
}

static void copy(reader *in, size_t n_bytes)
{
  yk_strbuf_append(&in->out->operators, in->pattern + in->at, n_bytes);
  in->at += n_bytes;
}

static bool is_digit(char c)
{
  return c >= '0' && c <= '9';
}

static bool is_hex(char c)
{
  return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static bool is_letter(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_name_character(char c)
{
  return is_letter(c) || c == ' ' || c == '-' || c == '_';
}

static yk_status no_memory(const reader *in)
{
  return yk_err_set(in->err, YK_E_NOMEM, "%s: no memory for a pattern", in->name);
}

/* Writes a set at the present position of the pattern. Takes ownership of the ordered set, also in failure. */
static yk_status emit_set(reader *in, yk_code_set *set)
{
  yk_regex_syntax *out = in->out;
  size_t number = 0;
  while (number < out->n_sets && !yk_code_set_equal(&out->sets[number], set)) number++;
  if (number == out->n_sets && !set->failed && number < YK_REGEX_MAX_SETS) {
    if (out->n_sets == out->set_capacity) {
      size_t capacity = out->set_capacity ? 2 * out->set_capacity : 16;
      yk_code_set *sets = realloc(out->sets, capacity * sizeof *sets);
      if (sets) {
        out->sets = sets;
        out->set_capacity = capacity;
      }
      set->failed = !sets;
    }
    if (!set->failed) {
      out->sets[out->n_sets++] = *set;
      *set = (yk_code_set){0};
    }
  }
  bool failed = set->failed;
  yk_code_set_free(set);
  if (failed) return no_memory(in);
  if (number == YK_REGEX_MAX_SETS)
    return yk_err_set(in->err, YK_E_UNSUPPORTED, "%s: pattern: more than %d different sets of characters", in->name,
                      (int)YK_REGEX_MAX_SETS);
  char mark[2] = {(char)(unsigned char)(YK_SET_MARK + number / 128), (char)(number % 128)};
  yk_strbuf_append(&out->operators, mark, sizeof mark);
  return YK_OK;
}

/* Writes one character that stands for itself. */
static yk_status emit_character(reader *in, size_t start, uint32_t code_point)
{
  yk_code_set set = {0};
  yk_code_set_add(&set, code_point, code_point);
  if (in->ignores_case) {
    uint32_t found;
    if (in->n_recent == N_RECENT) memmove(in->recent, in->recent + 1, --in->n_recent * sizeof *in->recent);
    in->recent[in->n_recent++] = code_point;
    if (yk_unicode_has_several(&set, &found) || yk_unicode_ends_in_several(in->recent, in->n_recent)) {
      yk_code_set_free(&set);
      return unsupported(in, start, in->at - start,
                         "one character stands for several where case does not count, as U+00DF for ss");
    }
    yk_unicode_close_over_case(&set);
  } else {
    in->n_recent = 0;
  }
  return emit_set(in, &set);
}

/* \p{Name}, \P{Name}, \p{^Name}; at is on the backslash. */
static yk_status property(reader *in, yk_code_set *set)
{
  size_t start = in->at;
  bool negated = in->pattern[in->at + 1] == 'P';
  in->at += 2;
  if (!looking_at(in, "{")) return unsupported(in, start, 2, "expected {name} after it");
  in->at++;
  if (looking_at(in, "^")) {
    negated = !negated;
    in->at++;
  }
  size_t begin = in->at;
  while (in->at < in->length && is_name_character(in->pattern[in->at])) in->at++;
  size_t n = in->at - begin;
  if (n == 0 || n > 48 || !looking_at(in, "}"))
    return unsupported(in, start, in->at - start + 1, "expected a category or script in letters");
  in->at++;
  if (!yk_unicode_add_property(set, in->pattern + begin, n))
    return unsupported(in, start, in->at - start, "unknown category or script");
  yk_code_set_order(set);
  if (negated) yk_code_set_invert(set);
  return YK_OK;
}

/* \x41, \x{41}, \u0041: a code point by number. In Oniguruma \x80 and above without braces is a byte of UTF-8:
 * refused. */
static yk_status numbered(reader *in, uint32_t *code_point)
{
  size_t start = in->at, n_digits = in->pattern[in->at + 1] == 'u' ? 4 : 2;
  in->at += 2;
  bool braces = n_digits == 2 && looking_at(in, "{");
  if (braces) in->at++;
  size_t begin = in->at, limit = braces ? 8 : n_digits;
  while (in->at < in->length && in->at - begin < limit && is_hex(in->pattern[in->at])) in->at++;
  size_t n = in->at - begin;
  bool complete = braces ? n > 0 && looking_at(in, "}") : n == n_digits;
  bool is_byte = !braces && n_digits == 2 && complete && in->pattern[begin] >= '8';
  if (!complete || is_byte) return unsupported(in, start, in->at - start + 1, "expected \\x{hex} or \\uhhhh");
  char digits[9] = {0};
  memcpy(digits, in->pattern + begin, n);
  unsigned long value = strtoul(digits, NULL, 16);
  if (braces) in->at++;
  if (value >= YK_CODE_POINT_END || (value >= 0xD800 && value < 0xE000))
    return yk_err_set(in->err, YK_E_FORMAT, "%s: pattern: U+%04lX at byte %zu is no character", in->name, value, start);
  *code_point = (uint32_t)value;
  return YK_OK;
}

/* One literal character of the pattern. */
static yk_status plain(reader *in, uint32_t *code_point)
{
  size_t n = yk_utf8_decode(in->pattern + in->at, in->length - in->at, code_point);
  if (n == 0) return yk_err_set(in->err, YK_E_FORMAT, "%s: pattern: no UTF-8 at byte %zu", in->name, in->at);
  in->at += n;
  return YK_OK;
}

/* \s and similar classes. They are defined by properties, except the six numbers of Latin-1 that are no decimal digits:
 * those belong to a word (\w) only outside a set. Returns whether c is a class. */
static bool add_class(yk_code_set *set, char c, bool inside)
{
  static const yk_code_range HEX[] = {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}, SPACES[] = {{'\t', '\r'}, {0x85, 0x85}};
  static const yk_code_range LATIN_1_NUMBERS[] = {{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}};
  if (c == 's' || c == 'S') {
    yk_unicode_add_property(set, "Z", 1);
    yk_code_set_add_all(set, SPACES, 2);
  } else if (c == 'd' || c == 'D') {
    yk_unicode_add_property(set, "Nd", 2);
  } else if (c == 'h' || c == 'H') {
    yk_code_set_add_all(set, HEX, 3);
  } else if (c == 'w' || c == 'W') {
    yk_unicode_add_property(set, "Alphabetic", strlen("Alphabetic"));
    yk_unicode_add_property(set, "M", 1);
    yk_unicode_add_property(set, "Nd", 2);
    yk_unicode_add_property(set, "Pc", 2);
    if (!inside) yk_code_set_add_all(set, LATIN_1_NUMBERS, 3);
  } else {
    return false;
  }
  yk_code_set_order(set);
  if (c < 'a') yk_code_set_invert(set);
  return true;
}

/* A backslash and its argument: a class is added to set; a character is returned as its code point. */
static yk_status escape(reader *in, bool inside, yk_code_set *set, bool *is_class, uint32_t *code_point)
{
  static const char LETTERS[] = "tnrfaev", VALUES[] = "\t\n\r\f\a\x1B\v";
  if (in->at + 1 == in->length) return unsupported(in, in->at, 1, "nothing follows");
  char c = in->pattern[in->at + 1];
  *is_class = c == 'p' || c == 'P';
  if (*is_class) return property(in, set);
  if (c == 'x' || c == 'u') return numbered(in, code_point);
  *is_class = add_class(set, c, inside);
  if (*is_class) {
    in->at += 2;
    return YK_OK;
  }
  const char *letter = c ? strchr(LETTERS, c) : NULL;
  if (letter) {
    *code_point = (uint32_t)VALUES[letter - LETTERS];
    in->at += 2;
    return YK_OK;
  }
  if (c == '\0' || is_letter(c) || is_digit(c)) return unsupported(in, in->at, 2, "unknown escape");
  in->at++;
  return plain(in, code_point);
}

static yk_status single_escape(reader *in)
{
  if (looking_at(in, "\\A") || looking_at(in, "\\z") || looking_at(in, "\\Z")) {
    in->n_recent = 0;
    copy(in, 2);
    return YK_OK;
  }
  yk_code_set set = {0};
  bool is_class = false;
  uint32_t code_point;
  size_t start = in->at;
  yk_status status = escape(in, false, &set, &is_class, &code_point);
  if (status == YK_OK && is_class) {
    in->n_recent = 0;
    return emit_set(in, &set);
  }
  yk_code_set_free(&set);
  return status == YK_OK ? emit_character(in, start, code_point) : status;
}

/* One member of a set, or the class that stands for several. */
static yk_status set_item(reader *in, yk_code_set *set, bool *is_class, uint32_t *code_point)
{
  *is_class = false;
  if (in->pattern[in->at] == '[') return unsupported(in, in->at, 8, "set inside a set");
  if (looking_at(in, "&&")) return unsupported(in, in->at, 2, "intersection of sets");
  if (in->pattern[in->at] != '\\') return plain(in, code_point);
  yk_code_set class = {0};
  yk_status status = escape(in, true, &class, is_class, code_point);
  if (status == YK_OK && *is_class) yk_code_set_add_all(set, class.ranges, class.n);
  set->failed = set->failed || class.failed;
  yk_code_set_free(&class);
  return status;
}

/* Whether the next - separates the ends of a range, rather than standing for itself at the end of the set. */
static bool at_range(const reader *in)
{
  return looking_at(in, "-") && in->at + 1 < in->length && in->pattern[in->at + 1] != ']';
}

/* The members of a set up to its ]. */
static yk_status set_items(reader *in, yk_code_set *set)
{
  bool behind_range = false; /* right after a range - stands for itself */
  while (in->at < in->length && in->pattern[in->at] != ']') {
    size_t start = in->at;
    uint32_t first, last;
    bool is_class, is_minus = behind_range && looking_at(in, "-");
    behind_range = false;
    YK_TRY(set_item(in, set, &is_class, &first));
    if (is_class) {
      if (at_range(in)) return unsupported(in, start, in->at + 2 - start, "a range begins with a class");
      continue;
    }
    last = first;
    if (!is_minus && at_range(in)) {
      in->at++;
      YK_TRY(set_item(in, set, &is_class, &last));
      if (is_class) return unsupported(in, start, in->at - start, "a range ends in a class");
      behind_range = true;
    }
    if (last < first)
      return yk_err_set(in->err, YK_E_FORMAT, "%s: pattern: \"%.*s\" at byte %zu: a range ends before it begins",
                        in->name, (int)(in->at - start), in->pattern + start, start);
    yk_code_set_add(set, first, last);
  }
  if (in->at == in->length) return yk_err_set(in->err, YK_E_FORMAT, "%s: pattern: missing ] at its end", in->name);
  in->at++;
  return YK_OK;
}

static yk_status read_set(reader *in, yk_code_set *set)
{
  size_t start = in->at++;
  bool negated = looking_at(in, "^");
  if (negated) in->at++;
  if (looking_at(in, "]")) return unsupported(in, in->at, 1, "write \\] in a set");
  YK_TRY(set_items(in, set));
  yk_code_set_order(set);
  if (in->ignores_case) {
    uint32_t found;
    if (!negated && yk_unicode_has_several(set, &found))
      return yk_err_set(in->err, YK_E_UNSUPPORTED,
                        "%s: pattern: the set at byte %zu is not supported: of its characters U+%04X stands for "
                        "several where case does not count",
                        in->name, start, found);
    yk_unicode_close_over_case(set);
  }
  if (negated) yk_code_set_invert(set);
  return YK_OK;
}

static yk_status set(reader *in)
{
  yk_code_set members = {0};
  in->n_recent = 0;
  yk_status status = read_set(in, &members);
  if (status == YK_OK) return emit_set(in, &members);
  yk_code_set_free(&members);
  return status;
}

/* ( and the kind of the group. */
static yk_status group(reader *in)
{
  static const char *const OPENINGS[] = {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!"};
  if (looking_at(in, "(?i)") && in->at == 0) {
    in->ignores_case = true;
    in->at += strlen("(?i)");
    return YK_OK;
  }
  if (in->depth == MAX_DEPTH) return unsupported(in, in->at, 1, "groups nested too deep");
  in->outer_ignores_case[in->depth++] = in->ignores_case;
  bool ignores_case = looking_at(in, "(?i:");
  if (ignores_case || looking_at(in, "(?-i:")) {
    in->ignores_case = ignores_case;
    in->at += strlen(ignores_case ? "(?i:" : "(?-i:");
    yk_strbuf_append_str(&in->out->operators, "(?:");
    return YK_OK;
  }
  for (size_t i = 0; i < sizeof OPENINGS / sizeof *OPENINGS; i++)
    if (looking_at(in, OPENINGS[i])) {
      copy(in, strlen(OPENINGS[i]));
      return YK_OK;
    }
  if (looking_at(in, "(?") || looking_at(in, "(*")) return unsupported(in, in->at, 4, "unknown kind of group");
  copy(in, 1);
  return YK_OK;
}

/* {n}, {n,}, {n,m}; any other brace is plain text in both syntaxes, except {,m}. */
static yk_status brace(reader *in)
{
  size_t end = in->at + 1;
  if (end < in->length && in->pattern[end] == ',') return unsupported(in, in->at, 2, "write {0,m}");
  while (end < in->length && is_digit(in->pattern[end])) end++;
  bool interval = end > in->at + 1, exact = true;
  if (interval && end < in->length && in->pattern[end] == ',') {
    exact = false;
    for (end++; end < in->length && is_digit(in->pattern[end]);) end++;
  }
  interval = interval && end < in->length && in->pattern[end] == '}';
  if (!interval) return emit_character(in, in->at++, '{');
  size_t start = in->at;
  copy(in, end + 1 - in->at);
  if (looking_at(in, "+") || (exact && looking_at(in, "?")))
    return unsupported(in, start, in->at - start + 1, "the syntaxes differ here");
  return YK_OK;
}

/* A character that is not an operator, or an operator of one character. */
static yk_status single(reader *in)
{
  char c = in->pattern[in->at];
  if (c == ')' && in->depth > 0) in->ignores_case = in->outer_ignores_case[--in->depth];
  if (c == '|' || c == '.' || c == '^' || c == '$') in->n_recent = 0;
  if (c && strchr(")|.^$*+?", c)) {
    copy(in, 1);
    return YK_OK;
  }
  size_t start = in->at;
  uint32_t code_point;
  YK_TRY(plain(in, &code_point));
  return emit_character(in, start, code_point);
}

yk_status yk_regex_syntax_read(yk_regex_syntax *syntax, const char *name, const char *pattern, size_t n_bytes,
                               yk_err *err)
{
  reader in = {.name = name, .pattern = pattern, .length = n_bytes, .out = syntax, .err = err};
  yk_strbuf_append_str(&syntax->operators, ""); /* so that even an empty pattern has a text */
  while (in.at < in.length) {
    switch (pattern[in.at]) {
    case '\\': YK_TRY(single_escape(&in)); break;
    case '[': YK_TRY(set(&in)); break;
    case '(': YK_TRY(group(&in)); break;
    case '{': YK_TRY(brace(&in)); break;
    default: YK_TRY(single(&in));
    }
  }
  return syntax->operators.failed ? no_memory(&in) : YK_OK;
}

void yk_regex_syntax_free(yk_regex_syntax *syntax)
{
  for (size_t i = 0; i < syntax->n_sets; i++) yk_code_set_free(&syntax->sets[i]);
  free(syntax->sets);
  yk_strbuf_free(&syntax->operators);
  *syntax = (yk_regex_syntax){0};
}
