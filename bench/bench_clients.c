/* bench_clients.c - the engine under a closed loop of clients, without a server. bench_serve.py measures the same over
 * HTTP, with the same lengths and names of figures; the difference is the server's cost.
 *
 * One thread waits for any request, as a server does. The time of a token is the engine's timestamp. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "cli/cli.h"
#include "cli/options/model_options.h"
#include "load_figures.h"
#include "yoke/yoke.h"

enum { MAX_TOKENS = 1 << 20, MAX_CLIENTS = 65536, MAX_SCHEMA_BYTES = 1 << 20 };
enum { DRAW_INPUT = 0, DRAW_OUTPUT = 1, DRAW_IDS = 3 };

typedef struct options {
  yk_model_options model;
  int32_t n_clients, n_requests, input_tokens, output_tokens, repeats;
  int32_t long_tokens; /* tokens of a long prompt among the others; 0: none */
  double range_ratio;
  const char *json_path, *schema_path;
  char *schema; /* the file's text; owned */
  size_t schema_bytes;
} options;

typedef struct client {
  yk_request *request;
  int64_t sent_ns, first_ns, last_ns;
  int32_t n_tokens;
} client;

/* One run. */
typedef struct load {
  yk_engine *engine;
  yk_waiter *waiter;
  const options *options;
  int run;
  int32_t n_requests, n_sent, n_running;
  int32_t n_begun; /* requests with a token */
  bool has_sent_long;
  int32_t *ids;                           /* [longest prompt] */
  client *clients;                        /* [n_clients] */
  client long_client;                     /* the long prompt's */
  double long_ttft_ms[MAX_LOAD_RUNS + 1]; /* one entry per run; the first is the warm-up */
  load_run figures;
} load;

static const char about[] =
    "Keeps N requests under way in the engine alone and reports time to first token (TTFT), time per output token "
    "(TPOT), between tokens (ITL) and to the end (E2EL), under the names and with the lengths of bench_serve.py. "
    "Prompts are random token ids, outputs are greedy and ignore end-of-sequence; lengths and prompts follow --seed. "
    "With --json-schema every output is constrained, and ends before its length where the schema permits nothing else: "
    "the cost of a constraint is the difference of TPOT. With --long-prompt one more request, of one token, begins "
    "when every client has its first token: ITL shows the pace of the others; the request's TTFT is reported alone.";

static const char examples[] =
    "  bench_clients -m tests/models/demo --device cpu --clients 64 --input-len 32 --output-len 64\n";

static yk_status apply(options *o, yk_engine_options *engine, yk_err *err)
{
  YK_TRY(yk_model_options_find(&o->model, true, err));
  if (o->schema_path) YK_TRY(yk_file_read(o->schema_path, MAX_SCHEMA_BYTES, &o->schema, &o->schema_bytes, err));
  YK_TRY(yk_model_options_apply(&o->model, engine, err));
  engine->log = yk_log_stderr((yk_log_level)o->model.log_level);
  return YK_OK;
}

/* Returns whether to continue. */
static bool parse(options *o, int argc, char **argv, yk_engine_options *engine, int *exit_code)
{
  const yk_option own[] = {
      {"clients", NULL, YK_OPTION_INT, &o->n_clients, "N", .help = "requests under way", .min = 1, .max = MAX_CLIENTS},
      {"requests", NULL, YK_OPTION_INT, &o->n_requests, "N", .help = "of each run", .min = 1, .max = 10000000},
      {"input-len", NULL, YK_OPTION_INT, &o->input_tokens, "N", .help = "tokens of a prompt", .min = 1,
       .max = MAX_TOKENS},
      {"output-len", NULL, YK_OPTION_INT, &o->output_tokens, "N", .help = "tokens of an answer", .min = 1,
       .max = MAX_TOKENS},
      {"range-ratio", NULL, YK_OPTION_NUMBER, &o->range_ratio, "P", .help = "lengths vary evenly by this share of them",
       .max = 1},
      {"repeats", NULL, YK_OPTION_INT, &o->repeats, "N", .help = "runs, after a warm-up of one request a client",
       .min = 1, .max = MAX_LOAD_RUNS},
      {"long-prompt", NULL, YK_OPTION_TOKENS, &o->long_tokens, "N", .help = "tokens of a prompt beside the others",
       .fallback = "none", .max = MAX_TOKENS},
      {"json-schema", NULL, YK_OPTION_STRING, &o->schema_path, "FILE", .help = "constrains every output"},
      {"json", NULL, YK_OPTION_STRING, &o->json_path, "FILE", .help = "write the figures"},
  };
  const yk_option_group groups[] = {{"Work", own, sizeof own / sizeof own[0]}, yk_model_options_group(&o->model)};
  const yk_command command = {"bench_clients", "--model DIR [options]", about, examples, groups, .n_groups = 2};
  yk_arguments arguments;
  yk_err err = YK_ERR_INIT;
  if (!yk_cli_begin(&command, argc, argv, &arguments, exit_code)) return false;
  if (apply(o, engine, &err) == YK_OK) return true;
  *exit_code = yk_cli_usage_error(&command, &err);
  return false;
}

