#include "loader/model/quant_rules.h"

#include <stdlib.h>
#include <string.h>

#include "loader/model/bounded_match.h"
#include "loader/model/weight_names.h"

enum { MAX_STEPS = 100000, MAX_PATTERN_BYTES = 1 << 16 };

typedef struct rule {
  yk_name_match match;
  char *pattern;
  pcre2_code *regex; /* for the two kinds with a regular expression */
  bool is_quantised;
  yk_quant_scheme scheme;
} rule;

struct yk_quant_rules {
  rule *rules;
  size_t n, capacity;
};

bool yk_name_has_parts(const char *name, const char *parts)
{
  size_t n = strlen(parts);
  for (; n > 0 && *parts == '.'; n--) parts++;
  while (n > 0 && parts[n - 1] == '.') n--;
  for (const char *at = name; n > 0 && at; at = strchr(at, '.')) {
    at += *at == '.';
    if (strncmp(at, parts, n) == 0 && (at[n] == '\0' || at[n] == '.')) return true;
  }
  return false;
}

static yk_status compile(rule *r, const char *label, const char *key, yk_err *err)
{
  int code;
  PCRE2_SIZE offset;
  uint32_t options = r->match == YK_NAME_BEGINS_LIKE ? PCRE2_ANCHORED : 0;
  if (strlen(r->pattern) > MAX_PATTERN_BYTES)
    return yk_err_set(err, YK_E_FORMAT, "%s: %s: a regular expression: expected at most %d bytes, found %zu", label,
                      key, MAX_PATTERN_BYTES, strlen(r->pattern));
  r->regex = pcre2_compile((PCRE2_SPTR)r->pattern, PCRE2_ZERO_TERMINATED, options, &code, &offset, NULL);
  if (r->regex) return YK_OK;
  PCRE2_UCHAR why[128] = "";
  pcre2_get_error_message(code, why, sizeof why);
  return yk_err_set(err, YK_E_FORMAT, "%s: %s: \"%s\": expected a regular expression: %s", label, key, r->pattern,
                    (const char *)why);
}

static yk_status grow(yk_quant_rules **rules, const char *label, yk_err *err)
{
  if (!*rules) *rules = calloc(1, sizeof **rules);
  if (!*rules) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for its rules", label);
  if ((*rules)->n < (*rules)->capacity) return YK_OK;
  size_t capacity = 2 * (*rules)->capacity + 8;
  rule *grown = realloc((*rules)->rules, capacity * sizeof *grown);
  if (!grown) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for its rules", label);
  (*rules)->rules = grown;
  (*rules)->capacity = capacity;
  return YK_OK;
}

yk_status yk_quant_rules_add(yk_quant_rules **rules, yk_name_match match, const char *pattern,
                             const yk_quant_scheme *scheme, const char *label, const char *key, yk_err *err)
{
  if (!*pattern) return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected a module name, found none", label, key);
  YK_TRY(grow(rules, label, err));
  rule *added = &(*rules)->rules[(*rules)->n];
  *added = (rule){.match = match, .pattern = strdup(pattern), .is_quantised = scheme != NULL};
  if (!added->pattern) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for its rules", label);
  (*rules)->n++;
  if (scheme) added->scheme = *scheme;
  return match == YK_NAME_BEGINS_LIKE || match == YK_NAME_CONTAINS_LIKE ? compile(added, label, key, err) : YK_OK;
}

void yk_quant_rules_free(yk_quant_rules *rules)
{
  if (!rules) return;
  for (size_t i = 0; i < rules->n; i++) {
    free(rules->rules[i].pattern);
    pcre2_code_free(rules->rules[i].regex);
  }
  free(rules->rules);
  free(rules);
}

static yk_status matches_regex(const rule *r, const char *module, bool *out, yk_err *err)
{
  const int result = yk_bounded_match(r->regex, module, MAX_STEPS);
  *out = result >= 0;
  if (result >= 0 || result == PCRE2_ERROR_NOMATCH) return YK_OK;
  PCRE2_UCHAR why[128] = "";
  pcre2_get_error_message(result, why, sizeof why);
  return yk_err_set(err, result == PCRE2_ERROR_NOMEMORY ? YK_E_NOMEM : YK_E_FORMAT,
                    "quantization_config: pattern \"%s\" against module %s: %s", r->pattern, module, (const char *)why);
}

