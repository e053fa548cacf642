/* bench_model.c - a whole model, end to end: prefill and decode rates at several batch sizes, through the public
 * interface alone. Prompts are random token ids, outputs are greedy unless asked otherwise and ignore end-of-sequence,
 * so that every run does the same work. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "yoke.h"

enum { MAX_REPEATS = 64, MAX_TOKENS = 1 << 20, MAX_BATCH = 65536 };

typedef struct options {
  yk_model_options model;
  int32_t *batches; /* [n_batches], owned */
  size_t n_batches;
  int32_t prompt_tokens, output_tokens, repeats, profile_every;
  double temperature, top_p;
  int32_t top_k;
  const char *json_path;
} options;

/* One run of one batch. */
typedef struct sample {
  double prefill_tokens_per_s, decode_tokens_per_s, total_tokens_per_s, ttft_s;
  double between_share; /* of the time, spent by the engine between steps */
} sample;

static const char about[] =
    "Prefill and decode rates of a checkpoint at several batch sizes, median over repeats. Prompts are random token "
    "ids. "
    "Decode steps carry no prompt; \"between\" is the share of the time that is spent between steps. The engine is "
    "sized "
    "for the largest batch and these lengths unless --max-num-seqs and --max-model-len say otherwise.";

static const char examples[] =
    "  scripts/make_random_model.py --preset qwen3-8b --out /tmp/qwen3-8b\n"
    "  bench_model -m /tmp/qwen3-8b --tp 4 --batch 1,64,256 --prompt-tokens 512 --output-tokens 100\n";

static yk_status parse_batches(void *user, const char *text, yk_err *err)
{
  options *o = user;
  o->n_batches = 0;
  YK_TRY(yk_int_list_parse(text, &o->batches, &o->n_batches, err));
  for (size_t i = 0; i < o->n_batches; i++)
    if (o->batches[i] < 1 || o->batches[i] > MAX_BATCH)
      return yk_err_set(err, YK_E_INVAL, "expected 1 to %d requests, found %d", MAX_BATCH, o->batches[i]);
  return YK_OK;
}

static int32_t largest_batch(const options *o)
{
  int32_t largest = 0;
  for (size_t i = 0; i < o->n_batches; i++)
    if (o->batches[i] > largest) largest = o->batches[i];
  return largest;
}

/* Every batch runs at once, unless the options say otherwise. */
static yk_status apply(const options *o, yk_engine_options *engine, yk_err *err)
{
  YK_TRY(yk_model_options_apply(&o->model, engine, err));
  if (!o->model.seqs_given) engine->max_seqs = largest_batch(o);
  if (engine->max_batched_tokens < engine->max_seqs) engine->max_batched_tokens = engine->max_seqs;
  if (engine->max_model_tokens == 0) engine->max_model_tokens = o->prompt_tokens + o->output_tokens + 1;
  engine->log = yk_log_stderr((yk_log_level)o->model.log_level);
  return YK_OK;
}

/* True: go on. */
static bool parse(options *o, int argc, char **argv, yk_engine_options *engine, int *exit_code)
{
  const yk_option own[] = {
      {"batch", NULL, YK_OPTION_CALL, o, "LIST", .help = "requests at once, as 1,8,64", .fallback = "1,8",
       .parse = parse_batches},
      {"prompt-tokens", NULL, YK_OPTION_INT, &o->prompt_tokens, "N", .help = "of each request", .min = 1,
       .max = MAX_TOKENS},
      {"output-tokens", NULL, YK_OPTION_INT, &o->output_tokens, "N", .help = "of each request", .min = 2,
       .max = MAX_TOKENS},
      {"repeats", NULL, YK_OPTION_INT, &o->repeats, "N", .help = "runs of each batch after one that is not counted",
       .min = 1, .max = MAX_REPEATS},
      {"temperature", NULL, YK_OPTION_NUMBER, &o->temperature, "T", .help = "0 takes the likeliest token", .max = 100},
      {"top-k", NULL, YK_OPTION_INT, &o->top_k, "K", .help = "draw from the K likeliest tokens; 0: from all",
       .max = INT32_MAX},
      {"top-p", NULL, YK_OPTION_NUMBER, &o->top_p, "P", .help = "draw from the likeliest tokens that together reach P",
       .max = 1, .above_min = true},
      {"profile-every", NULL, YK_OPTION_INT, &o->profile_every, "N",
       .help = "time every N-th step, and print where the time of decode steps goes; 0: none", .max = INT32_MAX},
      {"json", NULL, YK_OPTION_STRING, &o->json_path, "FILE",
       .help = "write the figures with their spread (max - min)"},
  };
  const yk_option_group groups[] = {{"Work", own, sizeof own / sizeof own[0]}, yk_model_options_group(&o->model)};
  const yk_command command = {"bench_model", "--model DIR [options]", about, examples, groups, .n_groups = 2};
  yk_arguments arguments;
  yk_err err = YK_ERR_INIT;
  if (!yk_cli_begin(&command, argc, argv, &arguments, exit_code)) return false;
  if (apply(o, engine, &err) == YK_OK) return true;
  *exit_code = yk_cli_usage_error(&command, &err);
  return false;
}

