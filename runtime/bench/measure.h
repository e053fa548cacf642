/* measure.h - computes figures from the times of tokens. */
#ifndef YK_BENCH_MEASURE_H
#define YK_BENCH_MEASURE_H

#include "bench/figures.h"
#include "bench/load.h"

/* The record of a request. */
typedef struct yk_bench_record {
  int64_t sent_ns;   /* submission; under an offered load: the due time */
  int64_t *times_ns; /* [n_tokens] of each token */
  int32_t n_tokens, n_input, n_reused;
  bool is_done;
  double running_s; /* from the engine's first scheduling of the request to the request's end */
} yk_bench_record;

/* yk_bench_measure - the figures that follow from records [n]: counts, rates, times, goodput and, for a fixed batch,
 *   prefill and decode rates. Unfinished requests are ignored. Figures that do not follow from records become NaN.
 *   start_ns: of the run. Errors: YK_E_NOMEM. */
yk_status yk_bench_measure(const yk_bench_load *load, const yk_bench_record *records, size_t n, int64_t start_ns,
                           yk_bench_figures *out, yk_err *err);

#endif
