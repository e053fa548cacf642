/* yoke batch merge - join the outputs of a batch's parts. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/batch/batch_part.h"
#include "cli/batch/merge_parts.h"
#include "cli/cli.h"
#include "cli/console.h"

enum { MAX_RANGES = 20, MAX_PARTS = 1000000 };

typedef struct merge_options {
  const char *output;
  int32_t n_parts; /* 0: not given */
  bool overwrite;
} merge_options;

static const char about[] =
    "Join the outputs of `yoke batch --part K/N` runs over INPUT into one file, in the order of INPUT's lines. Any "
    "number of files of any runs will do, if each line has one result and all results are of INPUT, one model and one "
    "set of options, which their hashes show: the model is not needed. Where lines have no result, their numbers are "
    "printed and nothing is written: the same `yoke batch` commands continue with them. Exits with 1 if lines are "
    "missing "
    "or a result is an error.";

static const char examples[] = "  yoke batch merge in.jsonl out-*.jsonl -o out.jsonl\n"
                               "  yoke batch merge in.jsonl out-*.jsonl -o out.jsonl --parts 16\n";

/* Lists the missing lines of one part; part 0: of the whole input. */
static yk_status report_part(const yk_merge *merge, const merge_options *options, int32_t part, const yk_log *log,
                             yk_err *err)
{
  int64_t *lines = malloc((size_t)merge->n_missing * sizeof *lines);
  if (!lines) return yk_err_set(err, YK_E_NOMEM, "no memory to list missing lines");
  yk_strbuf text = YK_STRBUF_INIT;
  size_t n = 0;
  for (int64_t i = 0; i < merge->n_missing; i++)
    if (part == 0 || yk_batch_part_of(options->n_parts, merge->missing[i]) == part) lines[n++] = merge->missing[i];
  if (part) yk_strbuf_append_fmt(&text, "part %d/%d: ", part, options->n_parts);
  yk_strbuf_append_fmt(&text, "%zu line%s without a result: ", n, n == 1 ? "" : "s");
  yk_merge_list(lines, n, MAX_RANGES, &text);
  if (n > 0 && !text.failed) yk_log_text(log, YK_LOG_ERROR, text.data);
  yk_strbuf_free(&text);
  free(lines);
  return YK_OK;
}

static yk_status refuse_missing(const yk_merge *merge, const merge_options *options, const yk_log *log, yk_err *err)
{
  if (options->n_parts == 0) YK_TRY(report_part(merge, options, 0, log, err));
  for (int32_t part = 1; part <= options->n_parts; part++) YK_TRY(report_part(merge, options, part, log, err));
  return yk_err_set(err, YK_E_INVAL, "nothing was written: %lld of %lld lines have no result",
                    (long long)merge->n_missing, (long long)(merge->n_missing + merge->n_results));
}

static yk_status run(yk_merge *merge, const merge_options *options, const yk_log *log, yk_err *err)
{
  bool is_file = strcmp(options->output, "-") != 0;
  if (is_file && !options->overwrite && access(options->output, F_OK) == 0)
    return yk_err_set(err, YK_E_INVAL, "%s: exists already (--overwrite replaces it)", options->output);
  YK_TRY(yk_merge_read(merge, err));
  if (merge->n_missing) return refuse_missing(merge, options, log, err);
  YK_TRY(yk_merge_write(merge, options->output, err));
  yk_log_write(log, YK_LOG_INFO, "merged: %lld lines (%lld failed) of %zu files", (long long)merge->n_results,
               (long long)merge->n_failed, merge->n_parts);
  return YK_OK;
}

int yk_cli_batch_merge(int argc, char **argv)
{
  merge_options options = {.output = "-"};
  const yk_option own[] = {
      {"output", "o", YK_OPTION_STRING, &options.output, "FILE", .help = "where results go", .fallback = "-"},
      {"parts", NULL, YK_OPTION_INT, &options.n_parts, "N", .help = "list missing lines by part, of N parts",
       .fallback = "not by part", .min = 1, .max = MAX_PARTS},
      {"overwrite", NULL, YK_OPTION_FLAG, &options.overwrite, .help = "replace FILE"},
  };
  const yk_option_group groups[] = {{"Merge", own, sizeof own / sizeof own[0]}};
  const yk_command command = {"yoke batch merge",     "INPUT PART... -o OUTPUT", about, examples, groups, 1,
                              .takes_operands = true, .min_operands = 2};
  yk_arguments arguments;
  yk_console console;
  yk_err err = YK_ERR_INIT;
  int exit_code;
  if (!yk_cli_begin(&command, argc, argv, &arguments, &exit_code)) return exit_code;
  if (arguments.n_operands < 2) {
    yk_err_set(&err, YK_E_INVAL, "expected the input and at least one output of a run, found %zu files",
               arguments.n_operands);
    return yk_cli_usage_error(&command, &err);
  }
  yk_console_init(&console, YK_LOG_INFO);
  yk_merge merge = {
      .input_path = arguments.operands[0], .part_paths = arguments.operands + 1, .n_parts = arguments.n_operands - 1};
  yk_status status = run(&merge, &options, &console.log, &err);
  exit_code = status != YK_OK ? yk_cli_failure(&err) : merge.n_failed ? YK_EXIT_FAILURE : YK_EXIT_OK;
  yk_merge_free(&merge);
  return exit_code;
}
