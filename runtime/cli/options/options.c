#include "cli/options/options.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/name_nearest.h"
#include "base/units.h"

enum { CANDIDATES_MAX = 128 };

/* ---- Values ------------------------------------------------------------------------------------------------------ */

static bool number_ends(const char *text, const char *end)
{
  return end != text && *end == '\0' && errno == 0 && !isspace((unsigned char)text[0]);
}

static yk_status parse_int(const yk_option *option, const char *text, yk_err *err)
{
  char *end;
  errno = 0;
  long long number = strtoll(text, &end, 10);
  if (!number_ends(text, end) || (double)number < option->min || (double)number > option->max)
    return yk_err_set(err, YK_E_INVAL, "--%s: expected an integer from %.0f to %.0f, found \"%s\"", option->name,
                      option->min, option->max, text);
  *(int32_t *)option->value = (int32_t)number;
  return YK_OK;
}

/* Parses a number with a multiplier: a small letter is a power of 1000, a capital letter one of 1024, without
 * decimals. */
static bool scale_tokens(const char *text, double *out)
{
  static const char decimal[] = "kmgt", binary[] = "KMGT";
  size_t n_digits = strspn(text, "0123456789");
  const char *suffix = text + n_digits;
  bool has_decimals = n_digits > 0 && *suffix == '.' && isdigit((unsigned char)suffix[1]);
  if (has_decimals) suffix += 1 + strspn(suffix + 1, "0123456789");
  const char *small = *suffix ? strchr(decimal, *suffix) : NULL, *large = *suffix ? strchr(binary, *suffix) : NULL;
  if (n_digits == 0 || (!small && !large) || suffix[1] || (large && has_decimals)) return false;
  *out = strtod(text, NULL);
  for (long i = small ? small - decimal : large - binary; i >= 0; i--) *out *= small ? 1000 : 1024;
  return true;
}

static yk_status parse_tokens(const yk_option *option, const char *text, yk_err *err)
{
  double number;
  bool is_auto = option->takes_auto && (strcmp(text, "auto") == 0 || strcmp(text, "-1") == 0);
  if (is_auto) {
    *(int32_t *)option->value = 0;
    return YK_OK;
  }
  if (!scale_tokens(text, &number)) {
    char *end;
    errno = 0;
    number = (double)strtoll(text, &end, 10);
    if (!number_ends(text, end)) number = option->min - 1;
  }
  if (number < option->min || number > option->max)
    return yk_err_set(err, YK_E_INVAL,
                      "--%s: expected an integer from %.0f to %.0f, as 32768, 32K or 32k (32,000)%s, "
                      "found \"%s\"",
                      option->name, option->min, option->max, option->takes_auto ? ", or auto" : "", text);
  *(int32_t *)option->value = (int32_t)number;
  return YK_OK;
}

static yk_status parse_seed(const yk_option *option, const char *text, yk_err *err)
{
  char *end;
  errno = 0;
  bool is_none = strcmp(text, "-1") == 0;
  unsigned long long number = is_none ? 0 : strtoull(text, &end, 10);
  if (!is_none && (!number_ends(text, end) || strchr(text, '-')))
    return yk_err_set(err, YK_E_INVAL, "--%s: expected an integer from 0 to 2^64 - 1, or -1 for none, found \"%s\"",
                      option->name, text);
  *(uint64_t *)option->value = number;
  return YK_OK;
}

static yk_status parse_number(const yk_option *option, const char *text, yk_err *err)
{
  char *end;
  errno = 0;
  double number = strtod(text, &end);
  bool legal = number >= option->min && number <= option->max && !(option->above_min && number == option->min);
  if (!number_ends(text, end) || !legal)
    return yk_err_set(err, YK_E_INVAL, "--%s: expected a number %s %g %s %g, found \"%s\"", option->name,
                      option->above_min ? "above" : "from", option->min, option->above_min ? "and at most" : "to",
                      option->max, text);
  *(double *)option->value = number;
  return YK_OK;
}

