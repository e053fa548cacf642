/* clock.h - monotonic time. */
#ifndef YK_BASE_CLOCK_H
#define YK_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

/* yk_clock_now_ns - nanoseconds since an arbitrary start; never decreases. */
static inline int64_t yk_clock_now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline double yk_clock_seconds_since(int64_t start_ns)
{
  return (double)(yk_clock_now_ns() - start_ns) * 1e-9;
}

#endif
