/* measure.h - from the times of tokens to figures. */
#ifndef YK_BENCH_MEASURE_H
#define YK_BENCH_MEASURE_H

#include "bench/figures.h"
#include "bench/load.h"

/* What is kept of a request. */
typedef struct yk_bench_record {
  int64_t sent_ns;   /* submitted; under offered load: when it was due */
  int64_t *times_ns; /* [n_tokens] of each token */
  int32_t n_tokens, n_input, n_reused;
  bool is_done;
  double running_s; /* from when the engine first scheduled the request until its end */
} yk_bench_record;

/* yk_bench_measure - the figures that follow from records [n]: counts, rates, times, goodput and, of a fixed batch,
 *   prefill and decode rates. Requests that are not done count for nothing. What does not follow from records becomes
 *   NaN. start_ns: of the run. Errors: YK_E_NOMEM. */
yk_status yk_bench_measure(const yk_bench_load *load, const yk_bench_record *records, size_t n, int64_t start_ns,
                           yk_bench_figures *out, yk_err *err);

#endif
