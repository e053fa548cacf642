/* host_gather.h - gathers small host data from every rank that is a thread of this process to rank 0.
 *
 * Every rank has a mailbox. A rank copies its data into its mailbox and continues; rank 0 waits until all mailboxes are
 * full and empties them. A rank whose mailbox is still full waits for rank 0. Owner: a communicator. */
#ifndef YK_PARALLEL_HOST_GATHER_H
#define YK_PARALLEL_HOST_GATHER_H

#include "parallel/mailbox.h"

typedef struct yk_host_gather yk_host_gather;

/* yk_host_gather_create - for ranks 0 to n_ranks - 1. Errors: YK_E_NOMEM. */
yk_status yk_host_gather_create(int n_ranks, yk_host_gather **out, yk_err *err);
void yk_host_gather_destroy(yk_host_gather *gather);

/* yk_host_gather_run - a rank's data [n_bytes], equal size on all ranks, goes to all + rank * n_bytes, on rank 0;
 *   elsewhere `all` is not used. Errors: YK_E_COMM once aborted, YK_E_NOMEM, the watch's. Thread: the rank's own. */
yk_status yk_host_gather_run(yk_host_gather *gather, int rank, const void *data, size_t n_bytes, void *all,
                             const yk_mailbox_watch *watch, yk_err *err);

/* yk_host_gather_abort - every present and later wait of a rank fails. Never blocks for long. Thread: any. */
void yk_host_gather_abort(yk_host_gather *gather);

#endif
