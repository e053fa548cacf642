#include "server/connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "server/reply.h"

static void open_connection(yk_connections *connections, struct MHD_Connection *mhd, void **socket_context)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
  yk_connection *connection = info ? calloc(1, sizeof *connection) : NULL;
  *socket_context = connection;
  if (!connection) return;
  connections->n_open++;
  connection->fd = info->connect_fd;
  /* Tells once that the client has closed its end. */
  struct epoll_event event = {.events = EPOLLRDHUP | EPOLLET, .data.ptr = connection};
  epoll_ctl(connections->epoll_fd, EPOLL_CTL_ADD, connection->fd, &event);
  yk_connection_await(connections, connection);
}

void yk_connection_notify(void *user, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
  yk_connections *connections = user;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    open_connection(connections, mhd, socket_context);
  } else if (*socket_context) {
    yk_connection *connection = *socket_context;
    yk_connection_arrived(connections, connection);
    /* Closing alone would not end the watch while a process that is being started has the descriptor too. */
    epoll_ctl(connections->epoll_fd, EPOLL_CTL_DEL, connection->fd, NULL);
    connections->n_open--;
    free(connection);
    *socket_context = NULL;
  }
}

yk_connection *yk_connection_of(struct MHD_Connection *mhd)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? info->socket_context : NULL;
}

/* Its time has passed: the first of all. */
static void give_up(yk_connections *connections, yk_connection *connection)
{
  connection->deadline_ns = 0;
  connection->prev = NULL;
  connection->next = connections->first;
  *(connections->first ? &connections->first->prev : &connections->last) = connection;
  connections->first = connection;
}

static void give_time(yk_connections *connections, yk_connection *connection)
{
  connection->deadline_ns = connections->limit_ns ? yk_clock_now_ns() + connections->limit_ns : INT64_MAX;
  connection->prev = connections->last;
  connection->next = NULL;
  *(connections->last ? &connections->last->next : &connections->first) = connection;
  connections->last = connection;
}

void yk_connection_await(yk_connections *connections, yk_connection *connection)
{
  yk_connection_arrived(connections, connection);
  connection->is_awaited = true;
  (connection->has_left ? give_up : give_time)(connections, connection);
}

void yk_connection_leave(yk_connections *connections, yk_connection *connection)
{
  connection->has_left = true;
  if (connection->is_awaited) yk_connection_await(connections, connection);
}

void yk_connection_arrived(yk_connections *connections, yk_connection *connection)
{
  if (!connection->is_awaited) return;
  connection->is_awaited = false;
  *(connection->prev ? &connection->prev->next : &connections->first) = connection->next;
  *(connection->next ? &connection->next->prev : &connections->last) = connection->prev;
}

/* Written past libmicrohttpd, which has no answer for a request that is not whole; it has sent nothing of its own yet.
 * */
static void tell_too_late(int fd)
{
  yk_reply reply = {0};
  yk_strbuf text = YK_STRBUF_INIT;
  yk_reply_refuse(&reply, 408, NULL, "the request did not arrive within the time limit");
  yk_strbuf_append_fmt(&text,
                       "HTTP/1.1 408 Request Timeout\r\nContent-Type: %s\r\nContent-Length: %zu\r\n"
                       "Connection: close\r\n\r\n",
                       reply.content_type, reply.body.length);
  yk_strbuf_append(&text, reply.body.data, reply.body.length);
  if (!text.failed && send(fd, text.data, text.length, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) text.failed = true;
  yk_strbuf_free(&text);
  yk_strbuf_free(&reply.body);
}

int64_t yk_connections_expire(yk_connections *connections, int64_t now_ns)
{
  yk_connection *connection;
  while ((connection = connections->first) && connection->deadline_ns <= now_ns) {
    yk_connection_arrived(connections, connection);
    bool is_idle = connection->has_asked && !connection->exchange;
    if (!is_idle && !connection->has_left) tell_too_late(connection->fd);
    shutdown(connection->fd, SHUT_RDWR); /* libmicrohttpd sees the end and closes */
  }
  return connection ? connection->deadline_ns : INT64_MAX;
}
