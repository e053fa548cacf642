/* connection.h - a client's connection: what it sends passes the guard on its way to libmicrohttpd, how long it may
 * take to ask and to read, and whether it is still there.
 *
 *   client == fd == guard, relay == inner_fd == libmicrohttpd
 *
 * libmicrohttpd reads requests from, and writes answers to, a socket of our own whose other end is inner_fd. Only the
 * bytes of a request that request_guard.h has let pass go there, and those of the next one once it is answered. Events
 * of a stream do not come that way: they are written to the client at once (yk_connection_write_chunk), while
 * libmicrohttpd, which has written the head and will write the end, waits.
 *
 * libmicrohttpd neither times nor watches a suspended connection, and counts a byte now and then as activity. So a
 * connection has to bring a whole request within a time limit, from its start or from the answer before; and the
 * server's own epoll watches each for the client's leaving. All on the server thread. */
#ifndef YK_SERVER_CONNECTION_H
#define YK_SERVER_CONNECTION_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/strbuf.h"
#include "server/request_guard.h"

typedef struct yk_server yk_server;
typedef struct yk_exchange yk_exchange;
typedef struct yk_connection yk_connection;

/* A client that takes none of its answer for so long is left; libmicrohttpd has the same limit on its side. */
enum { YK_STALLED_CLIENT_S = 300 };

/* Connections that have the same time from when they are listed: the first has the least left. */
typedef struct yk_deadlines {
  yk_connection *first, *last;
  int64_t limit_ns; /* 0: none */
} yk_deadlines;

/* Bytes that a socket has not taken yet. */
typedef struct yk_outgoing {
  yk_strbuf bytes;
  size_t n_sent;
  bool has_failed; /* the socket takes nothing any more */
} yk_outgoing;

struct yk_connection {
  struct yk_connections *all;
  yk_connection *prev, *next; /* in the deadlines that it is listed in */
  yk_deadlines *listed;       /* NULL: in none */
  int64_t deadline_ns;
  yk_connection *next_dead;
  int fd, inner_fd;      /* -1 once closed */
  int served_fd;         /* libmicrohttpd's end, until libmicrohttpd has said that it is open; then -1 */
  bool is_served;        /* libmicrohttpd has its end */
  bool inner_is_full;    /* inner_fd is watched for room, too */
  bool is_direct;        /* a stream is written past libmicrohttpd */
  bool has_asked;        /* a request has arrived whole before */
  bool has_left;         /* the client has closed its end: it cannot be told apart from one that has gone */
  bool input_ended;      /* the same, and all that it has sent was read */
  bool is_answered;      /* part of the answer to the request under way has been relayed */
  yk_exchange *exchange; /* the one under way, or NULL */
  yk_request_guard guard;
  yk_strbuf unread; /* bytes behind the request under way */
  yk_outgoing to_inner, to_client;
};

typedef struct yk_connections {
  yk_deadlines awaited, stalled, closing;
  yk_connection *dead;     /* to be freed */
  yk_connection *starting; /* libmicrohttpd has not said that it is open; linked by next_dead */
  int epoll_fd;            /* the server's: it reports a yk_connection to yk_connection_take_event */
  int n_open, max_open;
  bool has_more; /* clients may wait to be accepted */
  struct MHD_Daemon *daemon;
  void (*drained)(yk_exchange *exchange); /* the client has taken all that was written for its stream */
  void (*left)(yk_exchange *exchange);    /* the client has closed its end */
  void (*refused)(void *user, const yk_request_guard *guard); /* a request has been, and is no exchange */
  void *user;
} yk_connections;

/* yk_connections_init - header_limit_ns: for a request to arrive; 0: none. */
void yk_connections_init(yk_connections *connections, int64_t header_limit_ns, int max_open);

/* yk_connections_accept - take the clients that wait at listen_fd, as many as there may be. */
void yk_connections_accept(yk_connections *connections, int listen_fd);

/* yk_connections_free_dead - call where no event of a connection is held any more. */
void yk_connections_free_dead(yk_connections *connections);

/* yk_connections_close_all - once libmicrohttpd has been stopped. */
void yk_connections_close_all(yk_connections *connections);

/* yk_connection_take_event - relay what can be. events: epoll's. */
void yk_connection_take_event(yk_connection *connection, uint32_t events);

/* yk_connection_notify - for MHD_OPTION_NOTIFY_CONNECTION, with a yk_connections. */
void yk_connection_notify(void *connections, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code);

/* yk_connection_of - never NULL while a request is handled, unless memory ran out. */
yk_connection *yk_connection_of(struct MHD_Connection *mhd);

/* yk_connection_await - from now on a request, or the rest of one, has to arrive. */
void yk_connection_await(yk_connection *connection);

/* yk_connection_arrived - it has. */
void yk_connection_arrived(yk_connection *connection);

/* yk_connection_next - the request under way has been answered: another one may come. */
void yk_connection_next(yk_connection *connection);

/* yk_connection_write_chunk - write a part of a stream to the client, behind the head that libmicrohttpd has written.
 *   What the client does not take at once is kept. False: no memory for that. */
bool yk_connection_write_chunk(yk_connection *connection, const char *bytes, size_t n_bytes);

/* yk_connection_is_blocked - bytes are kept that the client has not taken. */
bool yk_connection_is_blocked(const yk_connection *connection);

/* yk_connections_expire - end the connections that have taken too long, with 408 where part of a request may have come.
 *   Returns when to call again, or INT64_MAX. */
int64_t yk_connections_expire(yk_connections *connections, int64_t now_ns);

#endif
