/* spread.h - repeats of one measurement: their median, smallest and largest. */
#ifndef YK_BASE_SPREAD_H
#define YK_BASE_SPREAD_H

typedef struct yk_spread {
  double median, low, high;
} yk_spread;

/* yk_spread_of - of n values, at least 1, which are sorted; of an even number the median is the upper one. */
yk_spread yk_spread_of(double *values, int n);

#endif
