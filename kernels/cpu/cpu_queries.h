/* cpu_queries.h - distribution of attention queries over threads. An item is a few rows of one sequence and a part of
 * the heads. */
#ifndef YK_KERNELS_CPU_QUERIES_H
#define YK_KERNELS_CPU_QUERIES_H

#include "kernels/cpu/cpu_device.h"

/* Rows [begin, end) of the batch, at most YK_CPU_MAX_QUERIES, of one sequence, and a part of the heads. */
typedef struct yk_cpu_queries {
  int32_t seq, part;
  int64_t begin, end;
} yk_cpu_queries;

/* yk_cpu_queries_run - calls run for every item of a batch, on all threads of the device; thread is less than their
 *   number. n_parts: parts of the heads. */
void yk_cpu_queries_run(yk_cpu_device *cpu, const yk_batch *batch, int32_t n_parts,
                        void (*run)(const void *context, int thread, const yk_cpu_queries *queries),
                        const void *context);

#endif
