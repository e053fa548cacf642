/* yoke score - log-probability and perplexity of a given text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/console.h"
#include "cli/follow.h"
#include "cli/interrupt.h"
#include "cli/options/model_options.h"
#include "cli/options/vllm_options.h"
#include "cli/prompts.h"
#include "cli/score_windows.h"

enum { FORMAT_TEXT, FORMAT_JSON };
static const char *const format_names[] = {"text", "json", NULL};

typedef struct score_options {
  yk_model_options model;
  yk_prompts texts;
  int32_t window, stride; /* 0: the defaults */
  bool tokens;
  int format;
} score_options;

/* The text and its scores. */
typedef struct score {
  const int32_t *ids; /* [n_tokens] */
  size_t n_tokens, n_bytes;
  bool has_text;
  int32_t window, stride;
  float *logprobs; /* [n_tokens]; not set for the first token */
  double sum;      /* of the n_tokens - 1 others, natural logarithm */
} score;

static const char about[] =
    "Log-probability and perplexity of one text; without any, of standard input less one newline at its end. Each "
    "token but the first is scored once. A text longer than the window is scored in windows that begin --stride "
    "tokens apart, so that every token sees at least window - stride tokens before it. Logarithms are natural; bits "
    "per byte are over all bytes of the text.";

static const char examples[] = "  yoke score -m Qwen3-8B-AWQ --text-file wikitext.txt --window 2048\n"
                               "  yoke score -m DIR --text \"To be, or not to be\" --format json --tokens\n"
                               "  yoke score -m Qwen3-8B-AWQ --token-ids 5,6,7 --device cpu\n";

/* Returns whether to continue. */
static bool parse(score_options *options, int argc, char **argv, int *exit_code)
{
  const yk_option own[] = {
      {"text", NULL, YK_OPTION_CALL, &options->texts, "TEXT", .help = "the text", .parse = yk_prompts_add_text},
      {"text-file", "f", YK_OPTION_CALL, &options->texts, "FILE", .help = "a file that is the text; - is stdin",
       .parse = yk_prompts_add_file},
      {"token-ids", NULL, YK_OPTION_CALL, &options->texts, "LIST", .help = "the text as token ids, 5,6,7",
       .parse = yk_prompts_add_ids},
      {"window", NULL, YK_OPTION_INT, &options->window, "N", .help = "tokens scored together",
       .fallback = "the longest context that fits", .min = 2, .max = INT32_MAX},
      {"stride", NULL, YK_OPTION_INT, &options->stride, "S", .help = "tokens from one window to the next",
       .fallback = "half the window", .min = 1, .max = INT32_MAX},
      {"tokens", NULL, YK_OPTION_FLAG, &options->tokens, .help = "each token's log-probability, with --format json"},
      {"format", NULL, YK_OPTION_CHOICE, &options->format, .help = "json prints one object", .choices = format_names},
  };
  const yk_option_group groups[] = {{"Text and windows", own, sizeof own / sizeof own[0]},
                                    yk_model_options_group(&options->model)};
  const yk_command command = {"yoke score",
                              "MODEL [options]",
                              about,
                              examples,
                              groups,
                              2,
                              .instead = "the text follows --text",
                              .model = &options->model.checkpoint,
                              .foreign = &yk_vllm_options};
  yk_arguments arguments;
  if (!yk_cli_begin(&command, argc, argv, &arguments, exit_code)) return false;
  yk_err err = YK_ERR_INIT;
  yk_engine_options engine;
  if (options->texts.n > 1)
    yk_err_set(&err, YK_E_INVAL, "expected one text, found %zu: give one of --text, --text-file and --token-ids",
               options->texts.n);
  else if (options->tokens && options->format != FORMAT_JSON)
    yk_err_set(&err, YK_E_INVAL, "--tokens: expected --format json with it, found --format text");
  else if (options->window && options->stride >= options->window)
    yk_err_set(&err, YK_E_INVAL, "--stride: expected less than --window (%d), found %d", options->window,
               options->stride);
  else
    yk_model_options_apply(&options->model, &engine, &err);
  if (err.code == YK_OK) return true;
  *exit_code = yk_cli_usage_error(&command, &err);
  return false;
}

static yk_status choose_windows(const score_options *options, const yk_engine_info *info, score *s, yk_err *err)
{
  s->window = options->window ? options->window : info->max_model_tokens;
  if (s->window < 2 || s->window > info->max_model_tokens)
    return yk_err_set(err, YK_E_INVAL, "--window: expected 2 to %d (the context), found %d", info->max_model_tokens,
                      s->window);
  s->stride = options->stride ? options->stride : s->window / 2;
  if (s->stride >= s->window)
    return yk_err_set(err, YK_E_INVAL, "--stride: expected less than the window (%d), found %d", s->window, s->stride);
  if (s->n_tokens < 2) return yk_err_set(err, YK_E_INVAL, "text: expected at least two tokens, found %zu", s->n_tokens);
  return YK_OK;
}

/* JSON has no infinity: the log-probability of a token that cannot occur is null. */
static void print_number(double value)
{
  if (isfinite(value))
    printf("%.9g", value);
  else
    fputs("null", stdout);
}

static void print_member(const char *name, double value)
{
  printf(",\"%s\":", name);
  print_number(value);
}

