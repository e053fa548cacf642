/* figures.h - the figures of a run, with the field names of `vllm bench serve` if it has the same figure. A figure that
 * does not apply or could not be measured is NaN, in JSON null. */
#ifndef YK_BENCH_FIGURES_H
#define YK_BENCH_FIGURES_H

#include <jansson.h>
#include <stddef.h>

#include "bench/gpus.h"
#include "bench/load.h"

/* Statistics of a sample of times. Percentiles are interpolated linearly between neighbours, as in numpy; std is of the
 * whole population. All are NaN for an empty sample. */
typedef struct yk_bench_statistics {
  double mean, median, std, p90, p95, p99;
} yk_bench_statistics;

typedef struct yk_bench_figures {
  double duration_s; /* from the start to the last token */
  double completed;  /* number of requests */
  double total_input_tokens, total_output_tokens;
  double request_throughput; /* per second */
  double request_goodput;    /* requests per second that meet every objective; NaN without objectives */
  double output_throughput, total_token_throughput; /* tokens per second, over the whole run */
  /* For a fixed batch. Prefill: tokens of all prompts divided by the time until the last sequence has its first token.
   * Decode: tokens per second while all sequences decode: from the moment at which the last one has its first token
   * until the first one ends. NaN if there is no such interval. */
  double prefill_throughput, decode_throughput;
  yk_bench_statistics times_ms[YK_BENCH_TIMES];
  double running;                    /* requests that have been scheduled and have not ended, mean over the run */
  double kv_use;                     /* largest observed share of KV blocks in use, sampled every few milliseconds */
  double prefix_reuse;               /* share of prompt tokens that were already computed */
  double preemptions;                /* number of times that a sequence lost its KV blocks and was computed again */
  double expert_busiest_share;       /* largest share of a layer's choices of experts on one rank; NaN: no experts */
  double memory_bytes;               /* largest over ranks: weights, KV and workspace */
  double between_share;              /* share of the engine's working time that is spent between steps */
  double scheduling_us, hand_out_us; /* engine thread's own work per step */
  double late_ms;                    /* offered load: largest delay of a submission after its due time */
  double energy_j;                   /* of all GPUs over the run */
  double energy_j_per_token, energy_j_per_token_per_gpu; /* of output */
  int n_gpus;
  yk_bench_gpu_run gpus[YK_BENCH_MAX_GPUS];
  yk_bench_warnings warnings;
} yk_bench_figures;

/* A figure by name. */
typedef struct yk_bench_metric {
  const char *name; /* in JSON: "duration", "mean_ttft_ms", ... */
  size_t offset;    /* of the double in yk_bench_figures */
} yk_bench_metric;

enum { YK_BENCH_METRICS = 47 };

/* yk_bench_metrics - [YK_BENCH_METRICS] all numeric figures, in the order of tables and files. */
const yk_bench_metric *yk_bench_metrics(void);

/* yk_bench_metric_of - the figure. */
static inline double yk_bench_metric_of(const yk_bench_figures *figures, const yk_bench_metric *metric)
{
  return *(const double *)(const void *)((const char *)figures + metric->offset);
}

/* yk_bench_figures_median - each figure's median over n runs (1 or more) into *out, and its spread, the largest minus
 *   the smallest, into *spread, which may be NULL. Runs in which a figure is NaN are ignored for that figure. For each
 *   GPU: the first run's state before, the last one's after and the median of its energy. The warnings are those of all
 *   runs, and of clocks that drifted from the first to the last run. Errors: YK_E_NOMEM. */
yk_status yk_bench_figures_median(const yk_bench_figures *runs, int n, yk_bench_figures *out, yk_bench_figures *spread,
                                  yk_err *err);

/* yk_bench_figures_json - set every figure in object under its name, "gpus": [{"id", "energy_j", "before": {...},
 *   "after": {...}}] and "warnings": [...]. Errors: YK_E_NOMEM. */
yk_status yk_bench_figures_json(const yk_bench_figures *figures, json_t *object, yk_err *err);

/* yk_bench_statistics_of - the statistics of values [n], which are sorted in place. */
yk_bench_statistics yk_bench_statistics_of(double *values, size_t n);

/* yk_bench_percentile - a percentile of sorted values [n], n >= 1; share 0 .. 100. */
double yk_bench_percentile(const double *values, size_t n, double share);

#endif
