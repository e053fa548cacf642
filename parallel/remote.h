/* remote.h - the ranks of a group that other processes run, for a communicator of host memory: moves rows of all ranks
 * between the processes of the group. One thread of a process moves for all of its ranks. */
#ifndef YK_PARALLEL_REMOTE_H
#define YK_PARALLEL_REMOTE_H

#include <stdint.h>

#include "parallel/wire.h"
#include "parallel/world.h"

typedef struct yk_remote yk_remote;

/* yk_remote_create - the other processes' ranks of a stage's group; *out is NULL if this process runs the whole group.
 *   tag: at most 31 bytes, different for communicators that exist at the same time, equal in all processes.
 *   Errors: those of the transport, YK_E_NOMEM. */
yk_status yk_remote_create(const yk_world *world, const yk_wires *wires, int stage, const char *tag, yk_remote **out,
                           yk_err *err);
void yk_remote_destroy(yk_remote *remote); /* NULL is allowed */
void yk_remote_abort(yk_remote *remote);   /* any thread */

/* yk_remote_is_local - whether a rank of the group is a thread of this process. */
bool yk_remote_is_local(const yk_remote *remote, int rank);

/* A rank's rows among n_rows: [begin of rank, begin of rank + 1). */
static inline int64_t yk_share_begin(int64_t n_rows, int rank, int n_ranks)
{
  return n_rows * rank / n_ranks;
}

/* Rows that move from rank to rank: all rows to every process; to each process the rows of its ranks' shares, which it
 * reduces; or each rank's reduced share to every process. */
typedef enum yk_move { YK_MOVE_ALL, YK_MOVE_SHARES, YK_MOVE_RESULTS } yk_move;

/* A matrix of every rank of the group, in host memory. */
typedef struct yk_moved {
  const void *bases[YK_MAX_RANKS]; /* [n_ranks] of local ranks: their matrices; set for other ranks: copies of their
                                    * matrices, valid until the next move, in which only moved rows are defined */
  int64_t n_rows;
  size_t row_bytes;
} yk_moved;

/* yk_remote_move - move rows of n matrices (1 or 2). With YK_MOVE_RESULTS the other ranks share one copy of each
 *   matrix. Errors: YK_E_COMM, YK_E_NOMEM. */
yk_status yk_remote_move(yk_remote *remote, yk_move move, yk_moved *matrices, int n, yk_err *err);

/* yk_remote_gather - local ranks' data [n_bytes] goes to all + rank * n_bytes in the process of the group's rank 0.
 *   all: used there only. data [n_ranks]: of local ranks. */
yk_status yk_remote_gather(yk_remote *remote, const void *const *data, size_t n_bytes, void *all, yk_err *err);

/* yk_remote_barrier - return once every process of the group has called it. */
yk_status yk_remote_barrier(yk_remote *remote, yk_err *err);

#endif
