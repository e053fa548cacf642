#include "cli/supervise.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/cli.h"
#include "yoke/yoke.h"

enum { MOST_STARTS = 5, WINDOW_S = 60, CANNOT_RUN = 127 };

typedef struct supervisor {
  char **arguments;
  sigset_t waited, before; /* before: the signals that the program began with blocked */
  pid_t child;
  bool is_stopping; /* a signal was passed on */
  yk_log log;
} supervisor;

static yk_status start_child(supervisor *s, yk_err *err)
{
  const pid_t parent = getpid();
  s->child = fork();
  if (s->child < 0) return yk_err_set(err, YK_E_IO, "cannot start a process: %s", strerror(errno));
  if (s->child > 0) return YK_OK;
  sigprocmask(SIG_SETMASK, &s->before, NULL);
  setpgid(0, 0); /* a launcher signals the process group of its child, so this process receives signals only from its
                  * parent */
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() == parent) execv("/proc/self/exe", s->arguments);
  _exit(CANNOT_RUN);
}

/* Returns the child's status as of waitpid. */
static int await_child(supervisor *s)
{
  for (;;) {
    int status, number;
    if (sigwait(&s->waited, &number) != 0) continue;
    if (number == SIGCHLD && waitpid(s->child, &status, WNOHANG) == s->child) return status;
    if (number == SIGCHLD) continue;
    s->is_stopping = true;
    kill(s->child, number);
  }
}

/* Runs children until one ends the run; *code: the exit code. */
static yk_status run_children(supervisor *s, int *code, yk_err *err)
{
  int64_t began_ns = yk_clock_now_ns();
  for (int n_starts = 0;;) {
    YK_TRY(start_child(s, err));
    const int status = await_child(s);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : YK_EXIT_SIGNAL + WTERMSIG(status);
    if (WIFEXITED(status) || s->is_stopping) return YK_OK;
    if (yk_clock_seconds_since(began_ns) > WINDOW_S) {
      began_ns = yk_clock_now_ns();
      n_starts = 0;
    }
    if (++n_starts > MOST_STARTS) return YK_OK;
    yk_log_write(&s->log, YK_LOG_ERROR, "the process with ranks was ended by a signal: %s; starting it again",
                 strsignal(WTERMSIG(status)));
  }
}

static yk_status run(supervisor *s, const char *master_host, int *code, yk_err *err)
{
  yk_mpi_parent *parent;
  sigemptyset(&s->waited);
  sigaddset(&s->waited, SIGTERM);
  sigaddset(&s->waited, SIGINT);
  sigaddset(&s->waited, SIGCHLD);
  sigprocmask(SIG_BLOCK, &s->waited, &s->before); /* before MPI's threads, which inherit this */
  YK_TRY(yk_mpi_parent_start(master_host, &parent, err));
  yk_status status = run_children(s, code, err);
  yk_mpi_parent_end(parent, status == YK_OK && *code == YK_EXIT_OK);
  return status;
}

int yk_cli_supervise(const char *subcommand, int argc, char **argv, const char *master_host)
{
  supervisor s = {.arguments = calloc((size_t)argc + 3, sizeof *s.arguments), .log = yk_log_stderr(YK_LOG_INFO)};
  yk_err err = YK_ERR_INIT;
  int code = YK_EXIT_FAILURE;
  if (!s.arguments) {
    yk_err_set(&err, YK_E_NOMEM, "no memory for %d arguments", argc);
    return yk_cli_failure(&err);
  }
  s.arguments[0] = (char *)"yoke";
  s.arguments[1] = (char *)(uintptr_t)subcommand;
  memcpy(s.arguments + 2, argv, (size_t)argc * sizeof *argv);
  if (run(&s, master_host, &code, &err) != YK_OK) code = yk_cli_failure(&err);
  free(s.arguments);
  return code;
}
