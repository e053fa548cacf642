/* comm.h - the collective operations of a group of ranks, each on its rank's own device stream, and messages between
 * groups that are consecutive pipeline stages.
 *
 * Every rank of the group makes the same calls in the same order. If a rank omits a call, the others wait until abort.
 * Reductions add in rank order 0 .. n-1 in float32 and round once (NCCL rounds at each hop, equally on every rank), so
 * all ranks hold the same bits.
 *
 * Errors: YK_E_COMM if the group was aborted or the transport failed; the operation's output is then undefined and
 * every later call fails too. Thread: the rank's own, except abort. */
#ifndef YK_PARALLEL_COMM_H
#define YK_PARALLEL_COMM_H

#include "kernels/all_reduce.h"
#include "kernels/device.h"
#include "kernels/peer_wait.h"
#include "parallel/wire.h"
#include "parallel/world.h"

typedef struct yk_comm yk_comm; /* one rank's end of the group, comparable to an ncclComm_t */

typedef struct yk_comm_ops {
  const char *name; /* "local", "nccl", ... */
  /* Frees this end. Returns true if all its resources are freed. False: a library's abort of the end, such as NCCL's,
   * is still running in a separate thread; a process that ends meanwhile must do so by _exit(), since exit handlers
   * destroy data that the thread uses. */
  bool (*destroy)(yk_comm *comm);

  /* data [count] of dtype becomes the sum over ranks, on every rank. Ranks on CPUs take only their devices' dtype, else
   * YK_E_UNSUPPORTED. */
  yk_status (*all_reduce)(yk_comm *comm, void *data, int64_t count, yk_dtype dtype, yk_err *err);
  /* sums [count] becomes the sum over ranks in float32, on every rank: neighbouring ranks are added first, then
   * neighbouring pairs, and so on. n_ranks: a power of two. count 0 only checks that these ranks can, and waits for
   * none; else YK_E_UNSUPPORTED. NULL in communicators that cannot. */
  yk_status (*all_reduce_tree)(yk_comm *comm, float *sums, int64_t count, yk_err *err);
  yk_status (*all_reduce_add_norm)(yk_comm *comm, const yk_all_reduce_add_norm_args *args, yk_err *err);
  /* data [count] becomes the sum or the maximum over ranks, on every rank; exact: a sum must fit, and no value may be
   * INT32_MIN. Devices with linear_sums need it (kernels/linear.h). Counts that are multiples of 4 are the fastest. */
  yk_status (*all_reduce_i32)(yk_comm *comm, int32_t *data, int64_t count, yk_reduction reduction, yk_err *err);

  /* For reductions in two levels (comm_levels.h); NULL in other communicators. data [count] of f16 or bf16 is n_ranks
   * equal slices of whole 16 bytes: slice r becomes the sum over ranks on rank r; the other slices are then undefined.
   */
  yk_status (*reduce_scatter)(yk_comm *comm, void *data, int64_t count, yk_dtype dtype, yk_err *err);
  /* Rank r's data (n_bytes, equal on all ranks) goes to all + r * n_bytes on every rank. Among ranks of one host, data
   * is all + r * n_bytes. Among ranks of several hosts, data and all are different arrays. */
  yk_status (*all_gather)(yk_comm *comm, const void *data, int64_t n_bytes, void *all, yk_err *err);

  /* Rank r's data (n_bytes, equal on all ranks) goes to data + r * n_bytes of rank 0, whose buffer holds all ranks'
   * data. */
  yk_status (*gather)(yk_comm *comm, void *data, int64_t n_bytes, yk_err *err);
  /* Copies rank r's data (host memory, n_bytes, equal on all ranks) to all + r * n_bytes on rank 0. Rank 0 waits for
   * the other ranks; they do not wait for rank 0, and their `all` is not used. Host-side: waits for no device. */
  yk_status (*gather_host)(yk_comm *comm, const void *data, size_t n_bytes, void *all, yk_err *err);
  /* Opens memory of every rank's device to every rank. memory: an allocation of this rank's, or NULL. opened [n_ranks]:
   * the address at which operations of this rank's device access each rank's memory; NULL on all ranks if that rank
   * gave NULL or some device cannot access its memory. Host-side; returns once every rank has called it. */
  yk_status (*open_memories)(yk_comm *comm, void *memory, void **opened, yk_err *err);
  /* For kernels of all ranks that wait for each other: how this rank's kernels end without the others; their rank's
   * next wait for its device then fails. Returns false, like a communicator without the operation (NULL), if such
   * kernels may not run: ranks share a GPU. Engines of one process must not run them on the same GPUs at the same
   * time either: each engine could wait for a kernel that finds no room while a kernel of the other runs. */
  bool (*peer_wait)(const yk_comm *comm, yk_peer_wait *out);
  /* A one-sided gather: rank 0's later operations see the data that every rank's earlier operations have written to the
   * opened memory of rank 0. NULL if open_memories opens none. */
  yk_status (*await_writes)(yk_comm *comm, yk_err *err);
  /* Returns once every rank has called it. Host-side. */
  yk_status (*barrier)(yk_comm *comm, yk_err *err);

  /* From stage to stage: sends a rank's data [n_bytes] to the rank of the same number in the next stage, which receives
   * n_bytes from the previous stage. Messages arrive in the order of sending. A rank that sends does not wait for the
   * receiver of this message (over NCCL its device may), but may wait until the receiver has taken the message before.
   * NULL in communicators that have one stage alone. */
  yk_status (*send_next)(yk_comm *comm, const void *data, int64_t n_bytes, yk_err *err);
  yk_status (*receive_previous)(yk_comm *comm, void *data, int64_t n_bytes, yk_err *err);

  /* From any thread, any number of times: every rank's pending and later calls fail soon. Never blocks. */
  void (*abort)(yk_comm *comm);
} yk_comm_ops;

