/* load_figures.h - summary of a run under load, in the field names of `vllm bench serve` and of bench_serve.py: counts,
 * rates, and mean, median, standard deviation and percentiles of four times.
 *
 *   TTFT  from the request to its first token    TPOT  mean time of each further token
 *   ITL   between one token and the next         E2EL  from the request to its last token */
#ifndef YK_BENCH_LOAD_FIGURES_H
#define YK_BENCH_LOAD_FIGURES_H

#include <jansson.h>
#include <stdio.h>

#include "bench/figures.h"

enum { LOAD_TTFT, LOAD_TPOT, LOAD_ITL, LOAD_E2EL, N_LOAD_TIMES, N_LOAD_COUNTS = 8, N_LOAD_STATISTICS = 6 };
enum { N_LOAD_FIGURES = N_LOAD_COUNTS + N_LOAD_TIMES * N_LOAD_STATISTICS, MAX_LOAD_RUNS = 64 };

typedef struct load_times {
  double *values_ms; /* [capacity], owned by the caller */
  size_t n;
} load_times;

typedef struct load_run {
  double duration_s;
  int64_t completed, input_tokens, output_tokens;
  load_times times[N_LOAD_TIMES]; /* sorted by load_figures_of */
} load_run;

static inline void load_figure_name(int figure, char *out, size_t n_bytes)
{
  static const char *const counts[N_LOAD_COUNTS] = {"duration",
                                                    "completed",
                                                    "failed",
                                                    "total_input_tokens",
                                                    "total_output_tokens",
                                                    "request_throughput",
                                                    "output_throughput",
                                                    "total_token_throughput"};
  static const char *const statistics[N_LOAD_STATISTICS] = {"mean", "median", "std", "p90", "p95", "p99"};
  static const char *const times[N_LOAD_TIMES] = {"ttft", "tpot", "itl", "e2el"};
  int at = figure - N_LOAD_COUNTS;
  if (at < 0)
    snprintf(out, n_bytes, "%s", counts[figure]);
  else
    snprintf(out, n_bytes, "%s_%s_ms", statistics[at % N_LOAD_STATISTICS], times[at / N_LOAD_STATISTICS]);
}

/* Zeros for an empty sample. Sorts the times. */
static inline void load_statistics_of(load_times *times, double out[N_LOAD_STATISTICS])
{
  const yk_bench_statistics found = yk_bench_statistics_of(times->values_ms, times->n);
  const double values[N_LOAD_STATISTICS] = {found.mean, found.median, found.std, found.p90, found.p95, found.p99};
  for (int i = 0; i < N_LOAD_STATISTICS; i++) out[i] = times->n ? values[i] : 0;
}

static inline void load_figures_of(load_run *run, double out[N_LOAD_FIGURES])
{
  double tokens = (double)(run->input_tokens + run->output_tokens);
  const double counts[N_LOAD_COUNTS] = {run->duration_s,
                                        (double)run->completed,
                                        0, /* a failed request ends the program */
                                        (double)run->input_tokens,
                                        (double)run->output_tokens,
                                        (double)run->completed / run->duration_s,
                                        (double)run->output_tokens / run->duration_s,
                                        tokens / run->duration_s};
  for (int i = 0; i < N_LOAD_COUNTS; i++) out[i] = counts[i];
  for (int i = 0; i < N_LOAD_TIMES; i++)
    load_statistics_of(&run->times[i], out + N_LOAD_COUNTS + i * N_LOAD_STATISTICS);
}

/* Prints each figure's median over the runs and its spread (largest less smallest), and adds them to the report, under
 * the figure's name and in "spread". The runs themselves go to "runs". */
static inline void load_report(double runs[][N_LOAD_FIGURES], int n_runs, json_t *report)
{
  json_t *spreads = json_object(), *list = json_array();
  char name[48];
  printf("%-34s %12s %12s   over %d runs\n", "", "median", "spread", n_runs);
  for (int figure = 0; figure < N_LOAD_FIGURES; figure++) {
    double values[MAX_LOAD_RUNS];
    for (int i = 0; i < n_runs; i++) values[i] = runs[i][figure];
    const double median = yk_bench_statistics_of(values, (size_t)n_runs).median; /* sorts them */
    const double spread = values[n_runs - 1] - values[0];
    load_figure_name(figure, name, sizeof name);
    printf("%-34s %12.2f %12.2f\n", name, median, spread);
    json_object_set_new(report, name, json_real(median));
    json_object_set_new(spreads, name, json_real(spread));
  }
  for (int i = 0; i < n_runs; i++) {
    json_t *run = json_object();
    for (int figure = 0; figure < N_LOAD_FIGURES; figure++) {
      load_figure_name(figure, name, sizeof name);
      json_object_set_new(run, name, json_real(runs[i][figure]));
    }
    json_array_append_new(list, run);
  }
  json_object_set_new(report, "spread", spreads);
  json_object_set_new(report, "runs", list);
}

#endif
