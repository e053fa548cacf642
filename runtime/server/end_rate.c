#include "server/end_rate.h"

#include <math.h>

/* An end weighs exp(-age / WINDOW_S). */
static const double WINDOW_S = 30;

void yk_end_rate_init(yk_end_rate *rate)
{
  *rate = (yk_end_rate){0};
  pthread_mutex_init(&rate->mutex, NULL);
}

void yk_end_rate_free(yk_end_rate *rate)
{
  pthread_mutex_destroy(&rate->mutex);
}

void yk_end_rate_begin(yk_end_rate *rate, int64_t now_ns)
{
  pthread_mutex_lock(&rate->mutex);
  rate->began_ns = rate->last_ns = now_ns;
  rate->n_recent = 0;
  pthread_mutex_unlock(&rate->mutex);
}

/* Remaining weight, after the time in between, of a weight of one. */
static double left_after(int64_t from_ns, int64_t to_ns)
{
  return to_ns > from_ns ? exp((double)(from_ns - to_ns) * 1e-9 / WINDOW_S) : 1;
}

void yk_end_rate_add(yk_end_rate *rate, int n_ended, int64_t now_ns)
{
  pthread_mutex_lock(&rate->mutex);
  rate->n_recent = rate->n_recent * left_after(rate->last_ns, now_ns) + n_ended;
  rate->last_ns = now_ns;
  pthread_mutex_unlock(&rate->mutex);
}

/* Ends at a steady rate r sum to a weight of r * WINDOW_S * (1 - exp(-t / WINDOW_S)) after a time t. The next end is
 * counted in advance, so that there is a rate before the first end. */
int yk_end_rate_wait_s(yk_end_rate *rate, int n_ahead, int64_t now_ns)
{
  pthread_mutex_lock(&rate->mutex);
  double weighed_s = WINDOW_S * (1 - left_after(rate->began_ns, now_ns));
  double n_ended = rate->n_recent * left_after(rate->last_ns, now_ns) + 1;
  pthread_mutex_unlock(&rate->mutex);
  double wait_s = ceil(n_ahead * weighed_s / n_ended);
  return wait_s < 1 ? 1 : wait_s > YK_WAIT_MAX_S ? YK_WAIT_MAX_S : (int)wait_s;
}
