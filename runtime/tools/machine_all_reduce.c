/* machine_all_reduce.c - all-reduces over sizes and rank counts, by an engine's communicator and by NCCL. */
#include "base/checked.h"
#include "engine/machine/gpus.h"
#include "tools/all_reduce_times.h"
#include "tools/machine_run.h"

enum { MIN_BYTES = 1024, STEP = 4 };

/* A method of the all-reduce, measured over all sizes. */
typedef struct way {
  const char *method;
  bool nccl, add_norm;
} way;

static yk_status open_times(const yk_machine_run *run, int n_ranks, bool nccl, yk_all_reduce_times **out, yk_err *err)
{
  const double limit_s = 5;
  const yk_machine_options *o = &run->options;
  const yk_all_reduce_options options = {.device = o->device,
                                         .n_ranks = n_ranks,
                                         .device_ids = o->device_ids,
                                         .n_threads = (int)yk_max_i64(1, o->n_cpu_threads / n_ranks),
                                         .nccl = nccl,
                                         .max_bytes = o->all_reduce_max_bytes,
                                         .limit_s = limit_s};
  const int64_t arrays_bytes = 3 * o->all_reduce_max_bytes;
  if (o->device == YK_DEVICE_CPU) YK_TRY(yk_machine_check_free(-1, n_ranks * arrays_bytes, err));
  for (int i = 0; o->device == YK_DEVICE_CUDA && i < n_ranks; i++)
    YK_TRY(yk_machine_check_free(o->device_ids[i], arrays_bytes, err));
  return yk_all_reduce_times_open(&options, out, err);
}

/* After a failure the ranks are opened again for the next size. */
static void measure_sizes(yk_machine_run *run, int n_ranks, const way *ways, int n_ways)
{
  yk_all_reduce_times *times = NULL;
  for (int64_t n_bytes = MIN_BYTES; n_bytes <= run->options.all_reduce_max_bytes; n_bytes *= STEP)
    for (int i = 0; i < n_ways; i++) {
      yk_err err = YK_ERR_INIT;
      yk_spread us = {0};
      const yk_all_reduce_case c = {
          .n_bytes = n_bytes, .add_norm = ways[i].add_norm, .n_repeats = run->options.n_repeats};
      yk_machine_row row = {.kind = YK_MACHINE_ALL_REDUCE,
                            .method = ways[i].method,
                            .device = -1,
                            .to = -1,
                            .n_ranks = n_ranks,
                            .n_threads = run->options.device == YK_DEVICE_CPU ? run->options.n_cpu_threads : 0,
                            .n_bytes = n_bytes};
      yk_status status = times ? YK_OK : open_times(run, n_ranks, ways[i].nccl, &times, &err);
      bool is_open = status == YK_OK;
      if (is_open) status = yk_all_reduce_times_measure(times, &c, &us, &err);
      yk_machine_add(run, &row, status, &us, &err);
      if (!is_open) return;
      if (status == YK_OK) continue;
      yk_all_reduce_times_close(times);
      times = NULL;
    }
  yk_all_reduce_times_close(times);
}

void yk_machine_measure_all_reduces(yk_machine_run *run)
{
  static const way ours[] = {{"yoke", false, false}, {"yoke, add and norm", false, true}};
  static const way nccl[] = {{"nccl", true, false}};
  for (int n_ranks = 2; n_ranks <= run->options.n_ranks; n_ranks++) {
    measure_sizes(run, n_ranks, ours, 2);
    if (run->options.device == YK_DEVICE_CUDA) measure_sizes(run, n_ranks, nccl, 1);
  }
}
