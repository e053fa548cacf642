/* machine_memory.c - measures how fast devices read and copy their memory.
 *
 * On a CPU each thread reads a part of one buffer that the thread has written itself, so that pages are local to their
 * reader. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/cpu_pool.h"
#include "tools/gpu_times.h"
#include "tools/machine_run.h"

enum { LANES = 32, LINE_BYTES = LANES * 8, MAX_THREADS = 1024 };

typedef struct buffer {
  uint64_t *words, *copy;
  uint64_t sums[MAX_THREADS]; /* one per thread, so that the compiler removes no loop */
} buffer;

static void fill(void *context, int thread, int64_t begin, int64_t end)
{
  const buffer *b = context;
  (void)thread;
  for (int64_t i = begin * LANES; i < end * LANES; i++) b->words[i] = (uint64_t)i * 0x9E3779B97F4A7C15u;
}

static void add_up(void *context, int thread, int64_t begin, int64_t end)
{
  buffer *b = context;
  uint64_t sum[LANES] = {0}, total = 0;
  for (int64_t i = begin; i < end; i++)
    for (int lane = 0; lane < LANES; lane++) sum[lane] += b->words[i * LANES + lane];
  for (int lane = 0; lane < LANES; lane++) total += sum[lane];
  b->sums[thread] += total;
}

static void copy(void *context, int thread, int64_t begin, int64_t end)
{
  const buffer *b = context;
  (void)thread;
  memcpy(b->copy + begin * LANES, b->words + begin * LANES, (size_t)(end - begin) * LINE_BYTES);
}

static yk_spread time_task(yk_cpu_pool *pool, int64_t n_lines, int n_repeats, yk_cpu_task task, buffer *b)
{
  double us[YK_MACHINE_MAX_REPEATS];
  for (int i = -1; i < n_repeats; i++) { /* the first is not counted */
    int64_t start_ns = yk_clock_now_ns();
    yk_cpu_pool_run(pool, n_lines, 1, task, b);
    if (i >= 0) us[i] = yk_clock_seconds_since(start_ns) * 1e6;
  }
  return yk_spread_of(us, n_repeats);
}

static yk_status measure_cpu(const yk_machine_run *run, bool copies, int n_threads, yk_spread *us, yk_err *err)
{
  const size_t alignment = 1 << 21;
  int64_t n_bytes = run->options.memory_bytes, n_lines = n_bytes / LINE_BYTES;
  size_t n_allocated = (size_t)yk_round_up_i64(n_bytes, (int64_t)alignment);
  yk_cpu_pool *pool = NULL;
  YK_TRY(yk_machine_check_free(-1, (copies ? 2 : 1) * (int64_t)n_allocated, err));
  YK_TRY(yk_cpu_pool_create(n_threads, &pool, err));
  buffer *b = calloc(1, sizeof *b);
  if (b) b->words = aligned_alloc(alignment, n_allocated);
  if (b && copies) b->copy = aligned_alloc(alignment, n_allocated);
  bool is_there = b && b->words && (b->copy || !copies);
  if (is_there) {
    yk_cpu_pool_run(pool, n_lines, 1, fill, b);
    *us = time_task(pool, n_lines, run->options.n_repeats, copies ? copy : add_up, b);
  }
  if (b) {
    free(b->words);
    free(b->copy);
  }
  free(b);
  yk_cpu_pool_destroy(pool);
  if (is_there) return YK_OK;
  return yk_err_set(err, YK_E_NOMEM, "no memory for %lld bytes that are to be read", (long long)n_bytes);
}

static yk_status measure_gpu(const yk_machine_run *run, bool copies, int device, yk_spread *us, yk_err *err)
{
  int64_t n_bytes = run->options.memory_bytes;
  YK_TRY(yk_machine_check_free(device, (copies ? 2 : 1) * n_bytes, err));
  return yk_gpu_times_memory(device, n_bytes, copies, run->options.n_repeats, us, err);
}

static void measure(yk_machine_run *run, bool copies, int device, int n_threads)
{
  yk_err err = YK_ERR_INIT;
  yk_spread us = {0};
  yk_machine_row row = {.kind = YK_MACHINE_MEMORY,
                        .method = copies ? "copy" : "read",
                        .device = device,
                        .to = -1,
                        .n_ranks = 1,
                        .n_threads = n_threads,
                        .n_bytes = (copies ? 2 : 1) * run->options.memory_bytes};
  yk_status status =
      device < 0 ? measure_cpu(run, copies, n_threads, &us, &err) : measure_gpu(run, copies, device, &us, &err);
  yk_machine_add(run, &row, status, &us, &err);
}

void yk_machine_measure_memory(yk_machine_run *run)
{
  const yk_machine_options *o = &run->options;
  if (o->device == YK_DEVICE_CUDA) {
    for (int i = 0; i < o->n_devices; i++)
      for (int copies = 0; copies < 2; copies++) measure(run, copies, o->device_ids[i], 0);
    return;
  }
  for (int n = 1; n < o->n_cpu_threads; n *= 2) measure(run, false, -1, n);
  for (int copies = 0; copies < 2; copies++) measure(run, copies, -1, o->n_cpu_threads);
}
