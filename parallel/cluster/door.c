#define _GNU_SOURCE /* accept4 */
#include "parallel/cluster/door.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { HANDSHAKE_S = 10, MAX_REFUSED_BYTES = 8192 };

/* Every message of a handshake begins with a nonce or a MAC. */
enum { LEADING_BYTES = YK_NONCE_BYTES };
_Static_assert(YK_NONCE_BYTES == YK_MAC_BYTES, "nonces and MACs have the same size");

/* A connection that has proven nothing. */
typedef struct pending {
  int fd; /* -1: free */
  int64_t deadline_ns;
  char peer[YK_ADDRESS_BYTES];
  unsigned char nonces[2][YK_NONCE_BYTES]; /* client's, server's */
  bool is_challenged;
  yk_frame head;
  size_t n_got; /* of head and body */
  unsigned char *body;
} pending;

struct yk_door {
  int fd;
  yk_door_rule rule;
  const yk_log *log;
  pending slots[YK_DOOR_PENDING];
};

yk_status yk_door_create(int fd, const yk_door_rule *rule, const yk_log *log, yk_door **out, yk_err *err)
{
  yk_door *door = calloc(1, sizeof *door);
  if (!door) {
    close(fd);
    return yk_err_set(err, YK_E_NOMEM, "no memory for connections");
  }
  door->fd = fd;
  door->rule = *rule;
  door->log = log;
  for (int i = 0; i < YK_DOOR_PENDING; i++) door->slots[i].fd = -1;
  *out = door;
  return YK_OK;
}

static void drop(pending *p)
{
  if (p->fd >= 0) close(p->fd);
  free(p->body);
  *p = (pending){.fd = -1};
}

void yk_door_destroy(yk_door *door)
{
  if (!door) return;
  for (int i = 0; i < YK_DOOR_PENDING; i++) drop(&door->slots[i]);
  close(door->fd);
  free(door);
}

int yk_door_port(const yk_door *door)
{
  return yk_port_of(door->fd);
}

void yk_door_set_rule(yk_door *door, const yk_door_rule *rule)
{
  for (int i = 0; i < YK_DOOR_PENDING; i++) drop(&door->slots[i]);
  door->rule = *rule;
}

static void note(const yk_log *log, yk_strbuf *refused, const char *peer, const char *why)
{
  yk_log_write(log, YK_LOG_WARN, "cluster: refused %s: %s", peer, why);
  if (refused && refused->length < MAX_REFUSED_BYTES) yk_strbuf_append_fmt(refused, "refused %s: %s\n", peer, why);
}

