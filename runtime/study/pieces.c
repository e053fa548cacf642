#include "study/pieces.h"

#include <math.h>

double yk_pieces_total(const yk_pieces *pieces)
{
  return pieces->gemm_s + pieces->transfer_s + pieces->wait_s + pieces->rest_s;
}

/* a + b / ranks with neither below 0. Relative residuals, so that no rank count outweighs the others. */
static double fit_gemm(const yk_pieces *measured, size_t n, int ranks)
{
  double s11 = 0, s1x = 0, sxx = 0, s1 = 0, sx = 0;
  for (size_t i = 0; i < n; i++) {
    double x = 1.0 / measured[i].ranks, y = measured[i].gemm_s;
    if (!(y > 0)) continue;
    s11 += 1 / (y * y);
    s1x += x / (y * y);
    sxx += x * x / (y * y);
    s1 += 1 / y;
    sx += x / y;
  }
  if (!(sxx > 0)) return 0;
  double determinant = s11 * sxx - s1x * s1x;
  double a = determinant > 1e-12 * s11 * sxx ? (s1 * sxx - sx * s1x) / determinant : 0;
  double b = a > 0 ? (sx - a * s1x) / sxx : sx / sxx;
  if (a < 0) a = 0;
  if (b < 0) {
    b = 0;
    a = s1 / s11;
  }
  return a + b / ranks;
}

/* A link's rate knows nothing of latency, so it says nothing about a ratio: bytes do then. */
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

void yk_pieces_fit(const yk_pieces *measured, size_t n, yk_pieces *fitted)
{
  size_t n_several = 0;
  fitted->wait_s = fitted->rest_s = 0;
  for (size_t i = 0; i < n; i++) {
    fitted->rest_s += measured[i].rest_s / (double)n;
    if (measured[i].ranks < 2) continue;
    fitted->wait_s += measured[i].wait_s;
    n_several++;
  }
  fitted->wait_s = fitted->ranks > 1 && n_several ? fitted->wait_s / (double)n_several : 0;
  fitted->gemm_s = fit_gemm(measured, n, fitted->ranks);
  fitted->transfer_s = fit_transfer(measured, n, fitted);
}
