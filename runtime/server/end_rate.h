/* end_rate.h - the rate at which requests end, and an estimate of the waiting time from it. Any thread. */
#ifndef YK_SERVER_END_RATE_H
#define YK_SERVER_END_RATE_H

#include <pthread.h>
#include <stdint.h>

enum { YK_WAIT_MAX_S = 60 };

typedef struct yk_end_rate {
  pthread_mutex_t mutex; /* guards all following fields */
  int64_t began_ns;      /* start of the present period of uninterrupted work */
  int64_t last_ns;       /* time at which n_recent holds */
  double n_recent;       /* weighted number of ends up to then; weights decay with age */
} yk_end_rate;

void yk_end_rate_init(yk_end_rate *rate);
void yk_end_rate_free(yk_end_rate *rate);

/* yk_end_rate_begin - work starts after an idle period. Earlier ends are dropped: an idle server ends no requests. */
void yk_end_rate_begin(yk_end_rate *rate, int64_t now_ns);

/* yk_end_rate_add - count n_ended requests that have ended. */
void yk_end_rate_add(yk_end_rate *rate, int n_ended, int64_t now_ns);

/* yk_end_rate_wait_s - whole seconds, 1 to YK_WAIT_MAX_S, until n_ahead requests will have ended at the rate of the
 *   last half minute. */
int yk_end_rate_wait_s(yk_end_rate *rate, int n_ahead, int64_t now_ns);

#endif