/* ---- Work: lengths and tokens of request number i, as in bench_serve.py */

static int32_t longest(const options *o, int32_t mean)
{
  return (int32_t)ceil(mean * (1 + o->range_ratio));
}

static int32_t length(const options *o, int32_t mean, int32_t number, uint32_t stream)
{
  int32_t low = (int32_t)floor(mean * (1 - o->range_ratio));
  if (low < 1) low = 1;
  return low +
         (int32_t)((double)yk_rng_uniform(o->model.seed, stream, (uint32_t)number) * (longest(o, mean) - low + 1));
}

/* A greedy request with a random prompt of n_ids tokens; number: of the prompt. */
static void prepare(load *l, int32_t number, int32_t n_ids, yk_request_options *out)
{
  yk_engine_info info;
  const uint64_t seed = l->options->model.seed ^ ((uint64_t)(uint32_t)number << 32) ^ (uint64_t)l->run << 24;
  yk_engine_get_info(l->engine, &info);
  yk_request_options_init(l->engine, out);
  out->ids = l->ids;
  out->n_ids = (size_t)n_ids;
  for (int32_t i = 0; i < n_ids; i++)
    l->ids[i] = (int32_t)(yk_rng_uniform(seed, DRAW_IDS, (uint32_t)i) * (float)info.vocab_size);
  out->sampling.temperature = 0;
  out->sampling.ignore_eos = true;
  out->waiter = l->waiter;
}

static yk_status submit(load *l, client *c, yk_request_options *request, yk_err *err)
{
  request->user = c;
  c->n_tokens = 0;
  c->sent_ns = yk_clock_now_ns();
  YK_TRY(yk_engine_submit(l->engine, request, &c->request, err));
  l->n_running++;
  return YK_OK;
}

static yk_status send_long(load *l, yk_err *err)
{
  yk_request_options request;
  prepare(l, INT32_MAX, l->options->long_tokens, &request);
  request.sampling.max_tokens = 1;
  return submit(l, &l->long_client, &request, err);
}

static yk_status send_next(load *l, client *c, yk_err *err)
{
  const options *o = l->options;
  yk_request_options request;
  const int32_t number = l->n_sent;
  prepare(l, number, length(o, o->input_tokens, number, DRAW_INPUT), &request);
  request.sampling.max_tokens = length(o, o->output_tokens, number, DRAW_OUTPUT);
  if (o->schema) {
    request.sampling.constraint_kind = YK_CONSTRAINT_JSON_SCHEMA;
    request.sampling.constraint = o->schema;
    request.sampling.constraint_bytes = o->schema_bytes;
  }
  YK_TRY(submit(l, c, &request, err));
  l->n_sent++;
  return YK_OK;
}

/* ---- Reading */

static void add_time(load *l, int which, double value_ns)
{
  load_times *times = &l->figures.times[which];
  times->values_ms[times->n++] = value_ns * 1e-6;
}

static void take_token(load *l, client *c, int64_t now_ns)
{
  if (c->n_tokens++ == 0) {
    c->first_ns = now_ns;
    l->n_begun++;
  } else
    add_time(l, LOAD_ITL, (double)(now_ns - c->last_ns));
  c->last_ns = now_ns;
}

