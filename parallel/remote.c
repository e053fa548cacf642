#include "parallel/remote.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_MATRICES = 2 };

struct yk_remote {
  yk_wire *wire;
  int n_ranks;
  int firsts[YK_MAX_RANKS + 1]; /* [wire's n_processes + 1] first rank of each, in the group */
  char *incoming;               /* [incoming_bytes] copies of other ranks' rows */
  size_t incoming_bytes;
  yk_wire_message send[YK_MAX_RANKS], receive[YK_MAX_RANKS]; /* [wire's n_processes] */
  struct iovec pieces[][YK_MAX_RANKS * MAX_MATRICES];        /* [2 x wire's n_processes] */
};

/* Processes that run ranks of the group [begin, end); firsts: in the group. Returns their number. */
static int find_processes(const yk_wires *wires, int begin, int end, int *processes, int *firsts)
{
  int n = 0;
  for (int p = 0; p < wires->n_processes; p++) {
    int first = wires->first_ranks[p], last = wires->first_ranks[p + 1];
    if (last <= begin || first >= end) continue;
    processes[n] = p;
    firsts[n++] = first > begin ? first - begin : 0;
  }
  firsts[n] = end - begin;
  return n;
}

yk_status yk_remote_create(const yk_world *world, const yk_wires *wires, int stage, const char *tag, yk_remote **out,
                           yk_err *err)
{
  int processes[YK_MAX_RANKS], firsts[YK_MAX_RANKS + 1];
  const int n_ranks = yk_world_group_size(world);
  const int n = find_processes(wires, stage * n_ranks, (stage + 1) * n_ranks, processes, firsts);
  *out = NULL;
  if (n == 1) return YK_OK;
  yk_remote *remote = calloc(1, sizeof *remote + 2 * (size_t)n * sizeof *remote->pieces);
  if (!remote) return yk_err_set(err, YK_E_NOMEM, "no memory for the ranks of other processes");
  remote->n_ranks = n_ranks;
  memcpy(remote->firsts, firsts, sizeof firsts);
  yk_status status = wires->open(wires->context, processes, n, tag, &remote->wire, err);
  if (status == YK_OK)
    *out = remote;
  else
    free(remote);
  return status;
}

void yk_remote_destroy(yk_remote *remote)
{
  if (!remote) return;
  remote->wire->ops->destroy(remote->wire);
  free(remote->incoming);
  free(remote);
}

void yk_remote_abort(yk_remote *remote)
{
  remote->wire->ops->abort(remote->wire);
}

bool yk_remote_is_local(const yk_remote *remote, int rank)
{
  const int self = remote->wire->self;
  return rank >= remote->firsts[self] && rank < remote->firsts[self + 1];
}

static void clear_messages(yk_remote *r)
{
  for (int p = 0; p < r->wire->n_processes; p++) {
    r->send[p] = (yk_wire_message){.pieces = r->pieces[2 * p]};
    r->receive[p] = (yk_wire_message){.pieces = r->pieces[2 * p + 1]};
  }
}

static void add_piece(yk_wire_message *message, const void *base, size_t n_bytes)
{
  message->pieces[message->n_pieces++] = (struct iovec){.iov_base = (void *)(uintptr_t)base, .iov_len = n_bytes};
}

static yk_status swap(yk_remote *r, yk_err *err)
{
  return r->wire->ops->swap(r->wire, r->send, r->receive, err);
}

/* The rows of a rank that move to a process. */
static void rows_of(const yk_remote *r, yk_move move, int64_t n_rows, int rank, int process, int64_t *begin,
                    int64_t *end)
{
  int first = rank, last = rank + 1; /* the ranks whose shares move */
  if (move == YK_MOVE_SHARES) {
    first = r->firsts[process];
    last = r->firsts[process + 1];
  }
  *begin = move == YK_MOVE_ALL ? 0 : yk_share_begin(n_rows, first, r->n_ranks);
  *end = move == YK_MOVE_ALL ? n_rows : yk_share_begin(n_rows, last, r->n_ranks);
}

/* Adds the rows of the ranks of process `from` that move to process `to`. */
static void add_rows(yk_remote *r, yk_move move, const yk_moved *matrix, int from, int to, yk_wire_message *message)
{
  for (int rank = r->firsts[from]; rank < r->firsts[from + 1]; rank++) {
    int64_t begin, end;
    rows_of(r, move, matrix->n_rows, rank, to, &begin, &end);
    add_piece(message, (const char *)matrix->bases[rank] + (size_t)begin * matrix->row_bytes,
              (size_t)(end - begin) * matrix->row_bytes);
  }
}

/* Places for other ranks' matrices. Only pages that are written take memory. */
static yk_status reserve(yk_remote *r, yk_move move, yk_moved *matrices, int n, yk_err *err)
{
  const int n_copies = move == YK_MOVE_RESULTS ? 1 : r->n_ranks;
  size_t n_bytes = 0;
  for (int i = 0; i < n; i++) n_bytes += (size_t)n_copies * (size_t)matrices[i].n_rows * matrices[i].row_bytes;
  if (n_bytes > r->incoming_bytes) {
    free(r->incoming);
    r->incoming = malloc(n_bytes);
    r->incoming_bytes = r->incoming ? n_bytes : 0;
    if (!r->incoming)
      return yk_err_set(err, YK_E_NOMEM, "all-reduce: no memory for %zu bytes of other processes' rows", n_bytes);
  }
  char *at = r->incoming;
  for (int i = 0; i < n; i++) {
    const size_t matrix_bytes = (size_t)matrices[i].n_rows * matrices[i].row_bytes;
    for (int rank = 0; rank < r->n_ranks; rank++)
      if (!yk_remote_is_local(r, rank)) matrices[i].bases[rank] = n_copies == 1 ? at : at + (size_t)rank * matrix_bytes;
    at += (size_t)n_copies * matrix_bytes;
  }
  return YK_OK;
}

yk_status yk_remote_move(yk_remote *r, yk_move move, yk_moved *matrices, int n, yk_err *err)
{
  const int self = r->wire->self;
  YK_TRY(reserve(r, move, matrices, n, err));
  clear_messages(r);
  for (int p = 0; p < r->wire->n_processes; p++)
    for (int i = 0; i < n && p != self; i++) {
      add_rows(r, move, &matrices[i], self, p, &r->send[p]);
      add_rows(r, move, &matrices[i], p, self, &r->receive[p]);
    }
  return swap(r, err);
}

yk_status yk_remote_gather(yk_remote *r, const void *const *data, size_t n_bytes, void *all, yk_err *err)
{
  const int self = r->wire->self;
  clear_messages(r);
  if (self != 0)
    for (int rank = r->firsts[self]; rank < r->firsts[self + 1]; rank++) add_piece(&r->send[0], data[rank], n_bytes);
  for (int p = 1; p < r->wire->n_processes && self == 0; p++)
    for (int rank = r->firsts[p]; rank < r->firsts[p + 1]; rank++)
      add_piece(&r->receive[p], (char *)all + (size_t)rank * n_bytes, n_bytes);
  return swap(r, err);
}

yk_status yk_remote_barrier(yk_remote *r, yk_err *err)
{
  clear_messages(r);
  for (int p = 0; p < r->wire->n_processes; p++) {
    if (p == r->wire->self) continue;
    add_piece(&r->send[p], NULL, 0);
    add_piece(&r->receive[p], NULL, 0);
  }
  return swap(r, err);
}
