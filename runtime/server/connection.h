/* connection.h - a client's connection: how long it may take to ask, and whether it is still there.
 *
 * libmicrohttpd neither times nor watches a suspended connection, and counts a byte now and then as activity. So a
 * connection has to bring a whole request within a time limit, from its start or from the answer before; and the
 * server's own epoll watches each for the client's leaving. */
#ifndef YK_SERVER_CONNECTION_H
#define YK_SERVER_CONNECTION_H

#include <microhttpd.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct yk_server yk_server;
typedef struct yk_exchange yk_exchange;

typedef struct yk_connection {
  struct yk_connection *prev, *next; /* of those from which a request is awaited, the longest waiting first */
  bool is_awaited;
  int fd;
  int64_t deadline_ns;   /* of the request that is awaited */
  bool has_asked;        /* a request has arrived whole before */
  bool has_left;         /* the client has closed its end: it cannot be told apart from one that has gone */
  yk_exchange *exchange; /* the one under way, or NULL */
} yk_connection;

typedef struct yk_connections {
  yk_connection *first, *last; /* awaited */
  int64_t limit_ns;            /* 0: none */
  int epoll_fd;                /* the server's: it reports a yk_connection whose client has left */
  int n_open;
} yk_connections;

/* yk_connection_notify - for MHD_OPTION_NOTIFY_CONNECTION, with a yk_connections. */
void yk_connection_notify(void *connections, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code);

/* yk_connection_of - never NULL while a request is handled, unless memory ran out. */
yk_connection *yk_connection_of(struct MHD_Connection *mhd);

/* yk_connection_await - from now on a request, or the rest of one, has to arrive. */
void yk_connection_await(yk_connections *connections, yk_connection *connection);

/* yk_connection_arrived - it has. */
void yk_connection_arrived(yk_connections *connections, yk_connection *connection);

/* yk_connection_leave - its client has closed its end. libmicrohttpd does not see an end that came together with the
 *   last bytes: it may read once more, then yk_connections_expire ends what has brought no whole request. */
void yk_connection_leave(yk_connections *connections, yk_connection *connection);

/* yk_connections_expire - end the connections that have taken too long, with 408 where part of a request may have come.
 *   Returns when to call again, or INT64_MAX. */
int64_t yk_connections_expire(yk_connections *connections, int64_t now_ns);

#endif