/* The text is best effort: a peer that does not read is not waited for. */
static void send_refusal(int fd, const char *why)
{
  yk_frame head = yk_frame_of(YK_FRAME_REFUSE, strlen(why));
  unsigned char bytes[sizeof head + 512];
  size_t n_text = head.n_bytes < 512 ? head.n_bytes : 512;
  head.n_bytes = n_text;
  memcpy(bytes, &head, sizeof head);
  memcpy(bytes + sizeof head, why, n_text);
  if (send(fd, bytes, sizeof head + n_text, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
  shutdown(fd, SHUT_WR);
  while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) continue; /* unread data would reset the connection */
}

static void refuse(yk_door *door, pending *p, const char *why, yk_strbuf *refused)
{
  note(door->log, refused, p->peer, why);
  send_refusal(p->fd, why);
  drop(p);
}

void yk_arrival_refuse(yk_arrival *arrival, const char *why, const yk_log *log, yk_strbuf *refused)
{
  note(log, refused, arrival->peer, why);
  send_refusal(arrival->fd, why);
  close(arrival->fd);
  free(arrival->body);
  *arrival = (yk_arrival){.fd = -1};
}

yk_status yk_arrival_accept(const yk_arrival *arrival, yk_err *err)
{
  const yk_frame head = yk_frame_of(YK_FRAME_ACCEPT, YK_MAC_BYTES);
  const struct iovec mac = {.iov_base = (void *)(uintptr_t)arrival->mac, .iov_len = YK_MAC_BYTES};
  return yk_send_all(arrival->fd, &head, &mac, 1, yk_clock_now_ns() + (int64_t)HANDSHAKE_S * 1000000000, err);
}

static bool is_allowed(const yk_door *door, int fd, const yk_address *peer)
{
  if (door->rule.any_address || yk_address_is_loopback(peer)) return true;
  yk_address own = {0};
  socklen_t length = sizeof own;
  if (getsockname(fd, (struct sockaddr *)&own, &length) == 0 && yk_address_equal(&own, peer)) return true;
  for (int i = 0; i < door->rule.n_allowed; i++)
    if (yk_address_equal(&door->rule.allowed[i], peer)) return true;
  return false;
}

/* A free slot; if all are taken, the slot of the oldest connection, which is refused. */
static pending *slot_for(yk_door *door, yk_strbuf *refused)
{
  pending *oldest = &door->slots[0];
  for (int i = 0; i < YK_DOOR_PENDING; i++) {
    if (door->slots[i].fd < 0) return &door->slots[i];
    if (door->slots[i].deadline_ns < oldest->deadline_ns) oldest = &door->slots[i];
  }
  refuse(door, oldest, "too many connections without a valid proof", refused);
  return oldest;
}

static void take_new(yk_door *door, yk_strbuf *refused)
{
  for (;;) {
    yk_address peer = {0};
    socklen_t length = sizeof peer;
    int fd = accept4(door->fd, (struct sockaddr *)&peer, &length, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) return;
    pending *p = slot_for(door, refused);
    *p = (pending){.fd = fd, .deadline_ns = yk_clock_now_ns() + (int64_t)HANDSHAKE_S * 1000000000};
    yk_address_text(&peer, true, p->peer);
    yk_set_up(fd);
    if (!is_allowed(door, fd, &peer))
      refuse(door, p,
             "without a key only this machine and the hosts named may connect: set YOKE_CLUSTER_KEY to the "
             "same secret in all processes, or name this host",
             refused);
  }
}

/* Answers a HELLO. */
static yk_status challenge(pending *p, yk_err *err)
{
  memcpy(p->nonces[0], p->body, YK_NONCE_BYTES);
  YK_TRY(yk_nonce(p->nonces[1], err));
  unsigned char bytes[sizeof(yk_frame) + YK_NONCE_BYTES];
  const yk_frame head = yk_frame_of(YK_FRAME_CHALLENGE, YK_NONCE_BYTES);
  memcpy(bytes, &head, sizeof head);
  memcpy(bytes + sizeof head, p->nonces[1], YK_NONCE_BYTES);
  if (send(p->fd, bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)sizeof bytes)
    return yk_err_set(err, YK_E_COMM, "the connection ended (%s)", strerror(errno));
  free(p->body);
  p->body = NULL;
  p->n_got = 0;
  p->is_challenged = true;
  return YK_OK;
}

/* Checks a PROOF; on success the connection is an arrival and the slot is free. */
static yk_status check_proof(yk_door *door, pending *p, yk_arrival *out, yk_err *err)
{
  const size_t n_body = (size_t)p->head.n_bytes - YK_MAC_BYTES;
  unsigned char expected[YK_MAC_BYTES];
  YK_TRY(
      yk_proof(door->rule.secret, "client", p->nonces[0], p->nonces[1], p->body + YK_MAC_BYTES, n_body, expected, err));
  if (!yk_proof_equal(expected, p->body))
    return yk_err_set(err, YK_E_COMM, "the keys differ: set YOKE_CLUSTER_KEY to the same secret in all processes");
  YK_TRY(yk_proof(door->rule.secret, "server", p->nonces[0], p->nonces[1], NULL, 0, out->mac, err));
  memmove(p->body, p->body + YK_MAC_BYTES, n_body);
  fcntl(p->fd, F_SETFL, fcntl(p->fd, F_GETFL) & ~O_NONBLOCK);
  out->fd = p->fd;
  out->body = p->body;
  out->n_bytes = n_body;
  memcpy(out->peer, p->peer, sizeof out->peer);
  *p = (pending){.fd = -1};
  return YK_OK;
}

static yk_status check_head(const pending *p, yk_err *err)
{
  const yk_frame_type type = p->is_challenged ? YK_FRAME_PROOF : YK_FRAME_HELLO;
  YK_TRY(yk_frame_check(&p->head, type, type, p->is_challenged ? YK_FRAME_MAX_PROOF : LEADING_BYTES, err));
  if (p->head.n_bytes >= LEADING_BYTES) return YK_OK;
  return yk_err_set(err, YK_E_COMM, "expected a message of at least %d bytes, found %llu", LEADING_BYTES,
                    (unsigned long long)p->head.n_bytes);
}

/* Reads the bytes of the message that have arrived; sets *is_whole when the message is complete. */
static yk_status read_some(pending *p, bool *is_whole, yk_err *err)
{
  *is_whole = false;
  for (;;) {
    const bool in_head = p->n_got < sizeof p->head;
    const size_t in_body = in_head ? 0 : p->n_got - sizeof p->head;
    if (!in_head && in_body == p->head.n_bytes) break;
    void *to = in_head ? (unsigned char *)&p->head + p->n_got : p->body + in_body;
    ssize_t n = recv(p->fd, to, in_head ? sizeof p->head - p->n_got : (size_t)p->head.n_bytes - in_body, MSG_DONTWAIT);
    if (n == 0) return yk_err_set(err, YK_E_COMM, "closed its connection before it proved the key");
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return YK_OK;
    if (n < 0) return yk_err_set(err, YK_E_COMM, "the connection ended (%s)", strerror(errno));
    p->n_got += (size_t)n;
    if (!in_head || p->n_got < sizeof p->head) continue;
    YK_TRY(check_head(p, err));
    p->body = malloc((size_t)p->head.n_bytes);
    if (!p->body) return yk_err_set(err, YK_E_NOMEM, "no memory for a message");
  }
  *is_whole = true;
  return YK_OK;
}

/* Returns true if the connection has arrived. */
static bool serve_one(yk_door *door, pending *p, yk_arrival *out, yk_strbuf *refused)
{
  yk_err err = YK_ERR_INIT;
  bool is_whole;
  yk_status status = read_some(p, &is_whole, &err);
  if (status == YK_OK && is_whole && p->is_challenged) {
    status = check_proof(door, p, out, &err);
    if (status == YK_OK) return true;
  } else if (status == YK_OK && is_whole)
    status = challenge(p, &err);
  if (status != YK_OK) refuse(door, p, err.message, refused);
  return false;
}

int yk_door_poll(yk_door *door, struct pollfd *polls)
{
  int n = 0;
  polls[n++] = (struct pollfd){.fd = door->fd, .events = POLLIN};
  for (int i = 0; i < YK_DOOR_PENDING; i++)
    if (door->slots[i].fd >= 0) polls[n++] = (struct pollfd){.fd = door->slots[i].fd, .events = POLLIN};
  return n;
}

static bool is_ready(const struct pollfd *polls, int n_polls, int fd)
{
  for (int i = 0; i < n_polls; i++)
    if (polls[i].fd == fd) return polls[i].revents != 0;
  return false;
}

int yk_door_serve(yk_door *door, const struct pollfd *polls, int n_polls, yk_arrival *arrivals, yk_strbuf *refused)
{
  int n = 0;
  for (int i = 0; i < YK_DOOR_PENDING; i++) {
    pending *p = &door->slots[i];
    if (p->fd < 0) continue;
    if (is_ready(polls, n_polls, p->fd))
      n += serve_one(door, p, &arrivals[n], refused);
    else if (yk_clock_now_ns() > p->deadline_ns)
      refuse(door, p, "sent no proof of the key in time", refused);
  }
  if (is_ready(polls, n_polls, door->fd)) take_new(door, refused);
  return n;
}

/* A connection that ended in a handshake may have been in the queue of a listening socket that its owner closed, which
 * resets such connections. */
static yk_status again_if_ended(yk_status status)
{
  return status == YK_E_COMM ? YK_E_AGAIN : status;
}

/* Receives a message of the server: its type's body, or the text of its refusal as an error. */
static yk_status hear(int fd, yk_frame_type type, unsigned char body[LEADING_BYTES], int64_t deadline_ns, yk_err *err)
{
  yk_frame head;
  YK_TRY(again_if_ended(yk_receive_all(fd, &head, sizeof head, deadline_ns, err)));
  YK_TRY(yk_frame_check(&head, type, YK_FRAME_REFUSE, 512, err));
  if (head.type == YK_FRAME_REFUSE) {
    char why[513] = "";
    YK_TRY(yk_receive_all(fd, why, (size_t)head.n_bytes, deadline_ns, err));
    return yk_err_set(err, strcmp(why, YK_REFUSED_FOR_NOW) == 0 ? YK_E_AGAIN : YK_E_COMM, "refused: %s", why);
  }
  if (head.n_bytes != LEADING_BYTES)
    return yk_err_set(err, YK_E_COMM, "expected a message of %d bytes, found %llu", LEADING_BYTES,
                      (unsigned long long)head.n_bytes);
  return yk_receive_all(fd, body, LEADING_BYTES, deadline_ns, err);
}

yk_status yk_knock(int fd, yk_secret secret, const void *body, size_t n_bytes, int64_t deadline_ns, yk_err *err)
{
  unsigned char client[YK_NONCE_BYTES], server[YK_NONCE_BYTES], mac[YK_MAC_BYTES], expected[YK_MAC_BYTES];
  YK_TRY(yk_nonce(client, err));
  yk_frame head = yk_frame_of(YK_FRAME_HELLO, YK_NONCE_BYTES);
  struct iovec pieces[2] = {{.iov_base = client, .iov_len = sizeof client}};
  YK_TRY(again_if_ended(yk_send_all(fd, &head, pieces, 1, deadline_ns, err)));
  YK_TRY(hear(fd, YK_FRAME_CHALLENGE, server, deadline_ns, err));
  YK_TRY(yk_proof(secret, "client", client, server, body, n_bytes, mac, err));
  head = yk_frame_of(YK_FRAME_PROOF, YK_MAC_BYTES + n_bytes);
  pieces[0] = (struct iovec){.iov_base = mac, .iov_len = sizeof mac};
  pieces[1] = (struct iovec){.iov_base = (void *)(uintptr_t)body, .iov_len = n_bytes};
  YK_TRY(again_if_ended(yk_send_all(fd, &head, pieces, 2, deadline_ns, err)));
  YK_TRY(hear(fd, YK_FRAME_ACCEPT, mac, deadline_ns, err));
  YK_TRY(yk_proof(secret, "server", client, server, NULL, 0, expected, err));
  if (yk_proof_equal(expected, mac)) return YK_OK;
  return yk_err_set(err, YK_E_COMM, "the other end does not have the key (YOKE_CLUSTER_KEY)");
}
