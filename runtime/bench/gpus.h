/* gpus.h - the state of GPUs around a run, from NVIDIA's management library (libnvidia-ml.so.1), which is loaded at run
 * time. A machine without it, and functions that it lacks or refuses, make figures unknown, never an error: each is
 * told once through the log. */
#ifndef YK_BENCH_GPUS_H
#define YK_BENCH_GPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/status.h"

enum { YK_BENCH_MAX_GPUS = 8, YK_BENCH_MAX_WARNINGS = 16, YK_BENCH_WARNING_BYTES = 160, YK_BENCH_MAX_PROCESSES = 16 };

typedef struct yk_bench_gpus yk_bench_gpus;

/* One GPU at one moment. Unknown: NaN. */
typedef struct yk_bench_gpu_state {
  double sm_clock_mhz, memory_clock_mhz, temperature_c, power_w, power_cap_w;
  double energy_j;           /* since the driver was loaded */
  uint64_t throttle_reasons; /* NVML's bits, as far as they lower speed under load; 0: none, or unknown */
} yk_bench_gpu_state;

/* One GPU around a run. */
typedef struct yk_bench_gpu_run {
  int id; /* CUDA ordinal */
  yk_bench_gpu_state before, after;
  double energy_j; /* of the run; NaN where unknown */
} yk_bench_gpu_run;

typedef struct yk_bench_warnings {
  int n; /* at most YK_BENCH_MAX_WARNINGS are kept */
  char text[YK_BENCH_MAX_WARNINGS][YK_BENCH_WARNING_BYTES];
} yk_bench_warnings;

/* yk_bench_warn - add a warning that is not there yet. */
void yk_bench_warn(yk_bench_warnings *warnings, const char *fmt, ...) YK_PRINTF(2, 3);

/* yk_bench_gpus_open - look up the GPUs with these CUDA ordinals ([n_ids], each once). *out is NULL where none can be
 *   asked, which the log tells. Errors: YK_E_INVAL (n_ids), YK_E_NOMEM. Close with yk_bench_gpus_close. */
yk_status yk_bench_gpus_open(const int *ids, int n_ids, const yk_log *log, yk_bench_gpus **out, yk_err *err);

/* yk_bench_gpus_close - NULL is allowed. */
void yk_bench_gpus_close(yk_bench_gpus *gpus);

/* yk_bench_gpus_read - every GPU now: out [YK_BENCH_MAX_GPUS]; returns how many. gpus NULL: 0. One thread at a time. */
int yk_bench_gpus_read(yk_bench_gpus *gpus, yk_bench_gpu_state *out);

/* yk_bench_gpus_id - the CUDA ordinal of GPU number i of those that are read. */
int yk_bench_gpus_id(const yk_bench_gpus *gpus, int i);

/* yk_bench_gpus_compare - what a run did to the GPUs: *runs of the n GPUs with states before and after, and warnings
 *   where a clock drifted by more than 2 % or the GPU says that it was slowed down. */
void yk_bench_gpus_compare(const yk_bench_gpus *gpus, const yk_bench_gpu_state *before, const yk_bench_gpu_state *after,
                           int n, yk_bench_gpu_run *runs, yk_bench_warnings *warnings);

/* yk_bench_gpus_find_others - a warning for each GPU that processes other than this one use, with their ids. */
void yk_bench_gpus_find_others(yk_bench_gpus *gpus, yk_bench_warnings *warnings);

#endif