static yk_status take_end(load *l, client *c, yk_err *err)
{
  yk_request_usage usage;
  yk_request_get_usage(c->request, &usage);
  yk_request_free(c->request);
  c->request = NULL;
  l->n_running--;
  if (c == &l->long_client) {
    l->long_ttft_ms[l->run] = (double)(c->first_ns - c->sent_ns) * 1e-6;
    return YK_OK;
  }
  add_time(l, LOAD_TTFT, (double)(c->first_ns - c->sent_ns));
  add_time(l, LOAD_E2EL, (double)(c->last_ns - c->sent_ns));
  if (c->n_tokens > 1) add_time(l, LOAD_TPOT, (double)(c->last_ns - c->first_ns) / (c->n_tokens - 1));
  l->figures.completed++;
  l->figures.input_tokens += usage.prompt_tokens;
  l->figures.output_tokens += c->n_tokens;
  return l->n_sent < l->n_requests ? send_next(l, c, err) : YK_OK;
}

/* Reads all available tokens of a client's request, and submits the next request at its end. */
static yk_status read_client(load *l, client *c, yk_err *err)
{
  for (;;) {
    const yk_output *output;
    yk_status status = yk_request_next(c->request, 0, &output, err);
    if (status == YK_E_AGAIN) return YK_OK;
    YK_TRY(status);
    if (output->has_token) take_token(l, c, output->time_ns);
    if (output->finish != YK_FINISH_NONE) return take_end(l, c, err);
  }
}

static yk_status keep_busy(load *l, yk_err *err)
{
  for (int i = 0; i < l->options->n_clients && l->n_sent < l->n_requests; i++)
    YK_TRY(send_next(l, &l->clients[i], err));
  while (l->n_running > 0) {
    void *client_of_request;
    YK_TRY(yk_waiter_wait(l->waiter, -1, NULL, &client_of_request, err));
    YK_TRY(read_client(l, client_of_request, err));
    if (l->options->long_tokens == 0 || l->has_sent_long || l->n_begun < l->options->n_clients) continue;
    l->has_sent_long = true;
    YK_TRY(send_long(l, err));
  }
  return YK_OK;
}

/* ---- Runs */

/* Runs n_requests requests from the first; figures receives the run's figures. */
static yk_status run_once(load *l, int run, int32_t n_requests, double figures[N_LOAD_FIGURES], yk_err *err)
{
  l->run = run;
  l->n_requests = n_requests;
  l->n_sent = l->n_running = l->n_begun = 0;
  l->has_sent_long = false;
  l->figures.completed = l->figures.input_tokens = l->figures.output_tokens = 0;
  for (int i = 0; i < N_LOAD_TIMES; i++) l->figures.times[i].n = 0;
  int64_t start_ns = yk_clock_now_ns();
  yk_status status = keep_busy(l, err);
  l->figures.duration_s = yk_clock_seconds_since(start_ns);
  for (int i = 0; i <= l->options->n_clients; i++) { /* requests of a run that failed */
    client *c = i < l->options->n_clients ? &l->clients[i] : &l->long_client;
    yk_request_free(c->request);
    c->request = NULL;
  }
  if (status == YK_OK) load_figures_of(&l->figures, figures);
  return status;
}

static yk_status write_report(const options *o, json_t *report, FILE *file, yk_err *err)
{
  if (json_dumpf(report, file, JSON_INDENT(2)) == 0 && fputc('\n', file) != EOF && fflush(file) == 0) return YK_OK;
  return yk_err_set(err, YK_E_IO, "%s: cannot be written", o->json_path);
}

/* The time in which masks are filled shows in the times above only where it exceeds that of the layers. */
static void report_masks(const load *l, const yk_engine_stats *before, json_t *report)
{
  yk_engine_stats after;
  yk_engine_get_stats(l->engine, &after);
  double n_masks = (double)(after.masks - before->masks), n_steps = (double)(after.masked_steps - before->masked_steps);
  if (n_steps == 0) return;
  double per_step = n_masks / n_steps, mean_ms = (after.mask_s - before->mask_s) / n_steps * 1e3;
  printf("%-34s %12.2f\n", "masks_per_step", per_step);
  printf("%-34s %12.3f   until they are filled, over all runs\n", "mean_mask_ms", mean_ms);
  json_object_set_new(report, "masks_per_step", json_real(per_step));
  json_object_set_new(report, "mean_mask_ms", json_real(mean_ms));
}

