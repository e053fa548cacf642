/* server_internal.h - the server's own state, shared by the files of this folder. */
#ifndef YK_SERVER_SERVER_INTERNAL_H
#define YK_SERVER_SERVER_INTERNAL_H

#include <stdatomic.h>

#include "openai/token_texts.h"
#include "server/chat.h"
#include "server/end_rate.h"
#include "server/engine_host.h"
#include "server/exchange.h"
#include "server/http_metrics.h"
#include "server/metrics.h"
#include "server/passed_fields.h"
#include "server/server_options.h"
#include "server/workers.h"

/* Sums over all engines, and how many requests have begun. */
typedef struct yk_stats_sums {
  uint64_t requests, prompt_tokens, output_tokens, prefix_tokens, prefix_reused_tokens;
} yk_stats_sums;

typedef struct yk_stats_log {
  int64_t began_ns, due_ns; /* of the next line; due_ns 0: nothing has happened since the last one */
  yk_stats_sums before;     /* at the last line */
  double output_rate;       /* tokens a second, before the last line */
} yk_stats_log;

struct yk_server {
  /* Fixed once it runs. */
  yk_server_options options;
  const yk_log *log;
  int64_t created_s;      /* Unix time */
  double process_start_s; /* the same, of the process */
  uint64_t id_base;       /* random: requests' ids differ from those of other processes */
  bool is_local;          /* it listens on a loopback address */

  /* Any thread. */
  yk_ready ready;
  yk_waiter *waiter;             /* reports the requests of all generations, with their exchanges */
  yk_workers workers, renderers; /* renderers: of routes that may wait for the chat template's helper */
  yk_engine_host host;
  yk_passed_fields passed_fields;
  yk_checkpoint_template chat; /* once has_chat: a worker opens it while the engine is loaded */
  yk_job open_chat;
  yk_err chat_failure;
  atomic_bool has_chat, has_no_chat; /* it is open; it was asked for and cannot be opened */
  atomic_int n_open;                 /* choices in the engine, and those about to be */
  yk_end_rate ends;                  /* of those */
  atomic_bool is_draining;           /* no new work is taken */

  /* The server thread's. */
  int epoll_fd, signal_fd, listen_fd;
  struct MHD_Daemon *daemon;
  uint64_t n_requests; /* numbers their ids */
  bool has_resumed;    /* a connection, which the daemon does not know before it runs */
  yk_connections connections;
  yk_exchanges exchanges;
  size_t held_bytes; /* of bodies that are received or prepared */
  yk_metrics metrics;
  yk_http_metrics http_metrics;
  yk_stats_log stats_log;
  yk_engine *engine; /* leased while it serves, and after its failure until the last exchange has let go */
  bool has_failed;   /* that engine */
  yk_engine_info info;
  yk_token_texts *texts;
  bool was_ready;         /* systemd has been told */
  int64_t drain_until_ns; /* while draining */
};

#endif
