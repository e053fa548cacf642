/* host_gather.h - small data of the host, from every rank that is a thread of this process to rank 0.
 *
 * Every rank has a mailbox. A rank puts a copy of its data there and goes on; rank 0 waits until all mailboxes are full
 * and empties them. A rank that comes again before rank 0 has waits for that. Owner: a communicator. */
#ifndef YK_PARALLEL_HOST_GATHER_H
#define YK_PARALLEL_HOST_GATHER_H

#include <stddef.h>

#include "base/status.h"

typedef struct yk_host_gather yk_host_gather;

/* Looked at every few milliseconds by a rank that waits; an error ends the wait, with that error. */
typedef struct yk_host_gather_watch {
  yk_status (*check)(void *context, yk_err *err); /* NULL: nothing to look at */
  void *context;
} yk_host_gather_watch;

/* yk_host_gather_create - for ranks 0 to n_ranks - 1. Errors: YK_E_NOMEM. */
yk_status yk_host_gather_create(int n_ranks, yk_host_gather **out, yk_err *err);
void yk_host_gather_destroy(yk_host_gather *gather);

/* yk_host_gather_run - a rank's data [n_bytes], alike on all ranks, goes to all + rank * n_bytes, on rank 0; elsewhere
 *   all is not used. Errors: YK_E_COMM once aborted, YK_E_NOMEM, the watch's. Thread: the rank's own. */
yk_status yk_host_gather_run(yk_host_gather *gather, int rank, const void *data, size_t n_bytes, void *all,
                             const yk_host_gather_watch *watch, yk_err *err);

/* yk_host_gather_abort - every rank that waits, now or later, fails. Never blocks for long. Thread: any. */
void yk_host_gather_abort(yk_host_gather *gather);

#endif
