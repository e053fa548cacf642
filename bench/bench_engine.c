/* bench_engine.c - what batching is worth: many requests of mixed length at once against the same one after another,
 * and what the engine thread itself costs per step. */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cli/cli.h"
#include "cli/model_options.h"
#include "yoke.h"

enum { MIN_TOKENS = 4, MAX_PROMPT = 1000 };

typedef struct options {
  yk_model_options model;
  int32_t n_requests, max_prompt, max_output;
} options;

static const char about[] =
    "Runs many requests of mixed length, all at once and then one after another; prints both times, their ratio, and "
    "the "
    "engine thread's own time per step while all run. Prompts are random token ids of 4 tokens and more.";

static const char examples[] = "  bench_engine -m tests/models/demo --device cpu --tp 4\n";

static yk_status apply(const options *o, yk_engine_options *engine, yk_err *err)
{
  YK_TRY(yk_model_options_apply(&o->model, engine, err));
  if (!o->model.seqs_given && o->n_requests < engine->max_seqs) engine->max_seqs = o->n_requests;
  if (engine->max_model_tokens == 0) engine->max_model_tokens = o->max_prompt + o->max_output;
  engine->no_prefix_reuse = true; /* both ways compute everything */
  engine->log = yk_log_stderr((yk_log_level)o->model.log_level);
  return YK_OK;
}

/* True: go on. */
static bool parse(options *o, int argc, char **argv, yk_engine_options *engine, int *exit_code)
{
  const yk_option own[] = {
      {"requests", NULL, YK_OPTION_INT, &o->n_requests, "N", .help = "how many", .min = 1, .max = 100000},
      {"max-prompt", NULL, YK_OPTION_INT, &o->max_prompt, "N", .help = "tokens of the longest prompt",
       .min = MIN_TOKENS, .max = MAX_PROMPT},
      {"max-output", NULL, YK_OPTION_INT, &o->max_output, "N", .help = "tokens of the longest output",
       .min = MIN_TOKENS, .max = 10000},
  };
  const yk_option_group groups[] = {{"Work", own, sizeof own / sizeof own[0]}, yk_model_options_group(&o->model)};
  const yk_command command = {"bench_engine", "--model DIR [options]", about, examples, groups, .n_groups = 2};
  yk_arguments arguments;
  yk_err err = YK_ERR_INIT;
  if (!yk_cli_begin(&command, argc, argv, &arguments, exit_code)) return false;
  if (apply(o, engine, &err) == YK_OK) return true;
  *exit_code = yk_cli_usage_error(&command, &err);
  return false;
}

static int draw(int request, uint32_t what, int min, int max)
{
  return min + (int)(yk_rng_uniform((uint64_t)request, what, 0) * (float)(max - min + 1));
}

static yk_status submit(yk_engine *engine, const options *o, int i, yk_request **out, yk_err *err)
{
  int32_t ids[MAX_PROMPT];
  yk_engine_info info;
  yk_request_options request;
  yk_engine_get_info(engine, &info);
  yk_request_options_init(engine, &request);
  request.ids = ids;
  request.n_ids = (size_t)draw(i, 0, MIN_TOKENS, o->max_prompt);
  for (uint32_t k = 0; k < request.n_ids; k++)
    ids[k] = (int32_t)(yk_rng_uniform((uint64_t)i, 1, k) * (float)info.vocab_size);
  request.sampling.temperature = 0;
  request.sampling.ignore_eos = true;
  request.sampling.max_tokens = draw(i, 2, MIN_TOKENS, o->max_output);
  return yk_engine_submit(engine, &request, out, err);
}

static yk_status drain(yk_request *request, yk_err *err)
{
  yk_output output;
  do YK_TRY(yk_request_next(request, -1, &output, err));
  while (output.finish == YK_FINISH_NONE);
  yk_request_free(request);
  return output.finish == YK_FINISH_ERROR ? err->code : YK_OK;
}

static yk_status run_together(yk_engine *engine, const options *o, yk_request **requests, double *seconds, yk_err *err)
{
  int64_t start_ns = yk_clock_now_ns();
  for (int i = 0; i < o->n_requests; i++) YK_TRY(submit(engine, o, i, &requests[i], err));
  for (int i = 0; i < o->n_requests; i++) YK_TRY(drain(requests[i], err));
  *seconds = yk_clock_seconds_since(start_ns);
  return YK_OK;
}

static yk_status run_in_turn(yk_engine *engine, const options *o, double *seconds, yk_err *err)
{
  int64_t start_ns = yk_clock_now_ns();
  for (int i = 0; i < o->n_requests; i++) {
    yk_request *request;
    YK_TRY(submit(engine, o, i, &request, err));
    YK_TRY(drain(request, err));
  }
  *seconds = yk_clock_seconds_since(start_ns);
  return YK_OK;
}

static yk_status run(yk_engine *engine, const options *o, yk_request **requests, yk_err *err)
{
  yk_engine_stats before, after;
  double warm_up, together, in_turn;
  YK_TRY(run_together(engine, o, requests, &warm_up, err));
  yk_engine_get_stats(engine, &before);
  YK_TRY(run_together(engine, o, requests, &together, err));
  yk_engine_get_stats(engine, &after);
  YK_TRY(run_in_turn(engine, o, &in_turn, err));
  double steps = (double)(after.steps - before.steps), tokens = (double)(after.output_tokens - before.output_tokens);
  printf("%d requests at once    %8.3f s  %10.1f output tokens/s\n", o->n_requests, together, tokens / together);
  printf("one after another      %8.3f s  %10.1f output tokens/s\n", in_turn, tokens / in_turn);
  printf("ratio                  %8.2f\n", in_turn / together);
  printf(
      "per step, engine thread %6.1f us between steps, %6.1f us handing out during the next, over %.0f steps of %.1f "
      "tokens\n",
      (after.scheduling_s - before.scheduling_s) / steps * 1e6, (after.hand_out_s - before.hand_out_s) / steps * 1e6,
      steps, tokens / steps);
  return YK_OK;
}

static yk_status bench(const options *o, const yk_engine_options *engine_options, yk_err *err)
{
  yk_engine *engine;
  yk_request **requests = calloc((size_t)o->n_requests, sizeof *requests);
  if (!requests) return yk_err_set(err, YK_E_NOMEM, "no memory for %d requests", o->n_requests);
  yk_status status = yk_engine_create(engine_options, &engine, err);
  if (status == YK_OK) {
    status = run(engine, o, requests, err);
    yk_engine_destroy(engine);
  }
  free(requests);
  return status;
}

int main(int argc, char **argv)
{
  options o = {.n_requests = 256, .max_prompt = 40, .max_output = 100};
  yk_engine_options engine;
  yk_err err = YK_ERR_INIT;
  int exit_code = YK_EXIT_OK;
  yk_model_options_init(&o.model);
  o.model.log_level = YK_LOG_WARN;
  if (parse(&o, argc - 1, argv + 1, &engine, &exit_code) && bench(&o, &engine, &err) != YK_OK)
    exit_code = yk_cli_failure(&err);
  yk_model_options_free(&o.model);
  return exit_code;
}