static yk_status run_all(load *l, FILE *file, yk_err *err)
{
  const options *o = l->options;
  yk_engine_stats before;
  double runs[MAX_LOAD_RUNS][N_LOAD_FIGURES];
  int32_t n_warm_up = o->n_clients < o->n_requests ? o->n_clients : o->n_requests;
  YK_TRY(run_once(l, 0, n_warm_up, runs[0], err));
  yk_engine_get_stats(l->engine, &before);
  for (int i = 0; i < o->repeats; i++) YK_TRY(run_once(l, i + 1, o->n_requests, runs[i], err));
  json_t *report =
      json_pack("{s:s, s:s, s:i, s:i, s:s, s:i, s:i, s:f}", "backend", "engine", "model_id", o->model.checkpoint.name,
                "num_prompts", o->n_requests, "max_concurrency", o->n_clients, "request_rate", "inf", "input_len",
                o->input_tokens, "output_len", o->output_tokens, "range_ratio", o->range_ratio);
  if (!report) return yk_err_set(err, YK_E_NOMEM, "no memory for a report");
  load_report(runs, o->repeats, report);
  if (o->long_tokens > 0) {
    const double ttft_ms = yk_bench_statistics_of(l->long_ttft_ms + 1, (size_t)o->repeats).median;
    printf("%-34s %12.3f\n", "long_prompt_ttft_ms", ttft_ms);
    json_object_set_new(report, "long_prompt_ttft_ms", json_real(ttft_ms));
    json_object_set_new(report, "long_prompt_tokens", json_integer(o->long_tokens));
  }
  report_masks(l, &before, report);
  yk_status status = file ? write_report(o, report, file, err) : YK_OK;
  json_decref(report);
  return status;
}

/* Memory for the longest run. */
static yk_status load_create(load *l, yk_err *err)
{
  const options *o = l->options;
  size_t n_requests = (size_t)o->n_requests;
  const int32_t most_ids = longest(o, o->input_tokens);
  l->ids = malloc((size_t)(most_ids > o->long_tokens ? most_ids : o->long_tokens) * sizeof *l->ids);
  l->clients = calloc((size_t)o->n_clients, sizeof *l->clients);
  bool is_whole = l->ids && l->clients;
  for (int i = 0; i < N_LOAD_TIMES; i++) {
    size_t n = i == LOAD_ITL ? n_requests * (size_t)longest(o, o->output_tokens) : n_requests;
    l->figures.times[i].values_ms = malloc(n * sizeof(double));
    is_whole = is_whole && l->figures.times[i].values_ms;
  }
  if (!is_whole) return yk_err_set(err, YK_E_NOMEM, "no memory for the times of %d requests", o->n_requests);
  return yk_waiter_create(&l->waiter, err);
}

static void load_free(load *l)
{
  free(l->ids);
  free(l->clients);
  for (int i = 0; i < N_LOAD_TIMES; i++) free(l->figures.times[i].values_ms);
  yk_waiter_free(l->waiter);
}

static yk_status bench(const options *o, const yk_engine_options *engine_options, FILE *file, yk_err *err)
{
  load l = {.options = o};
  yk_status status = load_create(&l, err);
  if (status == YK_OK) status = yk_engine_create(engine_options, &l.engine, err);
  if (status == YK_OK) {
    status = run_all(&l, file, err);
    yk_engine_destroy(l.engine);
  }
  load_free(&l);
  return status;
}

/* The file for figures is opened first: a path that cannot be written fails before the work. */
static yk_status bench_into_file(const options *o, const yk_engine_options *engine_options, yk_err *err)
{
  if (!o->json_path) return bench(o, engine_options, NULL, err);
  FILE *file = fopen(o->json_path, "w");
  if (!file) return yk_err_set(err, YK_E_IO, "%s: %s", o->json_path, strerror(errno));
  yk_status status = bench(o, engine_options, file, err);
  fclose(file);
  return status;
}

int main(int argc, char **argv)
{
  yk_process_init();
  options o = {.n_clients = 64, .n_requests = 256, .input_tokens = 512, .output_tokens = 128, .repeats = 1};
  yk_engine_options engine;
  yk_err err = YK_ERR_INIT;
  int exit_code = YK_EXIT_OK;
  yk_model_options_init(&o.model);
  o.model.log_level = YK_LOG_WARN;
  if (parse(&o, argc - 1, argv + 1, &engine, &exit_code) && bench_into_file(&o, &engine, &err) != YK_OK)
    exit_code = yk_cli_failure(&err);
  free(o.schema);
  yk_model_options_free(&o.model);
  return exit_code;
}
