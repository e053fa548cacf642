/* bench.c - `yoke bench`: one point, measured several times. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/point.h"
#include "cli/bench/bench_options.h"
#include "cli/bench/bench_report.h"
#include "cli/cli.h"
#include "cli/console.h"
#include "cli/follow.h"
#include "cli/interrupt.h"
#include "cli/trace_option.h"

typedef struct bench {
  yk_bench_options options;
  yk_engine_options engine_options;
  yk_console console;
  yk_interrupt interrupt;
  yk_engine *engine;
  yk_bench_gpus *gpus;
  yk_trace *trace;          /* or NULL */
  yk_bench_warnings others; /* other processes that use the GPUs */
  yk_bench_report report;
  FILE *output; /* of --output, or NULL */
  bool is_new;  /* the file did not exist before */
} bench;

/* ---- The output file: opened first, so that an unwritable path is reported before the work. Its contents stay until
 * there is a result. */

static yk_status open_output(bench *b, yk_err *err)
{
  const char *path = b->options.output_path;
  if (!path) return YK_OK;
  b->output = fopen(path, "r+");
  if (!b->output && errno == ENOENT) {
    b->output = fopen(path, "w");
    b->is_new = b->output != NULL;
  }
  return b->output ? YK_OK : yk_err_set(err, YK_E_IO, "--output: %s: %s", path, strerror(errno));
}

static yk_status write_output(bench *b, yk_err *err)
{
  struct stat about;
  if (!b->output || b->report.n_runs == 0) return YK_OK;
  bool is_file = fstat(fileno(b->output), &about) == 0 && S_ISREG(about.st_mode);
  if (is_file && ftruncate(fileno(b->output), 0) != 0)
    return yk_err_set(err, YK_E_IO, "--output: %s: %s", b->options.output_path, strerror(errno));
  b->is_new = false;
  return yk_bench_report_write(&b->report, b->output, err);
}

static void close_output(bench *b)
{
  if (!b->output) return;
  fclose(b->output);
  if (b->is_new) unlink(b->options.output_path);
}

/* ---- GPUs */

/* The GPUs that ranks of this process will use, if they use any. */
static int gpu_ids(const bench *b, int ids[YK_MAX_RANKS])
{
  const yk_engine_options *engine = &b->engine_options;
  int n = engine->n_processes > 1 ? engine->n_ranks / engine->n_processes : engine->n_ranks;
  for (int i = 0; i < n; i++)
    ids[i] = engine->device_ids ? engine->device_ids[i] : engine->n_processes > 1 ? engine->local_process * n + i : i;
  return n;
}

/* Called before this process uses a GPU. Prints nothing yet: with --device auto the process may use none. */
static yk_status find_others(bench *b, yk_err *err)
{
  static const yk_log quiet = {0};
  int ids[YK_MAX_RANKS], n = gpu_ids(b, ids);
  yk_bench_gpus *gpus;
  if (b->engine_options.device == YK_DEVICE_CPU) return YK_OK;
  YK_TRY(yk_bench_gpus_open(ids, n, &quiet, &gpus, err));
  yk_bench_gpus_find_others(gpus, &b->others);
  yk_bench_gpus_close(gpus);
  return YK_OK;
}

static yk_status open_gpus(bench *b, yk_err *err)
{
  int ids[YK_MAX_RANKS], n = gpu_ids(b, ids);
  if (strcmp(b->report.info.device, "cuda") != 0) {
    b->others.n = 0;
    return YK_OK;
  }
  for (int i = 0; i < b->others.n; i++) yk_log_write(&b->console.log, YK_LOG_WARN, "%s", b->others.text[i]);
  YK_TRY(yk_bench_gpus_open(ids, n, &b->console.log, &b->gpus, err));
  b->options.load.gpus = b->gpus;
  return YK_OK;
}

/* ---- Runs */

/* Checks from the checkpoint's headers, before its weights are read, that KV memory will hold the batch. */
static yk_status check_plan(const bench *b, yk_err *err)
{
  yk_plan plan;
  if (b->options.load.batch == 0) return YK_OK;
  YK_TRY(yk_plan_make(&b->engine_options, 0, &plan, err));
  yk_bench_limits limits = {0, 0, plan.fits ? plan.kv_tokens : 0};
  return yk_bench_load_check(&b->options.load, &limits, err);
}

static bool is_interrupted(void *user)
{
  return yk_interrupt_caught(user) != 0;
}

static yk_status run_all(bench *b, yk_err *err)
{
  yk_bench_load *load = &b->options.load;
  int n_runs = b->options.repeats + 1;
  for (load->run = 0; load->run < n_runs; load->run++) {
    yk_bench_figures figures;
    yk_console_bar(&b->console, load->run ? "measuring" : "warming up", (double)load->run / n_runs, "");
    yk_status status = yk_bench_run(b->engine, load, &figures, err);
    yk_console_clear(&b->console);
    YK_TRY(status);
    yk_log_write(&b->console.log, YK_LOG_INFO, "%s %d of %d: %.1f output tokens/s in %.2f s",
                 load->run ? "run" : "warm-up, not counted,", load->run ? load->run : 1,
                 load->run ? b->options.repeats : 1, figures.output_throughput, figures.duration_s);
    if (load->run > 0) b->report.runs[b->report.n_runs++] = figures;
  }
  return YK_OK;
}

/* One more run, with every step timed: the time by operation. Its figures are separate. */
static yk_status time_steps(bench *b, yk_err *err)
{
  yk_console_bar(&b->console, "timing steps", -1, "");
  YK_TRY(yk_engine_set_profile(b->engine, 1, err));
  yk_engine_set_trace(b->engine, b->trace);
  yk_status status = yk_bench_run(b->engine, &b->options.load, &b->report.timed, err);
  yk_console_clear(&b->console);
  yk_engine_set_trace(b->engine, NULL);
  YK_TRY(status);
  yk_engine_get_profile(b->engine, &b->report.times);
  b->report.has_times = true;
  return YK_OK;
}

