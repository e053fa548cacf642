/* comm_levels.h - reductions in two levels, for a group with ranks on several hosts: within each host, and between the
 * ranks of the same number on all hosts, each of which may have its own network card.
 *
 *             host 0        host 1
 *   local     0 1 2 3       4 5 6 7       ranks of a host
 *   between   0 4, 1 5, 2 6, 3 7          one group for each number on a host
 *
 *   bytes     0 .. gather_bytes    .. slice_bytes    more
 *   route     GATHER               SLICES            NONE: one level, over all ranks of the group
 *
 * GATHER (latency: one step over the network; host order, so that all ranks hold the same bits):
 *   local.all_reduce(rows) -> between.all_gather -> residual += alpha * (sum of host 0 + sum of host 1 + ..), norm
 *
 * SLICES (bandwidth: a rank sends 1 / n_local of the rows; a slice's bits come from one group of `between`):
 *   local.reduce_scatter -> between.all_reduce of this rank's slice -> local.all_gather -> residual add, norm
 *
 * Numerics: a host's sum is rounded to the activation type. GATHER adds the hosts' sums in host order in float32 and
 * rounds once more; SLICES rounds as `between` does. Integers are exact. The bits therefore differ from those of one
 * level: ranks on CPUs, which give the same bits on any number of processes, have one level.
 *
 * Devices can record all operations if the communicators' can be recorded. The experts' slots of a partial result are
 * combined by a separate operation; residual add and norms are one operation.
 *
 * Owner: a communicator of all ranks, which owns the parts. */
#ifndef YK_PARALLEL_COMM_LEVELS_H
#define YK_PARALLEL_COMM_LEVELS_H

#include "parallel/comm.h"
#include "parallel/p2p/p2p_sizes.h"

/* Maximum hosts for GATHER: the number of partial results that add_norm of a GPU can add. */
enum { YK_LEVELS_MAX_HOSTS = 8 };

typedef enum yk_levels_route { YK_LEVELS_NONE, YK_LEVELS_GATHER, YK_LEVELS_SLICES } yk_levels_route;

/* Equal on all ranks of the group, so that all take the same route. */
typedef struct yk_levels_sizes {
  int n_hosts, n_local; /* hosts; ranks of each */
  int64_t gather_bytes, slice_bytes;
} yk_levels_sizes;

/* yk_levels_sizes_for - the crossovers of n_hosts hosts with n_local ranks each. slots: those of the ranks of a host;
 *   not read if n_local is 1. Both crossovers are 0 if no reduction uses two levels: one host, or no slots. */
yk_levels_sizes yk_levels_sizes_for(int n_hosts, int n_local, const yk_p2p_options *slots);

/* yk_levels_route_of - the route of a sum of n_bytes. */
yk_levels_route yk_levels_route_of(const yk_levels_sizes *sizes, int64_t n_bytes);

/* yk_levels_device_bytes - memory for all-reduces on each device: slots, and the buffer of GATHER.
 *   may_span_hosts: the hosts of the group's n_ranks are not known yet; returns the maximum over all even divisions.
 *   max_rows, row_bytes: as in yk_p2p_options_for. */
int64_t yk_levels_device_bytes(int n_ranks, bool may_span_hosts, int64_t max_rows, int64_t row_bytes);

/* A rank's ends. */
typedef struct yk_levels {
  yk_levels_sizes sizes;
  yk_comm *local;   /* all_reduce, all_reduce_i32, reduce_scatter, all_gather; NULL if n_local is 1 */
  yk_comm *between; /* all_reduce, all_reduce_i32, all_gather */
  void *gathered;   /* [n_hosts][gather_bytes] on the device */
} yk_levels;

/* The operations below are those of yk_comm_ops, in two levels. Thread: the rank's own. */

/* yk_levels_all_reduce - all-reduces count elements by the route SLICES. */
yk_status yk_levels_all_reduce(const yk_levels *levels, void *data, int64_t count, yk_dtype dtype, yk_err *err);

/* yk_levels_all_reduce_i32 - all-reduces count integers by the route GATHER. */
yk_status yk_levels_all_reduce_i32(const yk_levels *levels, int32_t *data, int64_t count, yk_reduction reduction,
                                   yk_err *err);

/* yk_levels_all_reduce_add_norm - all-reduces rows by any route but NONE, then adds and normalises. */
yk_status yk_levels_all_reduce_add_norm(const yk_levels *levels, const yk_all_reduce_add_norm_args *args, yk_err *err);

#endif
