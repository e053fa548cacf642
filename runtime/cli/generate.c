/* yoke generate - continue prompts: all requests run together, and are printed in the order of the prompts. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/json_write.h"
#include "cli/cli.h"
#include "cli/console.h"
#include "cli/follow.h"
#include "cli/interrupt.h"
#include "cli/options/model_options.h"
#include "cli/options/sampling_options.h"
#include "cli/options/vllm_options.h"
#include "cli/prompts.h"
#include "cli/result.h"
#include "cli/trace_option.h"
#include "openai/answer_style.h"

typedef struct generate_options {
  yk_model_options model;
  yk_sampling_options sampling;
  yk_prompts prompts;
  const char *trace_path, *adapter;
  char *schema; /* text of --json-schema, owned; NULL: none */
  size_t schema_bytes;
  int format; /* index into format_names */
} generate_options;

enum { FORMAT_TEXT, FORMAT_JSON, MAX_SCHEMA_BYTES = 16 << 20 };
static const char *const format_names[] = {"text", "json", NULL};

/* State while requests run. */
typedef struct generation {
  const generate_options *options;
  yk_console console;
  yk_interrupt interrupt;
  yk_trace *trace; /* or NULL */
  yk_engine *engine;
  yk_engine_info info;
  const yk_reasoning *tags; /* of the model's reasoning; NULL: none */
  yk_result *results;       /* [n] the samples of a prompt are consecutive */
  yk_request **requests;    /* [n], NULL: refused; borrowed from results for the interrupt thread */
  size_t n, n_failed;
} generation;

static const char examples[] = "  yoke generate -m Qwen3-8B-AWQ --tp 2 -p \"Once upon a time\"\n"
                               "  yoke generate -m Qwen3-8B-AWQ -p \"One\" -p \"Two\" --temperature 0 -n 32\n"
                               "  echo \"Dear Sir,\" | yoke generate -m Qwen3-8B-AWQ --device cpu\n"
                               "  yoke generate -m Qwen3-8B-AWQ -f prompt.txt --n 4 --seed 7 -n 256\n"
                               "  yoke generate -m DIR --token-ids 5,6,7 --format json --logprobs 5\n";

/* Faults of the file are found before the model is loaded. */
static yk_status read_schema(void *user, const char *path, yk_err *err)
{
  generate_options *options = user;
  char *text;
  size_t n_bytes;
  yk_json_doc *document;
  yk_strbuf schema = YK_STRBUF_INIT;
  YK_TRY(yk_file_read(path, MAX_SCHEMA_BYTES, &text, &n_bytes, err));
  yk_status status = yk_json_parse(path, text, n_bytes, NULL, &document, err);
  free(text);
  YK_TRY(status);
  yk_json root = yk_json_root(document);
  if (yk_json_is(root, YK_JSON_OBJECT) || yk_json_is_bool(root))
    yk_json_append(&schema, root, 0);
  else
    status = yk_err_set(err, YK_E_INVAL, "%s: expected a JSON schema, which is an object, true or false", path);
  yk_json_free(document);
  if (status == YK_OK && schema.failed) status = yk_err_set(err, YK_E_NOMEM, "%s: no memory", path);
  if (status != YK_OK) {
    yk_strbuf_free(&schema);
    return status;
  }
  free(options->schema);
  options->schema = schema.data;
  options->schema_bytes = schema.length;
  return YK_OK;
}

