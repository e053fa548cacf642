#include "kernels/cpu/cpu_queries.h"

#include "base/checked.h"

typedef struct dealt_queries {
  const yk_batch *batch;
  int32_t n_parts, n_shares;
  void (*run)(const void *context, int thread, const yk_cpu_queries *queries);
  const void *context;
} dealt_queries;

/* A share takes every n_shares-th item: in a prefill, cost grows with the item's position, so contiguous ranges would
 * not balance. */
static void run_share(const dealt_queries *d, int thread, int64_t share)
{
  int64_t item = 0;
  for (int32_t seq = 0; seq < d->batch->n_seqs; seq++) {
    const int64_t end = d->batch->row_starts[seq + 1];
    for (int64_t row = d->batch->row_starts[seq]; row < end; row += YK_CPU_MAX_QUERIES)
      for (int32_t part = 0; part < d->n_parts; part++, item++) {
        const yk_cpu_queries queries = {seq, part, row, yk_min_i64(row + YK_CPU_MAX_QUERIES, end)};
        if (item % d->n_shares == share) d->run(d->context, thread, &queries);
      }
  }
}

static void run_shares(void *context, int thread, int64_t begin, int64_t end)
{
  for (int64_t share = begin; share < end; share++) run_share(context, thread, share);
}

void yk_cpu_queries_run(yk_cpu_device *cpu, const yk_batch *batch, int32_t n_parts,
                        void (*run)(const void *context, int thread, const yk_cpu_queries *queries),
                        const void *context)
{
  dealt_queries dealt = {batch, n_parts, cpu->n_threads, run, context};
  yk_cpu_pool_run(cpu->pool, cpu->n_threads, 1, run_shares, &dealt);
}
