/* wait.h - condition variables with time limits on the monotonic clock, which is never set back. */
#ifndef YK_BASE_WAIT_H
#define YK_BASE_WAIT_H

#include <pthread.h>
#include <stdint.h>

#include "base/clock.h"

/* yk_cond_init - a condition variable whose timed waits take times from yk_wait_deadline. */
static inline void yk_cond_init(pthread_cond_t *cond)
{
  pthread_condattr_t monotonic;
  pthread_condattr_init(&monotonic);
  pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
  pthread_cond_init(cond, &monotonic);
  pthread_condattr_destroy(&monotonic);
}

/* yk_wait_deadline - the time `seconds` from now, for pthread_cond_timedwait. seconds: 0 to 1e9. */
static inline struct timespec yk_wait_deadline(double seconds)
{
  int64_t ns = yk_clock_now_ns() + (int64_t)(seconds * 1e9);
  return (struct timespec){.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};
}

#endif