/* A name without the prefix of the text model. A file and its list of modules may have different prefixes, since tools
 * list the modules of a class and write the tensors with older names. */
static const char *bare_name(const char *name)
{
  static const char outside[] = "language_model.";
  const char *within = yk_weight_within_text(name);
  if (within) return within;
  return strncmp(name, outside, strlen(outside)) == 0 ? name + strlen(outside) : name;
}

static bool begins(const char *module, const char *parts)
{
  const char *name = bare_name(module), *begin = bare_name(parts);
  const size_t n = strlen(begin);
  return strncmp(name, begin, n) == 0 && (name[n] == '\0' || name[n] == '.');
}

static yk_status matches(const rule *r, const char *module, bool *out, yk_err *err)
{
  switch (r->match) {
  case YK_NAME_IS: *out = strcmp(bare_name(module), bare_name(r->pattern)) == 0; return YK_OK;
  case YK_NAME_BEGINS: *out = begins(module, r->pattern); return YK_OK;
  case YK_NAME_HAS_PARTS: *out = yk_name_has_parts(module, r->pattern); return YK_OK;
  case YK_NAME_CONTAINS: *out = strstr(module, r->pattern) != NULL; return YK_OK;
  default: return matches_regex(r, module, out, err);
  }
}

/* passes_exclusions: rules without a scheme are passed over. */
static yk_status find_scheme(const yk_quant_config *quant, const char *module, bool passes_exclusions,
                             const yk_quant_scheme **out, yk_err *err)
{
  *out = NULL;
  if (quant->method == YK_QUANT_NONE) return YK_OK;
  for (size_t i = 0; quant->rules && i < quant->rules->n; i++) {
    const rule *r = &quant->rules->rules[i];
    bool fits = false;
    if (passes_exclusions && !r->is_quantised) continue;
    YK_TRY(matches(r, module, &fits, err));
    if (!fits) continue;
    if (r->is_quantised) *out = &r->scheme;
    return YK_OK;
  }
  if (!quant->only_named) *out = &quant->scheme;
  return YK_OK;
}

yk_status yk_quant_scheme_of(const yk_quant_config *quant, const char *module, const yk_quant_scheme **out, yk_err *err)
{
  return find_scheme(quant, module, false, out, err);
}

yk_status yk_quant_scheme_of_quantised(const yk_quant_config *quant, const char *module, const yk_quant_scheme **out,
                                       yk_err *err)
{
  YK_TRY(find_scheme(quant, module, false, out, err));
  return *out ? YK_OK : find_scheme(quant, module, true, out, err);
}

/* Scheme number i of the configuration, from 0; NULL: it excludes modules, or describes none. */
static const yk_quant_scheme *scheme_at(const yk_quant_config *quant, size_t i)
{
  if (i == 0) return quant->only_named ? NULL : &quant->scheme;
  return quant->rules->rules[i - 1].is_quantised ? &quant->rules->rules[i - 1].scheme : NULL;
}

static size_t n_schemes(const yk_quant_config *quant)
{
  if (quant->method == YK_QUANT_NONE) return 0;
  return 1 + (quant->rules ? quant->rules->n : 0);
}

bool yk_quant_may_have(const yk_quant_config *quant, yk_weight_format format)
{
  for (size_t i = 0; i < n_schemes(quant); i++)
    if (scheme_at(quant, i) && scheme_at(quant, i)->format == format) return true;
  return false;
}

bool yk_quant_may_have_inputs(const yk_quant_config *quant, yk_inputs_kind inputs)
{
  for (size_t i = 0; i < n_schemes(quant); i++)
    if (scheme_at(quant, i) && scheme_at(quant, i)->inputs == inputs) return true;
  return false;
}
