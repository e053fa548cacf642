/* server_internal.h - the server's state, shared by the files of this folder. */
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

/* Sums over all engines, and the number of requests that have begun. */
typedef struct yk_stats_sums {
  uint64_t requests, prompt_tokens, output_tokens, prefix_tokens, prefix_reused_tokens;
} yk_stats_sums;

typedef struct yk_stats_log {
  int64_t began_ns, due_ns; /* of the next line; due_ns 0: idle since the last line */
  yk_stats_sums before;     /* at the last line */
  double output_rate;       /* tokens per second, in the interval before the last line */
} yk_stats_log;

struct yk_server {
  /* Constant while the server runs. */
  yk_server_options options;
  const yk_log *log;
  int64_t created_s;      /* Unix time */
  double process_start_s; /* the process's start, Unix time */
  uint64_t id_base;       /* random: request ids differ from those of other processes */
  bool is_local;          /* the server listens on a loopback address */

  /* Any thread may access these. */
  yk_ready ready;
  yk_waiter *waiter;             /* reports the requests of all generations, with their exchanges */
  yk_workers workers, renderers; /* renderers: for routes that may wait for the chat template's helper */
  yk_engine_host host;
  yk_passed_fields passed_fields;
  yk_checkpoint_template chat; /* valid if has_chat: a worker opens the template while the engine loads */
  yk_answer_style style;       /* of the model's answers; as chat */
  yk_job open_chat;
  yk_err chat_failure;
  atomic_bool has_chat, has_no_chat; /* the template is open; it was requested and cannot be opened */
  atomic_int n_open;                 /* choices in the engine, or about to be submitted */
  yk_end_rate ends;                  /* of these choices */
  atomic_bool is_draining;           /* no new work is accepted */

  /* Server thread only. */
  int epoll_fd, signal_fd, listen_fd;
  struct MHD_Daemon *daemon;
  uint64_t n_requests; /* source of request ids */
  bool has_resumed;    /* a connection was resumed, which the daemon notices only when it runs */
  yk_connections connections;
  yk_exchanges exchanges;
  size_t held_bytes; /* of bodies that are received or prepared */
  yk_metrics metrics;
  yk_http_metrics http_metrics;
  yk_stats_log stats_log;
  yk_engine *engine; /* leased while it serves, and after its failure until the last exchange has released it */
  bool has_failed;   /* the engine has failed */
  yk_engine_info info;
  yk_token_texts *texts;
  bool was_ready;                         /* systemd has been notified */
  int64_t drain_began_ns, drain_until_ns; /* valid while draining */
  int64_t processes_look_ns;              /* when the other processes of the run are checked next */
};

#endif
