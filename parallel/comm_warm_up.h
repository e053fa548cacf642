/* comm_warm_up.h - first use of a communicator, while its devices are otherwise idle. */
#ifndef YK_PARALLEL_COMM_WARM_UP_H
#define YK_PARALLEL_COMM_WARM_UP_H

#include "parallel/comm.h"

/* yk_comm_warm_up - runs one small all-reduce, one gather and one message between stages, if the ends have these
 *   operations, on all ends of this process, each on its own thread. A transport connects and loads its kernels on
 *   first use, and may then wait until a device is idle. Without the warm-up this could be a deadlock: a kernel on that
 *   device may wait for another rank, which waits for the transport.
 *   timeout_s: limit for the whole warm-up. Errors: the first end's own; YK_E_TIMEOUT, after which the ends are aborted
 *   and a rank may still hang in them: the caller must leak them. */
yk_status yk_comm_warm_up(yk_comm *const *ends, int n_local, double timeout_s, yk_err *err);

#endif
