#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bom.h"
#include "base/log.h"
#include "base/strbuf.h"
#include "cli/options/named_model.h"

int yk_cli_usage_error(const yk_command *command, const yk_err *err)
{
  yk_log log = yk_log_stderr(YK_LOG_INFO);
  yk_log_write(&log, YK_LOG_ERROR, "%s", err->message);
  yk_log_write(&log, YK_LOG_INFO, "see %s --help", command->name);
  return YK_EXIT_USAGE;
}

const char *yk_cli_option_named(const char *message, const char **rest)
{
  static const struct {
    const char *field, *option;
  } names[] = {
      {"max_model_tokens:", "--max-model-len:"},
      {"max_batched_tokens:", "--max-num-batched-tokens:"},
      {"long_prompt_rows:", "--long-prefill-token-threshold:"},
      {"hf_overrides:", "--hf-overrides:"},
      {"override_generation_config:", "--override-generation-config:"},
      {"max_seqs:", "--max-num-seqs:"},
      {"kv_cache_bytes:", "--kv-cache-bytes:"},
      {"memory_bytes:", "--memory-bytes:"},
      {"all_reduce_max_bytes:", "--all-reduce-max:"},
      {"state_cache_bytes:", "--state-cache-bytes:"},
      {"kv_cache_dtype ", "--kv-cache-dtype "},
      {"activations ", "--activations "},
      {"lm_head ", "--lm-head "},
      {"gpu_memory_utilization:", "--gpu-memory-utilization:"},
      {"n_cpu_threads:", "--threads:"},
      {"number of ranks:", "--tensor-parallel-size:"},
      {"pipeline stages:", "--pipeline-parallel-size:"},
      {"devices:", "--devices:"},
      {"disable_custom_all_reduce:", "--disable-custom-all-reduce:"},
      {"batch_invariant:", "--batch-invariant:"},
  };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    size_t length = strlen(names[i].field);
    if (strncmp(message, names[i].field, length) != 0) continue;
    *rest = message + length;
    return names[i].option;
  }
  *rest = message;
  return "";
}

int yk_cli_failure(const yk_err *err)
{
  yk_log log = yk_log_stderr(YK_LOG_ERROR);
  const char *rest, *option = yk_cli_option_named(err->message, &rest);
  yk_log_write(&log, YK_LOG_ERROR, "%s%s", option, rest);
  return YK_EXIT_FAILURE;
}

int yk_cli_end(bool all_freed, int exit_code)
{
  if (all_freed) return exit_code;
  fflush(NULL);
  _exit(exit_code);
}

/* The first operand is the model if no option has named it, and the command still has its own operands without it. */
static void take_model(const yk_command *command, yk_arguments *arguments)
{
  size_t n_own = command->takes_operands ? command->min_operands : 0;
  if (!command->model || command->model->name || arguments->n_operands <= n_own) return;
  command->model->name = arguments->operands[0];
  command->model->instead = command->instead;
  arguments->operands++;
  arguments->n_operands--;
}

static void refuse_operand(const yk_command *command, const char *operand, yk_err *err)
{
  if (command->instead)
    yk_err_set(err, YK_E_INVAL, "unexpected argument \"%.80s\"; %s", operand, command->instead);
  else if (command->model && command->model->name)
    yk_err_set(err, YK_E_INVAL, "unexpected argument \"%.80s\"; the model is \"%.80s\" already", operand,
               command->model->name);
  else
    yk_err_set(err, YK_E_INVAL, "unexpected argument \"%.80s\"; expected only options", operand);
}

/* Logs one line, subject to --log-level. */
static void report_ignored(const yk_command *command, const yk_arguments *arguments)
{
  const yk_option *level = yk_options_find(command, "log-level");
  yk_log log = yk_log_stderr(level ? (yk_log_level) * (const int *)level->value : YK_LOG_INFO);
  yk_strbuf names = YK_STRBUF_INIT;
  for (size_t i = 0; i < arguments->n_passed_over; i++) {
    const char *argument = arguments->passed_over[i];
    yk_strbuf_append_fmt(&names, "%s%.*s", i ? ", " : "", (int)strcspn(argument, "="), argument);
  }
  if (arguments->n_passed_over && !names.failed)
    yk_log_write(&log, YK_LOG_INFO, "options of vLLM that change nothing here: %s", names.data);
  yk_strbuf_free(&names);
}

bool yk_cli_begin(const yk_command *command, int argc, char **argv, yk_arguments *arguments, int *exit_code)
{
  yk_err err = YK_ERR_INIT;
  yk_options_parse(command, argc, argv, arguments, &err);
  if (err.code == YK_OK && !arguments->help) take_model(command, arguments);
  if (err.code == YK_OK && !arguments->help && arguments->n_operands && !command->takes_operands)
    refuse_operand(command, arguments->operands[0], &err);
  if (err.code != YK_OK) {
    *exit_code = yk_cli_usage_error(command, &err);
    return false;
  }
  if (!arguments->help) {
    report_ignored(command, arguments);
    return true;
  }
  yk_options_help(command);
  *exit_code = yk_cli_flush(&err) == YK_OK ? YK_EXIT_OK : yk_cli_failure(&err);
  return false;
}

yk_status yk_cli_flush(yk_err *err)
{
  if (fflush(stdout) == 0 && !ferror(stdout)) return YK_OK;
  return yk_err_set(err, YK_E_IO, "standard output: %s", errno ? strerror(errno) : "a write failed");
}

static yk_status read_stream(FILE *file, const char *name, size_t max_bytes, yk_strbuf *text, yk_err *err)
{
  char chunk[65536];
  size_t got;
  yk_strbuf_append(text, "", 0);
  while ((got = fread(chunk, 1, sizeof chunk, file)) > 0) {
    if (got > max_bytes - text->length)
      return yk_err_set(err, YK_E_FORMAT, "%s: expected at most %zu bytes, found more", name, max_bytes);
    yk_strbuf_append(text, chunk, got);
    if (text->failed) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for the text", name);
  }
  return ferror(file) ? yk_err_set(err, YK_E_IO, "%s: %s", name, strerror(errno)) : YK_OK;
}

yk_status yk_cli_read_text(const char *path, size_t max_bytes, char **out, size_t *n_bytes, yk_err *err)
{
  bool is_stdin = strcmp(path, "-") == 0;
  const char *name = is_stdin ? "standard input" : path;
  yk_strbuf text = YK_STRBUF_INIT;
  FILE *file = is_stdin ? stdin : fopen(path, "rb");
  if (!file) return yk_err_set(err, YK_E_IO, "%s: %s", name, strerror(errno));
  yk_status status = read_stream(file, name, max_bytes, &text, err);
  if (!is_stdin) fclose(file);
  if (status != YK_OK) {
    yk_strbuf_free(&text);
    return status;
  }
  size_t n_bom_bytes = yk_bom_bytes(text.data, text.length);
  *n_bytes = text.length - n_bom_bytes;
  memmove(text.data, text.data + n_bom_bytes, *n_bytes + 1);
  *out = text.data;
  return YK_OK;
}
