#include "engine/observe/step_times.h"

#include <string.h>

#include "base/checked.h"

const char *yk_time_part_name(yk_time_part part)
{
  static const char *const names[YK_TIME_PARTS] = {
      [YK_TIME_GEMM_QKV] = "gemm_qkv",
      [YK_TIME_GEMM_O] = "gemm_o",
      [YK_TIME_GEMM_GATE_UP] = "gemm_gate_up",
      [YK_TIME_GEMM_DOWN] = "gemm_down",
      [YK_TIME_LM_HEAD] = "lm_head",
      [YK_TIME_ATTENTION] = "attention",
      [YK_TIME_OTHER_KERNELS] = "other_kernels",
      [YK_TIME_ALL_REDUCE_TRANSFER] = "all_reduce_transfer",
      [YK_TIME_ALL_REDUCE_WAIT] = "all_reduce_wait",
      [YK_TIME_LOGITS_GATHER] = "logits_gather",
      [YK_TIME_SAMPLING] = "sampling",
      [YK_TIME_LAUNCH_GAP] = "launch_gap",
      [YK_TIME_HOST] = "host",
      [YK_TIME_STATES] = "states",
  };
  return (unsigned)part < YK_TIME_PARTS ? names[part] : "unknown";
}

/* With one rank the all-reduce operation is only a norm. */
static yk_time_part part_of(yk_operation_kind kind, int n_ranks)
{
  switch (kind) {
  case YK_OPERATION_GEMM_QKV: return YK_TIME_GEMM_QKV;
  case YK_OPERATION_GEMM_O: return YK_TIME_GEMM_O;
  case YK_OPERATION_GEMM_GATE_UP: return YK_TIME_GEMM_GATE_UP;
  case YK_OPERATION_GEMM_DOWN: return YK_TIME_GEMM_DOWN;
  case YK_OPERATION_LM_HEAD: return YK_TIME_LM_HEAD;
  case YK_OPERATION_ATTENTION: return YK_TIME_ATTENTION;
  case YK_OPERATION_STATES: return YK_TIME_STATES;
  case YK_OPERATION_ALL_REDUCE: return n_ranks > 1 ? YK_TIME_ALL_REDUCE_TRANSFER : YK_TIME_OTHER_KERNELS;
  case YK_OPERATION_GATHER: return YK_TIME_LOGITS_GATHER;
  case YK_OPERATION_SAMPLING: return YK_TIME_SAMPLING;
  case YK_OPERATION_STAGES: return YK_TIME_ALL_REDUCE_WAIT;
  case YK_OPERATION_OTHER:
  case YK_OPERATION_END:
  case YK_OPERATION_UNTIMED: break;
  }
  return YK_TIME_OTHER_KERNELS;
}

yk_timed_step yk_timed_step_of_stage(const yk_timed_step *step, int stage)
{
  yk_timed_step of_stage = *step;
  of_stage.n_ranks = step->n_ranks / step->n_stages;
  of_stage.n_stages = 1;
  memcpy(of_stage.ranks, step->ranks + stage * of_stage.n_ranks, (size_t)of_stage.n_ranks * sizeof *step->ranks);
  return of_stage;
}

bool yk_all_reduce_next(const yk_timed_step *step, int32_t place[YK_MAX_RANKS])
{
  if (step->n_ranks < 2) return false;
  for (int r = 0; r < step->n_ranks; r++) {
    const yk_step_profile *rank = step->ranks[r];
    while (place[r] + 1 < rank->n && rank->operations[place[r]].kind != YK_OPERATION_ALL_REDUCE) place[r]++;
    if (place[r] + 1 >= rank->n) return false;
  }
  return true;
}

static void move_on(const yk_timed_step *step, int32_t place[YK_MAX_RANKS])
{
  for (int r = 0; r < step->n_ranks; r++) place[r]++;
}

/* Bounds of a rank's clock offset to rank 0 from the all-reduces of a step. */
typedef struct clock_bounds {
  int64_t least_ns, most_ns;
  int64_t first_ns; /* difference of the ends of the first all-reduce */
  double sum_ns, n; /* sum over all all-reduces of the difference less first_ns, and their number */
} clock_bounds;

static void add_bounds(clock_bounds *b, const int64_t at_0[2], const int64_t at[2])
{
  int64_t ends_ns = at[1] - at_0[1];
  b->least_ns = yk_max_i64(b->least_ns, at[0] - at_0[1]);
  b->most_ns = yk_min_i64(b->most_ns, at[1] - at_0[0]);
  if (b->n == 0) b->first_ns = ends_ns;
  b->sum_ns += (double)(ends_ns - b->first_ns);
  b->n++;
}

static int64_t offset_of(const clock_bounds *b)
{
  if (b->n == 0) return 0;
  int64_t mean_ns = b->first_ns + (int64_t)(b->sum_ns / b->n);
  return yk_max_i64(yk_min_i64(mean_ns, b->most_ns), b->least_ns);
}

