/* bench_report.h - the figures of `yoke bench` as a table and as JSON. */
#ifndef YK_CLI_BENCH_REPORT_H
#define YK_CLI_BENCH_REPORT_H

#include <stdio.h>

#include "bench/figures.h"
#include "cli/bench/bench_options.h"

/* The finished runs. */
typedef struct yk_bench_report {
  const yk_bench_options *options;
  yk_engine_info info;
  yk_bench_figures *runs; /* [n_runs], owned, without the warm-up */
  int n_runs;
  yk_bench_figures median, spread; /* valid if n_runs > 0 */
  bool is_interrupted;
  bool has_times; /* times and timed are valid */
  yk_profile times;
  yk_expert_load experts; /* owned; over all runs and the warm-up */
  yk_bench_figures timed; /* of the run with timed steps; the difference to the other runs is the cost of timestamps */
} yk_bench_report;

/* yk_bench_report_print_head - one line: model, ranks and load. */
void yk_bench_report_print_head(const yk_bench_report *report);

/* yk_bench_report_print - print the tables, for at least one run. */
void yk_bench_report_print(const yk_bench_report *report);

/* yk_bench_report_write - write everything as one JSON object: the settings, each figure's median under its name,
 *   "spread", "runs", the times of steps, and "timed_run", the figures of the run in which the steps were timed.
 *   Errors: YK_E_NOMEM, YK_E_IO. */
yk_status yk_bench_report_write(const yk_bench_report *report, FILE *file, yk_err *err);

#endif