static yk_status parse_choice(const yk_option *option, const char *text, yk_err *err)
{
  char legal[128] = "";
  const char *name = text;
  for (int i = 0; option->aliases && option->aliases[i]; i += 2)
    if (strcmp(text, option->aliases[i]) == 0) name = option->aliases[i + 1];
  for (int i = 0; option->choices[i]; i++) {
    if (strcmp(name, option->choices[i]) == 0) {
      *(int *)option->value = i;
      return YK_OK;
    }
    size_t used = strlen(legal);
    snprintf(legal + used, sizeof legal - used, "%s%s", i ? ", " : "", option->choices[i]);
  }
  for (int i = 0; option->aliases && option->aliases[i]; i += 2) {
    size_t used = strlen(legal);
    snprintf(legal + used, sizeof legal - used, ", %s", option->aliases[i]);
  }
  return yk_err_set(err, YK_E_INVAL, "--%s: expected one of %s, found \"%s\"", option->name, legal, text);
}

static yk_status parse_bytes(const yk_option *option, const char *text, yk_err *err)
{
  int64_t n_bytes = 0;
  char least[YK_BYTES_TEXT], found[YK_BYTES_TEXT];
  yk_status status = yk_bytes_parse(text, &n_bytes, err);
  if (status != YK_OK) {
    yk_err_prefix(err, "--%s", option->name);
    return status;
  }
  if ((double)n_bytes < option->min)
    return yk_err_set(err, YK_E_INVAL, "--%s: expected at least %s, found %s; a number without a unit is bytes",
                      option->name, yk_bytes_format((int64_t)option->min, least), yk_bytes_format(n_bytes, found));
  *(int64_t *)option->value = n_bytes;
  return YK_OK;
}

static yk_status store(const yk_option *option, const char *text, yk_err *err)
{
  yk_status status = YK_OK;
  switch (option->kind) {
  case YK_OPTION_FLAG: *(bool *)option->value = true; break;
  case YK_OPTION_STRING: *(const char **)option->value = text; break;
  case YK_OPTION_INT: status = parse_int(option, text, err); break;
  case YK_OPTION_TOKENS: status = parse_tokens(option, text, err); break;
  case YK_OPTION_SEED: status = parse_seed(option, text, err); break;
  case YK_OPTION_NUMBER: status = parse_number(option, text, err); break;
  case YK_OPTION_CHOICE: status = parse_choice(option, text, err); break;
  case YK_OPTION_BYTES: status = parse_bytes(option, text, err); break;
  case YK_OPTION_CALL:
    status = option->parse(option->value, text, err);
    if (status != YK_OK) yk_err_prefix(err, "--%s", option->name);
    break;
  }
  if (status == YK_OK && option->given) *option->given = true;
  return status;
}

