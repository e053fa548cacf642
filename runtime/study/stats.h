/* stats.h - statistics of repeated runs: medians and confidence intervals.
 *
 * Two runs of one engine start are more similar than runs of two starts (memory addresses, clocks and neighbours
 * differ), so the start is the repeated unit: its value is the median of its runs, and intervals come from the spread
 * of these medians with Student's t. That is the top level of the hierarchy in T. Kalibera, R. Jones, "Rigorous
 * benchmarking in reasonable time" (ISMM 2013, sections 6 and 7), with a median instead of a mean within a start. Few
 * starts give valid but wide intervals: t is 12.7 for two starts, 4.3 for three, 2.8 for five.
 *
 * The interval of a ratio of two such means is Fieller's (E. C. Fieller, "Some problems in interval estimation", J. R.
 * Stat. Soc. B 16, 1954): all r for which a - r b does not differ from 0 by more than t standard errors, with Welch's
 * degrees of freedom (B. L. Welch, Biometrika 34, 1947) at r = a / b. */
#ifndef YK_STUDY_STATS_H
#define YK_STUDY_STATS_H

#include <stdbool.h>
#include <stddef.h>

#define YK_STATS_CONFIDENCE 0.95

typedef struct yk_interval {
  double low, high;
} yk_interval;

/* yk_stats_median - the median of values [n], n > 0, which are sorted in place. */
double yk_stats_median(double *values, size_t n);

/* yk_stats_start_medians - the median of each start's runs. values, starts [n]: a run's value and the number of its
 *   start, which may be any number. medians [n]: capacity for the maximum. Returns the number of starts; medians are in
 *   the order in which starts first occur. scratch [n] is overwritten. Thread: any. */
size_t yk_stats_start_medians(const double *values, const int *starts, size_t n, double *medians, double *scratch);

/* yk_stats_interval - the interval of the mean of n values of a quantity that is never negative: a limit below 0
 *   becomes 0. False: fewer than two. */
bool yk_stats_interval(const double *values, size_t n, yk_interval *out);

/* yk_stats_ratio_interval - the interval of mean(a) / mean(b) for such quantities. False: fewer than two of either, or
 *   b does not differ significantly from 0, so that the ratio is unbounded. */
bool yk_stats_ratio_interval(const double *a, size_t n_a, const double *b, size_t n_b, yk_interval *out);

/* yk_interval_include - widen the interval to include the value shown with it: the median of all runs can differ from
 *   the mean of the starts' medians. */
void yk_interval_include(yk_interval *interval, double value);

#endif
