#include "server/server.h"
#include "server/bodies.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "server/generation.h"
#include "server/http.h"
#include "server/listen.h"
#include "server/loop.h"
#include "server/process_metrics.h"
#include "server/server_internal.h"

enum {
  SPARE_DESCRIPTORS = 64,
  DESCRIPTORS = 3,             /* per connection: the client's, and two between relay and libmicrohttpd */
  CONNECTION_BYTES = 128 << 10 /* enough for any head that passes the guard, and for its answer */
};

/* ---- Start ------------------------------------------------------------------------------------------------------- */

static void block_unless_ignored(sigset_t *signals, int number)
{
  struct sigaction action;
  if (sigaction(number, NULL, &action) == 0 && action.sa_handler != SIG_IGN) sigaddset(signals, number);
}

static yk_status watch(yk_server *server, int fd, uint32_t events, void *as, yk_err *err)
{
  struct epoll_event event = {.events = events, .data.ptr = as};
  if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0) return YK_OK;
  return yk_err_set(err, YK_E_IO, "epoll_ctl: %s", strerror(errno));
}

static yk_status open_signals(yk_server *server, yk_err *err)
{
  sigset_t signals;
  sigemptyset(&signals);
  block_unless_ignored(&signals, SIGTERM);
  block_unless_ignored(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, NULL);
  server->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  return server->signal_fd >= 0 ? YK_OK : yk_err_set(err, YK_E_IO, "signalfd: %s", strerror(errno));
}

/* Raises the limit of descriptors to the number that the connections need, or to this process's hard limit. */
static yk_status raise_limits(yk_server *server, yk_err *err)
{
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return YK_OK;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return YK_OK;
  if (limit.rlim_cur < SPARE_DESCRIPTORS + DESCRIPTORS)
    return yk_err_set(
        err, YK_E_CAPACITY,
        "the process may open %llu files: expected at least %d (ulimit -n), of which the server itself needs %d",
        (unsigned long long)limit.rlim_cur, SPARE_DESCRIPTORS + DESCRIPTORS, SPARE_DESCRIPTORS);
  long long most = ((long long)limit.rlim_cur - SPARE_DESCRIPTORS) / DESCRIPTORS;
  if (server->options.max_connections <= most) return YK_OK;
  yk_log_write(server->log, YK_LOG_WARN, "at most %lld connections: the process may open %llu files", most,
               (unsigned long long)limit.rlim_cur);
  server->options.max_connections = (int)most;
  return YK_OK;
}

static void log_http(void *log, const char *format, va_list arguments)
{
  char message[256];
  vsnprintf(message, sizeof message, format, arguments);
  message[strcspn(message, "\n")] = '\0';
  yk_log_write(log, YK_LOG_DEBUG, "http: %s", message);
}

/* The daemon has no threads and no wake-up pipe: a resumed connection costs no system call, since the server thread
 * runs the daemon anyway. connection.c passes the connections to the daemon. */
static yk_status start_http(yk_server *server, yk_err *err)
{
  const unsigned flags =
      MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET | (MHD_ALLOW_SUSPEND_RESUME & ~MHD_USE_ITC) | MHD_USE_ERROR_LOG;
  void *log = (void *)(uintptr_t)server->log;
  const struct MHD_OptionItem options[] = {
      {MHD_OPTION_EXTERNAL_LOGGER, (intptr_t)log_http, log},
      /* Larger than the server's own limit: ended connections count until libmicrohttpd has cleaned them up. */
      {MHD_OPTION_CONNECTION_LIMIT, 2 * server->options.max_connections + SPARE_DESCRIPTORS, NULL},
      {MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_BYTES, NULL},
      {MHD_OPTION_CONNECTION_TIMEOUT, YK_STALLED_CLIENT_S, NULL},
      {MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)yk_http_completed, server},
      {MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)yk_connection_notify, &server->connections},
      {MHD_OPTION_END, 0, NULL},
  };
  server->daemon =
      MHD_start_daemon(flags, 0, NULL, NULL, yk_http_handle, server, MHD_OPTION_ARRAY, options, MHD_OPTION_END);
  if (!server->daemon) return yk_err_set(err, YK_E_IO, "cannot start the HTTP server: %s", strerror(errno));
  server->connections.daemon = server->daemon;
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
  return watch(server, info->epoll_fd, EPOLLIN, server->daemon, err);
}

static void open_chat(yk_job *job)
{
  yk_server *server = (yk_server *)((char *)job - offsetof(yk_server, open_chat));
  server->chat_failure = YK_ERR_INIT;
  const yk_engine_options *engine = &server->options.engine;
  const char *tokenizer = engine->tokenizer ? engine->tokenizer : engine->model_dir;
  yk_status status =
      yk_chat_open(tokenizer, server->options.chat_template, server->log, &server->chat, &server->chat_failure);
  const yk_answer_style_options style = {server->options.chat_template, server->options.tool_parser,
                                         server->options.reasoning_parser};
  server->style = yk_answer_style_find(tokenizer, &style);
  atomic_store(status == YK_OK ? &server->has_chat : &server->has_no_chat, true);
  yk_ready_wake(&server->ready);
}

