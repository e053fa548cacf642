#include "cli/bench/bench_options.h"

#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/options/vllm_options.h"
#include "cli/trace_option.h"

enum { MAX_TOKENS = 1 << 24, MAX_BATCH = 65536, MAX_REQUESTS = 10000000, DEFAULT_REQUESTS = 256 };

/* In the order of yk_bench_arrivals. */
static const char *const arrival_names[] = {"poisson", "constant", "trace", NULL};

static const char about[] =
    "Run one load through the engine and print its figures. The load is a fixed batch (prefill and decode rates as "
    "llama-bench gives them, decode while all sequences decode), requests that arrive at a rate, or clients that "
    "each wait for their answer. Times to first token (TTFT), per output token (TPOT), between tokens (ITL) and to "
    "the end (E2EL) have the names of `vllm bench serve`. Prompts are random token ids, different in every run; "
    "outputs ignore end-of-sequence. Requests have the adapters of --lora-modules in turn. The first run is a warm-up "
    "and does not count; figures are medians over the "
    "others. One more run times every operation, of steps with prompt rows and of decode steps. The engine is sized "
    "for the load unless --max-num-seqs and --max-model-len are given.";

static const char examples[] = "  yoke bench -m Qwen3-8B-AWQ --ranks 2 --batch 64 --output point.json\n"
                               "  yoke bench -m DIR --request-rate 8 --input-len 128-512 --slo ttft:200,tpot:50\n"
                               "  yoke bench -m Qwen3-8B-AWQ --clients 32 --requests 320 --repeats 3\n"
                               "  yoke bench -m DIR --lengths AzureLLMInferenceTrace_conv.csv --arrivals trace\n"
                               "  yoke bench -m tests/models/demo --device cpu --batch 4 --input-len 64\n";

void yk_bench_options_init(yk_bench_options *options)
{
  memset(options, 0, sizeof *options);
  yk_bench_load_init(&options->load);
  yk_model_options_init(&options->model);
  options->repeats = 5;
  options->top_p = 1;
  options->load.n_requests = DEFAULT_REQUESTS;
}

void yk_bench_options_free(yk_bench_options *options)
{
  yk_bench_trace_free(&options->trace);
  yk_model_options_free(&options->model);
}

/* "512" or "128-512". */
static yk_status parse_lengths(void *user, const char *text, yk_err *err)
{
  yk_bench_lengths *lengths = user;
  char *end;
  bool begins_well = text[0] >= '0' && text[0] <= '9';
  long low = strtol(text, &end, 10), high = low;
  if (begins_well && *end == '-') {
    const char *second = end + 1;
    begins_well = second[0] >= '0' && second[0] <= '9';
    high = strtol(second, &end, 10);
  }
  if (!begins_well || *end || low < 1 || high < low || high > MAX_TOKENS)
    return yk_err_set(err, YK_E_INVAL, "expected tokens from 1 to %d, as 512 or 128-512, found \"%.60s\"", MAX_TOKENS,
                      text);
  *lengths = (yk_bench_lengths){(int32_t)low, (int32_t)high};
  return YK_OK;
}

static yk_status parse_slo(void *user, const char *text, yk_err *err)
{
  return yk_bench_slo_parse(text, user, err);
}

/* Chooses one kind of load, and refuses options of the others. */
static yk_status choose_kind(yk_bench_options *o, yk_err *err)
{
  yk_bench_load *load = &o->load;
  load->arrivals = (yk_bench_arrivals)o->arrivals;
  bool replays = load->arrivals == YK_BENCH_TRACE_TIME, is_offered = o->rate_given || replays;
  if (o->batch_given + o->clients_given + is_offered > 1)
    return yk_err_set(err, YK_E_INVAL,
                      "expected one of --batch, --clients and --request-rate (or --arrivals trace), "
                      "found several; leave all but one out");
  if (o->arrivals_given && !is_offered)
    return yk_err_set(err, YK_E_INVAL, "--arrivals: expected --request-rate R with it, found none");
  if (!o->clients_given && !is_offered && o->requests_given)
    return yk_err_set(err, YK_E_INVAL,
                      "--requests: expected --request-rate or --clients with it, found a batch, whose "
                      "requests are --batch N");
  if (o->clients_given || is_offered) load->batch = 0;
  if (o->lengths_path && (o->input_given || o->output_given))
    return yk_err_set(err, YK_E_INVAL,
                      "--lengths: expected neither --input-len nor --output-len with it, found one; leave it out");
  return YK_OK;
}

static yk_status apply(yk_bench_options *o, yk_engine_options *engine, yk_err *err)
{
  yk_bench_load *load = &o->load;
  YK_TRY(choose_kind(o, err));
  YK_TRY(yk_model_options_apply(&o->model, engine, err));
  load->temperature = (float)o->temperature;
  load->top_p = (float)o->top_p;
  load->seed = o->model.seed;
  load->adapters = o->model.adapters.items;
  load->n_adapters = o->model.adapters.n;
  if (o->lengths_path) {
    YK_TRY(yk_bench_trace_read(o->lengths_path, &o->trace, err));
    load->trace = &o->trace;
    if (!o->requests_given && o->trace.n_rows < MAX_REQUESTS) load->n_requests = (int32_t)o->trace.n_rows;
  }
  o->context_given = engine->max_model_tokens > 0;
  yk_bench_limits limits = {o->model.seqs_given ? engine->max_seqs : 0, engine->max_model_tokens, 0};
  YK_TRY(yk_bench_load_check(load, &limits, err));
  int64_t longest = yk_bench_load_longest(load).both_tokens;
  if (engine->max_model_tokens == 0) engine->max_model_tokens = longest < INT32_MAX ? (int32_t)longest : INT32_MAX;
  if (!o->model.seqs_given && load->batch > 0) engine->max_seqs = load->batch;
  if (!o->model.seqs_given && load->n_clients > 0) engine->max_seqs = load->n_clients;
  if (engine->max_batched_tokens < engine->max_seqs) engine->max_batched_tokens = engine->max_seqs;
  return YK_OK;
}