static yk_status submit(yk_engine *engine, const options *o, uint64_t seed, int32_t *ids, yk_request **out, yk_err *err)
{
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  for (int i = 0; i < o->prompt_tokens; i++)
    ids[i] = (int32_t)(yk_rng_uniform(seed, 0, (uint32_t)i) * (float)info.vocab_size);
  yk_request_options request;
  yk_request_options_init(engine, &request);
  request.ids = ids;
  request.n_ids = (size_t)o->prompt_tokens;
  request.sampling.temperature = (float)o->temperature;
  request.sampling.top_k = o->top_k;
  request.sampling.top_p = (float)o->top_p;
  request.sampling.max_tokens = o->output_tokens;
  request.sampling.ignore_eos = true;
  return yk_engine_submit(engine, &request, out, err);
}

static yk_status drain(yk_request *request, yk_err *err)
{
  yk_output output;
  do YK_TRY(yk_request_next(request, -1, &output, err));
  while (output.finish == YK_FINISH_NONE);
  return output.finish == YK_FINISH_ERROR ? err->code : YK_OK;
}

static yk_status run_batch(yk_engine *engine, const options *o, int batch, uint64_t seed, sample *out, yk_err *err)
{
  yk_engine_stats before, after;
  yk_request **requests = calloc((size_t)batch, sizeof *requests);
  int32_t *ids = malloc((size_t)o->prompt_tokens * sizeof *ids);
  yk_status status = requests && ids ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for %d requests", batch);
  yk_engine_get_stats(engine, &before);
  int64_t start_ns = yk_clock_now_ns();
  for (int i = 0; i < batch && status == YK_OK; i++)
    status = submit(engine, o, seed * 65536 + (uint64_t)i, ids, &requests[i], err);
  for (int i = 0; i < batch && status == YK_OK; i++) status = drain(requests[i], err);
  double seconds = yk_clock_seconds_since(start_ns);
  yk_engine_get_stats(engine, &after);
  if (status == YK_OK) {
    yk_request_usage usage;
    yk_request_get_usage(requests[batch - 1], &usage);
    double prefill_s = after.prefill_s - before.prefill_s, decode_s = after.decode_s - before.decode_s;
    out->prefill_tokens_per_s = (double)(after.prompt_tokens - before.prompt_tokens) / prefill_s;
    out->decode_tokens_per_s = (double)(after.decode_step_tokens - before.decode_step_tokens) / decode_s;
    out->total_tokens_per_s = (double)batch * o->output_tokens / seconds;
    out->ttft_s = usage.ttft_s;
    out->between_share = 1 - (prefill_s + decode_s) / seconds;
  }
  for (int i = 0; requests && i < batch; i++) yk_request_free(requests[i]);
  free(requests);
  free(ids);
  return status;
}