static yk_status start(yk_server *server, yk_err *err)
{
  const yk_server_options *options = &server->options;
  char url[YK_URL_BYTES];
  YK_TRY(raise_limits(server, err));
  if (getrandom(&server->id_base, sizeof server->id_base, 0) < 0) server->id_base = (uint64_t)yk_clock_now_ns();
  YK_TRY(open_signals(server, err));
  server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (server->epoll_fd < 0) return yk_err_set(err, YK_E_IO, "epoll_create1: %s", strerror(errno));
  server->connections.epoll_fd = server->epoll_fd;
  yk_connections_init(&server->connections, (int64_t)(options->header_timeout_s * 1e9),
                      server->options.max_connections);
  server->connections.drained = yk_generation_pump;
  server->connections.left = yk_generation_leave;
  server->connections.refused = yk_http_note_refused;
  server->connections.user = server;
  YK_TRY(yk_ready_init(&server->ready, err));
  /* Edge-triggered: each write is reported, and the counter need not be read. */
  YK_TRY(watch(server, server->ready.event_fd, EPOLLIN | EPOLLET, &server->ready, err));
  YK_TRY(yk_waiter_create(&server->waiter, err));
  YK_TRY(watch(server, yk_waiter_fd(server->waiter), EPOLLIN, &server->waiter, err));
  YK_TRY(watch(server, server->signal_fd, EPOLLIN, &server->signal_fd, err));
  YK_TRY(yk_listen_open(options->host, options->port, &server->listen_fd, url, err));
  server->is_local = yk_listen_is_local(server->listen_fd);
  YK_TRY(watch(server, server->listen_fd, EPOLLIN | EPOLLET, &server->listen_fd, err));
  server->connections.has_more = true;
  YK_TRY(start_http(server, err));
  YK_TRY(yk_workers_start(&server->workers, err));
  YK_TRY(yk_workers_start(&server->renderers, err));
  server->open_chat.run = open_chat;
  yk_workers_add(&server->renderers, &server->open_chat);
  if (options->listening) options->listening(options->user, url);
  return yk_engine_host_start(&server->host, options, &server->ready, err);
}

/* ---- Ending ------------------------------------------------------------------------------------------------------ */

/* The daemon requires that no connection is suspended when it is stopped. */
static void stop_http(yk_server *server)
{
  if (!server->daemon) return;
  for (yk_exchange *x = server->exchanges.first; x; x = x->next) yk_generation_leave(x);
  MHD_run(server->daemon);
  MHD_stop_daemon(server->daemon);
}

/* Returns whether the engine was freed. */
static bool stop(yk_server *server)
{
  yk_workers_stop(&server->workers);
  yk_workers_stop(&server->renderers);
  if (server->ready.event_fd >= 0) yk_ready_take(&server->ready);
  stop_http(server);
  if (server->ready.event_fd >= 0) yk_ready_take(&server->ready); /* frees the exchanges on the list */
  if (server->engine) {
    yk_token_texts_free(server->texts);
    yk_engine_host_release(&server->host);
  }
  bool all_freed = yk_engine_host_stop(&server->host);
  yk_checkpoint_template_close(&server->chat);
  yk_connections_close_all(&server->connections);
  if (server->listen_fd >= 0) close(server->listen_fd);
  if (server->epoll_fd >= 0) close(server->epoll_fd);
  if (server->signal_fd >= 0) close(server->signal_fd);
  yk_ready_free(&server->ready);
  yk_waiter_free(server->waiter);
  yk_passed_fields_destroy(&server->passed_fields);
  return all_freed;
}

yk_status yk_server_run(const yk_server_options *options, bool *all_freed, yk_err *err)
{
  *all_freed = true;
  yk_server *server = calloc(1, sizeof *server);
  if (!server) return yk_err_set(err, YK_E_NOMEM, "no memory for a server");
  server->options = *options;
  server->log = &server->options.engine.log;
  server->created_s = (int64_t)time(NULL);
  server->process_start_s = yk_process_start_s();
  server->epoll_fd = server->signal_fd = server->listen_fd = server->ready.event_fd = -1;
  yk_bodies_start();
  yk_metrics_init(&server->metrics);
  yk_http_metrics_init(&server->http_metrics);
  yk_passed_fields_init(&server->passed_fields, server->log);
  yk_end_rate_init(&server->ends);
  yk_status status = start(server, err);
  if (status == YK_OK)
    status = yk_loop_run(server, err);
  else
    yk_engine_call_off(&server->options.engine, err);
  *all_freed = stop(server);
  yk_end_rate_free(&server->ends);
  free(server);
  return status;
}