/* Returns whether to continue. */
static bool parse(generate_options *options, int argc, char **argv, int *exit_code)
{
  const yk_option input_output[] = {
      {"prompt", "p", YK_OPTION_CALL, &options->prompts, "TEXT", .help = "a prompt; repeatable",
       .parse = yk_prompts_add_text},
      {"prompt-file", "f", YK_OPTION_CALL, &options->prompts, "FILE",
       .help = "a file that is one prompt; - is stdin; repeatable", .parse = yk_prompts_add_file},
      {"token-ids", NULL, YK_OPTION_CALL, &options->prompts, "LIST", .help = "a prompt as token ids, 5,6,7; repeatable",
       .parse = yk_prompts_add_ids},
      {"json-schema", NULL, YK_OPTION_CALL, options, "FILE",
       .help = "outputs are JSON that satisfies the schema in this file", .parse = read_schema},
      {"adapter", NULL, YK_OPTION_STRING, &options->adapter, "NAME", .help = "of --lora-modules, for all prompts",
       .fallback = "none"},
      {"format", NULL, YK_OPTION_CHOICE, &options->format, .help = "json: an object a line for each sample",
       .choices = format_names},
      yk_trace_option(&options->trace_path),
  };
  const yk_option_group groups[] = {{"Input and output", input_output, sizeof input_output / sizeof input_output[0]},
                                    yk_sampling_options_group(&options->sampling),
                                    yk_model_options_group(&options->model)};
  const yk_command command = {
      "yoke generate",
      "MODEL [options]",
      "Continue prompts with a language model. All prompts run together in batches, each with its samples one after "
      "the other in what is printed; where none is given, standard input is the prompt, less one newline at its end. "
      "A UTF-8 byte order mark at the start of a file is skipped.",
      examples,
      groups,
      sizeof groups / sizeof groups[0],
      .instead = "prompts follow --prompt",
      .model = &options->model.checkpoint,
      .foreign = &yk_vllm_options};
  yk_arguments arguments;
  if (!yk_cli_begin(&command, argc, argv, &arguments, exit_code)) return false;
  yk_err err = YK_ERR_INIT;
  yk_engine_options engine;
  if (options->format != FORMAT_JSON && options->sampling.n_logprobs >= 0)
    yk_err_set(&err, YK_E_INVAL, "--logprobs: expected --format json with it, found --format text");
  else if (options->format != FORMAT_JSON && options->sampling.n_prompt_logprobs >= 0)
    yk_err_set(&err, YK_E_INVAL, "--prompt-logprobs: expected --format json with it, found --format text");
  else if (yk_model_options_apply(&options->model, &engine, &err) == YK_OK)
    yk_adapter_options_check_name(&options->model.adapters, options->adapter, &err);
  if (err.code == YK_OK) return true;
  *exit_code = yk_cli_usage_error(&command, &err);
  return false;
}

static const yk_prompt *prompt_of(const generation *session, size_t index)
{
  return &session->options->prompts.items[index / (size_t)session->options->sampling.n_samples];
}

/* The schema holds after reasoning that the prompt has opened. */
static yk_status set_schema(const generation *session, const int32_t *ids, size_t n_ids, yk_sampling *s, yk_err *err)
{
  enum { TAIL_TOKENS = 16 }; /* enough for a tag and white space after it */
  size_t n_tail = n_ids < TAIL_TOKENS ? n_ids : TAIL_TOKENS, n_bytes;
  char *tail;
  s->constraint_kind = YK_CONSTRAINT_JSON_SCHEMA;
  s->constraint = session->options->schema;
  s->constraint_bytes = session->options->schema_bytes;
  s->constraint_name = "--json-schema";
  if (!session->tags || !session->info.has_tokenizer) return YK_OK;
  YK_TRY(yk_engine_detokenize(session->engine, ids + (n_ids - n_tail), n_tail, false, &tail, &n_bytes, err));
  if (yk_reasoning_beginning_of(session->tags, tail, n_bytes) == YK_REASONING_OPENED)
    s->reasoning_tags = &session->tags->tags, s->reasoning_is_open = true;
  free(tail);
  return YK_OK;
}

/* Texts are tokenised here, so that the default of --max-tokens can be the rest of the context. */
static yk_status submit(generation *session, size_t index, yk_request **out, yk_err *err)
{
  yk_request_options request;
  int32_t *ids = NULL;
  const yk_prompt *prompt = prompt_of(session, index);
  size_t n_samples = (size_t)session->options->sampling.n_samples;
  yk_request_options_init(session->engine, &request);
  request.adapter = session->options->adapter;
  request.ids = prompt->ids;
  request.n_ids = prompt->n_ids;
  if (prompt->text) {
    YK_TRY(yk_engine_tokenize(session->engine, prompt->text, prompt->n_bytes, true, &ids, &request.n_ids, err));
    request.ids = ids;
  }
  int64_t left_tokens = session->info.max_model_tokens - (int64_t)request.n_ids;
  yk_sampling_options_apply(&session->options->sampling, session->info.default_max_tokens, left_tokens,
                            &request.sampling);
  request.sampling.seed = yk_sampling_seed(session->options->model.seed, index / n_samples, 0);
  request.sampling.has_seed = true;
  request.sampling.sample_index = (int32_t)(index % n_samples);
  yk_status status = YK_OK;
  if (session->options->schema) status = set_schema(session, request.ids, request.n_ids, &request.sampling, err);
  if (status == YK_OK) status = yk_engine_submit(session->engine, &request, out, err);
  free(ids);
  return status;
}