static int compare_doubles(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Median and spread of one field of the samples. */
static json_t *summarise(const sample *samples, int n, size_t field_offset, double *median)
{
  double values[MAX_REPEATS];
  for (int i = 0; i < n; i++) memcpy(&values[i], (const char *)&samples[i] + field_offset, sizeof(double));
  qsort(values, (size_t)n, sizeof *values, compare_doubles);
  *median = n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
  return json_pack("{s:f, s:f}", "median", *median, "spread", values[n - 1] - values[0]);
}

/* Where the time of a decode step goes: microseconds on each rank. */
static void print_profile(yk_engine *engine)
{
  yk_profile profile;
  yk_engine_get_profile(engine, &profile);
  const yk_step_times *decode = &profile.decode;
  if (decode->n_steps == 0) return;
  double us = 1e6 / (double)decode->n_steps;
  printf("  %llu decode steps of %.1f us; timestamps, taken off: %.1f us (clock in steps of %.0f ns)\n",
         (unsigned long long)decode->n_steps, decode->step_s * us, decode->timestamp_cost_s * us,
         profile.clock_resolution_s * 1e9);
  for (int part = 0; part < YK_TIME_PARTS; part++) {
    printf("  %-20s", yk_time_part_name((yk_time_part)part));
    for (int rank = 0; rank < profile.n_ranks; rank++) printf(" %9.1f", decode->part_s[rank][part] * us);
    printf("\n");
  }
  printf("  %-20s", "slowest, share");
  for (int rank = 0; rank < profile.n_ranks && decode->n_all_reduces; rank++)
    printf(" %9.3f", (double)decode->slowest[rank] / (double)decode->n_all_reduces);
  printf("\n");
}

static yk_status run_point(yk_engine *engine, const options *o, int batch, json_t *results, yk_err *err)
{
  sample samples[MAX_REPEATS], warm_up;
  double prefill, decode, total, ttft, between;
  YK_TRY(run_batch(engine, o, batch, 1, &warm_up, err));
  YK_TRY(yk_engine_set_profile(engine, o->profile_every, err));
  for (int i = 0; i < o->repeats; i++) YK_TRY(run_batch(engine, o, batch, (uint64_t)i + 2, &samples[i], err));
  json_t *point = json_pack("{s:i}", "batch", batch);
  json_object_set_new(point, "prefill_tokens_per_s",
                      summarise(samples, o->repeats, offsetof(sample, prefill_tokens_per_s), &prefill));
  json_object_set_new(point, "decode_tokens_per_s",
                      summarise(samples, o->repeats, offsetof(sample, decode_tokens_per_s), &decode));
  json_object_set_new(point, "output_tokens_per_s",
                      summarise(samples, o->repeats, offsetof(sample, total_tokens_per_s), &total));
  json_object_set_new(point, "ttft_s", summarise(samples, o->repeats, offsetof(sample, ttft_s), &ttft));
  json_object_set_new(point, "between_share",
                      summarise(samples, o->repeats, offsetof(sample, between_share), &between));
  json_array_append_new(results, point);
  printf("%7d %15.1f %15.1f %15.1f %12.4f %8.1f%%\n", batch, prefill, decode, total, ttft, between * 100);
  print_profile(engine);
  fflush(stdout);
  return YK_OK;
}

static yk_status run(yk_engine *engine, const options *o, json_t *results, yk_err *err)
{
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  printf("%s on %d %s rank%s, %s, %d tokens in, %d out, loaded in %.2f s\n", info.family, info.n_ranks, info.device,
         info.n_ranks > 1 ? "s" : "", info.dtype, o->prompt_tokens, o->output_tokens, info.load_s);
  printf("%7s %15s %15s %15s %12s %9s\n", "batch", "prefill tok/s", "decode tok/s", "output tok/s", "last TTFT s",
         "between");
  for (size_t i = 0; i < o->n_batches; i++) YK_TRY(run_point(engine, o, o->batches[i], results, err));
  return YK_OK;
}

static json_t *report_of(const yk_engine *engine, const options *o, json_t *results)
{
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  return json_pack("{s:s, s:s, s:i, s:s, s:i, s:i, s:f, s:i, s:f, s:f, s:O}", "model", o->model.model_dir, "device",
                   info.device, "ranks", info.n_ranks, "dtype", info.dtype, "prompt_tokens", o->prompt_tokens,
                   "output_tokens", o->output_tokens, "temperature", o->temperature, "top_k", o->top_k, "top_p",
                   o->top_p, "load_s", info.load_s, "points", results);
}

/* Also of a run that failed: the points before it. */
static yk_status write_report(const yk_engine *engine, const options *o, json_t *results, FILE *file, yk_err *err)
{
  json_t *report = report_of(engine, o, results);
  bool is_written = report && json_dumpf(report, file, JSON_INDENT(2)) == 0 && fflush(file) == 0;
  json_decref(report);
  return is_written ? YK_OK : yk_err_set(err, YK_E_IO, "%s: cannot be written", o->json_path);
}

static yk_status bench(const options *o, const yk_engine_options *engine_options, FILE *report, yk_err *err)
{
  yk_engine *engine;
  YK_TRY(yk_engine_create(engine_options, &engine, err));
  json_t *results = json_array();
  yk_status status = run(engine, o, results, err);
  if (report) {
    yk_status written = write_report(engine, o, results, report, err);
    if (status == YK_OK) status = written;
  }
  json_decref(results);
  yk_engine_destroy(engine);
  return status;
}

/* The file for the figures is opened first: one that cannot be written is told before the work. */
static yk_status bench_into_file(const options *o, const yk_engine_options *engine_options, yk_err *err)
{
  if (!o->json_path) return bench(o, engine_options, NULL, err);
  FILE *report = fopen(o->json_path, "w");
  if (!report) return yk_err_set(err, YK_E_IO, "%s: %s", o->json_path, strerror(errno));
  yk_status status = bench(o, engine_options, report, err);
  fclose(report);
  return status;
}

int main(int argc, char **argv)
{
  options o = {.prompt_tokens = 32, .output_tokens = 32, .repeats = 3, .top_p = 1};
  yk_engine_options engine;
  yk_err err = YK_ERR_INIT;
  int exit_code = YK_EXIT_OK;
  yk_model_options_init(&o.model);
  o.model.log_level = YK_LOG_WARN;
  bool goes_on = parse_batches(&o, "1,8", &err) == YK_OK && parse(&o, argc - 1, argv + 1, &engine, &exit_code);
  if (goes_on) bench_into_file(&o, &engine, &err);
  if (err.code != YK_OK) exit_code = yk_cli_failure(&err);
  free(o.batches);
  yk_model_options_free(&o.model);
  return exit_code;
}
