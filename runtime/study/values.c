#include "study/values.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FORM "expected numbers and ranges (1,2,4 or 1-256*2 or 8-64+8)"

/* One element: first only, or first to last by adding or multiplying. */
typedef struct range {
  double first, last, step;
  char operation; /* '+' or '*' */
} range;

/* Parses a number that begins with a digit: other forms that strtod accepts (signs, "inf", hexadecimal) are refused. */
static bool take_number(const char **at, double *out)
{
  size_t length = strspn(*at, "0123456789.");
  char *end;
  if (length == 0 || **at == '.') return false;
  errno = 0;
  *out = strtod(*at, &end);
  bool whole = end == *at + length && errno == 0;
  *at = end;
  return whole;
}

/* Parses the element at *at, which advances after it. */
static bool take_range(const char **at, range *out)
{
  if (!take_number(at, &out->first)) return false;
  *out = (range){out->first, out->first, 1, '+'};
  if (**at != '-') return true;
  (*at)++;
  if (!take_number(at, &out->last) || out->last < out->first) return false;
  if (**at != '+' && **at != '*') return true;
  out->operation = *(*at)++;
  return take_number(at, &out->step) && (out->operation == '+' ? out->step > 0 : out->step > 1);
}

bool yk_values_is_range(const char *text)
{
  range found;
  const char *at = text;
  return strchr(text, '-') != NULL && take_range(&at, &found) && *at == '\0';
}

static yk_status add(yk_values *values, double value, double min, double max, bool is_whole, yk_err *err)
{
  if (!(value >= min && value <= max) || value <= 0 || (is_whole && value != floor(value)))
    return yk_err_set(err, YK_E_INVAL, "expected %s from %g to %g, found %g", is_whole ? "whole numbers" : "numbers",
                      min, max, value);
  for (size_t i = 0; i < values->n; i++)
    if (values->at[i] == value) return YK_OK;
  if (values->n == YK_VALUES_MAX)
    return yk_err_set(err, YK_E_INVAL, "expected at most %d values, found more", YK_VALUES_MAX);
  values->at[values->n++] = value;
  return YK_OK;
}

static yk_status add_range(yk_values *values, const range *from, double min, double max, bool is_whole, yk_err *err)
{
  const double slack = 1e-9; /* so that 0.1-0.3+0.1 ends with 0.3 */
  double value = from->first;
  for (int i = 0; value <= from->last * (1 + slack); i++) {
    YK_TRY(add(values, value, min, max, is_whole, err));
    double next = from->operation == '+' ? from->first + (i + 1) * from->step : value * from->step;
    if (next <= value) break;
    value = next;
  }
  return YK_OK;
}

yk_status yk_values_parse(const char *text, double min, double max, bool is_whole, yk_values *out, yk_err *err)
{
  range element;
  yk_values values = {.at = malloc(YK_VALUES_MAX * sizeof *values.at)};
  yk_status status = values.at ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for %d values", YK_VALUES_MAX);
  yk_values_free(out);
  for (const char *at = text; status == YK_OK; at++) {
    bool is_good = take_range(&at, &element) && (*at == ',' || *at == '\0');
    status = is_good ? add_range(&values, &element, min, max, is_whole, err)
                     : yk_err_set(err, YK_E_INVAL, FORM ", found \"%.80s\"", text);
    if (*at == '\0') break;
  }
  if (status == YK_OK)
    *out = values;
  else
    yk_values_free(&values);
  return status;
}

void yk_values_free(yk_values *values)
{
  free(values->at);
  *values = (yk_values){0};
}
