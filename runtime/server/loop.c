#include "server/loop.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "server/engine_state.h"
#include "server/generation.h"
#include "server/http.h"
#include "server/listen.h"
#include "server/stats_log.h"

enum { N_EVENTS = 64, EXIT_SIGNAL = 128 };
/* time for written bytes to reach the clients after everything is cancelled */
static const int64_t flush_ns = 2000000000;

/* ---- Signals ----------------------------------------------------------------------------------------------------- */

/* From this point requests are refused, also on new connections, so that health checks and routers read a 503 rather
 * than fail to connect. systemd keeps its socket open: clients that connect now wait for the next server. */
static void drain(yk_server *server)
{
  yk_service_notify("STOPPING=1");
  yk_log_write(server->log, YK_LOG_INFO, "stopping: %d requests are under way; a second signal ends them at once",
               server->exchanges.n);
  atomic_store(&server->is_draining, true);
  server->drain_began_ns = yk_clock_now_ns();
  server->drain_until_ns = server->drain_began_ns + (int64_t)(server->options.shutdown_timeout_s * 1e9);
  if (!yk_listen_is_passed()) return;
  epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, server->listen_fd, NULL);
  close(server->listen_fd);
  server->listen_fd = -1;
}

static void take_signals(yk_server *server)
{
  struct signalfd_siginfo signal;
  while (read(server->signal_fd, &signal, sizeof signal) == (ssize_t)sizeof signal) {
    if (atomic_load(&server->is_draining)) _exit(EXIT_SIGNAL + (int)signal.ssi_signo);
    drain(server);
    /* A load cannot be interrupted. */
    if (yk_engine_host_look(&server->host, NULL) == YK_HOST_LOADING) _exit(0);
  }
}

/* ---- Time limits ------------------------------------------------------------------------------------------------- */

static void time_out(yk_exchange *x)
{
  yk_openai_error error;
  x->is_timed_out = true;
  yk_openai_error_http(&error, 408, NULL, NULL, "the request was not finished within %g s",
                       x->server->options.request_timeout_s);
  yk_http_give_up(x, &error);
}

/* Returns when to call again. */
static int64_t expire_requests(yk_server *server, int64_t now_ns)
{
  int64_t limit_ns = (int64_t)(server->options.request_timeout_s * 1e9);
  if (limit_ns == 0) return INT64_MAX;
  for (yk_exchange *x = server->exchanges.first; x; x = x->next) {
    if ((x->state != YK_RUNNING && x->state != YK_PREPARING) || x->is_timed_out) continue;
    if (x->began_ns + limit_ns > now_ns) return x->began_ns + limit_ns;
    time_out(x);
  }
  return INT64_MAX;
}

static int64_t expire_drain(yk_server *server, int64_t now_ns)
{
  if (!atomic_load(&server->is_draining)) return INT64_MAX;
  if (now_ns < server->drain_until_ns) return server->drain_until_ns;
  yk_openai_error error;
  yk_openai_error_http(&error, 503, NULL, NULL, "the server is shutting down");
  for (yk_exchange *x = server->exchanges.first; x; x = x->next) yk_http_give_up(x, &error);
  return server->drain_until_ns + flush_ns;
}

/* The loss of a process is to be seen without a request, too. */
static int64_t look_for_processes(yk_server *server, int64_t now_ns)
{
  const int64_t period_ns = 500000000;
  if (server->options.engine.n_processes < 2) return INT64_MAX;
  if (now_ns >= server->processes_look_ns) {
    yk_server_check_engine(server);
    server->processes_look_ns = now_ns + period_ns;
  }
  return server->processes_look_ns;
}

static int64_t expire(yk_server *server)
{
  int64_t now_ns = yk_clock_now_ns();
  int64_t next_ns = yk_connections_expire(&server->connections, now_ns);
  next_ns = yk_min_i64(next_ns, expire_requests(server, now_ns));
  next_ns = yk_min_i64(next_ns, yk_stats_log_expire(server, now_ns));
  next_ns = yk_min_i64(next_ns, look_for_processes(server, now_ns));
  return yk_min_i64(next_ns, expire_drain(server, now_ns));
}

/* ---- The loop ---------------------------------------------------------------------------------------------------- */

/* Lists the exchanges that have output in the engine. The next such output makes the waiter's descriptor readable. */
static void take_engine_news(yk_server *server)
{
  void *exchange;
  while (yk_waiter_wait(server->waiter, 0, NULL, &exchange, NULL) == YK_OK)
    yk_ready_push(&server->ready, &((yk_exchange *)exchange)->news);
}

