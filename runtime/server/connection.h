/* connection.h - a client's connection: passes the client's bytes through the guard to libmicrohttpd, applies time
 * limits to reading and writing, and detects that the client has left.
 *
 *   client == fd == guard, relay == inner_fd == libmicrohttpd
 *
 * libmicrohttpd reads requests from, and writes answers to, one end of a socket pair; inner_fd is the other end. Only
 * bytes of a request that request_guard.h has passed are written there, and bytes of the next request once the present
 * one is answered. Events of a stream bypass libmicrohttpd: yk_connection_write_chunk writes them to the client at
 * once, while libmicrohttpd, which writes the head and the end of the answer, waits.
 *
 * libmicrohttpd neither times nor watches a suspended connection, and counts any byte as activity. Therefore a
 * connection must deliver the head of a request within a time limit, from its start or from the previous answer, and
 * the body within the same limit from the head on; and the server's own epoll watches each connection for the client's
 * leaving. All on the server thread. */
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

/* A client that reads no byte of its answer for this time is disconnected; libmicrohttpd has the same limit. */
enum { YK_STALLED_CLIENT_S = 300 };

/* Connections with the same limit, ordered by deadline. */
typedef struct yk_deadlines {
  yk_connection *first, *last;
  int64_t limit_ns; /* 0: none */
} yk_deadlines;

/* Bytes that a socket has not accepted yet. */
typedef struct yk_outgoing {
  yk_strbuf bytes;
  size_t n_sent;
  bool has_failed; /* the socket accepts no more bytes */
} yk_outgoing;

struct yk_connection {
  struct yk_connections *all;
  yk_connection *prev, *next; /* in the deadlines list that holds the connection */
  yk_deadlines *listed;       /* NULL: in none */
  int64_t deadline_ns;
  yk_connection *next_dead;
  int fd, inner_fd;      /* -1: closed */
  int served_fd;         /* libmicrohttpd's end, until libmicrohttpd has reported the connection open; then -1 */
  bool is_served;        /* libmicrohttpd owns its end */
  bool inner_is_full;    /* EPOLLOUT of inner_fd is watched, too */
  bool is_direct;        /* a stream is written past libmicrohttpd */
  bool has_requested;    /* an earlier request has arrived whole */
  bool has_left;         /* the client has closed its end; a half-closed connection cannot be distinguished from a
                          * closed one */
  bool input_ended;      /* end of input, and all input was read */
  bool is_answered;      /* part of the answer to the current request has been relayed */
  yk_exchange *exchange; /* the current one, or NULL */
  yk_request_guard guard;
  yk_strbuf unread; /* bytes after the current request */
  yk_outgoing to_inner, to_client;
};

typedef struct yk_connections {
  yk_deadlines awaited, stalled, closing;
  yk_connection *dead;     /* to be freed */
  yk_connection *starting; /* libmicrohttpd has not reported the connection open; linked by next_dead */
  int epoll_fd;            /* the server's: its events carry a yk_connection for yk_connection_take_event */
  int n_open, max_open;
  bool has_more; /* clients may be waiting to be accepted */
  struct MHD_Daemon *daemon;
  void (*drained)(yk_exchange *exchange); /* the client has accepted all bytes of its stream */
  void (*left)(yk_exchange *exchange);    /* the client has closed its end */
  /* the guard has refused a request, which has no exchange */
  void (*refused)(void *user, const yk_request_guard *guard);
  void *user;
} yk_connections;

/* yk_connections_init - header_limit_ns: time for the head of a request to arrive, and again for the body; 0: no
 *   limit. */
void yk_connections_init(yk_connections *connections, int64_t header_limit_ns, int max_open);

/* yk_connections_accept - accept the clients that wait at listen_fd, up to the limit. */
void yk_connections_accept(yk_connections *connections, int listen_fd);

/* yk_connections_free_dead - call when no pending event refers to a connection. */
void yk_connections_free_dead(yk_connections *connections);

/* yk_connections_close_all - after libmicrohttpd has been stopped. */
void yk_connections_close_all(yk_connections *connections);

/* yk_connection_take_event - relay all bytes that can be relayed. events: epoll's. */
void yk_connection_take_event(yk_connection *connection, uint32_t events);

/* yk_connection_notify - for MHD_OPTION_NOTIFY_CONNECTION, whose user pointer is a yk_connections. */
void yk_connection_notify(void *connections, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code);

/* yk_connection_of - not NULL while a request is handled, unless memory ran out. */
yk_connection *yk_connection_of(struct MHD_Connection *mhd);

/* yk_connection_await - start the time limit for a request, or for the rest of a request, to arrive. */
void yk_connection_await(yk_connection *connection);

/* yk_connection_arrived - the request has arrived: end that time limit. */
void yk_connection_arrived(yk_connection *connection);

/* yk_connection_next - the current request has been answered: another may follow. */
void yk_connection_next(yk_connection *connection);

/* yk_connection_write_chunk - write a part of a stream to the client, after the head that libmicrohttpd has written.
 *   Bytes that the client does not accept at once are kept. False: no memory for those. */
bool yk_connection_write_chunk(yk_connection *connection, const char *bytes, size_t n_bytes);

/* yk_connection_is_blocked - bytes are kept that the client has not accepted. */
bool yk_connection_is_blocked(const yk_connection *connection);

/* yk_connections_expire - end the connections whose time limit has passed, with 408 if part of a request may have
 *   arrived. Returns the time of the next call, or INT64_MAX. */
int64_t yk_connections_expire(yk_connections *connections, int64_t now_ns);

#endif
