#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/regex.h"

#include <pcre2.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "text/alphabet.h"
#include "text/regex_syntax.h"

enum { PATTERN_MAX_BYTES = 1 << 20, SMALL_BYTES = 1024 };

struct yk_regex {
  pcre2_code *code;
  yk_alphabet *alphabet; /* maps text to the symbols that code matches; NULL: code matches the bytes of the text */
  char *name;
};

static yk_status compile(yk_regex *regex, const char *name, const char *pattern, size_t n_bytes, uint32_t options,
                         yk_err *err)
{
  pcre2_compile_context *context = pcre2_compile_context_create(NULL);
  yk_strbuf name_copy = YK_STRBUF_INIT;
  yk_strbuf_append_str(&name_copy, name);
  regex->name = name_copy.data;
  if (!context || name_copy.failed) {
    pcre2_compile_context_free(context);
    return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a pattern", name);
  }
  pcre2_set_newline(context, PCRE2_NEWLINE_LF);
  int code;
  PCRE2_SIZE offset;
  regex->code = pcre2_compile((PCRE2_SPTR)pattern, n_bytes, options, &code, &offset, context);
  pcre2_compile_context_free(context);
  if (!regex->code) {
    PCRE2_UCHAR why[128] = "";
    pcre2_get_error_message(code, why, sizeof why);
    return yk_err_set(err, YK_E_FORMAT, "%s: pattern: %s", name, (const char *)why);
  }
  pcre2_jit_compile(regex->code, PCRE2_JIT_COMPLETE); /* if it fails, matching is slower with the same result */
  return YK_OK;
}

/* Writes the operators with each set expressed in symbols. */
static yk_status write_pattern(const yk_regex_syntax *syntax, const yk_alphabet *alphabet, const char *name,
                               yk_strbuf *out, yk_err *err)
{
  const yk_strbuf *operators = &syntax->operators;
  yk_strbuf_append_str(out, "");
  for (size_t i = 0; i < operators->length; i++) {
    unsigned char c = (unsigned char)operators->data[i];
    if (c < YK_SET_MARK) {
      yk_strbuf_append(out, &operators->data[i], 1);
    } else {
      size_t number = (c - YK_SET_MARK) * 128u + (unsigned char)operators->data[++i];
      yk_alphabet_append_set(alphabet, &syntax->sets[number], out);
    }
    if (out->length > PATTERN_MAX_BYTES) return yk_err_set(err, YK_E_UNSUPPORTED, "%s: pattern: too long", name);
  }
  if (out->failed) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a pattern", name);
  return YK_OK;
}

static yk_status compile_syntax(yk_regex *regex, const char *name, const char *pattern, size_t n_bytes, yk_err *err)
{
  yk_regex_syntax syntax = {0};
  yk_strbuf written = YK_STRBUF_INIT;
  yk_status status = yk_regex_syntax_read(&syntax, name, pattern, n_bytes, err);
  if (status == YK_OK) status = yk_alphabet_create(name, syntax.sets, syntax.n_sets, &regex->alphabet, err);
  if (status == YK_OK) status = write_pattern(&syntax, regex->alphabet, name, &written, err);
  if (status == YK_OK) /* Ruby's ^ and $ match at every line */
    status = compile(regex, name, written.data, written.length, PCRE2_MULTILINE, err);
  yk_strbuf_free(&written);
  yk_regex_syntax_free(&syntax);
  return status;
}

yk_status yk_regex_compile(const char *name, const char *pattern, size_t n_bytes, bool literal, yk_regex **out,
                           yk_err *err)
{
  yk_regex *regex = calloc(1, sizeof *regex);
  if (!regex) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for a pattern", name);
  yk_status status = literal ? compile(regex, name, pattern, n_bytes, PCRE2_LITERAL, err)
                             : compile_syntax(regex, name, pattern, n_bytes, err);
  if (status == YK_OK)
    *out = regex;
  else
    yk_regex_free(regex);
  return status;
}

void yk_regex_free(yk_regex *regex)
{
  if (!regex) return;
  pcre2_code_free(regex->code);
  yk_alphabet_free(regex->alphabet);
  free(regex->name);
  free(regex);
}

