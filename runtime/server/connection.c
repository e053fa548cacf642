#define _GNU_SOURCE /* accept4 */
#include "server/connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "server/reply.h"

enum { READ_BYTES = 64 << 10, LINGER_S = 2 };

/* ---- Time limits ------------------------------------------------------------------------------------------------- */

static void unlist(yk_connection *connection)
{
  yk_deadlines *list = connection->listed;
  if (!list) return;
  *(connection->prev ? &connection->prev->next : &list->first) = connection->next;
  *(connection->next ? &connection->next->prev : &list->last) = connection->prev;
  connection->listed = NULL;
}

static void list(yk_connection *connection, yk_deadlines *in)
{
  unlist(connection);
  connection->listed = in;
  connection->deadline_ns = in->limit_ns ? yk_clock_now_ns() + in->limit_ns : INT64_MAX;
  connection->prev = in->last;
  connection->next = NULL;
  *(in->last ? &in->last->next : &in->first) = connection;
  in->last = connection;
}

/* Insert at the front: the connection's time has already passed. */
static void list_first(yk_connection *connection, yk_deadlines *in)
{
  unlist(connection);
  connection->listed = in;
  connection->deadline_ns = 0;
  connection->prev = NULL;
  connection->next = in->first;
  *(in->first ? &in->first->prev : &in->last) = connection;
  in->first = connection;
}

void yk_connection_await(yk_connection *connection)
{
  (connection->has_left ? list_first : list)(connection, &connection->all->awaited);
}

void yk_connection_arrived(yk_connection *connection)
{
  if (connection->listed == &connection->all->awaited) unlist(connection);
}

/* ---- Opening and closing ----------------------------------------------------------------------------------------- */

void yk_connections_init(yk_connections *connections, int64_t header_limit_ns, int max_open)
{
  connections->awaited.limit_ns = header_limit_ns;
  connections->stalled.limit_ns = (int64_t)YK_STALLED_CLIENT_S * 1000000000;
  connections->closing.limit_ns = (int64_t)LINGER_S * 1000000000;
  connections->max_open = max_open;
}

static void free_later(yk_connection *connection)
{
  connection->next_dead = connection->all->dead;
  connection->all->dead = connection;
}

/* libmicrohttpd reads the end of the stream and closes its socket, unless it has done so already. */
static void close_inner(yk_connection *connection)
{
  if (connection->inner_fd < 0) return;
  epoll_ctl(connection->all->epoll_fd, EPOLL_CTL_DEL, connection->inner_fd, NULL);
  close(connection->inner_fd);
  connection->inner_fd = -1;
  yk_strbuf_clear(&connection->to_inner.bytes);
  connection->to_inner.n_sent = 0;
}

static void finish(yk_connection *connection)
{
  if (connection->fd < 0) return;
  if (connection->exchange) connection->all->left(connection->exchange);
  close_inner(connection);
  unlist(connection);
  /* Closing alone does not end the watch while a process that is being started has a copy of the descriptor. */
  epoll_ctl(connection->all->epoll_fd, EPOLL_CTL_DEL, connection->fd, NULL);
  close(connection->fd);
  connection->fd = -1;
  connection->all->n_open--;
  if (!connection->is_served) free_later(connection);
}

void yk_connections_free_dead(yk_connections *connections)
{
  yk_connection *connection;
  while ((connection = connections->dead)) {
    connections->dead = connection->next_dead;
    yk_request_guard_free(&connection->guard);
    yk_strbuf_free(&connection->unread);
    yk_strbuf_free(&connection->to_inner.bytes);
    yk_strbuf_free(&connection->to_client.bytes);
    free(connection);
  }
}

