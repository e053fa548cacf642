#include "study/pieces.h"

#include <math.h>

double yk_pieces_total(const yk_pieces *pieces)
{
  double total_s = pieces->transfer_s + pieces->wait_s + pieces->rest_s;
  for (int part = 0; part < YK_SPLIT_PARTS; part++) total_s += pieces->split_s[part];
  return total_s;
}

/* A part's time as a function of the ranks' mean share of it: fixed_s + whole_s * share. */
typedef struct line {
  double fixed_s, whole_s;
} line;

/* Least squares with neither coefficient below 0. Residuals are relative, so that all rank counts have equal weight.
 * shares [n]. */
static line fit_line(const yk_pieces *measured, size_t n, const double *shares, int part)
{
  double s11 = 0, s1x = 0, sxx = 0, s1 = 0, sx = 0;
  for (size_t i = 0; i < n; i++) {
    double x = shares[i], y = measured[i].split_s[part];
    if (!(y > 0)) continue;
    s11 += 1 / (y * y);
    s1x += x / (y * y);
    sxx += x * x / (y * y);
    s1 += 1 / y;
    sx += x / y;
  }
  if (!(sxx > 0)) return (line){0, 0};
  double determinant = s11 * sxx - s1x * s1x;
  double a = determinant > 1e-12 * s11 * sxx ? (s1 * sxx - sx * s1x) / determinant : 0;
  double b = a > 0 ? (sx - a * s1x) / sxx : sx / sxx;
  if (a < 0) a = 0;
  return b < 0 ? (line){s1 / s11, 0} : (line){a, b};
}

/* Time by which the slowest ranks exceed the mean: the time that the others wait. */
static double imbalance(const yk_split *split, int ranks, const double whole_s[YK_SPLIT_PARTS])
{
  double shares[YK_SPLIT_PARTS], mean_s = 0;
  yk_split_mean(split, ranks, shares);
  for (int part = 0; part < YK_SPLIT_PARTS; part++) mean_s += whole_s[part] * shares[part];
  return yk_split_slowest(split, ranks, whole_s) - mean_s;
}

/* Fits products, attention, and the wait for the rank with the largest share. */
static void fit_split(const yk_split *split, const yk_pieces *measured, size_t n, yk_pieces *fitted)
{
  double shares[YK_PIECES_MAX], all[YK_SPLIT_PARTS], whole_s[YK_SPLIT_PARTS];
  size_t n_several = 0;
  for (int part = 0; part < YK_SPLIT_PARTS; part++) {
    for (size_t i = 0; i < n; i++) {
      yk_split_mean(split, measured[i].ranks, all);
      shares[i] = all[part];
    }
    line by_share = fit_line(measured, n, shares, part);
    yk_split_mean(split, fitted->ranks, all);
    whole_s[part] = by_share.whole_s;
    fitted->split_s[part] = by_share.fixed_s + by_share.whole_s * all[part];
  }
  fitted->wait_s = 0;
  for (size_t i = 0; i < n && fitted->ranks > 1; i++) {
    if (measured[i].ranks < 2) continue;
    fitted->wait_s += fmax(measured[i].wait_s - imbalance(split, measured[i].ranks, whole_s), 0);
    n_several++;
  }
  if (n_several > 0) fitted->wait_s /= (double)n_several;
  fitted->wait_s += imbalance(split, fitted->ranks, whole_s);
}

/* A link's rate ignores latency and cannot give the ratio of times; then the ratio of bytes is used. */
static double fit_transfer(const yk_pieces *measured, size_t n, const yk_pieces *fitted)
{
  double seconds = 0, by_machine = 0, by_bytes = 0;
  bool has_machine = fitted->is_machine_measured;
  if (fitted->ranks < 2) return 0;
  for (size_t i = 0; i < n; i++) {
    if (measured[i].ranks < 2) continue;
    seconds += measured[i].transfer_s;
    by_machine += measured[i].machine_transfer_s;
    by_bytes += 1 - 1.0 / measured[i].ranks;
    has_machine &= measured[i].is_machine_measured;
  }
  if (!(by_bytes > 0)) return fmax(fitted->machine_transfer_s, 0);
  return has_machine ? seconds / by_machine * fitted->machine_transfer_s
                     : seconds / by_bytes * (1 - 1.0 / fitted->ranks);
}

void yk_pieces_fit(const yk_split *split, const yk_pieces *measured, size_t n, yk_pieces *fitted)
{
  fitted->rest_s = 0;
  for (size_t i = 0; i < n; i++) fitted->rest_s += measured[i].rest_s / (double)n;
  fit_split(split, measured, n, fitted);
  fitted->transfer_s = fit_transfer(measured, n, fitted);
}
