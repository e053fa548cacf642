/* step_times.h - compute the parts of a step's time from the timestamps of all ranks. Arithmetic only: no device, no
 * thread, no clock.
 *
 *   step    period, from the start of the step to the start of the next one
 *   host    the period outside the rank's forward: planning, handing out, waking the ranks, and with pipeline stages
 *           the step's time in other stages. A rank that is idle while rank 0 of its stage samples counts that time as
 *           sampling.
 *   gap     the forward outside the span of its stamps: launches before the first and after the last
 *   parts   between two stamps
 *
 * All-reduce i starts on rank r at s_r, when all earlier work of the rank is done, and ends at e_r. No rank ends before
 * the last rank has started, so rank r waits from s_r until the latest s, and transfers from then until e_r.
 *
 * Clocks of different GPUs have no common zero. An all-reduce bounds their offset, as two messages do in NTP: rank A
 * cannot end before B has started, e_A >= s_B, and e_B >= s_A; all all-reduces of a step together give an interval. The
 * middle of the interval would be wrong by half of a rank's constant lateness. An all-reduce ends on all ranks when the
 * last rank's data has arrived, so the mean difference of the ends is used, clamped to the interval. The last rank has
 * its own data earlier, by a link's latency: a rank that is always last seems later by that latency. */
#ifndef YK_ENGINE_OBSERVE_STEP_TIMES_H
#define YK_ENGINE_OBSERVE_STEP_TIMES_H

#include "model/step_profile.h"
#include "yoke/yoke.h"

/* The ranks' measurements of one step. */
typedef struct yk_timed_step {
  int n_ranks, n_stages; /* each pipeline stage has separate all-reduces */
  const yk_step_profile *ranks[YK_MAX_RANKS];
  int n_processes;          /* that the ranks are divided among, evenly and in order */
  const char *const *hosts; /* [n_ranks]; NULL: one process */
  bool has_one_clock;       /* the stamps of all ranks use one clock */
  int64_t period_ns;
} yk_timed_step;

/* Sums over steps, including the time of the stamps themselves. */
typedef struct yk_step_sums {
  uint64_t n_steps, n_all_reduces, slowest[YK_MAX_RANKS];
  double step_ns;
  double part_ns[YK_MAX_RANKS][YK_TIME_PARTS];
  double n_stamps[YK_MAX_RANKS][YK_TIME_PARTS]; /* in each part, that take time */
} yk_step_sums;

/* yk_timed_step_of_stage - the measurements of one stage's ranks, as a step of a single stage. */
yk_timed_step yk_timed_step_of_stage(const yk_timed_step *step, int stage);

/* yk_clocks_align - offset_ns[r]: rank r's clock minus rank 0's clock. This and the functions of all-reduces take a
 *   step of a single stage. */
void yk_clocks_align(const yk_timed_step *step, int64_t offset_ns[YK_MAX_RANKS]);

/* yk_all_reduce_arrival - when the last rank reached the all-reduce that is operation [place[r]] of each rank r, on
 *   rank 0's clock; *slowest: that rank, the lowest among equals. */
int64_t yk_all_reduce_arrival(const yk_timed_step *step, const int64_t offset_ns[YK_MAX_RANKS],
                              const int32_t place[YK_MAX_RANKS], int *slowest);

/* yk_all_reduce_next - move place[] to each rank's next all-reduce at or after it. False: there is none. */
bool yk_all_reduce_next(const yk_timed_step *step, int32_t place[YK_MAX_RANKS]);

/* yk_step_sums_add - add a step. */
void yk_step_sums_add(yk_step_sums *sums, const yk_timed_step *step);

/* yk_step_sums_correct - the sums in seconds, less stamp_ns for each stamp that takes time. */
void yk_step_sums_correct(const yk_step_sums *sums, int n_ranks, double stamp_ns, yk_step_times *out);

#endif
