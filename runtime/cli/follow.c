#include "cli/follow.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/console.h"

/* A launcher that stops a run sends the signal to every process. For so long a follower waits for process 0 to end. */
static const double GRACE_S = 1;
static const double ABORT_S = 3; /* time for the failure to reach the other processes; then the process ends */

typedef struct follow_state {
  yk_console console;
  atomic_int caught; /* number of the first signal, or 0 */
  atomic_llong caught_ns;
  atomic_bool is_following; /* all processes have loaded, so that process 0 may still end this one */
  sigset_t signals;
  char reason[64];
} follow_state;

bool yk_cli_follows(const yk_model_options *options)
{
  yk_engine_options engine;
  yk_engine_options_init(&engine);
  return yk_process_options_apply(&options->processes, &engine, NULL) == YK_OK && engine.process > 0;
}

static void name_model(const yk_model_options *options, yk_engine_options *engine)
{
  engine->model_dir = options->checkpoint.path ? options->checkpoint.path : options->checkpoint.name;
  engine->tokenizer = options->tokenizer.path;
}

int yk_cli_call_off(const yk_model_options *options, const yk_engine_options *given, const yk_err *why)
{
  yk_engine_options engine;
  const int exit_code = yk_cli_failure(why);
  if (yk_model_options_apply(options, &engine, NULL) != YK_OK) return exit_code;
  if (given) engine = *given;
  name_model(options, &engine);
  yk_engine_call_off(&engine, why);
  return exit_code;
}

static void sleep_s(double seconds)
{
  struct timespec time = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};
  nanosleep(&time, NULL);
}

/* A signal that the parent ignores stays ignored: if a launcher signals every process, process 0 decides when the run
 * ends. */
static void add_unless_ignored(sigset_t *signals, int number)
{
  struct sigaction action;
  if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(signals, number);
}

/* Ends a process at once that is loading, or waits for others. */
static void *wait_for_signal(void *user)
{
  follow_state *state = user;
  int number;
  if (sigwait(&state->signals, &number) != 0) return NULL;
  bool is_following = atomic_load(&state->is_following);
  yk_log_write(&state->console.log, YK_LOG_WARN, "%s: %s", is_following ? "stopping" : "stopped", strsignal(number));
  atomic_store(&state->caught_ns, yk_clock_now_ns());
  atomic_store(&state->caught, number);
  if (is_following) sleep_s(GRACE_S + ABORT_S);
  _exit(YK_EXIT_SIGNAL + number);
}

static const char *reason_to_stop(void *user)
{
  follow_state *state = user;
  int number = atomic_load(&state->caught);
  atomic_store(&state->is_following, true);
  if (!number || yk_clock_seconds_since(atomic_load(&state->caught_ns)) < GRACE_S) return NULL;
  snprintf(state->reason, sizeof state->reason, "stopped by a signal: %s", strsignal(number));
  return state->reason;
}

static yk_status start(follow_state *state, yk_err *err)
{
  pthread_t thread;
  sigemptyset(&state->signals);
  add_unless_ignored(&state->signals, SIGINT);
  add_unless_ignored(&state->signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &state->signals, NULL);
  int error = pthread_create(&thread, NULL, wait_for_signal, state);
  if (error) return yk_err_set(err, YK_E_INTERNAL, "cannot start a thread: %s", strerror(error));
  pthread_detach(thread); /* ends with the process */
  return YK_OK;
}

/* Whether a new roll call can resolve a failure: a failure of other processes, not of this process's options or
 * files. */
static bool can_restart(yk_status status)
{
  return status == YK_E_COMM || status == YK_E_TIMEOUT || status == YK_E_DEVICE;
}

/* The run of one engine. */
typedef struct engine_run {
  const yk_engine_options *given; /* or NULL */
  bool restarts;
} engine_run;

/* stops_user: the follow_state. */
static yk_status follow_engine(void *user, const yk_engine_options *engine, const char *(*stops)(void *user),
                               void *stops_user, bool *is_stuck, yk_err *err)
{
  const engine_run *run = user;
  yk_engine_options own = run->given ? *run->given : *engine;
  own.model_dir = engine->model_dir;
  own.tokenizer = engine->tokenizer;
  own.log = engine->log;
  own.progress = engine->progress;
  own.progress_user = engine->progress_user;
  for (;;) {
    bool has_run;
    atomic_store(&((follow_state *)stops_user)->is_following, false);
    yk_status status = yk_engine_follow(&own, stops, stops_user, &has_run, is_stuck, err);
    if (!run->restarts || !has_run || *is_stuck || !can_restart(status)) return status;
    yk_log_write(&own.log, YK_LOG_ERROR, "%s; waiting for all processes again", err->message);
    yk_err_clear(err);
  }
}

int yk_cli_follow(yk_model_options *options, const yk_engine_options *given, bool restarts)
{
  engine_run run = {given, restarts};
  return yk_cli_follow_by(options, follow_engine, &run);
}

int yk_cli_follow_by(yk_model_options *options, yk_cli_follow_run run, void *user)
{
  follow_state state = {0};
  yk_engine_options engine;
  yk_err err = YK_ERR_INIT;
  bool is_stuck = false;
  yk_console_init(&state.console, (yk_log_level)options->log_level);
  yk_status status = yk_model_options_apply(options, &engine, &err);
  if (status == YK_OK) status = start(&state, &err);
  if (status == YK_OK && yk_model_options_find(options, true, &err) != YK_OK) {
    /* Joins nevertheless, so that all processes get the reason. */
    yk_log_write(&state.console.log, YK_LOG_ERROR, "%s", err.message);
    yk_err_clear(&err);
  }
  name_model(options, &engine);
  engine.log = state.console.log;
  engine.progress = yk_console_loading;
  engine.progress_user = &state.console;
  if (status == YK_OK) status = run(user, &engine, reason_to_stop, &state, &is_stuck, &err);
  yk_console_clear(&state.console);
  int exit_code = status == YK_OK ? YK_EXIT_OK : yk_cli_failure(&err);
  int caught = atomic_load(&state.caught);
  if (caught && status != YK_OK) exit_code = YK_EXIT_SIGNAL + caught;
  fflush(NULL);
  _exit(exit_code); /* ends the thread that waits for signals, which uses this function's memory */
}
