/* cli.h - functions shared by the subcommands of `yoke`. Each subcommand has its own file, uses the engine only through
 * yoke.h, and returns the program's exit code. Results go to stdout, everything else to stderr. */
#ifndef YK_CLI_CLI_H
#define YK_CLI_CLI_H

#include "base/status.h"
#include "cli/options/options.h"

enum {
  YK_EXIT_OK = 0,
  YK_EXIT_FAILURE = 1, /* the work failed, in whole or in part */
  YK_EXIT_USAGE = 2,   /* the command line is wrong: nothing was attempted */
  YK_EXIT_SIGNAL = 128 /* plus the signal's number: 130 after Ctrl-C */
};

/* argv[0] is the first argument of the subcommand. */
int yk_cli_generate(int argc, char **argv);
int yk_cli_chat(int argc, char **argv);
int yk_cli_serve(int argc, char **argv);
int yk_cli_tokenize(int argc, char **argv);
int yk_cli_detokenize(int argc, char **argv);
int yk_cli_convert(int argc, char **argv);
int yk_cli_plan(int argc, char **argv);
int yk_cli_quantize(int argc, char **argv);
int yk_cli_batch(int argc, char **argv);
int yk_cli_batch_merge(int argc, char **argv);
int yk_cli_score(int argc, char **argv);
int yk_cli_bench(int argc, char **argv);
int yk_cli_bench_machine(int argc, char **argv);
int yk_cli_study(int argc, char **argv);

/* yk_cli_begin - parse the options, and refuse operands if the command takes none. True: continue. False: *exit_code is
 *   final, help or the error has been printed. */
bool yk_cli_begin(const yk_command *command, int argc, char **argv, yk_arguments *arguments, int *exit_code);

/* yk_cli_usage_error - print err and how to get help; returns YK_EXIT_USAGE. */
int yk_cli_usage_error(const yk_command *command, const yk_err *err);

/* yk_cli_failure - print err, with the engine's fields replaced by the names of their options; returns
 *   YK_EXIT_FAILURE. */
int yk_cli_failure(const yk_err *err);

/* yk_cli_option_named - if a message begins with a field of yk_engine_options ("max_seqs: ..."), the option that sets
 *   the field, as "--max-num-seqs:", and in *rest the message after the field. Other messages: "", and the whole
 *   message. */
const char *yk_cli_option_named(const char *message, const char **rest);

/* yk_cli_end - the exit code of a subcommand that had an engine: exit_code. all_freed: result of yk_engine_destroy; if
 *   it is false, the process ends here, without the exit handlers of GPU libraries (yoke/engine.h gives the reason). */
int yk_cli_end(bool all_freed, int exit_code);

/* yk_cli_flush - flush stdout. Errors: YK_E_IO, also for any earlier failed write. */
yk_status yk_cli_flush(yk_err *err);

/* yk_cli_read_text - read all of a file, pipe or device, "-" being standard input, into malloc'd, NUL-terminated memory
 *   that the caller frees; a byte order mark at the start is removed. Errors: YK_E_IO, YK_E_FORMAT (longer than
 *   max_bytes), YK_E_NOMEM. */
yk_status yk_cli_read_text(const char *path, size_t max_bytes, char **out, size_t *n_bytes, yk_err *err);

#endif