struct yk_comm {
  const yk_comm_ops *ops;
  yk_device *dev;      /* not owned */
  int rank, n_ranks;   /* in the group */
  int stage, n_stages; /* of the group */
};

/* yk_comm_world_rank - the number of the end's rank among the ranks of all groups. */
static inline int yk_comm_world_rank(const yk_comm *comm)
{
  return comm->stage * comm->n_ranks + comm->rank;
}

/* yk_comm_leaves_norm - whether there is nothing to reduce, so that a rank may leave the norm after its partial result
 *   pending (yk_normed), for the reader. */
static inline bool yk_comm_leaves_norm(const yk_comm *comm)
{
  return comm->n_ranks == 1;
}

/* yk_comm_local_create - ends for a world whose ranks are threads of this process and share host memory (CPU devices):
 *   a group for each pipeline stage.
 *   devs [n_ranks], not owned. out [n_ranks], in the order of the world's ranks; destroy each end once, in any order,
 *   from any thread. An abort ends the group of its end and the messages to it; rank_group.h aborts every end.
 *   A group of one rank needs no transport: its operations reduce to the device's own.
 *   Errors: YK_E_INVAL (invalid world), YK_E_UNSUPPORTED for ranks of other processes, YK_E_NOMEM. */
yk_status yk_comm_local_create(const yk_world *world, yk_device *const *devs, yk_comm **out, yk_err *err);

/* yk_comm_processes_create - as yk_comm_local_create, for the ranks of this process, where a group may also have ranks
 *   of other processes; results have the same bits as with all ranks in one process. All processes call it in the same
 *   order. devs, out [n_local]. wires: the transport, which must outlive the ends; its processes have the world's
 *   ranks. The failure of a process fails the calls of every rank, with the transport's error, which names the process.
 *   Errors: YK_E_INVAL (world), YK_E_NOMEM, those of the transport. */
yk_status yk_comm_processes_create(const yk_world *world, const yk_wires *wires, yk_device *const *devs, yk_comm **out,
                                   yk_err *err);

#endif
