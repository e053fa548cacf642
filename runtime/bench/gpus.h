/* gpus.h - samples the state of GPUs under load with NVIDIA's management library (libnvidia-ml.so.1), which is loaded
 * at run time. A missing library, and functions that are missing or refused, make figures unknown but are not errors:
 * each is logged once. */
#ifndef YK_BENCH_GPUS_H
#define YK_BENCH_GPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"
#include "base/status.h"

enum { YK_BENCH_MAX_GPUS = 8, YK_BENCH_MAX_WARNINGS = 16, YK_BENCH_WARNING_BYTES = 160 };

typedef struct yk_bench_gpus yk_bench_gpus;

/* One GPU at one moment. Unknown: NaN. */
typedef struct yk_bench_gpu_state {
  double sm_clock_mhz, memory_clock_mhz, temperature_c, power_w, power_cap_w;
  uint64_t throttle_reasons; /* NVML's bits for reasons that lower speed under load; 0: none, or unknown */
} yk_bench_gpu_state;

/* One GPU over a run. */
typedef struct yk_bench_gpu_run {
  int id;                           /* CUDA ordinal */
  yk_bench_gpu_state before, after; /* first and last sample under load; reasons: of all samples so far */
  double energy_j;                  /* of the run; NaN: unknown */
} yk_bench_gpu_run;

typedef struct yk_bench_warnings {
  int n; /* at most YK_BENCH_MAX_WARNINGS are kept */
  char text[YK_BENCH_MAX_WARNINGS][YK_BENCH_WARNING_BYTES];
} yk_bench_warnings;

/* yk_bench_warn - add a warning unless it is present already. */
void yk_bench_warn(yk_bench_warnings *warnings, const char *fmt, ...) YK_PRINTF(2, 3);

/* yk_bench_gpus_open - open the GPUs with these CUDA ordinals ([n_ids], each once). *out is NULL if they cannot be
 *   queried, which is logged. log: borrowed until close.
 *   Errors: YK_E_INVAL (n_ids), YK_E_NOMEM. Close with yk_bench_gpus_close. */
yk_status yk_bench_gpus_open(const int *ids, int n_ids, const yk_log *log, yk_bench_gpus **out, yk_err *err);

/* yk_bench_gpus_close - NULL is allowed. */
void yk_bench_gpus_close(yk_bench_gpus *gpus);

/* yk_bench_gpus_find_others - add a warning for each GPU that other processes use, with their ids. Call before this
 *   process uses a GPU: in a container NVML may report this process under another id. gpus may be NULL. */
void yk_bench_gpus_find_others(yk_bench_gpus *gpus, yk_bench_warnings *warnings);

/* yk_bench_gpus_start - a run begins: store the energy counters, and start a thread that samples every GPU, first after
 *   50 ms, since idle GPUs lower their clocks, then five times a second. gpus may be NULL. One run at a time. Errors:
 *   YK_E_INTERNAL if no thread can be started. */
yk_status yk_bench_gpus_start(yk_bench_gpus *gpus, yk_err *err);

/* yk_bench_gpus_stop - the run is over: write the result of each GPU to runs [YK_BENCH_MAX_GPUS]; returns their number,
 *   0 if no run has begun. */
int yk_bench_gpus_stop(yk_bench_gpus *gpus, yk_bench_gpu_run *runs);

/* yk_bench_gpus_compare - add a warning for each of n GPUs whose clock drifted by more than 2 % from before to after,
 *   and for each that was slowed down, with the reason. */
void yk_bench_gpus_compare(const yk_bench_gpu_run *runs, int n, yk_bench_warnings *warnings);

#endif
