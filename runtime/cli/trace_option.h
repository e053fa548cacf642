/* trace_option.h - the option --trace of subcommands that run requests. */
#ifndef YK_CLI_TRACE_OPTION_H
#define YK_CLI_TRACE_OPTION_H

#include "cli/options/options.h"
#include "yoke/yoke.h"

/* yk_trace_option - the option, which stores into *path. */
yk_option yk_trace_option(const char **path);

/* yk_trace_option_open - open the trace at that path; NULL without one. Call before the model is loaded, so that an
 *   unwritable file is reported first. Errors: those of yk_trace_create. */
yk_status yk_trace_option_open(const char *path, yk_trace **out, yk_err *err);

/* yk_trace_option_close - write the trace; returns exit_code, or YK_EXIT_FAILURE with the error printed. Call after the
 *   engine was destroyed. NULL is allowed. */
int yk_trace_option_close(yk_trace *trace, int exit_code);

#endif
