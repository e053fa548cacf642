/* interrupt.h - handles Ctrl-C and SIGTERM without signal handlers: the signals are blocked in every thread, and one
 * thread waits for them. While a model loads, the first signal ends the program. While requests run, the first signal
 * cancels them, so that their output so far can be printed, and the second signal ends the program. Signals that the
 * parent ignores stay ignored. */
#ifndef YK_CLI_INTERRUPT_H
#define YK_CLI_INTERRUPT_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <termios.h>

#include "cli/console.h"
#include "yoke/yoke.h"

typedef struct yk_interrupt {
  pthread_t thread;
  sigset_t signals;
  yk_console *console;
  pthread_mutex_t mutex;       /* guards all following fields */
  yk_request *const *requests; /* [n_requests], NULLs allowed; owned by the caller */
  size_t n_requests;
  bool is_quiet;                  /* no message at the first signal: the caller prints one */
  const char *goes_on;            /* command that resumes the work, owned by the caller; NULL: none */
  const struct termios *terminal; /* settings to restore, owned by the caller; NULL: unchanged */
  bool stopping;
  int caught; /* number of the first signal, or 0 */
} yk_interrupt;

/* yk_interrupt_start - call before any other thread exists (threads inherit the blocked signals). The struct must not
 *   move until yk_interrupt_stop. Errors: YK_E_INTERNAL. */
yk_status yk_interrupt_start(yk_interrupt *interrupt, yk_console *console, yk_err *err);

/* yk_interrupt_watch - from now on a signal cancels these requests. The array must stay valid until the next watch or
 *   stop. */
void yk_interrupt_watch(yk_interrupt *interrupt, yk_request *const *requests, size_t n_requests);

/* yk_interrupt_caught - the first signal while requests are watched, or 0. A caller whose set of requests changes
 *   watches none (n_requests 0, any array) and polls this function instead. */
int yk_interrupt_caught(yk_interrupt *interrupt);

/* yk_interrupt_take - returns the same and resets it: the next signal counts as the first. For a caller that continues
 *   after a signal has stopped part of its work. */
int yk_interrupt_take(yk_interrupt *interrupt);

/* yk_interrupt_be_quiet - print no message at the first signal: the caller prints one. */
void yk_interrupt_be_quiet(yk_interrupt *interrupt);

/* yk_interrupt_set_resume_command - set the command that resumes the work, which is printed if a signal ends the
 *   program at once. It must stay valid until yk_interrupt_stop. */
void yk_interrupt_set_resume_command(yk_interrupt *interrupt, const char *command);

/* yk_interrupt_restore - set the settings that the terminal of standard input gets if a signal ends the program at
 *   once; NULL: unchanged. They must stay valid until the next call or stop. */
void yk_interrupt_restore(yk_interrupt *interrupt, const struct termios *terminal);

/* yk_interrupt_stop - end the waiting thread. Returns the caught signal, or 0. */
int yk_interrupt_stop(yk_interrupt *interrupt);

#endif
