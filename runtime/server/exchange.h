/* exchange.h - one request of a client and its answer, from the first header line to the last byte.
 *
 *   RECEIVING   the body comes in
 *   PREPARING   a worker has it: nobody else touches what it works on; the connection is suspended
 *   RUNNING     it has requests in the engine (generation.h)
 *   ANSWERED    the reply stands, whole or as a stream that has begun
 *
 * The server's thread owns it, lends it to one worker, and frees it once libmicrohttpd is done with the request and no
 * worker has it. It is freed later where it is still on the list of the ready. */
#ifndef YK_SERVER_EXCHANGE_H
#define YK_SERVER_EXCHANGE_H

#include <stdatomic.h>

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
  struct yk_exchange *prev, *next; /* of the server's, oldest first */
  struct MHD_Connection *mhd;      /* NULL once libmicrohttpd is done with the request */
  yk_connection *connection;
  const yk_route *route;     /* NULL where the reply is an error already */
  const yk_route *place;     /* what is at the path by any method; NULL: nothing */
  const char *path, *method; /* the connection's; NULL once mhd is */
  yk_exchange_state state;
  bool is_suspended, is_timed_out, is_preflight;
  char request_id[YK_REQUEST_ID_BYTES]; /* visible ASCII */
  bool has_clients_id;                  /* the client chose it, in a header */
  size_t api_key;                       /* which of several it has sent */
  size_t held_bytes;                    /* of its body, of the server's */
  int64_t began_ns;
  yk_ready_node news;     /* the engine has output for it */
  yk_ready_node prepared; /* the worker is done with it */
  yk_job job;
  yk_reply late;           /* in place of the reply that a worker has not made in time */
  atomic_bool is_gone;     /* the client has left: a worker need not go on */
  atomic_bool is_given_up; /* late stands: a worker need not go on */
  /* Whose it is for the moment, server thread or worker. */
  yk_strbuf body;
  yk_reply reply;
  yk_engine *engine;         /* leased for it (engine_state.h); NULL: no lease */
  yk_generation *generation; /* NULL where the route has none, or it was refused */
  int n_held;                /* of the server's n_open, by one that is not a choice yet */
};

/* yk_exchange_reply - the reply that its client gets, or has; http_status 0: none yet. Server thread. */
static inline const yk_reply *yk_exchange_reply(const yk_exchange *exchange)
{
  return exchange->state == YK_PREPARING ? &exchange->late : &exchange->reply; /* a worker writes the reply */
}

/* The exchanges of a server. */
typedef struct yk_exchanges {
  yk_exchange *first, *last;
  int n;
} yk_exchanges;

#endif
