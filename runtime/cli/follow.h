/* follow.h - a process other than process 0 of a run of several processes: it executes the commands of process 0. */
#ifndef YK_CLI_FOLLOW_H
#define YK_CLI_FOLLOW_H

#include "cli/options/model_options.h"

/* yk_cli_follows - whether the options make this process one that follows. */
bool yk_cli_follows(const yk_model_options *options);

/* yk_cli_call_off - process 0 fails before it creates its engine: the other processes end with the reason too. Without
 *   other processes the same as yk_cli_failure. given: as for yk_cli_follow. Returns yk_cli_failure(why). */
int yk_cli_call_off(const yk_model_options *options, const yk_engine_options *given, const yk_err *why);

/* yk_cli_follow - follow process 0 until its engine ends. given: the engine's options, if the command has changed those
 *   that yk_model_options_apply gives; or NULL. restarts: after a failure of the run, hold the roll call
 *   again. Returns the program's exit code: 0 if the engine has ended in order, 128 plus the number of a signal that
 *   ended this process. Call before any other thread exists. */
int yk_cli_follow(yk_model_options *options, const yk_engine_options *given, bool restarts);

/* The run of a following process, in place of one engine. stops, stops_user: as for yk_engine_follow. */
typedef yk_status (*yk_cli_follow_run)(void *user, const yk_engine_options *engine, const char *(*stops)(void *user),
                                       void *stops_user, bool *is_stuck, yk_err *err);

/* yk_cli_follow_by - the same with a run of the caller's. The options' model may be missing: the run must join the
 *   other processes nevertheless. */
int yk_cli_follow_by(yk_model_options *options, yk_cli_follow_run run, void *user);

#endif
