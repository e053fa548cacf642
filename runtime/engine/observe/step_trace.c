#include "engine/observe/step_trace.h"

#include <stdio.h>

#include "base/checked.h"

enum { ENGINE = 0, THREAD = 1, DEVICE = 2, NO_LAYER = -1, NO_ROWS = -1 };

static void add(yk_trace *trace, int process, int row, const char *name, int64_t begin_ns, int64_t end_ns)
{
  yk_trace_slice slice = {process, row, name, NO_LAYER, NO_ROWS, begin_ns, end_ns};
  yk_trace_add(trace, &slice);
}

static void add_step(yk_trace *trace, int process, int row, const yk_engine_times *times, int64_t begin_ns,
                     int64_t end_ns)
{
  yk_trace_slice slice = {process,  row,   times->is_prefill ? "prefill step" : "decode step", NO_LAYER, times->n_rows,
                          begin_ns, end_ns};
  yk_trace_add(trace, &slice);
}

static void add_engine(yk_trace *trace, const yk_engine_times *times)
{
  yk_trace_name_row(trace, ENGINE, THREAD, "engine thread");
  add_step(trace, ENGINE, THREAD, times, times->begin_ns, times->end_ns);
  add(trace, ENGINE, THREAD, "planning", times->begin_ns, times->ranks_ns);
  add(trace, ENGINE, THREAD, "ranks", times->ranks_ns, times->hand_out_ns);
  add(trace, ENGINE, THREAD, "delivering", times->deliver_ns, times->delivered_ns);
  add(trace, ENGINE, THREAD, "handing out", times->hand_out_ns, times->handed_out_ns);
}

/* Offset from the clock of rank 0's device to the host's clock. */
static int64_t host_offset_ns(const yk_timed_step *step)
{
  const yk_step_profile *rank = step->ranks[0];
  if (step->has_one_clock) return 0;
  int64_t span_ns = rank->begin_ns[rank->n - 1] - rank->begin_ns[0];
  int64_t gap_ns = rank->forward_end_ns - rank->forward_begin_ns - span_ns;
  return rank->forward_begin_ns + gap_ns / 2 - rank->begin_ns[0];
}

/* Names the stage, process and host of a rank, each only if there are several. */
static void place_rank(yk_trace *trace, const yk_timed_step *step, int rank)
{
  char place[96] = "";
  size_t used = 0;
  if (step->n_stages > 1)
    used = (size_t)snprintf(place, sizeof place, "stage %d", rank / (step->n_ranks / step->n_stages));
  if (step->hosts)
    snprintf(place + used, sizeof place - used, "%sprocess %d, host %.48s", used ? ", " : "",
             rank / (step->n_ranks / step->n_processes), step->hosts[rank]);
  yk_trace_place_rank(trace, rank, place);
}

static void add_rank(yk_trace *trace, const yk_timed_step *step, const yk_engine_times *times, int r,
                     int64_t to_host_ns)
{
  const yk_step_profile *rank = step->ranks[r];
  place_rank(trace, step, r);
  yk_trace_name_row(trace, 1 + r, THREAD, "thread");
  yk_trace_name_row(trace, 1 + r, DEVICE, "device");
  add(trace, 1 + r, THREAD, "forward", rank->forward_begin_ns, rank->forward_end_ns);
  add_step(trace, 1 + r, DEVICE, times, rank->begin_ns[0] + to_host_ns, rank->begin_ns[rank->n - 1] + to_host_ns);
  for (int32_t i = 0; i + 1 < rank->n; i++) {
    const yk_timed_operation *operation = &rank->operations[i];
    yk_trace_slice slice = {1 + r,
                            DEVICE,
                            operation->name,
                            operation->layer,
                            NO_ROWS,
                            rank->begin_ns[i] + to_host_ns,
                            rank->begin_ns[i + 1] + to_host_ns};
    yk_trace_add(trace, &slice);
  }
}

/* Add waits as slices inside those of the all-reduces of a stage, whose rank 0 is rank `first`. */
static void add_waits(yk_trace *trace, const yk_timed_step *step, int first, const int64_t offset_ns[YK_MAX_RANKS],
                      int64_t to_host_ns)
{
  int32_t place[YK_MAX_RANKS] = {0};
  while (yk_all_reduce_next(step, place)) {
    int slowest;
    int64_t arrival_ns = yk_all_reduce_arrival(step, offset_ns, place, &slowest);
    for (int r = 0; r < step->n_ranks; r++) {
      const int64_t *at = step->ranks[r]->begin_ns + place[r]++;
      int64_t begin_ns = at[0] - offset_ns[r], end_ns = at[1] - offset_ns[r];
      int64_t split_ns = yk_min_i64(yk_max_i64(arrival_ns, begin_ns), end_ns);
      if (split_ns > begin_ns)
        add(trace, 1 + first + r, DEVICE, "waiting", begin_ns + to_host_ns, split_ns + to_host_ns);
      if (end_ns > split_ns) add(trace, 1 + first + r, DEVICE, "transfer", split_ns + to_host_ns, end_ns + to_host_ns);
    }
  }
}

void yk_step_trace(yk_trace *trace, const yk_timed_step *step, const yk_engine_times *times)
{
  int64_t offset_ns[YK_MAX_RANKS], to_host_ns = host_offset_ns(step);
  yk_clocks_align(step, offset_ns);
  add_engine(trace, times);
  for (int r = 0; r < step->n_ranks; r++) add_rank(trace, step, times, r, to_host_ns - offset_ns[r]);
  for (int stage = 0; stage < step->n_stages; stage++) {
    const yk_timed_step of_stage = yk_timed_step_of_stage(step, stage);
    int first = stage * of_stage.n_ranks;
    add_waits(trace, &of_stage, first, offset_ns + first, to_host_ns);
  }
  yk_trace_end_step(trace);
}
