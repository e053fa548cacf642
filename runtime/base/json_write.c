#include "base/json_write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The letter after the backslash in a character's escape, 'u' for four hexadecimal digits; 0: no escape is needed. */
static char escape_of(unsigned char c)
{
  switch (c) {
  case '"':
  case '\\': return (char)c;
  case '\b': return 'b';
  case '\f': return 'f';
  case '\n': return 'n';
  case '\r': return 'r';
  case '\t': return 't';
  default: return c < 0x20 ? 'u' : 0;
  }
}

void yk_json_append_escaped(yk_strbuf *out, const char *text, size_t n_bytes)
{
  static const char hex[] = "0123456789ABCDEF";
  size_t done = 0;
  if (n_bytes == 0) return; /* text may be NULL then */
  for (size_t i = 0; i < n_bytes; i++) {
    unsigned char c = (unsigned char)text[i];
    char letter = escape_of(c);
    if (!letter) continue;
    char escape[6] = {'\\', letter, '0', '0', hex[c >> 4], hex[c & 15]};
    yk_strbuf_append(out, text + done, i - done);
    yk_strbuf_append(out, escape, letter == 'u' ? sizeof escape : 2);
    done = i + 1;
  }
  yk_strbuf_append(out, text + done, n_bytes - done);
}

void yk_json_append_string(yk_strbuf *out, const char *text, size_t n_bytes)
{
  yk_strbuf_append(out, "\"", 1);
  yk_json_append_escaped(out, text, n_bytes);
  yk_strbuf_append(out, "\"", 1);
}

void yk_json_append_i64(yk_strbuf *out, int64_t value)
{
  char digits[20];
  size_t at = sizeof digits;
  uint64_t left = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  do {
    digits[--at] = (char)('0' + left % 10);
    left /= 10;
  } while (left);
  if (value < 0) digits[--at] = '-';
  yk_strbuf_append(out, digits + at, sizeof digits - at);
}

void yk_json_append_real(yk_strbuf *out, double value)
{
  char text[32];
  if (!isfinite(value)) {
    yk_strbuf_append_str(out, "null");
    return;
  }
  snprintf(text, sizeof text, "%.9g", value);
  char *exponent = strchr(text, 'e');
  if (exponent) { /* "1e+05" becomes 1e5 */
    char *digits = exponent + 1 + (exponent[1] == '-');
    size_t n_dropped = strspn(digits, "+0");
    memmove(digits, digits + n_dropped, strlen(digits + n_dropped) + 1);
  }
  yk_strbuf_append_str(out, text);
  if (!strpbrk(text, ".e")) yk_strbuf_append_str(out, ".0");
}
