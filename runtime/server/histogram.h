/* histogram.h - counts of values by upper bounds, as in Prometheus. */
#ifndef YK_SERVER_HISTOGRAM_H
#define YK_SERVER_HISTOGRAM_H

#include <stdint.h>
#include <stdio.h>

enum { YK_HISTOGRAM_BOUNDS = 24, YK_BOUND_TEXT = 32 };

typedef struct yk_histogram {
  const double *bounds;                     /* ascending; a 0 after the first bound ends the list; static */
  uint64_t counts[YK_HISTOGRAM_BOUNDS + 1]; /* [i]: above bounds[i - 1], at most bounds[i]; last: above all bounds */
  uint64_t count;
  double sum;
} yk_histogram;

static inline void yk_histogram_add(yk_histogram *h, double value)
{
  int i = 0;
  while (h->bounds[i] > 0 && value > h->bounds[i]) i++;
  h->counts[i]++;
  h->count++;
  h->sum += value;
}

/* yk_histogram_bound_format - write a bound to text as Prometheus' Python client does. */
static inline const char *yk_histogram_bound_format(double bound, char text[YK_BOUND_TEXT])
{
  snprintf(text, YK_BOUND_TEXT, bound == (double)(long)bound ? "%.1f" : "%g", bound);
  return text;
}

#endif
