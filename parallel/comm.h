/* comm.h - the collective operations of a group of ranks, each on its rank's own device stream.
 *
 * Every rank of the group makes the same calls in the same order. A call that some rank never makes leaves the others
 * waiting until abort. Reductions add in rank order 0 .. n-1 in float32 and round once (NCCL rounds at each hop, alike
 * on every rank), so all ranks hold the same bits.
 *
 * Errors: YK_E_COMM when the group was aborted or the transport failed; the operation's output is then undefined and
 * every later call fails too. Thread: the rank's own, except abort. */
#ifndef YK_PARALLEL_COMM_H
#define YK_PARALLEL_COMM_H

#include "kernels/all_reduce.h"
#include "kernels/device.h"
#include "parallel/world.h"

typedef struct yk_comm yk_comm; /* one rank's end of the group, as an ncclComm_t is NCCL's */

typedef struct yk_comm_ops {
  const char *name; /* "local", "nccl", ... */
  /* Free this end. Returns true when nothing of it is left. False: a library's abort of it, such as NCCL's, has not
   * ended and goes on in a thread of its own; a process that ends meanwhile must do so by _exit(), since exit handlers
   * take away what that thread uses. */
  bool (*destroy)(yk_comm *comm);

  /* data [count] of dtype becomes the sum over ranks, on every rank. Ranks on CPUs: of their devices' dtype alone, else
   * YK_E_UNSUPPORTED. */
  yk_status (*all_reduce)(yk_comm *comm, void *data, int64_t count, yk_dtype dtype, yk_err *err);
  yk_status (*all_reduce_add_norm)(yk_comm *comm, const yk_all_reduce_add_norm_args *args, yk_err *err);
  /* data [count] becomes the sum or the largest over ranks, on every rank; exact: a sum must fit, and no value may be
   * INT32_MIN. What the ranks of devices with linear_sums exchange (kernels/linear.h). Counts that are multiples of 4
   * are the fastest. */
  yk_status (*all_reduce_i32)(yk_comm *comm, int32_t *data, int64_t count, yk_reduction reduction, yk_err *err);

  /* Rank r's data (n_bytes, alike on all ranks) goes to data + r * n_bytes of rank 0, which has room for all. */
  yk_status (*gather)(yk_comm *comm, void *data, int64_t n_bytes, yk_err *err);
  /* Rank r's data (host, n_bytes, alike on all ranks) goes to all + r * n_bytes on rank 0, which waits for the others;
   * the others do not wait for rank 0, and their all is not used. Host-side: nobody waits for a device. */
  yk_status (*gather_host)(yk_comm *comm, const void *data, size_t n_bytes, void *all, yk_err *err);
  /* Rank 0 opens memory of its device to every rank: *opened is where operations of this rank's device write to it, or
   * NULL, alike on all ranks, where some device does not reach rank 0's. memory: rank 0's, NULL elsewhere. Host-side;
   * returns when rank 0 has called it. */
  yk_status (*open_memory)(yk_comm *comm, void *memory, void **opened, yk_err *err);
  /* A one-sided gather: rank 0's later operations see what every rank's earlier operations have written to memory that
   * rank 0 has opened. NULL where open_memory gives none. */
  yk_status (*await_writes)(yk_comm *comm, yk_err *err);
  /* Returns when every rank has called it. Host-side. */
  yk_status (*barrier)(yk_comm *comm, yk_err *err);

  /* From any thread, any number of times: every rank's pending and later calls fail soon. Never blocks. */
  void (*abort)(yk_comm *comm);
} yk_comm_ops;

struct yk_comm {
  const yk_comm_ops *ops;
  yk_device *dev; /* not owned */
  int rank, n_ranks;
};

/* yk_comm_leaves_norm - whether a rank has nothing to add up, and may leave the norm behind its partial result pending
 *   (yk_normed), for the reader to do. */
static inline bool yk_comm_leaves_norm(const yk_comm *comm)
{
  return comm->n_ranks == 1;
}

/* yk_comm_local_create - ends for a world whose ranks are threads of this process and share host memory (CPU devices).
 *   devs [n_ranks], not owned. out [n_ranks]; destroy each end once, in any order, from any thread.
 *   One rank needs no transport: its operations reduce to the device's own.
 *   Errors: YK_E_INVAL (a world that is none), YK_E_UNSUPPORTED (yk_comm_check_world), YK_E_NOMEM. */
yk_status yk_comm_local_create(const yk_world *world, yk_device *const *devs, yk_comm **out, yk_err *err);

/* yk_comm_check_world - whether communicators between threads of one process take a world.
 *   Errors: YK_E_INVAL (a world that is none), YK_E_UNSUPPORTED for ranks of other processes and pipeline stages. */
yk_status yk_comm_check_world(const yk_world *world, yk_err *err);

#endif