/* One search from an offset: PCRE2's result; a search that exhausts the small stack of JIT code is repeated without
 * JIT. */
static int search(const yk_regex *regex, PCRE2_SPTR subject, size_t n, size_t from, pcre2_match_data *match,
                  pcre2_match_context *limits)
{
  int result = pcre2_match(regex->code, subject, n, from, 0, match, limits);
  if (result == PCRE2_ERROR_JIT_STACKLIMIT)
    result = pcre2_match(regex->code, subject, n, from, PCRE2_NO_JIT, match, limits);
  return result;
}

/* All matches in a subject of n symbols, which stands for text, or of its own n bytes. */
static yk_status find_all(const yk_regex *regex, PCRE2_SPTR subject, size_t n, pcre2_match_data *match,
                          pcre2_match_context *limits, yk_spans *matches, yk_err *err)
{
  const PCRE2_SIZE *found = pcre2_get_ovector_pointer(match);
  for (size_t from = 0; from <= n;) {
    int result = search(regex, subject, n, from, match, limits);
    if (result == PCRE2_ERROR_NOMATCH) break;
    if (result < 0) {
      PCRE2_UCHAR why[128] = "";
      pcre2_get_error_message(result, why, sizeof why);
      return yk_err_set(err, YK_E_INVAL, "%s: pattern cannot split this text: %s (at character %zu of a piece of %zu)",
                        regex->name, (const char *)why, from, n);
    }
    if (found[0] == found[1] && matches->n > 0 && matches->items[matches->n - 1].end == found[1]) {
      from++; /* retry one character further */
      continue;
    }
    if (!yk_spans_append(matches, found[0], found[1])) return yk_err_set(err, YK_E_NOMEM, "%s: no memory", regex->name);
    from = found[1];
  }
  return YK_OK;
}

/* Converts positions among symbols to byte positions in the text. */
static void place_in_text(const char *text, yk_spans *matches)
{
  size_t character = 0, at = 0;
  for (size_t i = 0; i < 2 * matches->n; i++) {
    size_t *place = i % 2 ? &matches->items[i / 2].end : &matches->items[i / 2].begin;
    for (; character < *place; character++) at += yk_utf8_sequence_bytes((unsigned char)text[at]);
    *place = at;
  }
}

/* A tokenizer's pattern backtracks at most a few times over each byte, so the limits grow with the text. */
static void set_limits(pcre2_match_context *limits, size_t n_bytes)
{
  size_t steps = 100000 + 64 * n_bytes, heap_kib = 1024 + n_bytes;
  pcre2_set_match_limit(limits, steps < UINT32_MAX ? (uint32_t)steps : UINT32_MAX);
  pcre2_set_heap_limit(limits, heap_kib < UINT32_MAX ? (uint32_t)heap_kib : UINT32_MAX);
}

yk_status yk_regex_find_all(const yk_regex *regex, const char *text, size_t n_bytes, yk_spans *matches, yk_err *err)
{
  unsigned char small[SMALL_BYTES], *symbols = small;
  matches->n = 0;
  pcre2_match_data *match = pcre2_match_data_create(1, NULL);
  pcre2_match_context *limits = pcre2_match_context_create(NULL);
  if (regex->alphabet && n_bytes > SMALL_BYTES) symbols = malloc(n_bytes);
  yk_status status;
  if (!match || !limits || !symbols) {
    status = yk_err_set(err, YK_E_NOMEM, "%s: no memory to match", regex->name);
  } else {
    set_limits(limits, n_bytes);
    if (regex->alphabet) {
      size_t n = yk_alphabet_write(regex->alphabet, text, n_bytes, symbols);
      status = find_all(regex, symbols, n, match, limits, matches, err);
      if (n < n_bytes) place_in_text(text, matches);
    } else {
      status = find_all(regex, (PCRE2_SPTR)text, n_bytes, match, limits, matches, err);
    }
  }
  if (symbols != small) free(symbols);
  pcre2_match_data_free(match);
  pcre2_match_context_free(limits);
  return status;
}