/* Longest time to wait for events, in milliseconds; -1: for ever. */
static int timeout_ms(yk_server *server, int64_t next_ns)
{
  MHD_UNSIGNED_LONG_LONG http_ms;
  int64_t ms = INT64_MAX;
  if (server->has_resumed) return 0;
  if (MHD_get_timeout(server->daemon, &http_ms) == MHD_YES) ms = (int64_t)yk_min_i64((int64_t)http_ms, INT32_MAX);
  if (next_ns != INT64_MAX) ms = yk_min_i64(ms, yk_max_i64(next_ns - yk_clock_now_ns(), 0) / 1000000 + 1);
  if (ms > 0) take_engine_news(server);
  if (ms > 0 && !yk_ready_may_sleep(&server->ready)) ms = 0;
  return ms == INT64_MAX ? -1 : (int)yk_min_i64(ms, INT32_MAX);
}

static void take_event(yk_server *server, const struct epoll_event *event)
{
  void *what = event->data.ptr;
  if (what == &server->signal_fd)
    take_signals(server);
  else if (what == &server->listen_fd)
    server->connections.has_more = true;
  else if (what != &server->ready && what != &server->waiter && what != server->daemon)
    yk_connection_take_event(what, event->events);
}

static yk_status wait_for_events(yk_server *server, int64_t next_ns, yk_err *err)
{
  struct epoll_event events[N_EVENTS];
  int wait_ms = timeout_ms(server, next_ns);
  int n = epoll_wait(server->epoll_fd, events, N_EVENTS, wait_ms);
  if (n < 0 && errno != EINTR) return yk_err_set(err, YK_E_IO, "epoll_wait: %s", strerror(errno));
  for (int i = 0; i < n; i++) take_event(server, &events[i]);
  return YK_OK;
}

/* Whether the run has lost one of its processes, so that all processes end. */
static bool has_lost_processes(yk_server *server, yk_err *failure)
{
  return server->options.engine.n_processes > 1 && !server->options.restarts_on_failure &&
         yk_engine_host_look(&server->host, failure) == YK_HOST_BROKEN;
}

/* Such a run ends when its requests have been answered with the failure. */
static void end_with_processes(yk_server *server)
{
  yk_err failure;
  if (atomic_load(&server->is_draining) || !has_lost_processes(server, &failure)) return;
  drain(server);
  server->drain_until_ns = yk_clock_now_ns();
}

/* Errors: the model, or its chat template, cannot be loaded. */
static yk_status check_loading(yk_server *server, yk_err *err)
{
  yk_err failure;
  if (yk_engine_host_look(&server->host, &failure) != YK_HOST_NO_ENGINE) failure = YK_ERR_INIT;
  if (atomic_load(&server->has_no_chat)) failure = server->chat_failure;
  if (failure.code != YK_OK) *err = failure;
  return failure.code;
}

/* Whether every request of before the signal has its answer: the exchanges are listed by age, and later requests, which
 * are refused, must not delay the end. */
static bool is_drained(const yk_server *server)
{
  const yk_exchange *oldest = server->exchanges.first;
  return (!oldest || oldest->began_ns > server->drain_began_ns) && !server->connections.stalled.first;
}

static bool is_over(const yk_server *server)
{
  if (!atomic_load(&server->is_draining)) return false;
  return is_drained(server) || yk_clock_now_ns() > server->drain_until_ns + flush_ns;
}

yk_status yk_loop_run(yk_server *server, yk_err *err)
{
  while (!is_over(server)) {
    int64_t next_ns = expire(server);
    yk_connections_accept(&server->connections, server->listen_fd);
    YK_TRY(wait_for_events(server, next_ns, err));
    yk_ready_awake(&server->ready);
    take_engine_news(server);
    yk_ready_take(&server->ready);
    yk_server_follow_host(server);
    YK_TRY(check_loading(server, err));
    end_with_processes(server);
    server->has_resumed = false;
    yk_connections_accept(&server->connections, server->listen_fd);
    MHD_run(server->daemon);
    yk_connections_free_dead(&server->connections);
  }
  yk_err failure;
  if (!has_lost_processes(server, &failure)) return YK_OK;
  return yk_err_set(err, failure.code, "%s", failure.message);
}
