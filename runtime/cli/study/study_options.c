#include "cli/study/study_options.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "cli/command_text.h"
#include "cli/options/vllm_options.h"

enum { RANKS_MAX = 1024, REPEATS_MAX = 1000 };

static const char about[] =
    "Measure how a model scales. Every combination of the values below is a point, measured several times on several "
    "starts of the engine, in random order. Lists may hold ranges: 1-256*2 is 1, 2, 4 ... 256, 8-64+8 is 8, 16 ... "
    "64. DIR then holds study.json, study.csv, report.html, results.tex and figures as SVG and PDF: throughput and "
    "latencies with 95 % intervals that include the differences between starts, speed-up and efficiency against the "
    "fewest ranks, the limit of the machine, and the causes of lost efficiency. Points that cannot be measured are "
    "listed first, with the reason. Finished runs are in DIR/journal.jsonl at once: the same command continues where "
    "it was stopped. See also yoke study compare --help, yoke study predict --help and yoke study report --help.";

static const char examples[] = "  yoke study -m Qwen3-8B-AWQ --ranks 1,2,4 --batch 1-256*4 --output-dir scaling\n"
                               "  yoke study -m Qwen3-8B-AWQ --ranks 1,2 --clients 16,64 -o clients\n"
                               "  yoke study -m DIR --batch 256 --sweep max-num-seqs=64-256*2 -o out\n"
                               "  yoke study -m DIR --shared-prefix 400 --sweep no-prefix-reuse=off,on -o reuse\n"
                               "  yoke study compare before/study.json after/study.json --fail-above 3\n"
                               "  yoke study predict scaling/study.json --ranks 8\n"
                               "  yoke study report scaling/study.json --output-dir scaling\n";

/* ---- Lists ------------------------------------------------------------------------------------------------------- */

static yk_status parse_ranks(void *values, const char *text, yk_err *err)
{
  return yk_values_parse(text, 1, RANKS_MAX, true, values, err);
}

static yk_status parse_counts(void *values, const char *text, yk_err *err)
{
  return yk_values_parse(text, 1, 65536, true, values, err);
}

static yk_status parse_rates(void *values, const char *text, yk_err *err)
{
  return yk_values_parse(text, 0, 1e6, false, values, err);
}

static yk_status parse_lengths(void *values, const char *text, yk_err *err)
{
  return yk_values_parse(text, 1, 1 << 24, true, values, err);
}

static yk_status parse_sweep(void *sweep, const char *text, yk_err *err)
{
  return yk_sweep_add_option(sweep, text, err);
}

static yk_status parse_slo(void *slo_ms, const char *text, yk_err *err)
{
  return yk_bench_slo_parse(text, slo_ms, err);
}

/* ---- Options of engines ------------------------------------------------------------------------------------------ */

static const char processes_option[] = "nnodes";

/* Options that are not part of an engine's configuration, or that --ranks replaces. */
static bool is_swept(const char *name)
{
  static const char *const others[] = {
      "model",  "revision", "download-dir", "tokenizer", "tokenizer-revision", "tensor-parallel-size",
      "device", "devices",  "seed",         "log-level"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (strcmp(name, others[i]) == 0) return false;
  return true;
}

/* Stores one value of a swept option in the model's options. A flag's values are on and off. */
static yk_status apply_value(yk_model_options *model, const char *name, const char *value, yk_err *err)
{
  const yk_option_group group = yk_model_options_group(model);
  const yk_command command = {.groups = &group, .n_groups = 1};
  yk_arguments arguments;
  const yk_option *option = NULL;
  for (size_t i = 0; i < group.n_options; i++)
    if (strcmp(group.options[i].name, name) == 0 && is_swept(name) &&
        (!yk_process_options_has(&model->processes, &group.options[i]) || strcmp(name, processes_option) == 0))
      option = &group.options[i];
  if (!option)
    return yk_err_set(
        err, YK_E_INVAL,
        "--sweep: expected an engine option that may differ between points, as max-num-seqs, found \"%.60s\"", name);
  bool is_flag = option->kind == YK_OPTION_FLAG, is_off = strcmp(value, "off") == 0;
  if (is_flag && !is_off && strcmp(value, "on") != 0)
    return yk_err_set(err, YK_E_INVAL, "--sweep: %s: expected on or off, found \"%.60s\"", name, value);
  if (is_flag) {
    *(bool *)option->value = !is_off;
    return YK_OK;
  }
  yk_strbuf argument = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&argument, "--%s=%s", name, value);
  yk_status status = argument.failed ? yk_err_set(err, YK_E_NOMEM, "no memory for an option")
                                     : yk_options_parse(&command, 1, &argument.data, &arguments, err);
  if (status == YK_E_INVAL) yk_err_prefix(err, "--sweep");
  yk_strbuf_free(&argument);
  return status;
}