static bool watch(yk_connection *connection, int fd, uint32_t events)
{
  struct epoll_event event = {.events = events | EPOLLET, .data.ptr = connection};
  return epoll_ctl(connection->all->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

/* libmicrohttpd takes its end of a socket pair, which is not TCP. */
static bool hand_over(yk_connection *connection)
{
  int ends[2];
  const struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return false;
  connection->inner_fd = ends[0];
  connection->served_fd = ends[1];
  connection->next_dead = connection->all->starting;
  connection->all->starting = connection;
  connection->is_served = true;
  if (MHD_add_connection(connection->all->daemon, ends[1], (const struct sockaddr *)&address,
                         sizeof address.sun_family) == MHD_YES)
    return watch(connection, connection->inner_fd, EPOLLIN);
  connection->is_served = false; /* MHD_add_connection has closed its end */
  return false;
}

static yk_connection *find_starting(yk_connections *connections, int served_fd)
{
  yk_connection **at = &connections->starting, *found;
  while (*at && (*at)->served_fd != served_fd) at = &(*at)->next_dead;
  found = *at;
  if (found) *at = found->next_dead;
  return found;
}

static void open_connection(yk_connections *connections, int fd)
{
  yk_connection *connection = calloc(1, sizeof *connection);
  int on = 1;
  if (!connection) {
    close(fd);
    return;
  }
  *connection = (yk_connection){.all = connections, .fd = fd, .inner_fd = -1, .served_fd = -1};
  connections->n_open++;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* events must not wait for each other */
  if (!watch(connection, fd, EPOLLIN | EPOLLOUT | EPOLLRDHUP) || !hand_over(connection)) {
    if (!connection->is_served) find_starting(connections, connection->served_fd);
    finish(connection);
    return;
  }
  yk_connection_await(connection);
}

void yk_connections_accept(yk_connections *connections, int listen_fd)
{
  while (connections->has_more && listen_fd >= 0 && connections->n_open < connections->max_open) {
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
      open_connection(connections, fd);
    else if (errno == EAGAIN)
      connections->has_more = false;
    else if (errno != EINTR && errno != ECONNABORTED)
      return; /* out of descriptors, most likely: retried when one is free */
  }
}

void yk_connection_notify(void *user, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    *socket_context = info ? find_starting(user, info->connect_fd) : NULL;
    if (*socket_context) ((yk_connection *)*socket_context)->served_fd = -1;
  } else if (*socket_context) {
    yk_connection *connection = *socket_context;
    *socket_context = NULL;
    connection->is_served = false;
    if (connection->fd < 0) free_later(connection);
  }
}

yk_connection *yk_connection_of(struct MHD_Connection *mhd)
{
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? info->socket_context : NULL;
}

static void close_list(yk_deadlines *list)
{
  while (list->first) finish(list->first);
}

void yk_connections_close_all(yk_connections *connections)
{
  close_list(&connections->awaited);
  close_list(&connections->stalled);
  close_list(&connections->closing);
  yk_connections_free_dead(connections);
}

/* ---- Bytes ------------------------------------------------------------------------------------------------------- */

static bool is_empty(const yk_outgoing *out)
{
  return out->n_sent == out->bytes.length;
}

/* False: the socket accepts no more at present, or has failed (has_failed). */
static bool flush(int fd, yk_outgoing *out)
{
  while (!is_empty(out)) {
    ssize_t n = send(fd, out->bytes.data + out->n_sent, out->bytes.length - out->n_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) out->has_failed = errno != EAGAIN;
    if (n < 0) return false;
    out->n_sent += (size_t)n;
  }
  yk_strbuf_clear(&out->bytes);
  out->n_sent = 0;
  return true;
}

/* As flush, for inner_fd. EPOLLOUT is watched only while inner_fd is full; else each read by libmicrohttpd would cause
 * an event. */
static bool flush_inner(yk_connection *connection)
{
  bool is_full = !flush(connection->inner_fd, &connection->to_inner);
  if (is_full != connection->inner_is_full) {
    struct epoll_event event = {.events = (is_full ? EPOLLIN | EPOLLOUT : EPOLLIN) | EPOLLET, .data.ptr = connection};
    epoll_ctl(connection->all->epoll_fd, EPOLL_CTL_MOD, connection->inner_fd, &event);
    connection->inner_is_full = is_full;
  }
  return !is_full;
}

/* Sends the refusal as the last answer, unless an answer has begun. Written past libmicrohttpd, which answers no
 * request that has not arrived whole. */
static void refuse(yk_connection *connection, yk_reply *reply)
{
  yk_strbuf *text = &connection->to_client.bytes;
  if (!connection->is_answered) {
    yk_strbuf_append_fmt(text, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n",
                         reply->http_status, MHD_get_reason_phrase_for((unsigned)reply->http_status),
                         reply->content_type, reply->body.length);
    yk_strbuf_append(text, reply->body.data, reply->body.length);
  }
  close_inner(connection);
}

/* The client's next bytes: the unread ones, or new ones. 0: none at present. */
static size_t read_client(yk_connection *connection, char buffer[READ_BYTES])
{
  yk_strbuf *unread = &connection->unread;
  if (unread->length) {
    size_t n = unread->length;
    memcpy(buffer, unread->data, n);
    yk_strbuf_clear(unread);
    return n;
  }
  if (connection->input_ended) return 0;
  ssize_t n = recv(connection->fd, buffer, READ_BYTES, MSG_DONTWAIT);
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) connection->input_ended = true;
  return n > 0 ? (size_t)n : 0;
}