void yk_clocks_align(const yk_timed_step *step, int64_t offset_ns[YK_MAX_RANKS])
{
  clock_bounds bounds[YK_MAX_RANKS];
  int32_t place[YK_MAX_RANKS] = {0};
  for (int r = 0; r < YK_MAX_RANKS; r++) {
    bounds[r] = (clock_bounds){.least_ns = INT64_MIN, .most_ns = INT64_MAX};
    offset_ns[r] = 0;
  }
  if (step->has_one_clock) return;
  for (; yk_all_reduce_next(step, place); move_on(step, place))
    for (int r = 1; r < step->n_ranks; r++)
      add_bounds(&bounds[r], step->ranks[0]->begin_ns + place[0], step->ranks[r]->begin_ns + place[r]);
  for (int r = 1; r < step->n_ranks; r++) offset_ns[r] = offset_of(&bounds[r]);
}

int64_t yk_all_reduce_arrival(const yk_timed_step *step, const int64_t offset_ns[YK_MAX_RANKS],
                              const int32_t place[YK_MAX_RANKS], int *slowest)
{
  int64_t last = INT64_MIN;
  for (int r = 0; r < step->n_ranks; r++) {
    int64_t start = step->ranks[r]->begin_ns[place[r]] - offset_ns[r];
    if (start <= last) continue;
    last = start;
    *slowest = r;
  }
  return last;
}

/* Move the waiting time from transfer to waiting. first: rank 0 of the stage. */
static void split_all_reduces(yk_step_sums *sums, const yk_timed_step *step, int first)
{
  int64_t offset_ns[YK_MAX_RANKS];
  int32_t place[YK_MAX_RANKS] = {0};
  yk_clocks_align(step, offset_ns);
  for (; yk_all_reduce_next(step, place); move_on(step, place)) {
    int slowest = 0;
    int64_t arrival = yk_all_reduce_arrival(step, offset_ns, place, &slowest);
    sums->n_all_reduces++;
    sums->slowest[first + slowest]++;
    for (int r = 0; r < step->n_ranks; r++) {
      const int64_t *at = step->ranks[r]->begin_ns + place[r];
      double wait = (double)yk_min_i64(yk_max_i64(arrival - (at[0] - offset_ns[r]), 0), at[1] - at[0]);
      sums->part_ns[first + r][YK_TIME_ALL_REDUCE_WAIT] += wait;
      sums->part_ns[first + r][YK_TIME_ALL_REDUCE_TRANSFER] -= wait;
    }
  }
}

/* Add a rank's times between its stamps, and before the first and after the last stamp. */
static void add_rank(yk_step_sums *sums, const yk_timed_step *step, int r, int first_rank)
{
  const yk_step_profile *rank = step->ranks[r], *first = step->ranks[0];
  double *part_ns = sums->part_ns[first_rank + r], *n_stamps = sums->n_stamps[first_rank + r];
  int64_t sampling_ns = 0, span_ns = rank->begin_ns[rank->n - 1] - rank->begin_ns[0];
  for (int32_t i = 0; i + 1 < rank->n; i++) {
    yk_time_part part = part_of(rank->operations[i].kind, step->n_ranks);
    part_ns[part] += (double)(rank->begin_ns[i + 1] - rank->begin_ns[i]);
    if (!rank->operations[i].is_internal) n_stamps[part]++;
  }
  for (int32_t i = 0; i + 1 < first->n; i++)
    if (first->operations[i].kind == YK_OPERATION_SAMPLING) sampling_ns += first->begin_ns[i + 1] - first->begin_ns[i];
  int64_t forward_ns = rank->forward_end_ns - rank->forward_begin_ns;
  int64_t tail_ns = yk_min_i64(yk_max_i64(first->forward_end_ns - rank->forward_end_ns, 0), r ? sampling_ns : 0);
  part_ns[YK_TIME_SAMPLING] += (double)tail_ns;
  part_ns[YK_TIME_LAUNCH_GAP] += (double)yk_max_i64(forward_ns - span_ns, 0);
  n_stamps[YK_TIME_LAUNCH_GAP]++;
  part_ns[YK_TIME_HOST] += (double)yk_max_i64(step->period_ns - forward_ns - tail_ns, 0);
}

void yk_step_sums_add(yk_step_sums *sums, const yk_timed_step *step)
{
  sums->n_steps++;
  sums->step_ns += (double)step->period_ns;
  for (int stage = 0; stage < step->n_stages; stage++) {
    const yk_timed_step of_stage = yk_timed_step_of_stage(step, stage);
    int first = stage * of_stage.n_ranks;
    for (int r = 0; r < of_stage.n_ranks; r++) add_rank(sums, &of_stage, r, first);
    split_all_reduces(sums, &of_stage, first);
  }
}

static double positive(double x)
{
  return x > 0 ? x : 0;
}

void yk_step_sums_correct(const yk_step_sums *sums, int n_ranks, double stamp_ns, yk_step_times *out)
{
  const double s = 1e-9;
  double n_stamps = 0;
  *out = (yk_step_times){.n_steps = sums->n_steps, .n_all_reduces = sums->n_all_reduces};
  for (int part = 0; part < YK_TIME_PARTS; part++) n_stamps += sums->n_stamps[0][part];
  out->timestamp_cost_s = n_stamps * stamp_ns * s;
  out->step_s = positive(sums->step_ns * s - out->timestamp_cost_s);
  for (int r = 0; r < n_ranks; r++) {
    out->slowest[r] = sums->slowest[r];
    for (int part = 0; part < YK_TIME_PARTS; part++)
      out->part_s[r][part] = positive(sums->part_ns[r][part] - sums->n_stamps[r][part] * stamp_ns) * s;
  }
}
