#include "openai/wide_seed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Behind the string that begins with the quote at text[at]. */
static size_t string_end(const char *text, size_t n_bytes, size_t at)
{
  for (at++; at < n_bytes && text[at] != '"'; at++)
    if (text[at] == '\\') at++;
  return at < n_bytes ? at + 1 : n_bytes;
}

/* The digits that are the value of the key which ends at `at`; an empty span where it has none. */
static char *value_digits(char *text, size_t at, size_t *n_digits)
{
  char *value = text + at;
  value += strspn(value, " \t\r\n");
  bool is_key = *value == ':';
  value += is_key;
  value += strspn(value, " \t\r\n");
  *n_digits = is_key ? strspn(value, "0123456789") : 0;
  if (*n_digits && (value[0] == '0' || memchr(".eE", value[*n_digits], 3))) *n_digits = 0; /* no integer of JSON's */
  return value;
}

yk_status yk_wide_seed_take(char *text, size_t n_bytes, uint64_t *seed, bool *found, yk_err *err)
{
  static const char key[] = "\"seed\"";
  *found = false;
  for (size_t at = 0; at < n_bytes;) {
    if (text[at] != '"') {
      at++;
      continue;
    }
    size_t begin = at, n_digits;
    at = string_end(text, n_bytes, at);
    if (at - begin != sizeof key - 1 || memcmp(text + begin, key, sizeof key - 1) != 0) continue;
    char *digits = value_digits(text, at, &n_digits);
    if (n_digits == 0) continue;
    errno = 0;
    unsigned long long value = strtoull(digits, NULL, 10);
    if (errno == ERANGE)
      return yk_err_set(err, YK_E_INVAL, "seed: expected 0 to 2^64 - 1, or -1 for none, found %.*s%s",
                        n_digits > 40 ? 40 : (int)n_digits, digits, n_digits > 40 ? "..." : "");
    if (value <= INT64_MAX) continue;
    *seed = value;
    *found = true;
    memset(digits, ' ', n_digits);
    digits[0] = '0';
    return YK_OK;
  }
  return YK_OK;
}
