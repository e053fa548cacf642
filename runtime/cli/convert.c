/* yoke convert - convert a quantised model to another format, with exactly the same numbers. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/cli.h"
#include "cli/console.h"
#include "cli/interrupt.h"
#include "cli/options/model_options.h"
#include "cli/options/named_model.h"
#include "yoke/tools.h"

/* In the order of yk_convert_format. */
static const char *const format_names[] = {"awq", "kuiper", NULL};

typedef struct convert_command {
  yk_convert_options options;
  yk_named_model model;
  int to, log_level;
  bool to_given;
  yk_console *console;
  yk_interrupt *interrupt;
  int64_t written_bytes;
} convert_command;

static const char examples[] = "  yoke convert -m Qwen3-8B-GPTQ-Int4 --to awq -o Qwen3-8B-AWQ\n"
                               "  yoke convert -m Qwen3-8B-AWQ --to kuiper -o Qwen3-8B-awq.bin\n"
                               "  yoke convert -m Qwen3-8B-awq.bin --to awq -o OUT --shard-size 2GB\n";

static yk_status check(const convert_command *c, yk_err *err)
{
  const yk_convert_options *options = &c->options;
  YK_TRY(yk_named_model_check(&c->model, err));
  if (!c->to_given) return yk_err_set(err, YK_E_INVAL, "--to: expected awq or kuiper, found nothing");
  if (!options->out || !options->out[0])
    return yk_err_set(err, YK_E_INVAL, "--output: expected a new directory (awq) or file (kuiper), found nothing");
  if (options->shard_bytes < 1)
    return yk_err_set(err, YK_E_INVAL, "--shard-size: expected at least 1, found %lld",
                      (long long)options->shard_bytes);
  return YK_OK;
}

/* Returns whether to continue. */
static bool parse(convert_command *c, int argc, char **argv, int *exit_code)
{
  yk_convert_options *options = &c->options;
  const yk_option own[] = {
      {"to", NULL, YK_OPTION_CHOICE, &c->to, NULL,
       .help = "awq: a Hugging Face directory in AWQ's gemm format; kuiper: a KuiperLLama file; required",
       .fallback = "", .choices = format_names, .given = &c->to_given},
      {"output", "o", YK_OPTION_STRING, &options->out, "PATH",
       .help = "directory or file, which must be new; required"},
      {"shard-size", NULL, YK_OPTION_BYTES, &options->shard_bytes, "SIZE", .help = "awq: most data of a weight file",
       .fallback = "5GB"},
      {"log-level", NULL, YK_OPTION_CHOICE, &c->log_level, "LEVEL",
       .help = "error, warn, info (with progress) or debug", .choices = yk_log_level_names},
  };
  yk_option model[YK_NAMED_MODEL_OPTIONS];
  yk_named_model_options(&c->model, "checkpoint directory, KuiperLLama .bin, or ORG/NAME; required", model);
  const yk_option_group groups[] = {{"Options", own, sizeof own / sizeof own[0]},
                                    {"Model", model, YK_NAMED_MODEL_OPTIONS}};
  const yk_command command = {
      "yoke convert",
      "MODEL --to FORMAT -o PATH",
      "Write a model of 4-bit integers in another format. Every number stays exactly as it is; a value that the "
      "other format cannot hold is refused with its tensor. Needs no GPU, and little memory. Tokenizer, templates "
      "and generation settings are copied into a directory. The result takes its name once it is whole: a run that "
      "fails or is stopped leaves nothing.",
      examples,
      groups,
      .n_groups = 2,
      .model = &c->model};
  yk_arguments arguments;
  yk_err err = YK_ERR_INIT;
  if (!yk_cli_begin(&command, argc, argv, &arguments, exit_code)) return false;
  if (check(c, &err) == YK_OK) return true;
  *exit_code = yk_cli_usage_error(&command, &err);
  return false;
}

static bool progress(void *user, int64_t done_bytes, int64_t total_bytes)
{
  convert_command *c = user;
  c->written_bytes = done_bytes;
  yk_console_converting(c->console, done_bytes, total_bytes);
  return yk_interrupt_caught(c->interrupt) == 0;
}

static yk_status run(convert_command *c, yk_err *err)
{
  char text[YK_BYTES_TEXT];
  yk_request *const none = NULL;
  YK_TRY(yk_named_model_find(&c->model, true, err));
  c->options.model_dir = c->model.path;
  c->options.to = (yk_convert_format)c->to;
  c->options.log = c->console->log;
  c->options.progress = progress;
  c->options.progress_user = c;
  yk_interrupt_watch(c->interrupt, &none, 0); /* a signal ends the conversion, which then removes its files */
  yk_status status = yk_convert(&c->options, err);
  yk_interrupt_watch(c->interrupt, NULL, 0);
  yk_console_clear(c->console);
  if (status == YK_OK)
    yk_log_write(&c->console->log, YK_LOG_INFO, "%s: %s of weights", c->options.out,
                 yk_bytes_format(c->written_bytes, text));
  return status;
}

int yk_cli_convert(int argc, char **argv)
{
  yk_console console;
  yk_interrupt interrupt;
  convert_command command = {.log_level = YK_LOG_INFO, .console = &console, .interrupt = &interrupt};
  int exit_code;
  yk_err err = YK_ERR_INIT;
  yk_convert_options_init(&command.options);
  if (!parse(&command, argc, argv, &exit_code)) return exit_code;
  yk_console_init(&console, (yk_log_level)command.log_level);
  if (yk_interrupt_start(&interrupt, &console, &err) != YK_OK) return yk_cli_failure(&err);
  exit_code = run(&command, &err) == YK_OK ? YK_EXIT_OK : yk_cli_failure(&err);
  yk_named_model_free(&command.model);
  int caught = yk_interrupt_stop(&interrupt);
  return caught && err.code == YK_E_CANCELLED ? YK_EXIT_SIGNAL + caught : exit_code;
}
