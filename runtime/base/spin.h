/* spin.h - poll for an event that is expected soon, before sleeping.
 *
 * A sleeping thread wakes some 50 us late, as long as a GEMM takes. A polling thread occupies a processor. After a
 * while it therefore yields the processor between two polls, and gives up as soon as another thread takes the
 * processor.
 *
 *   for (yk_spin spin = {0}; !has_come(); )
 *     if (!yk_spin_again(&spin, limit_ns)) break; */
#ifndef YK_BASE_SPIN_H
#define YK_BASE_SPIN_H

#include <sched.h>
#include <stdbool.h>

#include "base/clock.h"

typedef struct yk_spin {
  int n_looks;
  int64_t start_ns;
} yk_spin;

/* yk_spin_again - wait a moment. False: limit_ns have passed, or other threads need the processor. Thread: any. */
static inline bool yk_spin_again(yk_spin *spin, int64_t limit_ns)
{
  enum { LOOKS_ALONE = 1000, OTHERS_NS = 20000 }; /* 10 to 50 us; time slices of other threads are longer */
  if (spin->n_looks++ < LOOKS_ALONE) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
    return true;
  }
  int64_t before_ns = yk_clock_now_ns();
  if (spin->start_ns == 0) spin->start_ns = before_ns;
  sched_yield();
  int64_t now_ns = yk_clock_now_ns();
  return now_ns - before_ns < OTHERS_NS && now_ns - spin->start_ns < limit_ns;
}

#endif
