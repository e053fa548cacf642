/* yoke batch - continue the prompts of a JSONL file; an interrupted run resumes where it stopped. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/batch/batch_identity.h"
#include "cli/batch/batch_run.h"
#include "cli/cli.h"
#include "cli/console.h"
#include "cli/follow.h"
#include "cli/options/model_options.h"
#include "cli/options/vllm_options.h"
#include "cli/trace_option.h"

typedef struct batch_options {
  yk_model_options model;
  yk_sampling_options sampling;
  yk_template_options chat;
  const char *input, *output, *trace_path;
  yk_batch_part part;
  char *output_path;     /* output, with the part's name; owned */
  int32_t max_in_flight; /* 0: derived from the engine's max_seqs */
  bool overwrite;
} batch_options;

static const char about[] =
    "Continue the prompts of a JSONL file. Each line of INPUT is {\"prompt\": \"text\" or [ids], ...} or an OpenAI "
    "batch line for /v1/completions, /v1/chat/completions, /v1/responses or /v1/embeddings; each gives one line of "
    "OUTPUT as soon as it is finished, with the number of its input line. \"-\" is standard input or output. Keys "
    "beside the prompt: "
    "id or custom_id, n, seed, stop, stop_token_ids, logit_bias, and the sampling options below with underscores; "
    "other keys are refused. The body of an OpenAI line may have any field: unsupported fields are refused, unknown "
    "ones ignored. A wrong line gives an error in its place, and exit code 1 at the end. Blank lines are skipped. "
    "Where OUTPUT already holds results of INPUT, by the same model and options, their lines are not computed again; "
    "remains of a power cut (blank lines, bytes of zero) are dropped. With --part 3/16 a run answers the lines 3, 19,"
    " 35 and so on; `yoke batch merge` joins the files of all parts in the order of INPUT.";

static const char examples[] = "  yoke batch -m Qwen3-8B-AWQ prompts.jsonl -o results.jsonl -n 256\n"
                               "  yoke batch -m Qwen3-8B-AWQ --tp 4 openai_batch.jsonl -o results.jsonl\n"
                               "  yoke batch -m DIR in.jsonl --part 3/16 -o 'out-{part}.jsonl'\n"
                               "  yoke batch merge in.jsonl out-*.jsonl -o out.jsonl\n"
                               "  echo '{\"prompt\": \"Once upon a time\", \"n\": 3}' | yoke batch -m DIR -\n";

/* Returns whether to continue. */
static bool parse(batch_options *options, int argc, char **argv, int *exit_code)
{
  const yk_option own[] = {
      {"output", "o", YK_OPTION_STRING, &options->output, "FILE",
       .help = "where results go; {part} in it becomes 03-of-16", .fallback = "-"},
      {"part", NULL, YK_OPTION_CALL, &options->part, "K/N", .help = "answer every N-th line from line K on",
       .fallback = "all lines", .parse = yk_batch_part_parse},
      {"overwrite", NULL, YK_OPTION_FLAG, &options->overwrite, .help = "drop the results that FILE holds"},
      {"max-in-flight", NULL, YK_OPTION_INT, &options->max_in_flight, "N", .help = "requests that run or wait",
       .fallback = "twice --max-num-seqs", .min = 1, .max = 1 << 20},
      yk_trace_option(&options->trace_path),
  };
  const yk_option_group groups[] = {{"Input and output", own, sizeof own / sizeof own[0]},
                                    yk_template_options_group(&options->chat, true),
                                    yk_sampling_options_group(&options->sampling),
                                    yk_model_options_group(&options->model)};
  const yk_command command = {"yoke batch",
                              "MODEL [options] INPUT -o OUTPUT",
                              about,
                              examples,
                              groups,
                              4,
                              .takes_operands = true,
                              .min_operands = 1,
                              .model = &options->model.checkpoint,
                              .foreign = &yk_vllm_options};
  yk_arguments arguments;
  if (!yk_cli_begin(&command, argc, argv, &arguments, exit_code)) return false;
  yk_err err = YK_ERR_INIT;
  yk_engine_options engine;
  if (arguments.n_operands == 1 && !options->model.checkpoint.name)
    yk_err_set(&err, YK_E_INVAL,
               "expected a model (the first argument, or --model MODEL) and an input file, found only \"%.80s\"",
               arguments.operands[0]);
  else if (arguments.n_operands != 1)
    yk_err_set(&err, YK_E_INVAL, "expected one input file (or - for standard input), found %zu", arguments.n_operands);
  else if (yk_template_options_check(&options->chat, &err) == YK_OK &&
           yk_batch_part_path(&options->part, options->output, &options->output_path, &err) == YK_OK)
    yk_model_options_apply(&options->model, &engine, &err);
  if (err.code == YK_OK) {
    options->input = arguments.operands[0];
    return true;
  }
  *exit_code = yk_cli_usage_error(&command, &err);
  return false;
}

