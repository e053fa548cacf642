#include "loader/adapter/patterns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "loader/model/bounded_match.h"

enum { MAX_PATTERN_BYTES = 512, MAX_PATTERNS = 4096, MAX_STEPS = 10000 };

typedef struct yk_pattern {
  pcre2_code *regex;
  double value;
} yk_pattern;

static yk_status compile(yk_json key, const char *file, const char *name, pcre2_code **out, yk_err *err)
{
  const char *python = yk_json_text(key);
  const size_t n_bytes = yk_json_length(key);
  yk_strbuf whole = YK_STRBUF_INIT;
  PCRE2_UCHAR why[128] = "";
  PCRE2_SIZE offset;
  int code;
  if (n_bytes == 0 || n_bytes > MAX_PATTERN_BYTES || strlen(python) != n_bytes)
    return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected keys of 1 to %d bytes without NUL, found %zu", file, name,
                      MAX_PATTERN_BYTES, n_bytes);
  yk_strbuf_append_fmt(&whole, python[0] == '^' ? "%s" : "(.*\\.)?(%s)$", python);
  *out =
      whole.failed ? NULL : pcre2_compile((PCRE2_SPTR)whole.data, whole.length, PCRE2_ANCHORED, &code, &offset, NULL);
  const bool lacks_memory = whole.failed || (!*out && code == PCRE2_ERROR_HEAP_FAILED);
  yk_strbuf_free(&whole);
  if (*out) return YK_OK;
  if (lacks_memory) return yk_err_set(err, YK_E_NOMEM, "%s: %s: no memory for a pattern", file, name);
  pcre2_get_error_message(code, why, sizeof why);
  return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected a regular expression, found \"%.100s\": %s", file, name, python,
                    (const char *)why);
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
      return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected a finite number for \"%s\", found %s", file, key,
                        yk_json_text(name), yk_json_type_name(yk_json_member(name)));
    YK_TRY(compile(name, file, key, &pattern->regex, err));
    out->n++;
  }
  return YK_OK;
}

void yk_patterns_free(yk_patterns *patterns)
{
  for (size_t i = 0; i < patterns->n; i++) pcre2_code_free(patterns->patterns[i].regex);
  free(patterns->patterns);
  *patterns = (yk_patterns){0};
}

double yk_patterns_value(const yk_patterns *patterns, const char *module, double otherwise)
{
  for (size_t i = 0; i < patterns->n; i++) {
    const int result = yk_bounded_match(patterns->patterns[i].regex, module, MAX_STEPS);
    if (result >= 0) return patterns->patterns[i].value;
    if (result != PCRE2_ERROR_NOMATCH) return NAN;
  }
  return otherwise;
}