/* The largest number of requests at once in the study. */
static int32_t most_at_once(const yk_sweep *sweep)
{
  double most = 0;
  for (size_t i = 0; i < sweep->loads.n && sweep->load != YK_SWEEP_REQUEST_RATE; i++)
    if (sweep->loads.at[i] > most) most = sweep->loads.at[i];
  return (int32_t)most;
}

/* wanted: processes by --sweep, or 0: the largest number that divides the ranks. n_run: processes of the run. */
static yk_status choose_processes(int ranks, int wanted, int n_run, int *out, yk_err *err)
{
  if (wanted > n_run)
    return yk_err_set(err, YK_E_INVAL, "--sweep: nnodes: expected at most %d, the processes of the run, found %d",
                      n_run, wanted);
  if (wanted > 0 && ranks % wanted != 0)
    return yk_err_set(err, YK_E_INVAL, "--sweep: nnodes: expected a divisor of the ranks, %d, found %d", ranks, wanted);
  *out = wanted > 0 ? wanted : n_run;
  while (ranks % *out != 0) --*out;
  return YK_OK;
}

/* The part of --devices of this process; see model_options.c. */
static yk_status choose_devices(const yk_device_ids *devices, yk_engine_options *engine, yk_err *err)
{
  const size_t n_local = (size_t)(engine->n_ranks / engine->n_processes);
  const size_t first = engine->n_processes == 1 || devices->n == n_local ? 0 : n_local * (size_t)engine->local_process;
  if (!devices->n) return YK_OK;
  if (first + n_local > devices->n)
    return yk_err_set(err, YK_E_INVAL, "--ranks: expected at most %zu on a host, as many as --devices names, found %zu",
                      devices->n, first + n_local);
  engine->device_ids = devices->ids + first;
  return YK_OK;
}

yk_status yk_study_settings_engine(const yk_study_settings *settings, const yk_study_config *config,
                                   yk_engine_options *out, yk_err *err)
{
  const yk_sweep *sweep = &settings->sweep;
  int n_processes = 0;
  yk_model_options model;
  yk_model_options_copy(&settings->model, &model);
  for (size_t i = 0; i < sweep->n_options; i++) {
    const yk_sweep_option *option = &sweep->options[i];
    if (strcmp(option->name, processes_option) == 0)
      n_processes = atoi(option->values[config->choice[i]]); /* checked with the command line */
    else
      YK_TRY(apply_value(&model, option->name, option->values[config->choice[i]], err));
  }
  YK_TRY(yk_model_options_apply(&model, out, err));
  if (!model.seqs_given && most_at_once(sweep) > out->max_seqs) out->max_seqs = most_at_once(sweep);
  YK_TRY(choose_processes(config->ranks, n_processes, out->n_processes > 1 ? out->n_processes : 1, &out->n_processes,
                          err));
  out->n_ranks = config->ranks;
  return choose_devices(&model.devices, out, err);
}

