/* patterns.h - rank_pattern and alpha_pattern: numbers for the modules whose names match a regular expression. Not for
 * use outside loader/adapter.
 *
 * PEFT matches a key that begins with ^ from the beginning of a module's name, and any other key with the whole name or
 * the part after a dot. Its keys are regular expressions of Python, which PCRE2 matches with a limit of steps. */
#ifndef YK_LOADER_ADAPTER_PATTERNS_H
#define YK_LOADER_ADAPTER_PATTERNS_H

#include "base/json.h"

typedef struct yk_patterns {
  struct yk_pattern *patterns; /* [n] in the order of the object */
  size_t n;
} yk_patterns;

/* yk_patterns_read - an object of numbers by pattern, or nothing. file, key: in errors. Free with yk_patterns_free,
 *   after an error too. Errors: YK_E_FORMAT (not an object of finite numbers, a pattern that is no regular expression),
 *   YK_E_NOMEM. */
yk_status yk_patterns_read(yk_json object, const char *file, const char *key, yk_patterns *out, yk_err *err);
void yk_patterns_free(yk_patterns *patterns);

/* yk_patterns_value - the number of the first pattern that matches the module's name, else otherwise. NaN: a pattern
 *   needs too many steps or too much memory. */
double yk_patterns_value(const yk_patterns *patterns, const char *module, double otherwise);

#endif
