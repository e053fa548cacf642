#include "parallel/cluster/wire_tcp.h"

#include <errno.h>
#include <stdlib.h>

#include "base/spin.h"
#include "parallel/cluster/state.h"

enum {
  SPIN_NS = 500000,  /* longer than a rank usually lags */
  MAX_PIECES = 1024, /* of one call: the system's IOV_MAX */
};

/* One direction of a connection. */
typedef struct stream {
  struct iovec head_piece; /* rest of the head */
  struct iovec *pieces;    /* [n_pieces] rest of the body */
  int n_pieces;
  bool is_pending;
  yk_frame head;
} stream;

typedef struct peer {
  int process, fd;
  uint32_t n_sent, n_received; /* messages */
  uint64_t n_expected;         /* bytes of the message that is arriving */
  stream out, in;
} peer;

typedef struct tcp_wire {
  yk_wire base;
  yk_cluster *cluster;
  atomic_bool is_aborted;
  peer peers[]; /* [n_processes]; that of this process is not used */
} tcp_wire;

static void begin_stream(stream *s, const yk_wire_message *message)
{
  s->pieces = message->pieces;
  s->n_pieces = message->n_pieces;
  s->is_pending = message->n_pieces > 0;
  s->head = yk_frame_of(YK_FRAME_RANKS, 0);
  for (int i = 0; i < s->n_pieces; i++) s->head.n_bytes += s->pieces[i].iov_len;
  s->head_piece = (struct iovec){.iov_base = &s->head, .iov_len = sizeof s->head};
}

/* Takes n_bytes from the front of head and body. */
static void advance(stream *s, size_t n_bytes)
{
  const size_t of_head = n_bytes < s->head_piece.iov_len ? n_bytes : s->head_piece.iov_len;
  yk_skip_pieces(&s->head_piece, 1, of_head);
  const int done = yk_skip_pieces(s->pieces, s->n_pieces, n_bytes - of_head);
  s->pieces += done;
  s->n_pieces -= done;
  s->is_pending = s->head_piece.iov_len > 0 || s->n_pieces > 0;
}

/* One system call for the remaining bytes of head and body. Returns the number of bytes sent or received, or -1 with
 * errno. */
static ssize_t transfer(int fd, stream *s, bool sends)
{
  enum { SMALL = 8 }; /* pieces that go together with the head */
  struct iovec now[1 + SMALL];
  struct msghdr message = {.msg_iov = s->pieces,
                           .msg_iovlen = (size_t)(s->n_pieces < MAX_PIECES ? s->n_pieces : MAX_PIECES)};
  if (s->head_piece.iov_len > 0) {
    const int n = s->n_pieces < SMALL ? s->n_pieces : SMALL;
    now[0] = s->head_piece;
    memcpy(now + 1, s->pieces, (size_t)n * sizeof *now);
    message = (struct msghdr){.msg_iov = now, .msg_iovlen = (size_t)n + 1};
  }
  return sends ? sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) : recvmsg(fd, &message, MSG_DONTWAIT);
}

/* Sends the bytes that the socket accepts, or receives the available bytes. Sets *moved if any byte was moved. */
static yk_status progress(int fd, stream *s, bool sends, bool *moved, yk_err *err)
{
  if (!s->is_pending) return YK_OK;
  ssize_t n = transfer(fd, s, sends);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return YK_OK;
  if (n < 0) return yk_err_set(err, YK_E_COMM, "the connection ended (%s)", strerror(errno));
  if (n == 0) return yk_err_set(err, YK_E_COMM, "the connection was closed");
  advance(s, (size_t)n);
  *moved = true;
  return YK_OK;
}

/* Checks a complete head: it must belong to the message that this end expects. */
static yk_status check_received(peer *p, yk_err *err)
{
  YK_TRY(yk_frame_check(&p->in.head, YK_FRAME_RANKS, YK_FRAME_RANKS, UINT64_MAX, err));
  if (p->in.head.sequence != p->n_received)
    return yk_err_set(err, YK_E_COMM, "expected message %u, found %u", p->n_received, p->in.head.sequence);
  if (p->in.head.n_bytes != p->n_expected)
    return yk_err_set(err, YK_E_COMM, "message %u: expected %llu bytes, found %llu: the ranks run different operations",
                      p->n_received, (unsigned long long)p->n_expected, (unsigned long long)p->in.head.n_bytes);
  p->n_received++;
  return YK_OK;
}