/* A refused request keeps its error in its result; the others continue. */
static yk_status submit_all(generation *session, yk_err *err)
{
  const yk_prompts *prompts = &session->options->prompts;
  const yk_sampling_options *sampling = &session->options->sampling;
  size_t n = prompts->n * (size_t)sampling->n_samples;
  session->results = calloc(n, sizeof *session->results);
  session->requests = calloc(n, sizeof *session->requests);
  if (!session->results || !session->requests) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu requests", n);
  for (size_t i = 0; i < n; i++) {
    yk_result *result = &session->results[session->n++];
    YK_TRY(yk_result_init(result, sampling->n_logprobs >= 0, sampling->n_prompt_logprobs >= 0, err));
    if (submit(session, i, &result->request, &result->err) != YK_OK) result->request = NULL;
    session->requests[i] = result->request;
  }
  return YK_OK;
}

static void report_failure(generation *session, size_t index)
{
  const yk_result *result = &session->results[index];
  size_t n_samples = (size_t)session->options->sampling.n_samples;
  session->n_failed++;
  yk_log_write(&session->console.log, YK_LOG_ERROR, "prompt %zu: %s", index / n_samples + 1, result->err.message);
}

/* Prints the requests in order. The first unfinished one streams; output of later ones waits in the engine. */
static yk_status print_all(generation *session, yk_err *err)
{
  const generate_options *options = session->options;
  bool json = options->format == FORMAT_JSON, several = session->n > 1;
  int32_t n_samples = options->sampling.n_samples;
  yk_stream stream = json ? YK_STREAM_NOTHING : session->info.has_tokenizer ? YK_STREAM_TEXT : YK_STREAM_IDS;
  for (size_t i = 0; i < session->n; i++) {
    yk_result *result = &session->results[i];
    if (!json && several) {
      if (i > 0) putchar('\n');
      yk_prompt_print(prompt_of(session, i));
      YK_TRY(yk_cli_flush(err));
    }
    if (result->request) YK_TRY(yk_result_collect(result, stream, err));
    if (json)
      YK_TRY(
          yk_result_print_json(result, n_samples > 1 ? (int32_t)i % n_samples : -1, session->info.has_tokenizer, err));
    else if (result->request)
      putchar('\n');
    YK_TRY(yk_cli_flush(err));
    if (!result->request || result->finish == YK_FINISH_ERROR) report_failure(session, i);
  }
  return YK_OK;
}

static void print_rates(generation *session)
{
  const yk_log *log = &session->console.log;
  double ttft_sum_s = 0, ttft_max_s = 0;
  size_t n_started = 0;
  for (size_t i = 0; i < session->n; i++) {
    const yk_request_usage *usage = &session->results[i].usage;
    if (usage->output_tokens == 0) continue;
    n_started++;
    ttft_sum_s += usage->ttft_s;
    if (usage->ttft_s > ttft_max_s) ttft_max_s = usage->ttft_s;
  }
  if (n_started)
    yk_log_write(log, YK_LOG_INFO, "time to first token: %.1f ms on average, %.1f ms at most",
                 1e3 * ttft_sum_s / (double)n_started, 1e3 * ttft_max_s);
  yk_engine_stats stats;
  yk_engine_get_stats(session->engine, &stats);
  if (stats.prefix_reused_tokens)
    yk_log_write(log, YK_LOG_INFO, "prefixes: %llu of %llu tokens were found computed",
                 (unsigned long long)stats.prefix_reused_tokens, (unsigned long long)stats.prefix_tokens);
  if (stats.preemptions)
    yk_log_write(log, YK_LOG_INFO, "preemptions: %llu, because KV memory was full",
                 (unsigned long long)stats.preemptions);
  if (stats.prefill_s > 0)
    yk_log_write(log, YK_LOG_INFO, "prefill: %.0f tokens/s", (double)stats.prefill_step_tokens / stats.prefill_s);
  if (stats.decode_s > 0)
    yk_log_write(log, YK_LOG_INFO, "decode: %.1f tokens/s", (double)stats.decode_step_tokens / stats.decode_s);
}

