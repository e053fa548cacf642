#include "base/spread.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

yk_spread yk_spread_of(double *values, int n)
{
  qsort(values, (size_t)n, sizeof *values, by_size);
  return (yk_spread){values[n / 2], values[0], values[n - 1]};
}