static yk_status progress_peer(peer *p, bool *moved, yk_err *err)
{
  YK_TRY(progress(p->fd, &p->out, true, moved, err));
  const bool had_head = p->in.head_piece.iov_len == 0;
  YK_TRY(progress(p->fd, &p->in, false, moved, err));
  if (had_head || p->in.head_piece.iov_len > 0) return YK_OK;
  return check_received(p, err);
}

static void sleep_for_peers(const tcp_wire *w)
{
  struct pollfd polls[YK_MAX_RANKS];
  int n = 0;
  for (int i = 0; i < w->base.n_processes; i++) {
    const peer *p = &w->peers[i];
    if (i == w->base.self || (!p->out.is_pending && !p->in.is_pending)) continue;
    short events = (short)((p->out.is_pending ? POLLOUT : 0) | (p->in.is_pending ? POLLIN : 0));
    polls[n++] = (struct pollfd){.fd = p->fd, .events = events};
  }
  poll(polls, (nfds_t)n, 1000);
}

static yk_status lost(tcp_wire *w, const peer *p, const yk_err *why, yk_err *err)
{
  if (atomic_load(&w->is_aborted) && yk_cluster_check(w->cluster, err) == YK_OK)
    return yk_err_set(err, YK_E_COMM, "communication was aborted because another rank failed");
  return yk_cluster_lost(w->cluster, p->process, why, err);
}

static yk_status tcp_swap(yk_wire *wire, yk_wire_message *send, yk_wire_message *receive, yk_err *err)
{
  tcp_wire *w = (tcp_wire *)wire;
  for (int i = 0; i < wire->n_processes; i++) {
    if (i == wire->self) continue;
    peer *p = &w->peers[i];
    begin_stream(&p->out, &send[i]);
    begin_stream(&p->in, &receive[i]);
    p->n_expected = p->in.head.n_bytes;
    if (p->out.is_pending) p->out.head.sequence = p->n_sent++;
  }
  yk_spin spin = {0};
  for (bool is_pending = true; is_pending;) {
    bool moved = is_pending = false;
    for (int i = 0; i < wire->n_processes; i++) {
      peer *p = &w->peers[i];
      yk_err why = YK_ERR_INIT;
      if (i == wire->self) continue;
      if (progress_peer(p, &moved, &why) != YK_OK) return lost(w, p, &why, err);
      is_pending = is_pending || p->out.is_pending || p->in.is_pending;
    }
    if (moved)
      spin = (yk_spin){0};
    else if (is_pending && !yk_spin_again(&spin, SPIN_NS))
      sleep_for_peers(w);
  }
  return YK_OK;
}

static void tcp_abort(yk_wire *wire)
{
  tcp_wire *w = (tcp_wire *)wire;
  if (atomic_exchange(&w->is_aborted, true)) return;
  for (int i = 0; i < wire->n_processes; i++)
    if (i != wire->self) shutdown(w->peers[i].fd, SHUT_RDWR);
}

static void tcp_destroy(yk_wire *wire)
{
  tcp_wire *w = (tcp_wire *)wire;
  for (int i = 0; i < wire->n_processes; i++)
    if (w->peers[i].fd >= 0) yk_cluster_unlink(w->cluster, w->peers[i].fd);
  free(w);
}

static yk_status tcp_open(void *context, const int *processes, int n, const char *tag, yk_wire **out, yk_err *err)
{
  static const yk_wire_ops ops = {.name = "tcp", .swap = tcp_swap, .abort = tcp_abort, .destroy = tcp_destroy};
  yk_cluster *c = context;
  tcp_wire *w = calloc(1, sizeof *w + (size_t)n * sizeof *w->peers);
  if (!w) return yk_err_set(err, YK_E_NOMEM, "no memory for the connections of ranks");
  w->base = (yk_wire){.ops = &ops, .n_processes = n};
  w->cluster = c;
  for (int i = 0; i < n; i++) {
    w->peers[i] = (peer){.process = processes[i], .fd = -1};
    if (processes[i] == c->process) w->base.self = i;
  }
  yk_status status = YK_OK;
  for (int i = 0; i < n && status == YK_OK; i++)
    if (i != w->base.self) status = yk_cluster_link(c, processes[i], tag, &w->peers[i].fd, err);
  if (status == YK_OK)
    *out = &w->base;
  else
    tcp_destroy(&w->base);
  return status;
}

yk_wires yk_cluster_wires(yk_cluster *c)
{
  return (yk_wires){.process = c->process,
                    .n_processes = c->n_processes,
                    .first_ranks = c->first_ranks,
                    .n_communicators = &c->n_communicators,
                    .open = tcp_open,
                    .context = c};
}