enum { N_LOAD_OPTIONS = 12 };

static void fill_load_table(yk_bench_options *o, yk_option out[N_LOAD_OPTIONS])
{
  const yk_option table[N_LOAD_OPTIONS] = {
      {"batch", NULL, YK_OPTION_INT, &o->load.batch, "N", .help = "a fixed batch: requests submitted together",
       .min = 1, .max = MAX_BATCH, .given = &o->batch_given},
      {"request-rate", NULL, YK_OPTION_NUMBER, &o->load.request_rate, "R", .help = "offered load: requests a second",
       .fallback = "", .max = 1e6, .above_min = true, .given = &o->rate_given},
      {"arrivals", NULL, YK_OPTION_CHOICE, &o->arrivals, NULL,
       .help = "of offered load; trace: the times in the file of --lengths, stretched to --request-rate if given",
       .choices = arrival_names, .given = &o->arrivals_given},
      {"clients", NULL, YK_OPTION_INT, &o->load.n_clients, "N",
       .help = "closed loop: each client sends its next request when its last has ended", .fallback = "", .min = 1,
       .max = MAX_BATCH, .given = &o->clients_given},
      {"requests", NULL, YK_OPTION_INT, &o->load.n_requests, "N", .help = "of a run of offered load or clients",
       .fallback = "256, or the rows of --lengths", .min = 1, .max = MAX_REQUESTS, .given = &o->requests_given},
      {"input-len", NULL, YK_OPTION_CALL, &o->load.input, "N[-M]", .help = "tokens of a prompt, evenly from N to M",
       .fallback = "512", .parse = parse_lengths, .given = &o->input_given},
      {"output-len", NULL, YK_OPTION_CALL, &o->load.output, "N[-M]", .help = "tokens of an output, evenly from N to M",
       .fallback = "100", .parse = parse_lengths, .given = &o->output_given},
      {"lengths", NULL, YK_OPTION_STRING, &o->lengths_path, "FILE",
       .help = "lengths by row: CSV with ContextTokens and GeneratedTokens (Azure), or JSONL with input_length and "
               "output_length (Mooncake)"},
      {"shared-prefix", NULL, YK_OPTION_INT, &o->load.shared_prefix, "N", .help = "first tokens that all prompts share",
       .max = MAX_TOKENS},
      {"temperature", NULL, YK_OPTION_NUMBER, &o->temperature, "T", .help = "0 selects the most likely token",
       .max = 100},
      {"top-k", NULL, YK_OPTION_INT, &o->load.top_k, "K", .help = "draw from the K likeliest; 0: all",
       .max = INT32_MAX},
      {"top-p", NULL, YK_OPTION_NUMBER, &o->top_p, "P", .help = "draw from the likeliest that reach P", .max = 1,
       .above_min = true},
  };
  memcpy(out, table, sizeof table);
}

bool yk_bench_options_parse(yk_bench_options *o, int argc, char **argv, yk_engine_options *engine, int *exit_code)
{
  yk_option load_table[N_LOAD_OPTIONS];
  const yk_option run_table[] = {
      {"repeats", NULL, YK_OPTION_INT, &o->repeats, "N", .help = "runs after the warm-up", .min = 1,
       .max = YK_BENCH_MAX_REPEATS},
      {"slo", NULL, YK_OPTION_CALL, o->load.slo_ms, "LIST",
       .help = "milliseconds, as ttft:200,tpot:50,e2el:5000 (itl: longest gap): goodput counts requests that keep all",
       .fallback = "none", .parse = parse_slo},
      {"output", NULL, YK_OPTION_STRING, &o->output_path, "FILE", .help = "all figures of all runs as JSON"},
      {"ranks", NULL, YK_OPTION_INT, &o->model.n_ranks, "N", .help = "the same as --tensor-parallel-size", .min = 1,
       .max = YK_MAX_RANKS, .given = &o->model.ranks_given},
      yk_trace_option(&o->trace_path),
  };
  fill_load_table(o, load_table);
  const yk_option_group groups[] = {{"Load", load_table, N_LOAD_OPTIONS},
                                    {"Runs and figures", run_table, sizeof run_table / sizeof run_table[0]},
                                    yk_model_options_group(&o->model)};
  const yk_command command = {"yoke bench",
                              "MODEL [options]",
                              about,
                              examples,
                              groups,
                              .n_groups = 3,
                              .model = &o->model.checkpoint,
                              .foreign = &yk_vllm_options};
  yk_arguments arguments;
  yk_err err = YK_ERR_INIT;
  if (!yk_cli_begin(&command, argc, argv, &arguments, exit_code)) return false;
  if (apply(o, engine, &err) == YK_OK) return true;
  *exit_code = yk_cli_usage_error(&command, &err);
  return false;
}
