#include "study/stats.h"

#include <math.h>
#include <stdlib.h>

#include "study/student.h"

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double yk_stats_median(double *values, size_t n)
{
  qsort(values, n, sizeof *values, compare);
  return n % 2 ? values[n / 2] : values[n / 2 - 1] + (values[n / 2] - values[n / 2 - 1]) / 2;
}

static bool occurs_before(const int *starts, size_t i)
{
  for (size_t j = 0; j < i; j++)
    if (starts[j] == starts[i]) return true;
  return false;
}

size_t yk_stats_start_medians(const double *values, const int *starts, size_t n, double *medians, double *scratch)
{
  size_t n_starts = 0;
  for (size_t i = 0; i < n; i++) {
    if (occurs_before(starts, i)) continue;
    size_t n_runs = 0;
    for (size_t j = i; j < n; j++)
      if (starts[j] == starts[i]) scratch[n_runs++] = values[j];
    medians[n_starts++] = yk_stats_median(scratch, n_runs);
  }
  return n_starts;
}

/* The mean, and its variance. */
static void mean_of(const double *values, size_t n, double *mean, double *variance)
{
  double sum = 0, squares = 0;
  for (size_t i = 0; i < n; i++) sum += values[i];
  *mean = sum / (double)n;
  for (size_t i = 0; i < n; i++) squares += (values[i] - *mean) * (values[i] - *mean);
  *variance = squares / (double)(n - 1) / (double)n;
}

bool yk_stats_interval(const double *values, size_t n, yk_interval *out)
{
  double mean, variance;
  if (n < 2) return false;
  mean_of(values, n, &mean, &variance);
  double half = yk_student_quantile(YK_STATS_CONFIDENCE, (double)(n - 1)) * sqrt(variance);
  *out = (yk_interval){fmax(mean - half, 0), mean + half};
  return true;
}

bool yk_stats_ratio_interval(const double *a, size_t n_a, const double *b, size_t n_b, yk_interval *out)
{
  double mean_a, mean_b, variance_a, variance_b;
  if (n_a < 2 || n_b < 2) return false;
  mean_of(a, n_a, &mean_a, &variance_a);
  mean_of(b, n_b, &mean_b, &variance_b);
  if (!(mean_b > 0)) return false;
  double ratio = mean_a / mean_b, scaled_b = ratio * ratio * variance_b, variance = variance_a + scaled_b;
  *out = (yk_interval){ratio, ratio};
  if (variance <= 0) return true;
  double freedom =
      variance * variance / (variance_a * variance_a / (double)(n_a - 1) + scaled_b * scaled_b / (double)(n_b - 1));
  double t = yk_student_quantile(YK_STATS_CONFIDENCE, freedom);
  /* The limits are the roots of p r^2 - 2 q r + s. */
  double p = mean_b * mean_b - t * t * variance_b, q = mean_a * mean_b, s = mean_a * mean_a - t * t * variance_a;
  if (p <= 0) return false;
  double root = sqrt(fmax(q * q - p * s, 0));
  *out = (yk_interval){fmax((q - root) / p, 0), (q + root) / p};
  return true;
}

void yk_interval_include(yk_interval *interval, double value)
{
  interval->low = fmin(interval->low, value);
  interval->high = fmax(interval->high, value);
}