/* Returns whether any bytes moved. */
static bool relay_requests(yk_connection *connection)
{
  char buffer[READ_BYTES];
  yk_request_guard *guard = &connection->guard;
  bool has_moved = false;
  while (connection->inner_fd >= 0 && flush_inner(connection)) {
    bool is_between = guard->state == YK_GUARD_HEAD && guard->text.length == 0;
    if (guard->state == YK_GUARD_DONE || (is_between && !is_empty(&connection->to_client))) break;
    size_t n = read_client(connection, buffer);
    if (n == 0) break;
    has_moved = true;
    size_t n_taken = yk_request_guard_take(guard, buffer, n, &connection->to_inner.bytes);
    if (guard->state == YK_GUARD_REFUSED) {
      if (!connection->exchange) connection->all->refused(connection->all->user, guard);
      refuse(connection, &guard->refusal);
    } else {
      yk_strbuf_append(&connection->unread, buffer + n_taken, n - n_taken);
      if (connection->unread.failed || connection->to_inner.bytes.failed) close_inner(connection);
    }
  }
  if (connection->inner_fd >= 0 && connection->input_ended && is_empty(&connection->to_inner) &&
      guard->state != YK_GUARD_DONE)
    shutdown(connection->inner_fd, SHUT_WR);
  return has_moved;
}