yk_status yk_int_list_parse(const char *text, int32_t **ids, size_t *n_ids, yk_err *err)
{
  size_t capacity = *n_ids + strlen(text) / 2 + 1;
  int32_t *grown = realloc(*ids, capacity * sizeof *grown);
  if (!grown) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu integers", capacity);
  *ids = grown;
  for (const char *at = text;;) {
    char *end;
    errno = 0;
    long long number = strtoll(at, &end, 10);
    if (end == at || errno != 0 || number < INT32_MIN || number > INT32_MAX)
      return yk_err_set(err, YK_E_INVAL, "expected integers separated by commas (5,6,7), found \"%.80s\"", text);
    grown[(*n_ids)++] = (int32_t)number;
    at = end + strspn(end, " \t\r\n");
    if (*at == '\0') return YK_OK;
    if (*at == ',')
      at++;
    else if (at == end)
      return yk_err_set(err, YK_E_INVAL, "expected integers separated by commas (5,6,7), found \"%.80s\"", text);
  }
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

static bool name_is(const char *name, const char *text, size_t length)
{
  if (!name || strlen(name) != length) return false;
  for (size_t i = 0; i < length; i++)
    if (name[i] != (text[i] == '_' ? '-' : text[i])) return false;
  return true;
}

/* The option that an argument names. */
typedef struct named {
  const yk_option *option; /* NULL: none */
  const char *value;       /* text after the name in the same argument, or NULL */
} named;

/* The option with this long or short name; if both exist, the long one if prefers_long. */
static const yk_option *find(const yk_command *command, const char *text, size_t length, bool prefers_long)
{
  const yk_option *found = NULL;
  for (size_t g = 0; g < command->n_groups; g++)
    for (size_t i = 0; i < command->groups[g].n_options; i++) {
      const yk_option *option = &command->groups[g].options[i];
      bool is_long = name_is(option->name, text, length), is_short = name_is(option->short_name, text, length);
      if ((is_long || is_short) && (!found || is_long == prefers_long)) found = option;
    }
  return found;
}

/* The option with the longest short name at the beginning of text, and the value after it. */
static named find_attached(const yk_command *command, const char *text)
{
  named found = {0};
  size_t longest = 0;
  for (size_t g = 0; g < command->n_groups; g++)
    for (size_t i = 0; i < command->groups[g].n_options; i++) {
      const yk_option *option = &command->groups[g].options[i];
      size_t length = option->short_name ? strlen(option->short_name) : 0;
      if (length <= longest || option->kind == YK_OPTION_FLAG || strncmp(text, option->short_name, length) != 0)
        continue;
      longest = length;
      found = (named){option, text + length};
    }
  if (found.option && isalpha((unsigned char)found.value[0])) return (named){0};
  return found;
}

static named find_named(const yk_command *command, const char *argument)
{
  bool has_two_dashes = argument[1] == '-';
  const char *name = argument + 1 + has_two_dashes;
  size_t length = strcspn(name, "=");
  named found = {find(command, name, length, has_two_dashes), name[length] == '=' ? name + length + 1 : NULL};
  return found.option || has_two_dashes ? found : find_attached(command, name);
}

static yk_status unknown(const yk_command *command, const char *argument, yk_err *err)
{
  const char *name = argument + 1 + (argument[1] == '-');
  size_t length = strcspn(name, "=");
  const char *candidates[CANDIDATES_MAX];
  size_t n = 0;
  for (size_t g = 0; g < command->n_groups; g++)
    for (size_t i = 0; i < command->groups[g].n_options && n < CANDIDATES_MAX; i++)
      candidates[n++] = command->groups[g].options[i].name;
  char text[YK_NAME_MAX_CHARS + 1];
  snprintf(text, sizeof text, "%.*s", length < sizeof text ? (int)length : (int)sizeof text - 1, name);
  const char *nearest = yk_name_nearest(text, candidates, n);
  if (nearest) return yk_err_set(err, YK_E_INVAL, "unknown option %.80s; did you mean --%s?", argument, nearest);
  return yk_err_set(err, YK_E_INVAL, "unknown option %.80s; leave it out", argument);
}

const yk_option *yk_options_find(const yk_command *command, const char *name)
{
  return find(command, name, strlen(name), true);
}

/* ---- Foreign options --------------------------------------------------------------------------------------------- */

/* The foreign option that an argument names. */
typedef struct foreign {
  const yk_foreign_option *option; /* NULL: none */
  const char *value;               /* in the same argument, or NULL */
  bool is_negated;                 /* --no-NAME */
} foreign;

static foreign find_foreign(const yk_command *command, const char *argument)
{
  bool has_two_dashes = argument[1] == '-';
  const char *name = argument + 1 + has_two_dashes;
  size_t n_whole = strcspn(name, "="), n_name = strcspn(name, ".=");
  const char *value = name[n_whole] == '=' ? name + n_whole + 1 : NULL;
  for (size_t i = 0; command->foreign && i < command->foreign->n; i++) {
    const yk_foreign_option *option = &command->foreign->options[i];
    bool is_flag = option->takes == YK_FOREIGN_FLAG || option->takes == YK_FOREIGN_MAYBE;
    if (name_is(option->name, name, n_name) || name_is(option->short_name, name, n_name))
      return (foreign){option, value, false};
    if (is_flag && n_name > 3 && strncmp(name, "no-", 3) == 0 && name_is(option->name, name + 3, n_name - 3))
      return (foreign){option, value, true};
    size_t n_short = option->short_name ? strlen(option->short_name) : 0;
    if (!has_two_dashes && n_short && strncmp(name, option->short_name, n_short) == 0 &&
        isdigit((unsigned char)name[n_short]))
      return (foreign){option, name + n_short, false};
  }
  return (foreign){0};
}

static bool is_boolean(const char *text)
{
  return strcasecmp(text, "true") == 0 || strcasecmp(text, "false") == 0;
}

static bool is_legal(const char *legal, const char *value)
{
  size_t n_value = strlen(value);
  for (const char *at = legal; *at; at += strcspn(at, "|"), at += *at == '|')
    if (strcspn(at, "|") == n_value && strncasecmp(at, value, n_value) == 0) return true;
  return false;
}

static yk_status check_foreign(const foreign *found, const char *value, yk_err *err)
{
  const yk_foreign_option *option = found->option;
  if (found->is_negated) value = strcasecmp(value, "false") == 0 ? "true" : "false";
  if (!option->legal || is_legal(option->legal, value)) return YK_OK;
  bool is_named = option->takes == YK_FOREIGN_FLAG || option->is_secret || !option->legal[0];
  return yk_err_set(err, YK_E_INVAL, "--%s%s%s%.60s: %s", found->is_negated ? "no-" : "", option->name,
                    is_named ? "" : " ", is_named ? "" : value, option->instead);
}

static void hide(char *value)
{
  memset(value, '*', strlen(value));
}

/* Skips the foreign option in argv[*at] with its values, or refuses it. */
static yk_status take_foreign(const foreign *found, int argc, char **argv, int *at, yk_arguments *out, yk_err *err)
{
  const yk_foreign_option *option = found->option;
  const char *argument = argv[*at];
  bool takes_many = option->takes == YK_FOREIGN_SEVERAL, is_flag = option->takes == YK_FOREIGN_FLAG;
  bool is_keyed = argument[strcspn(argument, ".=")] == '.';
  if (found->value) {
    YK_TRY(check_foreign(found, found->value, err));
    if (option->is_secret) hide(argv[*at] + (found->value - argument));
  } else if (is_flag || (option->takes == YK_FOREIGN_MAYBE && !is_keyed)) {
    const char *next = *at + 1 < argc ? argv[*at + 1] : "-";
    bool has_value = is_flag ? is_boolean(next) : next[0] != '-';
    YK_TRY(check_foreign(found, has_value ? next : "true", err));
    *at += has_value;
    if (has_value && option->is_secret) hide(argv[*at]);
  } else if (*at + 1 == argc) {
    return yk_err_set(err, YK_E_INVAL, "--%s: expected a value after it, found nothing", option->name);
  } else {
    do {
      YK_TRY(check_foreign(found, argv[++*at], err));
    } while (takes_many && *at + 1 < argc && argv[*at + 1][0] != '-');
  }
  if (out->n_passed_over < YK_PASSED_OVER_MAX) out->passed_over[out->n_passed_over++] = argument;
  return YK_OK;
}

/* ---- The command line -------------------------------------------------------------------------------------------- */

static yk_status store_value(const yk_option *option, char *value, yk_err *err)
{
  YK_TRY(store(option, value, err));
  if (option->is_secret) hide(value);
  return YK_OK;
}

/* Stores the option in argv[*at] with its values. */
static yk_status take_option(const named *found, int argc, char **argv, int *at, yk_err *err)
{
  const yk_option *option = found->option;
  if (option->kind == YK_OPTION_FLAG && found->value)
    return yk_err_set(err, YK_E_INVAL, "--%s: expected no value, found \"%s\"; leave it out", option->name,
                      found->value);
  if (option->kind == YK_OPTION_FLAG) return store(option, NULL, err);
  if (found->value) return store_value(option, argv[*at] + (found->value - argv[*at]), err);
  if (*at + 1 == argc)
    return yk_err_set(err, YK_E_INVAL, "--%s: expected a value after it, found nothing", option->name);
  do {
    YK_TRY(store_value(option, argv[++*at], err));
  } while (option->takes_several && *at + 1 < argc && argv[*at + 1][0] != '-');
  return YK_OK;
}

yk_status yk_options_parse(const yk_command *command, int argc, char **argv, yk_arguments *out, yk_err *err)
{
  size_t n_operands = 0;
  bool options_end = false;
  *out = (yk_arguments){0};
  for (int i = 0; i < argc; i++) {
    char *argument = argv[i];
    if (options_end || argument[0] != '-' || argument[1] == '\0') {
      argv[n_operands++] = argument; /* n_operands never exceeds i: overwritten arguments have been read */
      continue;
    }
    if (strcmp(argument, "--") == 0) {
      options_end = true;
      continue;
    }
    const char *name = argument + (argument[1] == '-' ? 2 : 1);
    size_t length = strcspn(name, "=");
    if (name_is("help", name, length) || name_is("h", name, length)) {
      out->help = true;
      return YK_OK;
    }
    const named found = find_named(command, argument);
    const foreign passed = found.option ? (foreign){0} : find_foreign(command, argument);
    if (!found.option && !passed.option) return unknown(command, argument, err);
    if (found.option)
      YK_TRY(take_option(&found, argc, argv, &i, err));
    else
      YK_TRY(take_foreign(&passed, argc, argv, &i, out, err));
  }
  out->operands = (const char *const *)argv;
  out->n_operands = n_operands;
  return YK_OK;
}