static yk_status sum_up(bench *b, yk_err *err)
{
  yk_bench_report *report = &b->report;
  if (report->n_runs == 0) return YK_OK;
  YK_TRY(yk_engine_get_expert_load(b->engine, false, &report->experts, err));
  YK_TRY(yk_bench_figures_median(report->runs, report->n_runs, &report->median, &report->spread, err));
  for (int i = 0; i < report->median.warnings.n; i++)
    yk_log_write(&b->console.log, YK_LOG_WARN, "%s", report->median.warnings.text[i]);
  for (int i = 0; i < b->others.n; i++) yk_bench_warn(&report->median.warnings, "%s", b->others.text[i]);
  yk_bench_report_print(report);
  YK_TRY(yk_cli_flush(err));
  return write_output(b, err);
}

/* The engine's context is the load's longest request unless --max-model-len gives it. */
static void name_lengths(const bench *b, yk_err *err)
{
  static const char field[] = "max_model_tokens:";
  const yk_err found = *err;
  if (b->options.context_given || strncmp(found.message, field, sizeof field - 1) != 0) return;
  yk_err_clear(err);
  yk_err_set(err, found.code, "input and output tokens of a request:%s", found.message + sizeof field - 1);
}

static yk_status create_engine(bench *b, yk_err *err)
{
  b->engine_options.log = b->console.log;
  b->engine_options.progress = yk_console_loading;
  b->engine_options.progress_user = &b->console;
  yk_status status = find_others(b, err);
  if (status == YK_OK) status = check_plan(b, err);
  if (status != YK_OK) {
    name_lengths(b, err);
    yk_engine_call_off(&b->engine_options, err);
    return status;
  }
  status = yk_engine_create(&b->engine_options, &b->engine, err);
  yk_console_clear(&b->console);
  YK_TRY(status);
  yk_engine_get_info(b->engine, &b->report.info);
  return open_gpus(b, err);
}

/* Also reports the runs that were finished before a signal or a failure. */
static yk_status measure(bench *b, yk_err *err)
{
  static yk_request *const none[1] = {NULL};
  yk_err failure = YK_ERR_INIT;
  YK_TRY(create_engine(b, err));
  yk_bench_report_print_head(&b->report);
  YK_TRY(yk_cli_flush(err));
  b->options.load.stops = is_interrupted;
  b->options.load.stops_user = &b->interrupt;
  yk_interrupt_watch(&b->interrupt, none, 0);
  yk_status status = run_all(b, &failure);
  if (status == YK_OK) status = time_steps(b, &failure);
  b->report.is_interrupted = status == YK_E_CANCELLED && yk_interrupt_caught(&b->interrupt);
  yk_status summed = sum_up(b, err);
  if (status == YK_OK || b->report.is_interrupted) return summed;
  yk_err_clear(err);
  return yk_err_set(err, status, "%s", failure.message);
}

static int run(bench *b)
{
  yk_err err = YK_ERR_INIT;
  if (yk_cli_follows(&b->options.model)) return yk_cli_follow(&b->options.model, &b->engine_options, false);
  yk_console_init(&b->console, (yk_log_level)b->options.model.log_level);
  b->report.runs = calloc((size_t)b->options.repeats, sizeof *b->report.runs);
  b->report.options = &b->options;
  yk_status status = b->report.runs ? YK_OK : yk_err_set(&err, YK_E_NOMEM, "no memory for %d runs", b->options.repeats);
  if (status == YK_OK) status = yk_model_options_find(&b->options.model, true, &err);
  b->engine_options.model_dir = b->options.model.checkpoint.path;
  b->engine_options.tokenizer = b->options.model.tokenizer.path;
  if (status == YK_OK) status = open_output(b, &err);
  if (status == YK_OK) status = yk_trace_option_open(b->options.trace_path, &b->trace, &err);
  if (status == YK_OK) status = yk_interrupt_start(&b->interrupt, &b->console, &err);
  if (status != YK_OK) {
    free(b->report.runs);
    close_output(b);
    return yk_trace_option_close(b->trace, yk_cli_call_off(&b->options.model, &b->engine_options, &err));
  }
  status = measure(b, &err);
  yk_bench_gpus_close(b->gpus);
  bool all_freed = yk_engine_destroy(b->engine);
  int caught = yk_interrupt_stop(&b->interrupt);
  close_output(b);
  yk_expert_load_free(&b->report.experts);
  free(b->report.runs);
  int exit_code = yk_trace_option_close(b->trace, status == YK_OK ? YK_EXIT_OK : yk_cli_failure(&err));
  return yk_cli_end(all_freed, status == YK_OK && caught ? YK_EXIT_SIGNAL + caught : exit_code);
}

int yk_cli_bench(int argc, char **argv)
{
  if (argc > 0 && strcmp(argv[0], "machine") == 0) return yk_cli_bench_machine(argc - 1, argv + 1);
  bench *b = calloc(1, sizeof *b);
  yk_err err = YK_ERR_INIT;
  int exit_code;
  if (!b) {
    yk_err_set(&err, YK_E_NOMEM, "no memory for a benchmark");
    return yk_cli_failure(&err);
  }
  yk_bench_options_init(&b->options);
  if (yk_bench_options_parse(&b->options, argc, argv, &b->engine_options, &exit_code)) exit_code = run(b);
  yk_bench_options_free(&b->options);
  free(b);
  return exit_code;
}
