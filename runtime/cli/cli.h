/* cli.h - what the subcommands of `yoke` share. Each lives in its own file, talks to the engine through yoke.h alone,
 * and returns the program's exit code. Results go to stdout; everything else goes to stderr. */
#ifndef YK_CLI_CLI_H
#define YK_CLI_CLI_H

#include "base/status.h"
#include "cli/options/options.h"

enum {
  YK_EXIT_OK = 0,
  YK_EXIT_FAILURE = 1, /* something could not be done, in whole or in part */
  YK_EXIT_USAGE = 2,   /* the command line is wrong: nothing was tried */
  YK_EXIT_SIGNAL = 128 /* plus the signal's number: 130 after Ctrl-C */
};

/* argv[0] is the subcommand's first argument. */
int yk_cli_generate(int argc, char **argv);
int yk_cli_chat(int argc, char **argv);
int yk_cli_serve(int argc, char **argv);
int yk_cli_tokenize(int argc, char **argv);
int yk_cli_detokenize(int argc, char **argv);
int yk_cli_convert(int argc, char **argv);
int yk_cli_plan(int argc, char **argv);
int yk_cli_quantize(int argc, char **argv);
int yk_cli_batch(int argc, char **argv);
int yk_cli_score(int argc, char **argv);
int yk_cli_bench(int argc, char **argv);
int yk_cli_bench_machine(int argc, char **argv);
int yk_cli_study(int argc, char **argv);

/* yk_cli_begin - parse the options, and refuse operands where the command takes none. True: go on. False: *exit_code is
 *   final, help or the error has been printed. */
bool yk_cli_begin(const yk_command *command, int argc, char **argv, yk_arguments *arguments, int *exit_code);

/* yk_cli_usage_error - print err and where to find help; returns YK_EXIT_USAGE. */
int yk_cli_usage_error(const yk_command *command, const yk_err *err);

/* yk_cli_failure - print err, with the engine's fields under the names of their options; returns YK_EXIT_FAILURE. */
int yk_cli_failure(const yk_err *err);

/* yk_cli_option_named - the option, as "--max-num-seqs:", that sets the field of yk_engine_options with which a message
 *   begins ("max_seqs: ..."), and in *rest the message behind that field. Another message: "", and all of it. */
const char *yk_cli_option_named(const char *message, const char **rest);

/* yk_cli_end - what a subcommand returns that had an engine: exit_code. all_freed: what yk_engine_destroy
 *   returned; where it is false the process ends here, without the exit handlers of GPU libraries (yoke/engine.h says
 *   why). */
int yk_cli_end(bool all_freed, int exit_code);

/* yk_cli_flush - hand what was printed to whoever reads stdout. Errors: YK_E_IO, also for any earlier failed write. */
yk_status yk_cli_flush(yk_err *err);

/* yk_cli_read_text - all of a file, pipe or device, "-" being standard input, into malloc'd, NUL-terminated memory that
 *   the caller frees; without a byte order mark at its start. Errors: YK_E_IO, YK_E_FORMAT (longer than max_bytes),
 *   YK_E_NOMEM. */
yk_status yk_cli_read_text(const char *path, size_t max_bytes, char **out, size_t *n_bytes, yk_err *err);

#endif