static void print_summary(generation *session)
{
  const yk_log *log = &session->console.log;
  const yk_engine_info *info = &session->info;
  int64_t prompt_tokens = 0, output_tokens = 0;
  for (size_t i = 0; i < session->n; i++) {
    prompt_tokens += session->results[i].usage.prompt_tokens;
    output_tokens += session->results[i].usage.output_tokens;
  }
  yk_log_write(log, YK_LOG_INFO, "%s, %s, on %d %s rank%s, loaded in %.2f s", info->family, info->dtype, info->n_ranks,
               info->device, info->n_ranks > 1 ? "s" : "", info->load_s);
  yk_log_write(log, YK_LOG_INFO, "%zu request%s (%zu failed): %lld prompt tokens, %lld output tokens", session->n,
               session->n > 1 ? "s" : "", session->n_failed, (long long)prompt_tokens, (long long)output_tokens);
  print_rates(session);
}

static yk_status run_session(generation *session, yk_err *err)
{
  yk_engine_options engine_options;
  YK_TRY(yk_model_options_apply(&session->options->model, &engine_options, err));
  engine_options.log = session->console.log;
  engine_options.progress = yk_console_loading;
  engine_options.progress_user = &session->console;
  yk_status status = yk_engine_create(&engine_options, &session->engine, err);
  yk_console_clear(&session->console);
  if (status != YK_OK) return status;
  yk_engine_get_info(session->engine, &session->info);
  yk_engine_set_trace(session->engine, session->trace);
  const yk_answer_style_options by_template = {0};
  session->tags = yk_answer_style_find(yk_model_options_tokenizer(&session->options->model), &by_template).reasoning;
  YK_TRY(submit_all(session, err));
  yk_interrupt_watch(&session->interrupt, session->requests, session->n);
  status = print_all(session, err);
  yk_interrupt_watch(&session->interrupt, NULL, 0);
  if (status == YK_OK) print_summary(session);
  return status;
}

static int run(generate_options *options)
{
  generation session = {.options = options};
  yk_err err = YK_ERR_INIT;
  if (yk_cli_follows(&options->model)) return yk_cli_follow(&options->model, NULL, false);
  yk_console_init(&session.console, (yk_log_level)options->model.log_level);
  yk_status status = yk_model_options_find(&options->model, true, &err);
  if (status == YK_OK) status = yk_prompts_load(&options->prompts, &err);
  if (status == YK_OK) status = yk_trace_option_open(options->trace_path, &session.trace, &err);
  if (status == YK_OK) status = yk_interrupt_start(&session.interrupt, &session.console, &err);
  if (status != YK_OK) return yk_cli_call_off(&options->model, NULL, &err);
  status = run_session(&session, &err);
  int exit_code = session.n_failed ? YK_EXIT_FAILURE : YK_EXIT_OK;
  if (status != YK_OK) exit_code = yk_cli_failure(&err);
  for (size_t i = 0; i < session.n; i++) yk_result_free(&session.results[i]);
  free(session.results);
  free(session.requests);
  bool all_freed = yk_engine_destroy(session.engine);
  exit_code = yk_trace_option_close(session.trace, exit_code);
  int caught = yk_interrupt_stop(&session.interrupt);
  return yk_cli_end(all_freed, caught ? YK_EXIT_SIGNAL + caught : exit_code);
}

int yk_cli_generate(int argc, char **argv)
{
  generate_options options = {.format = FORMAT_TEXT};
  int exit_code;
  yk_model_options_init(&options.model);
  yk_sampling_options_init(&options.sampling);
  if (parse(&options, argc, argv, &exit_code)) exit_code = run(&options);
  yk_prompts_free(&options.prompts);
  yk_sampling_options_free(&options.sampling);
  free(options.schema);
  yk_model_options_free(&options.model);
  return exit_code;
}
