/* interrupt.h - Ctrl-C and SIGTERM, without signal handlers: they are blocked in every thread and one thread waits for
 * them. While a model loads the first signal ends the program; while requests run it cancels them, so that what they
 * have produced can be printed, and the second ends the program. Signals that the parent ignores stay ignored. */
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
  pthread_mutex_t mutex;       /* guards what follows */
  yk_request *const *requests; /* [n_requests], NULLs allowed; the caller's */
  size_t n_requests;
  bool is_quiet;                  /* nothing is said at the first signal: the caller does */
  const char *goes_on;            /* the caller's; NULL: nothing */
  const struct termios *terminal; /* the caller's; NULL: as it is */
  bool stopping;
  int caught; /* the first signal's number, or 0 */
} yk_interrupt;

/* yk_interrupt_start - call it before any other thread exists (threads inherit the blocked signals). The struct must
 *   not move until yk_interrupt_stop. Errors: YK_E_INTERNAL. */
yk_status yk_interrupt_start(yk_interrupt *interrupt, yk_console *console, yk_err *err);

/* yk_interrupt_watch - from now on a signal cancels these requests. They must stay valid until the next watch or
 *   stop. */
void yk_interrupt_watch(yk_interrupt *interrupt, yk_request *const *requests, size_t n_requests);

/* yk_interrupt_caught - the first signal while something is watched, or 0: for who watches no requests (n_requests 0,
 *   any array) because they come and go, and looks here instead. */
int yk_interrupt_caught(yk_interrupt *interrupt);

/* yk_interrupt_take - the same, and as if none had come: the next signal is the first again. For who goes on after
 *   what a signal has stopped. */
int yk_interrupt_take(yk_interrupt *interrupt);

/* yk_interrupt_be_quiet - say nothing at the first signal: the caller does. */
void yk_interrupt_be_quiet(yk_interrupt *interrupt);

/* yk_interrupt_tell - the command that goes on with what has been done so far: told where a signal ends the program at
 *   once. It must stay valid until yk_interrupt_stop. */
void yk_interrupt_tell(yk_interrupt *interrupt, const char *command);

/* yk_interrupt_restore - what the terminal of standard input becomes where a signal ends the program at once; NULL: it
 *   stays as it is. It must stay valid until the next call or stop. */
void yk_interrupt_restore(yk_interrupt *interrupt, const struct termios *terminal);

/* yk_interrupt_stop - end the waiting thread. Returns the signal that was caught, or 0. */
int yk_interrupt_stop(yk_interrupt *interrupt);

#endif