static void print_json(const score *s, bool tokens)
{
  double n = (double)(s->n_tokens - 1), mean = s->sum / n;
  printf("{\"tokens\":%zu,\"scored_tokens\":%zu,\"window\":%d,\"stride\":%d", s->n_tokens, s->n_tokens - 1, s->window,
         s->stride);
  print_member("logprob", s->sum);
  print_member("mean_logprob", mean);
  print_member("perplexity", exp(-mean));
  if (s->has_text) printf(",\"bytes\":%zu", s->n_bytes);
  if (s->has_text) print_member("bits_per_byte", -s->sum / log(2) / (double)s->n_bytes);
  for (size_t i = 0; tokens && i < s->n_tokens; i++) printf("%s%d", i ? "," : ",\"token_ids\":[", s->ids[i]);
  for (size_t i = 0; tokens && i < s->n_tokens; i++) {
    fputs(i ? "," : "],\"logprobs\":[", stdout);
    print_number(i ? s->logprobs[i] : -INFINITY);
  }
  fputs(tokens ? "]}\n" : "}\n", stdout);
}

static void print_text(const score *s)
{
  double mean = s->sum / (double)(s->n_tokens - 1);
  printf("tokens           %zu, %zu of them scored\n", s->n_tokens, s->n_tokens - 1);
  printf("log-probability  %.6f, %.6f a token\n", s->sum, mean);
  printf("perplexity       %.6f\n", exp(-mean));
  if (s->has_text) printf("bits per byte    %.6f\n", -s->sum / log(2) / (double)s->n_bytes);
}

static yk_status score_and_print(const score_options *options, yk_engine *engine, yk_console *console, score *s,
                                 yk_err *err)
{
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  YK_TRY(choose_windows(options, &info, s, err));
  s->logprobs = calloc(s->n_tokens, sizeof *s->logprobs);
  if (!s->logprobs) return yk_err_set(err, YK_E_NOMEM, "no memory for %zu log-probabilities", s->n_tokens);
  int64_t started_ns = yk_clock_now_ns();
  yk_status status = yk_score_tokens(engine, s->ids, s->n_tokens, (size_t)s->window, (size_t)s->stride, s->logprobs,
                                     yk_console_scoring, console, err);
  yk_console_clear(console);
  YK_TRY(status);
  double elapsed_s = yk_clock_seconds_since(started_ns);
  for (size_t i = 1; i < s->n_tokens; i++) s->sum += s->logprobs[i];
  if (options->format == FORMAT_JSON)
    print_json(s, options->tokens);
  else
    print_text(s);
  yk_log_write(&console->log, YK_LOG_INFO, "%zu tokens in %.2f s, windows of %d every %d", s->n_tokens, elapsed_s,
               s->window, s->stride);
  return yk_cli_flush(err);
}

static yk_status run_engine(const score_options *options, yk_console *console, yk_engine **engine, yk_err *err)
{
  yk_engine_options engine_options;
  YK_TRY(yk_model_options_apply(&options->model, &engine_options, err));
  engine_options.log = console->log;
  engine_options.progress = yk_console_loading;
  engine_options.progress_user = console;
  yk_status status = yk_engine_create(&engine_options, engine, err);
  yk_console_clear(console);
  if (status != YK_OK) return status;
  const yk_prompt *text = &options->texts.items[0];
  score s = {.ids = text->ids, .n_tokens = text->n_ids, .n_bytes = text->n_bytes, .has_text = text->text != NULL};
  int32_t *ids = NULL;
  if (text->text) {
    YK_TRY(yk_engine_tokenize(*engine, text->text, text->n_bytes, true, &ids, &s.n_tokens, err));
    s.ids = ids;
  }
  status = score_and_print(options, *engine, console, &s, err);
  free(s.logprobs);
  free(ids);
  return status;
}

static int run(score_options *options)
{
  yk_console console;
  yk_interrupt interrupt; /* watches nothing: there is no partial result, so a signal ends the program */
  yk_engine *engine = NULL;
  yk_err err = YK_ERR_INIT;
  if (yk_cli_follows(&options->model)) return yk_cli_follow(&options->model, NULL, false);
  yk_console_init(&console, (yk_log_level)options->model.log_level);
  yk_status status = yk_model_options_find(&options->model, true, &err);
  if (status == YK_OK) status = yk_prompts_load(&options->texts, &err);
  if (status == YK_OK) status = yk_interrupt_start(&interrupt, &console, &err);
  if (status != YK_OK) return yk_cli_call_off(&options->model, NULL, &err);
  int exit_code = run_engine(options, &console, &engine, &err) == YK_OK ? YK_EXIT_OK : yk_cli_failure(&err);
  bool all_freed = yk_engine_destroy(engine);
  yk_interrupt_stop(&interrupt);
  return yk_cli_end(all_freed, exit_code);
}

int yk_cli_score(int argc, char **argv)
{
  score_options options = {.format = FORMAT_TEXT};
  int exit_code;
  yk_model_options_init(&options.model);
  if (parse(&options, argc, argv, &exit_code)) exit_code = run(&options);
  yk_prompts_free(&options.texts);
  yk_model_options_free(&options.model);
  return exit_code;
}
