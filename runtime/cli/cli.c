#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/strbuf.h"

int yk_cli_usage_error(const yk_command *command, const yk_err *err)
{
  yk_log log = yk_log_stderr(YK_LOG_INFO);
  yk_log_write(&log, YK_LOG_ERROR, "%s", err->message);
  yk_log_write(&log, YK_LOG_INFO, "see %s --help", command->name);
  return YK_EXIT_USAGE;
}

int yk_cli_failure(const yk_err *err)
{
  yk_log log = yk_log_stderr(YK_LOG_ERROR);
  yk_log_write(&log, YK_LOG_ERROR, "%s", err->message);
  return YK_EXIT_FAILURE;
}

bool yk_cli_begin(const yk_command *command, int argc, char **argv, yk_arguments *arguments, int *exit_code)
{
  yk_err err = YK_ERR_INIT;
  yk_options_parse(command, argc, argv, arguments, &err);
  if (err.code == YK_OK && !arguments->help && arguments->n_operands && !command->takes_operands)
    yk_err_set(&err, YK_E_INVAL, "unexpected argument \"%.80s\"%s%s", arguments->operands[0],
               command->instead ? "; " : "", command->instead ? command->instead : "");
  if (err.code != YK_OK) {
    *exit_code = yk_cli_usage_error(command, &err);
    return false;
  }
  if (!arguments->help) return true;
  yk_options_help(command);
  *exit_code = yk_cli_flush(&err) == YK_OK ? YK_EXIT_OK : yk_cli_failure(&err);
  return false;
}

yk_status yk_cli_flush(yk_err *err)
{
  if (fflush(stdout) == 0 && !ferror(stdout)) return YK_OK;
  return yk_err_set(err, YK_E_IO, "standard output: %s", errno ? strerror(errno) : "a write failed");
}

yk_status yk_cli_read_stdin(char **out, size_t *n_bytes, yk_err *err)
{
  yk_strbuf text = YK_STRBUF_INIT;
  char chunk[65536];
  size_t got;
  yk_strbuf_append(&text, "", 0);
  while ((got = fread(chunk, 1, sizeof chunk, stdin)) > 0) yk_strbuf_append(&text, chunk, got);
  if (ferror(stdin) || text.failed) {
    yk_strbuf_free(&text);
    return ferror(stdin) ? yk_err_set(err, YK_E_IO, "standard input: %s", strerror(errno))
                         : yk_err_set(err, YK_E_NOMEM, "standard input: no memory for the text");
  }
  *out = text.data;
  *n_bytes = text.length;
  return YK_OK;
}
