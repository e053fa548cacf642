#include "loader/adapter/patterns.h"

#include <ctype.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"

enum { MAX_PATTERN_BYTES = 512, MAX_PATTERNS = 4096 };

typedef struct yk_pattern {
  regex_t regex;
  double value;
} yk_pattern;

/* Appends the escape of Python at `at` (behind the backslash) in POSIX's extended syntax. Returns false if there is
 * none. */
static bool translate_escape(yk_strbuf *out, char at, bool in_brackets)
{
  if (!at) return false;
  if (at == 'd') {
    yk_strbuf_append(out, in_brackets ? "0-9" : "[0-9]", in_brackets ? 3 : 5);
    return true;
  }
  if (in_brackets && at != '.' && at != '_') return false;
  if (!in_brackets && isalnum((unsigned char)at) && !strchr("wWsSbB", at)) return false;
  if (!in_brackets) yk_strbuf_append(out, "\\", 1);
  yk_strbuf_append(out, &at, 1);
  return true;
}

/* Appends a regular expression of Python in POSIX's extended syntax; false: it has no such form. */
static bool translate(yk_strbuf *out, const char *python)
{
  bool in_brackets = false;
  for (const char *at = python; *at; at++) {
    if (*at == '\\') {
      if (!translate_escape(out, *++at, in_brackets)) return false;
      continue;
    }
    if (!in_brackets && at[0] == '(' && at[1] == '?') {
      if (at[2] != ':') return false;
      yk_strbuf_append(out, "(", 1);
      at += 2;
      continue;
    }
    if (*at == '[') in_brackets = true;
    if (*at == ']') in_brackets = false;
    yk_strbuf_append(out, at, 1);
  }
  return true;
}

static yk_status compile(yk_json key, const char *file, const char *name, regex_t *out, yk_err *err)
{
  const char *python = yk_json_text(key);
  const size_t n_bytes = yk_json_length(key);
  const bool is_anchored = python[0] == '^';
  yk_strbuf posix = YK_STRBUF_INIT;
  if (n_bytes == 0 || n_bytes > MAX_PATTERN_BYTES || strlen(python) != n_bytes)
    return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected keys of 1 to %d bytes, found %zu", file, name,
                      MAX_PATTERN_BYTES, n_bytes);
  if (!is_anchored) yk_strbuf_append_str(&posix, "^(.*\\.)?(");
  bool is_posix = translate(&posix, python);
  yk_strbuf_append_str(&posix, is_anchored ? "" : ")$");
  int failed = is_posix && !posix.failed ? regcomp(out, posix.data, REG_EXTENDED | REG_NOSUB) : 0;
  yk_status status = YK_OK;
  if (!is_posix)
    status = yk_err_set(err, YK_E_UNSUPPORTED,
                        "%s: %s: \"%s\": this regular expression is not supported: expected no (?...) but (?:...), and "
                        "no escapes but \\d, \\w, \\s and those of punctuation",
                        file, name, python);
  else if (posix.failed || failed == REG_ESPACE)
    status = yk_err_set(err, YK_E_NOMEM, "%s: %s: no memory for a pattern", file, name);
  else if (failed)
    status = yk_err_set(err, YK_E_FORMAT, "%s: %s: expected a regular expression, found \"%s\"", file, name, python);
  yk_strbuf_free(&posix);
  return status;
}

yk_status yk_patterns_read(yk_json object, const char *file, const char *key, yk_patterns *out, yk_err *err)
{
  *out = (yk_patterns){0};
  if (!yk_json_is_given(object)) return YK_OK;
  const size_t n = yk_json_size(object);
  if (!yk_json_is(object, YK_JSON_OBJECT) || n > MAX_PATTERNS)
    return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected an object of at most %d numbers, found %s", file, key,
                      MAX_PATTERNS, yk_json_type_name(object));
  out->patterns = calloc(n + 1, sizeof *out->patterns);
  if (!out->patterns) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %zu patterns", file, n);
  YK_JSON_EACH_KEY(name, object)
  {
    yk_pattern *pattern = &out->patterns[out->n];
    if (!yk_json_to_f64(yk_json_member(name), &pattern->value) || !isfinite(pattern->value))
      return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected a number for \"%s\", found %s", file, key,
                        yk_json_text(name), yk_json_type_name(yk_json_member(name)));
    YK_TRY(compile(name, file, key, &pattern->regex, err));
    out->n++;
  }
  return YK_OK;
}

void yk_patterns_free(yk_patterns *patterns)
{
  for (size_t i = 0; i < patterns->n; i++) regfree(&patterns->patterns[i].regex);
  free(patterns->patterns);
  *patterns = (yk_patterns){0};
}

double yk_patterns_value(const yk_patterns *patterns, const char *module, double otherwise)
{
  for (size_t i = 0; i < patterns->n; i++)
    if (regexec(&patterns->patterns[i].regex, module, 0, NULL, 0) == 0) return patterns->patterns[i].value;
  return otherwise;
}
