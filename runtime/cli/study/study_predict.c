/* yoke study predict - predict a study's points on other rank counts. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/study/study_tools.h"
#include "study/output.h"
#include "study/predict.h"
#include "study/scaling.h"
#include "study/values.h"

enum { RANKS_MAX = 1024 };

typedef struct predict_options {
  yk_values ranks;
  const char *output_dir;
} predict_options;

static const char about[] =
    "Predict the points of a study on other rank counts from measured pieces: GEMMs and attention shrink with the "
    "slowest rank's shard (heads and FFN columns may not divide evenly), all-reduces take the times measured on this "
    "machine, waiting and unsplit parts stay. The error is found by leaving out: each measured rank count but the "
    "fewest is predicted from the others.";

static const char examples[] = "  yoke study predict scaling/study.json --ranks 8\n"
                               "  yoke study predict scaling/study.json --ranks 4,8 --output-dir predicted\n";

static yk_status parse_ranks(void *values, const char *text, yk_err *err)
{
  return yk_values_parse(text, 1, RANKS_MAX, true, values, err);
}

static double number_of(const json_t *object, const char *key)
{
  return json_number_value(json_object_get(object, key));
}

static void print_rows(const json_t *predictions, const json_t *left_out)
{
  size_t i;
  json_t *row;
  printf("%5s  %-44s  %15s  %8s  %s\n", "ranks", "point", "output tokens/s", "speed-up", "error");
  json_array_foreach(predictions, i, row)
  {
    char *key = yk_scaling_key(row), error[32] = "not known";
    if (json_is_number(json_object_get(row, "error")))
      snprintf(error, sizeof error, "%.1f %%", 100 * number_of(row, "error"));
    printf("%5d  %-44s  %15.1f  %8.2f  %s\n", (int)number_of(row, "ranks"), key ? key : "",
           number_of(row, "output_throughput"), number_of(row, "speedup"), error);
    free(key);
  }
  if (json_array_size(left_out) > 0)
    printf("\nEach measured point from the others:\n%5s  %-44s  %15s  %15s  %s\n", "ranks", "point", "predicted",
           "measured", "error");
  json_array_foreach(left_out, i, row)
  {
    char *key = yk_scaling_key(row);
    printf("%5d  %-44s  %15.1f  %15.1f  %+.1f %%\n", (int)number_of(row, "ranks"), key ? key : "",
           number_of(row, "output_throughput"), number_of(row, "measured"), 100 * number_of(row, "error"));
    free(key);
  }
}

static yk_status predict_study(const predict_options *options, json_t *study, yk_err *err)
{
  json_t *predictions, *left_out;
  int *ranks = calloc(options->ranks.n, sizeof *ranks);
  if (!ranks) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu rank counts", options->ranks.n);
  for (size_t i = 0; i < options->ranks.n; i++) ranks[i] = (int)options->ranks.at[i];
  yk_status status = yk_study_predict(study, ranks, options->ranks.n, &predictions, &left_out, err);
  free(ranks);
  if (status != YK_OK) return status;
  print_rows(predictions, left_out);
  if (json_object_set_new(study, "predictions", predictions) != 0)
    status = yk_err_set(err, YK_E_NOMEM, "no memory for predictions");
  json_decref(left_out);
  if (status == YK_OK) status = yk_cli_flush(err);
  return status == YK_OK && options->output_dir ? yk_study_write(options->output_dir, study, err) : status;
}

static yk_status predict(const predict_options *options, const char *path, yk_err *err)
{
  json_t *study;
  YK_TRY(yk_study_read(path, &study, err));
  yk_status status = predict_study(options, study, err);
  json_decref(study);
  return status;
}

int yk_cli_study_predict(int argc, char **argv)
{
  predict_options options = {0};
  const yk_option own[] = {
      {"ranks", NULL, YK_OPTION_CALL, &options.ranks, "LIST", .help = "rank counts to predict; required",
       .parse = parse_ranks},
      {"output-dir", "o", YK_OPTION_STRING, &options.output_dir, "DIR",
       .help = "write study, table and report with them here", .fallback = ""},
  };
  const yk_option_group groups[] = {{"Prediction", own, 2}};
  const yk_command command = {"yoke study predict",  "STUDY.json --ranks LIST [options]", about, examples, groups, 1,
                              .takes_operands = true};
  yk_arguments arguments;
  yk_err err = YK_ERR_INIT;
  int exit_code = YK_EXIT_OK;
  if (yk_cli_begin(&command, argc, argv, &arguments, &exit_code)) {
    if (arguments.n_operands != 1)
      yk_err_set(&err, YK_E_INVAL, "expected one study, STUDY.json, found %zu", arguments.n_operands);
    else if (options.ranks.n == 0)
      yk_err_set(&err, YK_E_INVAL, "--ranks: expected rank counts to predict, as 4,8, found nothing");
    if (err.code != YK_OK)
      exit_code = yk_cli_usage_error(&command, &err);
    else
      exit_code = predict(&options, arguments.operands[0], &err) == YK_OK ? YK_EXIT_OK : yk_cli_failure(&err);
  }
  yk_values_free(&options.ranks);
  return exit_code;
}
