/* all_reduce_times.h - measures all-reduces over ranks: correct values and time.
 *
 * A chain of all-reduces is timed, as one graph on devices with graphs; the slowest rank counts. Ranks begin a chain
 * together. */
#ifndef YK_TOOLS_ALL_REDUCE_TIMES_H
#define YK_TOOLS_ALL_REDUCE_TIMES_H

#include "base/spread.h"
#include "engine/machine/settings.h"

enum { YK_ALL_REDUCE_HIDDEN = 4096, YK_ALL_REDUCE_MAX_REPEATS = 100 };

typedef struct yk_all_reduce_options {
  yk_device_kind device; /* CPU or CUDA */
  int n_ranks;           /* at least 2 */
  const int *device_ids; /* [n_ranks] CUDA ordinals, checked; CPU: not read */
  int n_threads;         /* CPU: for each rank */
  bool nccl;             /* CUDA: NCCL only, instead of the engine's choice */
  int64_t max_bytes;     /* maximum of one all-reduce */
  double limit_s;        /* how long a rank waits for the others */
} yk_all_reduce_options;

/* An all-reduce of float16 values, n_bytes of them, at least 16 and a power of 2: in place, or with residual and norm
 * as after every row-parallel GEMM, in rows of YK_ALL_REDUCE_HIDDEN or one shorter row. */
typedef struct yk_all_reduce_case {
  int64_t n_bytes;
  bool add_norm;
  int n_repeats; /* 1 .. YK_ALL_REDUCE_MAX_REPEATS */
} yk_all_reduce_case;

typedef struct yk_all_reduce_times yk_all_reduce_times;

/* yk_all_reduce_times_open - devices, communicator, threads and 3 * max_bytes of memory for each rank.
 *   Errors: those of opening and connecting devices, YK_E_CAPACITY, YK_E_NOMEM. */
yk_status yk_all_reduce_times_open(const yk_all_reduce_options *options, yk_all_reduce_times **out, yk_err *err);

/* yk_all_reduce_times_measure - microseconds of one all-reduce. Errors: YK_E_COMM if values are wrong, YK_E_TIMEOUT,
 *   YK_E_DEVICE, YK_E_NOMEM; after any of them only close may be called. */
yk_status yk_all_reduce_times_measure(yk_all_reduce_times *times, const yk_all_reduce_case *which, yk_spread *us,
                                      yk_err *err);

/* yk_all_reduce_times_route - route of an all-reduce of n_rows rows of YK_ALL_REDUCE_HIDDEN with residual and norm: see
 *   yk_gpus_all_reduce_route. */
const char *yk_all_reduce_times_route(const yk_all_reduce_times *times, int32_t n_rows);

/* yk_all_reduce_times_close - NULL is allowed. Memory that a hanging rank may still access is not freed. */
void yk_all_reduce_times_close(yk_all_reduce_times *times);

#endif
