/* comm_warm_up.h - the first use of a communicator, while nothing else runs on its devices. */
#ifndef YK_PARALLEL_COMM_WARM_UP_H
#define YK_PARALLEL_COMM_WARM_UP_H

#include "parallel/comm.h"

/* yk_comm_warm_up - one small all-reduce and one gather on all ends of a group, each on a thread of its own. A
 *   transport connects and loads its kernels on first use, for which it may wait until a device is idle; a kernel there
 *   that waits for another rank, which waits for the transport, would then wait for ever.
 *   timeout_s: for all of it. Errors: the first end's own; YK_E_TIMEOUT, after which the ends are aborted and a rank
 *   may still hang in them: they must be left alone. */
yk_status yk_comm_warm_up(yk_comm *const *ends, int n_ranks, double timeout_s, yk_err *err);

#endif
