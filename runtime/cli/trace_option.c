#include "cli/trace_option.h"

#include "cli/cli.h"

yk_option yk_trace_option(const char **path)
{
  return (yk_option){"trace", NULL,   YK_OPTION_STRING,
                     path,    "FILE", .help = "time the first 64 steps, for ui.perfetto.dev"};
}

yk_status yk_trace_option_open(const char *path, yk_trace **out, yk_err *err)
{
  *out = NULL;
  if (!path) return YK_OK;
  yk_status status = yk_trace_create(path, YK_TRACE_STEPS, out, err);
  if (status != YK_OK) yk_err_prefix(err, "--trace");
  return status;
}

int yk_trace_option_close(yk_trace *trace, int exit_code)
{
  yk_err err = YK_ERR_INIT;
  return yk_trace_finish(trace, &err) == YK_OK ? exit_code : yk_cli_failure(&err);
}
