/* figures.h - what a run is summed up as, in the field names of `vllm bench serve` where that has one. A figure that
 * does not apply or could not be measured is NaN, in JSON null. */
#ifndef YK_BENCH_FIGURES_H
#define YK_BENCH_FIGURES_H

#include <jansson.h>
#include <stddef.h>

#include "bench/gpus.h"
#include "bench/load.h"

/* Of a sample of times. Percentiles lie on a straight line between neighbours, as numpy's do; std is of the whole
 * population. Each is NaN where there is no time. */
typedef struct yk_bench_statistics {
  double mean, median, std, p90, p95, p99;
} yk_bench_statistics;

typedef struct yk_bench_figures {
  double duration_s; /* from the start to the last token */
  double completed;  /* requests */
  double total_input_tokens, total_output_tokens;
  double request_throughput; /* a second */
  double request_goodput;    /* requests a second that keep every objective; NaN where there is none */
  double output_throughput, total_token_throughput; /* tokens a second, over the whole run */
  /* Of a fixed batch. Prefill: tokens of all prompts by the time until the last sequence has its first token. Decode:
   * tokens a second while all sequences decode: from the moment at which the last one has its first token until the
   * first one ends. NaN where there is no such moment. */
  double prefill_throughput, decode_throughput;
  yk_bench_statistics times_ms[YK_BENCH_TIMES];
  double running;                    /* requests that the engine had begun and not ended, mean over the run */
  double kv_use;                     /* largest share of KV blocks in use that was seen, every few milliseconds */
  double prefix_reuse;               /* share of prompt tokens that were found computed */
  double preemptions;                /* sequences that gave their KV blocks back and were computed again */
  double expert_busiest_share;       /* of a layer's choices of experts, the most that fell to one rank; NaN: none */
  double memory_bytes;               /* of the rank with the most: weights, KV and workspace */
  double between_share;              /* of the time in which the engine had work, spent between steps */
  double scheduling_us, hand_out_us; /* engine thread's own work a step */
  double late_ms;                    /* offered load: how long after its time the latest request was submitted */
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

/* yk_bench_metrics - [YK_BENCH_METRICS] all figures that are numbers, in the order of tables and files. */
const yk_bench_metric *yk_bench_metrics(void);

/* yk_bench_metric_of - the figure. */
static inline double yk_bench_metric_of(const yk_bench_figures *figures, const yk_bench_metric *metric)
{
  return *(const double *)(const void *)((const char *)figures + metric->offset);
}

/* yk_bench_figures_median - each figure's median over n runs (1 or more) into *out, and its spread, the largest less
 *   the smallest, into *spread, which may be NULL. Runs in which a figure is NaN do not count for it. Of each
 *   GPU: the first run's state before, the last one's after and the median of its energy. The warnings are those of all
 *   runs, and of clocks that drifted from the first to the last. Errors: YK_E_NOMEM. */
yk_status yk_bench_figures_median(const yk_bench_figures *runs, int n, yk_bench_figures *out, yk_bench_figures *spread,
                                  yk_err *err);

/* yk_bench_figures_json - set every figure in object under its name, "gpus": [{"id", "energy_j", "before": {...},
 *   "after": {...}}] and "warnings": [...]. Errors: YK_E_NOMEM. */
yk_status yk_bench_figures_json(const yk_bench_figures *figures, json_t *object, yk_err *err);

/* yk_bench_statistics_of - values [n]; they are sorted. */
yk_bench_statistics yk_bench_statistics_of(double *values, size_t n);

/* yk_bench_percentile - of sorted values [n], n >= 1; share 0 .. 100. */
double yk_bench_percentile(const double *values, size_t n, double share);

#endif
