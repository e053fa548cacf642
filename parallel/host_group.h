/* host_group.h - the host's part of a communicator whose device data another library moves: barriers, gathers of host
 * data and aborts among the ranks that are threads of this process and, over wires, with those of other processes.
 * Owner: a communicator. */
#ifndef YK_PARALLEL_HOST_GROUP_H
#define YK_PARALLEL_HOST_GROUP_H

#include "parallel/mailbox.h"
#include "parallel/remote.h"

typedef struct yk_host_group yk_host_group;

/* A rank of the group, in its own thread. The watch is called while the rank waits. */
typedef struct yk_host_member {
  yk_host_group *group;
  int rank; /* in the group */
  yk_mailbox_watch watch;
} yk_host_member;

/* yk_host_group_create - a group of n_ranks, of which n_local are threads of this process. Errors: YK_E_NOMEM. */
yk_status yk_host_group_create(int n_ranks, int n_local, yk_host_group **out, yk_err *err);
void yk_host_group_destroy(yk_host_group *group); /* NULL is allowed */

/* yk_host_group_connect - the ranks of other processes, before the ranks use the group, which then owns `remote`.
 *   NULL: there are none. */
void yk_host_group_connect(yk_host_group *group, yk_remote *remote);

/* yk_host_group_abort - every present and later wait of a rank fails. Thread: any. */
void yk_host_group_abort(yk_host_group *group);

/* yk_host_group_is_aborted - whether the group was aborted, or its exchange with other processes failed. *failure is
 *   the error of that exchange, else YK_OK; the argument may be NULL. Thread: any. */
bool yk_host_group_is_aborted(const yk_host_group *group, const yk_err **failure);

/* The operations below are called by every rank of the group. Errors: YK_E_COMM, without a message, once the group is
 * aborted; those of the watch; YK_E_NOMEM. Thread: the rank's own. */

/* yk_host_group_barrier - returns once every rank has called it. */
yk_status yk_host_group_barrier(const yk_host_member *member, yk_err *err);

/* yk_host_group_gather - data [n_bytes] goes to all + rank * n_bytes on rank 0; elsewhere `all` is not used. With ranks
 *   of one process, only rank 0 waits for other ranks. */
yk_status yk_host_group_gather(const yk_host_member *member, const void *data, size_t n_bytes, void *all, yk_err *err);

/* yk_host_group_share - data [n_bytes] of each rank goes to all + rank * n_bytes on every rank. */
yk_status yk_host_group_share(const yk_host_member *member, const void *data, size_t n_bytes, void *all, yk_err *err);

#endif