/* Checks every value of every swept option before any work. */
static yk_status check_sweep(const yk_study_settings *settings, yk_err *err)
{
  for (size_t i = 0; i < settings->sweep.n_options; i++) {
    const yk_sweep_option *option = &settings->sweep.options[i];
    for (size_t j = 0; j < option->n_values; j++) {
      yk_model_options model;
      yk_model_options_copy(&settings->model, &model);
      YK_TRY(apply_value(&model, option->name, option->values[j], err));
    }
  }
  return YK_OK;
}

/* ---- The command line -------------------------------------------------------------------------------------------- */

static yk_status fill_default(yk_values *values, const char *text, yk_err *err)
{
  return values->n ? YK_OK : yk_values_parse(text, 1, INT32_MAX, true, values, err);
}

/* Exactly one of three lists becomes the sweep's loads. */
static yk_status choose_load(yk_study_settings *settings, yk_err *err)
{
  yk_values *lists[] = {&settings->batches, &settings->rates, &settings->clients};
  int n_given = 0;
  for (int i = 0; i < 3; i++)
    if (lists[i]->n) {
      settings->sweep.load = (yk_sweep_load)i;
      n_given++;
    }
  if (n_given > 1)
    return yk_err_set(err, YK_E_INVAL,
                      "expected one of --batch, --request-rate and --clients, found several; leave all but "
                      "one out");
  if (n_given == 0) YK_TRY(fill_default(&settings->batches, "1", err));
  settings->sweep.loads = *lists[settings->sweep.load];
  *lists[settings->sweep.load] = (yk_values){0};
  return YK_OK;
}

static yk_status check(yk_study_settings *settings, yk_err *err)
{
  yk_engine_options engine;
  YK_TRY(yk_model_options_apply(&settings->model, &engine, err));
  if (!settings->output_dir || !settings->output_dir[0])
    return yk_err_set(err, YK_E_INVAL, "--output-dir: expected a directory, found nothing");
  YK_TRY(choose_load(settings, err));
  YK_TRY(fill_default(&settings->sweep.ranks, "1", err));
  YK_TRY(fill_default(&settings->sweep.input_lens, "512", err));
  YK_TRY(fill_default(&settings->sweep.output_lens, "100", err));
  settings->load.n_requests = settings->n_requests;
  settings->load.shared_prefix = settings->shared_prefix;
  settings->load.seed = settings->model.seed;
  return check_sweep(settings, err);
}

static void init(yk_study_settings *settings, int argc, char **argv)
{
  memset(settings, 0, sizeof *settings);
  yk_model_options_init(&settings->model);
  yk_bench_load_init(&settings->load);
  settings->n_repeats = 5;
  settings->n_starts = 3;
  settings->n_requests = 256;
  settings->command = yk_command_text("yoke study", argc, argv);
}

/* The model's options except --tensor-parallel-size, which --ranks replaces. */
static yk_option_group engine_group(const yk_model_options *options, yk_option *table)
{
  const yk_option_group group = yk_model_options_group(options);
  size_t n = 0;
  for (size_t i = 0; i < group.n_options; i++)
    if (strcmp(group.options[i].name, "tensor-parallel-size") != 0) table[n++] = group.options[i];
  return (yk_option_group){group.title, table, n};
}