/* Returns whether any bytes moved. */
static bool relay_answers(yk_connection *connection)
{
  char buffer[READ_BYTES];
  yk_outgoing *out = &connection->to_client;
  bool has_moved = !is_empty(out);
  while (flush(connection->fd, out) && connection->inner_fd >= 0 && !connection->is_direct) {
    ssize_t n = recv(connection->inner_fd, buffer, sizeof buffer, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return has_moved;
    if (n <= 0) {
      close_inner(connection);
      return true;
    }
    connection->is_answered = has_moved = true;
    yk_strbuf_append(&out->bytes, buffer, (size_t)n);
  }
  return has_moved && is_empty(out);
}

/* Read and drop input, since closing a socket with unread input would discard the last answer. */
static void discard_input(yk_connection *connection)
{
  char buffer[READ_BYTES];
  yk_strbuf_clear(&connection->unread);
  for (int i = 0; i < 16 && read_client(connection, buffer) > 0; i++) continue;
}

/* Selects the current time limit, and finishes a connection when both directions are closed. */
static void settle(yk_connection *connection)
{
  yk_connections *all = connection->all;
  if (!is_empty(&connection->to_client)) {
    if (connection->listed != &all->stalled) list(connection, &all->stalled);
    return;
  }
  if (connection->listed == &all->stalled) {
    unlist(connection);
    if (!connection->exchange && connection->inner_fd >= 0) yk_connection_await(connection);
  }
  if (connection->inner_fd >= 0) return;
  if (connection->listed != &all->closing) {
    shutdown(connection->fd, SHUT_WR);
    list(connection, &all->closing);
  }
  discard_input(connection);
  if (connection->input_ended) finish(connection);
}

static void relay(yk_connection *connection)
{
  if (connection->fd < 0) return;
  bool was_blocked = !is_empty(&connection->to_client);
  bool has_moved = true;
  while (has_moved) {
    has_moved = relay_answers(connection);
    has_moved = relay_requests(connection) || has_moved;
  }
  if (connection->to_client.has_failed)
    finish(connection);
  else
    settle(connection);
  if (connection->fd < 0) return;
  if (was_blocked && connection->is_direct && is_empty(&connection->to_client))
    connection->all->drained(connection->exchange);
}

void yk_connection_take_event(yk_connection *connection, uint32_t events)
{
  if (connection->fd < 0) return;
  relay(connection);
  if (!(events & EPOLLRDHUP) || connection->has_left || connection->fd < 0) return;
  /* libmicrohttpd does not see an end of input that arrived together with the last bytes. The new deadline leaves time
   * for one more read; then yk_connections_expire ends a connection whose request is incomplete. */
  connection->has_left = true;
  if (connection->listed == &connection->all->awaited) yk_connection_await(connection);
  if (connection->exchange) connection->all->left(connection->exchange);
}

void yk_connection_next(yk_connection *connection)
{
  connection->exchange = NULL;
  connection->has_requested = true;
  connection->is_direct = false;
  if (connection->fd < 0) return;
  relay_answers(connection);
  connection->is_answered = false;
  if (connection->guard.state == YK_GUARD_DONE) yk_request_guard_next(&connection->guard);
  if (connection->inner_fd >= 0) yk_connection_await(connection);
  relay(connection);
}

bool yk_connection_is_blocked(const yk_connection *connection)
{
  return !is_empty(&connection->to_client);
}

/* Sends the bytes that the client accepts without blocking; keeps the remaining bytes. */
static bool write_parts(yk_connection *connection, struct iovec *parts, int n_parts)
{
  yk_outgoing *out = &connection->to_client;
  struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)n_parts};
  ssize_t sent = is_empty(out) ? sendmsg(connection->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
  size_t n_sent = sent > 0 ? (size_t)sent : 0;
  for (int i = 0; i < n_parts; i++) {
    size_t n = n_sent < parts[i].iov_len ? n_sent : parts[i].iov_len;
    if (n < parts[i].iov_len) yk_strbuf_append(&out->bytes, (const char *)parts[i].iov_base + n, parts[i].iov_len - n);
    n_sent -= n;
  }
  if (!is_empty(out) && connection->listed != &connection->all->stalled) list(connection, &connection->all->stalled);
  return !out->bytes.failed;
}

bool yk_connection_write_chunk(yk_connection *connection, const char *bytes, size_t n_bytes)
{
  char size[24], end[] = "\r\n";
  if (connection->fd < 0 || n_bytes == 0) return true;   /* the client has left */
  if (!connection->is_direct) relay_answers(connection); /* relays the head */
  connection->is_direct = true;
  int n_size = snprintf(size, sizeof size, "%zx\r\n", n_bytes);
  struct iovec parts[3] = {{size, (size_t)n_size}, {(void *)(uintptr_t)bytes, n_bytes}, {end, 2}};
  return connection->guard.is_http_1_0 ? write_parts(connection, parts + 1, 1) : write_parts(connection, parts, 3);
}

/* ---- Time limits that have passed -------------------------------------------------------------------------------- */

static void end_awaited(yk_connection *connection)
{
  bool is_idle =
      connection->has_requested && connection->guard.state == YK_GUARD_HEAD && !connection->guard.text.length;
  unlist(connection);
  if (is_idle || connection->has_left) {
    close_inner(connection);
  } else {
    yk_reply reply = {0};
    yk_reply_refuse(&reply, 408, NULL, "the request did not arrive within the time limit");
    refuse(connection, &reply);
    yk_strbuf_free(&reply.body);
  }
  relay(connection);
}

static int64_t expire(yk_deadlines *list, int64_t now_ns, void (*end)(yk_connection *connection))
{
  while (list->first && list->first->deadline_ns <= now_ns) end(list->first);
  return list->first ? list->first->deadline_ns : INT64_MAX;
}

int64_t yk_connections_expire(yk_connections *connections, int64_t now_ns)
{
  int64_t next_ns = expire(&connections->awaited, now_ns, end_awaited);
  next_ns = yk_min_i64(next_ns, expire(&connections->stalled, now_ns, finish));
  return yk_min_i64(next_ns, expire(&connections->closing, now_ns, finish));
}
