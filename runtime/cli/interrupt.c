#include "cli/interrupt.h"

#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

/* Returns whether the thread should end. */
static bool handle(yk_interrupt *interrupt, int number)
{
  pthread_mutex_lock(&interrupt->mutex);
  bool stopping = interrupt->stopping;
  if (!stopping && number != SIGUSR2) {
    if (!interrupt->requests || interrupt->caught) {
      yk_console_clear(interrupt->console);
      if (interrupt->goes_on) {
        yk_log_write(&interrupt->console->log, YK_LOG_WARN, "stopped; to continue:");
        yk_log_text(&interrupt->console->log, YK_LOG_WARN, interrupt->goes_on);
      }
      if (interrupt->terminal) tcsetattr(STDIN_FILENO, TCSANOW, interrupt->terminal);
      _exit(YK_EXIT_SIGNAL + number); /* at once: the other threads may be busy */
    }
    interrupt->caught = number;
    if (!interrupt->is_quiet)
      yk_log_write(&interrupt->console->log, YK_LOG_WARN, "stopping; a second signal ends the program at once");
    for (size_t i = 0; i < interrupt->n_requests; i++)
      if (interrupt->requests[i]) yk_request_cancel(interrupt->requests[i]);
  }
  pthread_mutex_unlock(&interrupt->mutex);
  return stopping;
}

static void *wait_for_signals(void *user)
{
  yk_interrupt *interrupt = user;
  int number;
  while (sigwait(&interrupt->signals, &number) == 0)
    if (handle(interrupt, number)) break;
  return NULL;
}

static void block_unless_ignored(sigset_t *signals, int number)
{
  struct sigaction action;
  if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(signals, number);
}

yk_status yk_interrupt_start(yk_interrupt *interrupt, yk_console *console, yk_err *err)
{
  memset(interrupt, 0, sizeof *interrupt);
  interrupt->console = console;
  pthread_mutex_init(&interrupt->mutex, NULL);
  sigemptyset(&interrupt->signals);
  sigaddset(&interrupt->signals, SIGUSR2); /* wakes the thread for yk_interrupt_stop */
  block_unless_ignored(&interrupt->signals, SIGINT);
  block_unless_ignored(&interrupt->signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &interrupt->signals, NULL);
  int error = pthread_create(&interrupt->thread, NULL, wait_for_signals, interrupt);
  if (error == 0) return YK_OK;
  pthread_mutex_destroy(&interrupt->mutex);
  return yk_err_set(err, YK_E_INTERNAL, "cannot start a thread: %s", strerror(error));
}

void yk_interrupt_watch(yk_interrupt *interrupt, yk_request *const *requests, size_t n_requests)
{
  pthread_mutex_lock(&interrupt->mutex);
  interrupt->requests = requests;
  interrupt->n_requests = n_requests;
  pthread_mutex_unlock(&interrupt->mutex);
}

int yk_interrupt_caught(yk_interrupt *interrupt)
{
  pthread_mutex_lock(&interrupt->mutex);
  int caught = interrupt->caught;
  pthread_mutex_unlock(&interrupt->mutex);
  return caught;
}

int yk_interrupt_take(yk_interrupt *interrupt)
{
  pthread_mutex_lock(&interrupt->mutex);
  int caught = interrupt->caught;
  interrupt->caught = 0;
  pthread_mutex_unlock(&interrupt->mutex);
  return caught;
}

void yk_interrupt_be_quiet(yk_interrupt *interrupt)
{
  pthread_mutex_lock(&interrupt->mutex);
  interrupt->is_quiet = true;
  pthread_mutex_unlock(&interrupt->mutex);
}

void yk_interrupt_set_resume_command(yk_interrupt *interrupt, const char *command)
{
  pthread_mutex_lock(&interrupt->mutex);
  interrupt->goes_on = command;
  pthread_mutex_unlock(&interrupt->mutex);
}

void yk_interrupt_restore(yk_interrupt *interrupt, const struct termios *terminal)
{
  pthread_mutex_lock(&interrupt->mutex);
  interrupt->terminal = terminal;
  pthread_mutex_unlock(&interrupt->mutex);
}

int yk_interrupt_stop(yk_interrupt *interrupt)
{
  pthread_mutex_lock(&interrupt->mutex);
  interrupt->stopping = true;
  pthread_mutex_unlock(&interrupt->mutex);
  pthread_kill(interrupt->thread, SIGUSR2);
  pthread_join(interrupt->thread, NULL);
  pthread_mutex_destroy(&interrupt->mutex);
  return interrupt->caught;
}