static yk_status open_files(const batch_options *options, const yk_batch_run *run, yk_err *err)
{
  YK_TRY(yk_batch_identity(&options->model, &options->sampling, &options->chat, &run->files->hash_start, err));
  YK_TRY(yk_batch_files_open(run->files, err));
  return options->chat.chat_template ? yk_batch_chat_open(run->chat, err) : YK_OK;
}

static yk_status run_session(const batch_options *options, yk_batch_run *run, yk_trace *trace, yk_console *console,
                             yk_err *err)
{
  yk_engine_options engine_options;
  YK_TRY(yk_model_options_apply(&options->model, &engine_options, err));
  yk_status status = open_files(options, run, err);
  if (status != YK_OK) {
    yk_engine_call_off(&engine_options, err);
    return status;
  }
  engine_options.log = console->log;
  engine_options.progress = yk_console_loading;
  engine_options.progress_user = console;
  status = yk_engine_create(&engine_options, &run->engine, err);
  yk_console_clear(console);
  if (status != YK_OK) return status;
  yk_engine_set_trace(run->engine, trace);
  run->progress.n_total = run->files->n_to_answer;
  run->progress.n_before = run->files->n_done;
  run->progress.n_failed_before = run->files->n_failed;
  yk_batch_progress_start(&run->progress, console, run->engine);
  yk_request *const none = NULL;
  yk_interrupt_watch(run->interrupt, &none, 0); /* from this point a signal ends the loop, not the program */
  status = yk_batch_run_lines(run, err);
  yk_interrupt_watch(run->interrupt, NULL, 0);
  yk_batch_progress_summarise(&run->progress);
  return status;
}

static int run_batch(batch_options *options)
{
  yk_console console;
  yk_interrupt interrupt;
  yk_err err = YK_ERR_INIT;
  if (yk_cli_follows(&options->model)) return yk_cli_follow(&options->model, NULL, false);
  if (yk_model_options_find(&options->model, true, &err) != YK_OK) return yk_cli_call_off(&options->model, NULL, &err);
  yk_batch_files files = {.input_path = options->input,
                          .output_path = options->output_path,
                          .part = options->part,
                          .overwrite = options->overwrite};
  yk_batch_chat chat = {.tokenizer = yk_model_options_tokenizer(&options->model),
                        .chat_template = options->chat.chat_template,
                        .default_kwargs = yk_json_root(options->chat.kwargs)};
  const yk_answer_style_options style = {options->chat.chat_template, options->chat.tool_parser,
                                         options->chat.reasoning_parser};
  yk_batch_run run = {.model_dir = options->model.checkpoint.name,
                      .sampling = &options->sampling,
                      .chat = &chat,
                      .style = yk_answer_style_find(chat.tokenizer, &style),
                      .adapters = &options->model.adapters,
                      .seed = options->model.seed,
                      .max_in_flight = (size_t)options->max_in_flight,
                      .files = &files,
                      .interrupt = &interrupt};
  yk_console_init(&console, (yk_log_level)options->model.log_level);
  yk_trace *trace;
  yk_status status = yk_trace_option_open(options->trace_path, &trace, &err);
  if (status == YK_OK) status = yk_interrupt_start(&interrupt, &console, &err);
  if (status != YK_OK) return yk_cli_call_off(&options->model, NULL, &err);
  status = run_session(options, &run, trace, &console, &err);
  int exit_code = run.progress.n_failed + files.n_failed > 0 ? YK_EXIT_FAILURE : YK_EXIT_OK;
  if (status != YK_OK) exit_code = yk_cli_failure(&err);
  yk_batch_run_free(&run);
  bool all_freed = yk_engine_destroy(run.engine);
  yk_batch_files_close(&files);
  yk_batch_chat_close(&chat);
  exit_code = yk_trace_option_close(trace, exit_code);
  int caught = yk_interrupt_stop(&interrupt);
  return yk_cli_end(all_freed, caught ? YK_EXIT_SIGNAL + caught : exit_code);
}

int yk_cli_batch(int argc, char **argv)
{
  if (argc > 0 && strcmp(argv[0], "merge") == 0) return yk_cli_batch_merge(argc - 1, argv + 1);
  batch_options options = {.output = "-"};
  int exit_code;
  yk_model_options_init(&options.model);
  yk_sampling_options_init(&options.sampling);
  yk_template_options_init(&options.chat);
  if (parse(&options, argc, argv, &exit_code)) exit_code = run_batch(&options);
  yk_sampling_options_free(&options.sampling);
  yk_template_options_free(&options.chat);
  yk_model_options_free(&options.model);
  free(options.output_path);
  return exit_code;
}
