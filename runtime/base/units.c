#include "base/units.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

yk_status yk_bytes_parse(const char *text, int64_t *out, yk_err *err)
{
  static const struct {
    const char *name;
    double bytes;
  } units[] = {{"", 1},         {"B", 1},    {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30},
               {"TiB", 0x1p40}, {"KB", 1e3}, {"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12}};
  char *end;
  double number = strtod(text, &end);
  if (end != text && isdigit((unsigned char)text[0]) && !(text[1] == 'x' || text[1] == 'X')) { /* no hexadecimal */
    const char *unit = end + strspn(end, " ");
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
      if (strcasecmp(unit, units[i].name) != 0) continue;
      double bytes = floor(number * units[i].bytes);
      if (!(bytes < 0x1p62)) break;
      *out = (int64_t)bytes;
      return YK_OK;
    }
  }
  return yk_err_set(err, YK_E_INVAL, "expected an amount of memory such as 80GiB, 512MiB, 1.5GB or 4096, found \"%s\"",
                    text);
}

const char *yk_bytes_format(int64_t n_bytes, char buffer[YK_BYTES_TEXT])
{
  static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = (double)n_bytes;
  int unit = 0;
  while (value >= 999.5 && unit < 4) {
    value /= 1024;
    unit++;
  }
  int decimals = unit == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  snprintf(buffer, YK_BYTES_TEXT, "%.*f %s", decimals, value, names[unit]);
  return buffer;
}