static yk_option_group points_group(yk_study_settings *settings)
{
  const yk_option table[] = {
      {"ranks", "tp", YK_OPTION_CALL, &settings->sweep.ranks, "LIST", .help = "rank counts", .fallback = "1",
       .parse = parse_ranks},
      {"batch", NULL, YK_OPTION_CALL, &settings->batches, "LIST", .help = "requests submitted together",
       .fallback = "1, without the next two", .parse = parse_counts},
      {"request-rate", NULL, YK_OPTION_CALL, &settings->rates, "LIST",
       .help = "instead: requests a second, arriving at random", .parse = parse_rates},
      {"clients", NULL, YK_OPTION_CALL, &settings->clients, "LIST",
       .help = "instead: clients, each with one request at a time", .parse = parse_counts},
      {"input-len", NULL, YK_OPTION_CALL, &settings->sweep.input_lens, "LIST", .help = "tokens of a prompt",
       .fallback = "512", .parse = parse_lengths},
      {"output-len", NULL, YK_OPTION_CALL, &settings->sweep.output_lens, "LIST", .help = "tokens of an answer",
       .fallback = "100", .parse = parse_lengths},
      {"sweep", NULL, YK_OPTION_CALL, &settings->sweep, "NAME=LIST",
       .help = "values of an option below, as max-num-seqs=64,256; on,off for one without value; repeatable. nnodes: "
               "processes of a point, else the most that divide its ranks",
       .parse = parse_sweep},
      {"num-requests", NULL, YK_OPTION_INT, &settings->n_requests, "N",
       .help = "of a run with --request-rate or --clients", .min = 1, .max = 1 << 20},
      {"shared-prefix", NULL, YK_OPTION_INT, &settings->shared_prefix, "N",
       .help = "first tokens that all prompts share", .max = 1 << 24},
      {"slo", NULL, YK_OPTION_CALL, settings->load.slo_ms, "LIST",
       .help = "milliseconds, as ttft:200,tpot:50: goodput counts requests that keep all", .fallback = "none",
       .parse = parse_slo},
  };
  static_assert(sizeof table == sizeof settings->points, "as many places as options");
  memcpy(settings->points, table, sizeof table);
  return (yk_option_group){"Points", settings->points, sizeof table / sizeof *table};
}

static yk_option_group study_group(yk_study_settings *settings)
{
  const yk_option table[] = {
      {"output-dir", "o", YK_OPTION_STRING, &settings->output_dir, "DIR",
       .help = "where the study is written or continued; required"},
      {"repeats", NULL, YK_OPTION_INT, &settings->n_repeats, "N", .help = "runs of a point on each engine start",
       .min = 1, .max = REPEATS_MAX},
      {"starts", NULL, YK_OPTION_INT, &settings->n_starts, "N",
       .help = "engine starts of each point, 2 or more; 2 give intervals four times as wide as 3", .min = 2,
       .max = REPEATS_MAX},
      {"machine", NULL, YK_OPTION_STRING, &settings->machine_path, "FILE",
       .help = "limits as bench machine --output wrote them; none: without",
       .fallback = "measured first, up to a minute"},
      {"dry-run", NULL, YK_OPTION_FLAG, &settings->dry_run,
       .help = "only show points that cannot be measured, and the time of the others"},
  };
  static_assert(sizeof table == sizeof settings->runs, "as many places as options");
  memcpy(settings->runs, table, sizeof table);
  return (yk_option_group){"Study", settings->runs, sizeof table / sizeof *table};
}

bool yk_study_settings_parse(yk_study_settings *settings, int argc, char **argv, int *exit_code)
{
  init(settings, argc, argv);
  yk_option table[YK_MODEL_OPTIONS];
  const yk_option_group groups[] = {points_group(settings), study_group(settings),
                                    engine_group(&settings->model, table)};
  const yk_command command = {"yoke study",
                              "MODEL --output-dir DIR [options]",
                              about,
                              examples,
                              groups,
                              3,
                              .instead = "lists follow --ranks, --batch and so on",
                              .model = &settings->model.checkpoint,
                              .foreign = &yk_vllm_options};
  yk_arguments arguments;
  if (!yk_cli_begin(&command, argc, argv, &arguments, exit_code)) return false;
  yk_err err = YK_ERR_INIT;
  if (!settings->command) yk_err_set(&err, YK_E_NOMEM, "no memory for the command");
  if (err.code == YK_OK && check(settings, &err) == YK_OK) return true;
  *exit_code = yk_cli_usage_error(&command, &err);
  return false;
}

void yk_study_settings_free(yk_study_settings *settings)
{
  yk_sweep_free(&settings->sweep);
  yk_values_free(&settings->batches);
  yk_values_free(&settings->rates);
  yk_values_free(&settings->clients);
  yk_model_options_free(&settings->model);
  free(settings->command);
}
