/* spread.h - statistics of a repeated measurement: median, smallest and largest value. */
#ifndef YK_BASE_SPREAD_H
#define YK_BASE_SPREAD_H

typedef struct yk_spread {
  double median, low, high;
} yk_spread;

/* yk_spread_of - statistics of n values, at least 1. Sorts the values. For an even number the median is the upper of
 *   the two middle values. */
yk_spread yk_spread_of(double *values, int n);

#endif
