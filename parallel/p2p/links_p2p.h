/* links_p2p.h - the link between two GPUs: peer access, bandwidth and latency, before an engine runs on them. */
#ifndef YK_PARALLEL_LINKS_P2P_H
#define YK_PARALLEL_LINKS_P2P_H

#include <stdbool.h>

#include "base/spread.h"
#include "base/status.h"

/* yk_p2p_link_query - whether kernels on GPU `from` can access the memory of GPU `to`. Uses neither GPU. Errors:
 *   YK_E_DEVICE. */
yk_status yk_p2p_link_query(int from, int to, bool *peer_access, yk_err *err);

enum { YK_P2P_LINK_BYTES = 32 << 20 /* size of a large copy */, YK_P2P_LINK_MAX_REPEATS = 100 };

/* Microseconds over the repeats. */
typedef struct yk_p2p_link_times {
  yk_spread copy_us;    /* time of a large copy, in a chain */
  yk_spread latency_us; /* time of a copy of 4 bytes, in a chain */
} yk_p2p_link_times;

/* yk_p2p_link_test - copies from GPU to GPU, over the link if peer access is possible and else through the host; checks
 *   the received bytes, and times the copies, n_repeats times each (1 .. YK_P2P_LINK_MAX_REPEATS). Takes tens of
 *   milliseconds and 32 MiB on both GPUs.
 *   Errors: YK_E_CAPACITY, YK_E_DEVICE (also if other bytes arrive), YK_E_NOMEM; YK_E_TIMEOUT if nothing arrives within
 *   2 s: memory that the copy may still write to is then leaked. Thread: any one; changes no current device. */
yk_status yk_p2p_link_test(int from, int to, int n_repeats, yk_p2p_link_times *out, yk_err *err);

/* yk_p2p_link_both_ways - the same with large copies in both directions at once, which takes twice the memory. us: of
 *   one copy in each direction. */
yk_status yk_p2p_link_both_ways(int one, int other, int n_repeats, yk_spread *us, yk_err *err);

#endif
