/* exchange.h - one request of a client and its answer, from the first header line to the last byte.
 *
 *   RECEIVING   the body arrives
 *   PREPARING   a worker owns the exchange: no other thread accesses the worker's fields; the connection is suspended
 *   RUNNING     the exchange has requests in the engine (generation.h)
 *   ANSWERED    the reply is complete, or a stream that has begun
 *
 * The server's thread owns an exchange, lends it to one worker, and frees it when libmicrohttpd is done with the
 * request and no worker has the exchange; if the exchange is then still on the list of ready nodes, it is freed when
 * taken from the list. */
#ifndef YK_SERVER_EXCHANGE_H
#define YK_SERVER_EXCHANGE_H

#include <stdatomic.h>

#include "openai/protocol.h"
#include "server/connection.h"
#include "server/ready.h"
#include "server/reply.h"
#include "server/workers.h"
#include "yoke/yoke.h"

typedef struct yk_route yk_route;
typedef struct yk_generation yk_generation;

enum { YK_REQUEST_ID_BYTES = 128 + 1 };

typedef enum yk_exchange_state { YK_RECEIVING, YK_PREPARING, YK_RUNNING, YK_ANSWERED } yk_exchange_state;

struct yk_exchange {
  yk_server *server;
  struct yk_exchange *prev, *next; /* in the server's list, oldest first */
  struct MHD_Connection *mhd;      /* NULL once libmicrohttpd is done with the request */
  yk_connection *connection;
  const yk_route *route;       /* NULL if the reply is an error already */
  const yk_route *place;       /* route of the path for any method; NULL: the path has none */
  const yk_protocol *protocol; /* of the errors' form; NULL: OpenAI's form */
  const char *path, *method;   /* the connection's; NULL if mhd is NULL */
  yk_exchange_state state;
  bool is_suspended, is_timed_out, is_preflight;
  char request_id[YK_REQUEST_ID_BYTES]; /* visible ASCII */
  bool has_clients_id;                  /* the client chose request_id, in a header */
  size_t api_key;                       /* index of the key that the client sent */
  size_t held_bytes;                    /* bytes of its body, part of the server's held_bytes */
  int64_t began_ns;
  yk_ready_node news;     /* the engine has output for the exchange */
  yk_ready_node prepared; /* the worker is done with the exchange */
  yk_job job;
  yk_reply late;           /* replaces the reply of a worker that is too late */
  atomic_bool is_gone;     /* the client has left: a worker may stop */
  atomic_bool is_given_up; /* late is set: a worker may stop */
  /* Owned by the server thread or by the worker, whichever has the exchange. */
  yk_strbuf body;
  yk_reply reply;
  yk_engine *engine;         /* leased for the exchange (engine_state.h); NULL: no lease */
  yk_generation *generation; /* NULL if the route has none, or the request was refused */
  int n_held;                /* its share of the server's n_open, while its choices are not counted yet */
};

/* yk_exchange_reply - the reply that the client will get or has got; http_status 0: none yet. Server thread. */
static inline const yk_reply *yk_exchange_reply(const yk_exchange *exchange)
{
  return exchange->state == YK_PREPARING ? &exchange->late : &exchange->reply; /* the worker may be writing reply */
}

/* The exchanges of a server, oldest first. */
typedef struct yk_exchanges {
  yk_exchange *first, *last;
  int n;
} yk_exchanges;

#endif
