#include "study/student.h"

#include <math.h>

/* A divisor of Lentz's method, which must not be zero. */
static double away_from_zero(double x)
{
  return fabs(x) < 1e-300 ? 1e-300 : x;
}

/* The continued fraction of I_x(a, b), which converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double x, double a, double b)
{
  enum { TERMS_MAX = 10000 };
  double c = 1, d = 1 / away_from_zero(1 - (a + b) * x / (a + 1)), value = d;
  for (int m = 1; m < TERMS_MAX; m++) {
    double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    d = 1 / away_from_zero(1 + even * d);
    c = away_from_zero(1 + even / c);
    value *= c * d;
    d = 1 / away_from_zero(1 + odd * d);
    c = away_from_zero(1 + odd / c);
    value *= c * d;
    if (fabs(c * d - 1) < 1e-15) break;
  }
  return value;
}

/* lgamma itself stores the sign in a global. */
static double log_gamma(double x)
{
  int sign;
  return lgamma_r(x, &sign);
}

static double incomplete_beta(double x, double a, double b)
{
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  double front = exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(x, a, b) / a : 1 - front * beta_fraction(1 - x, b, a) / b;
}

double yk_student_quantile(double confidence, double n)
{
  double low = 0, high = 1;
  while (incomplete_beta(n / (n + high * high), n / 2, 0.5) > 1 - confidence && high < 1e150) high *= 2;
  for (int i = 0; i < 200 && low < high; i++) {
    double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    if (incomplete_beta(n / (n + middle * middle), n / 2, 0.5) > 1 - confidence)
      low = middle;
    else
      high = middle;
  }
  return low + (high - low) / 2;
}
