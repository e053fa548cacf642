/* all_reduce_times.h - all-reduces over ranks by themselves: that the right values arrive, and how long they take.
 *
 * A chain of them is timed, on devices with graphs as one graph, and the slowest rank counts. Ranks begin a chain
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
  int n_threads;         /* CPU: of each rank */
  bool nccl;             /* CUDA: by NCCL alone, not as an engine would */
  int64_t max_bytes;     /* of one all-reduce */
  double limit_s;        /* how long a rank waits for the others */
} yk_all_reduce_options;

/* float16 values of n_bytes, at least 16 and a power of 2: in place, or with residual and norm as after every
 * row-parallel GEMM, in rows of YK_ALL_REDUCE_HIDDEN or one that is shorter. */
typedef struct yk_all_reduce_case {
  int64_t n_bytes;
  bool add_norm;
  int n_repeats; /* 1 .. YK_ALL_REDUCE_MAX_REPEATS */
} yk_all_reduce_case;

typedef struct yk_all_reduce_times yk_all_reduce_times;

/* yk_all_reduce_times_open - devices, communicator, threads and 3 * max_bytes of memory a rank.
 *   Errors: those of opening devices and connecting them, YK_E_CAPACITY, YK_E_NOMEM. */
yk_status yk_all_reduce_times_open(const yk_all_reduce_options *options, yk_all_reduce_times **out, yk_err *err);

/* yk_all_reduce_times_measure - microseconds of one all-reduce. Errors: YK_E_COMM where values are wrong, YK_E_TIMEOUT,
 *   YK_E_DEVICE, YK_E_NOMEM; after any of them only close is of use. */
yk_status yk_all_reduce_times_measure(yk_all_reduce_times *times, const yk_all_reduce_case *which, yk_spread *us,
                                      yk_err *err);

/* yk_all_reduce_times_route - how an all-reduce of n_rows rows of YK_ALL_REDUCE_HIDDEN with residual and norm goes: see
 *   yk_gpus_all_reduce_route. */
const char *yk_all_reduce_times_route(const yk_all_reduce_times *times, int32_t n_rows);

/* yk_all_reduce_times_close - NULL is allowed. What a rank that hangs may still touch is left alone. */
void yk_all_reduce_times_close(yk_all_reduce_times *times);

#endif
