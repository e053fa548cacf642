/* yoke study compare - which points of two studies differ by more than their noise. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/study/study_tools.h"
#include "study/compare.h"
#include "study/output.h"

typedef struct compare_options {
  const char *metric;
  double fail_above_percent;
  bool fails;
} compare_options;

static const char about[] =
    "Compare the points of two studies. The ratio B / A has a 95 % interval that includes the differences between "
    "engine starts; a difference exceeds the noise where the interval excludes 1, as one in twenty equal points "
    "does by chance. Points of one study alone are listed at the end.";

static const char examples[] = "  yoke study compare before/study.json after/study.json\n"
                               "  yoke study compare main/study.json change/study.json --fail-above 3\n"
                               "  yoke study compare a/study.json b/study.json --metric mean_tpot_ms\n";

static const char *verdict(const yk_compared *pair)
{
  if (!pair->has_starts) return "one start alone: no interval";
  if (!pair->has_interval) return "starts differ too much: no interval";
  if (!pair->is_significant) return "within the noise";
  return pair->slowdown_percent > 0 ? "WORSE" : "better";
}

static void print_pair(const yk_compared *pair)
{
  char interval[48] = "-";
  if (pair->has_interval) snprintf(interval, sizeof interval, "%.3f .. %.3f", pair->interval.low, pair->interval.high);
  printf("%-52s  %12.4g  %12.4g  %7.3f  %-18s  %s\n", pair->name, pair->value_a, pair->value_b, pair->ratio, interval,
         verdict(pair));
}

/* Returns the number of significant slowdowns that exceed the limit. */
static int print_all(const compare_options *options, const yk_compared *compared, size_t n)
{
  int n_pairs = 0, n_significant = 0, n_failing = 0;
  printf("%-52s  %12s  %12s  %7s  %-18s\n", options->metric, "A", "B", "B / A", "95 %");
  for (size_t i = 0; i < n; i++) {
    if (!(compared[i].ratio > 0)) continue;
    print_pair(&compared[i]);
    n_pairs++;
    n_significant += compared[i].is_significant;
    n_failing += compared[i].is_significant && compared[i].slowdown_percent > options->fail_above_percent;
  }
  printf("%d of %d points differ by more than the noise; about %.1f would by chance.\n", n_significant, n_pairs,
         (1 - YK_STATS_CONFIDENCE) * n_pairs);
  for (size_t i = 0; i < n; i++) {
    if (compared[i].ratio > 0) continue;
    const char *where = !compared[i].b ? "only in A" : !compared[i].a ? "only in B" : "without the metric";
    printf("%s: %s\n", where, compared[i].name);
  }
  return n_failing;
}

static yk_status compare(const compare_options *options, const char *path_a, const char *path_b, int *n_failing,
                         yk_err *err)
{
  json_t *a = NULL, *b = NULL;
  yk_compared *compared = NULL;
  size_t n = 0;
  yk_status status = yk_study_read(path_a, &a, err);
  if (status == YK_OK) status = yk_study_read(path_b, &b, err);
  if (status == YK_OK) status = yk_study_compare(a, b, options->metric, &compared, &n, err);
  if (status == YK_OK) {
    *n_failing = print_all(options, compared, n);
    status = yk_cli_flush(err);
  }
  yk_study_compare_free(compared, n);
  json_decref(a);
  json_decref(b);
  return status;
}

int yk_cli_study_compare(int argc, char **argv)
{
  compare_options options = {.metric = "output_throughput"};
  const yk_option own[] = {
      {"fail-above", NULL, YK_OPTION_NUMBER, &options.fail_above_percent, "PERCENT",
       .help = "exit with 1 if a point is worse by more than this and than the noise", .fallback = "exit with 0",
       .max = 1e6, .given = &options.fails},
      {"metric", NULL, YK_OPTION_STRING, &options.metric, "NAME",
       .help = "the compared figure, by its name in study.json", .fallback = "output_throughput"},
  };
  const yk_option_group groups[] = {{"Comparison", own, 2}};
  const yk_command command = {"yoke study compare",  "A.json B.json [options]", about, examples, groups, 1,
                              .takes_operands = true};
  yk_arguments arguments;
  yk_err err = YK_ERR_INIT;
  int exit_code, n_failing = 0;
  if (!yk_cli_begin(&command, argc, argv, &arguments, &exit_code)) return exit_code;
  if (arguments.n_operands != 2) {
    yk_err_set(&err, YK_E_INVAL, "expected two studies, A.json and B.json, found %zu", arguments.n_operands);
    return yk_cli_usage_error(&command, &err);
  }
  if (compare(&options, arguments.operands[0], arguments.operands[1], &n_failing, &err) != YK_OK)
    return yk_cli_failure(&err);
  if (!options.fails || n_failing == 0) return YK_EXIT_OK;
  yk_err_set(&err, YK_E_INVAL, "%d point%s worse by more than %g %%", n_failing, n_failing == 1 ? " is" : "s are",
             options.fail_above_percent);
  return yk_cli_failure(&err);
}
