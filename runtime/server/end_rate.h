/* end_rate.h - how fast requests end, and with that how long those that wait will take. Any thread. */
#ifndef YK_SERVER_END_RATE_H
#define YK_SERVER_END_RATE_H

#include <pthread.h>
#include <stdint.h>

enum { YK_WAIT_MAX_S = 60 };

typedef struct yk_end_rate {
  pthread_mutex_t mutex; /* guards what follows */
  int64_t began_ns;      /* since when there has been work without a break */
  int64_t last_ns;       /* to when the recent ends are weighed */
  double n_recent;       /* ends since then, each the less the longer ago */
} yk_end_rate;

void yk_end_rate_init(yk_end_rate *rate);
void yk_end_rate_free(yk_end_rate *rate);

/* yk_end_rate_begin - there is work again. What ended before tells nothing: a server without work ends nothing. */
void yk_end_rate_begin(yk_end_rate *rate, int64_t now_ns);

/* yk_end_rate_add - so many have ended. */
void yk_end_rate_add(yk_end_rate *rate, int n_ended, int64_t now_ns);

/* yk_end_rate_wait_s - whole seconds, 1 to YK_WAIT_MAX_S, in which n_ahead will have ended at the rate of the last half
 *   minute. */
int yk_end_rate_wait_s(yk_end_rate *rate, int n_ahead, int64_t now_ns);

#endif
