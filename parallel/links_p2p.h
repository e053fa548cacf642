/* links_p2p.h - the link between two GPUs: peer access, bandwidth and latency, before an engine runs on them. */
#ifndef YK_PARALLEL_LINKS_P2P_H
#define YK_PARALLEL_LINKS_P2P_H

#include <stdbool.h>

#include "base/status.h"

/* yk_p2p_link_ask - whether kernels on GPU `from` can reach the memory of GPU `to`. Touches neither. Errors:
 * YK_E_DEVICE. */
yk_status yk_p2p_link_ask(int from, int to, bool *peer_access, yk_err *err);

typedef struct yk_p2p_link_speed {
  double copy_gb_s;  /* 10^9 bytes a second, of large copies from `from` to `to` */
  double latency_us; /* of a copy of 4 bytes, in a chain of such */
} yk_p2p_link_speed;

/* yk_p2p_link_test - copy from GPU to GPU, over the link where peer access is possible and through the host where not;
 * check
 *   that the right bytes arrive, and time the copies. Takes tens of milliseconds and 32 MiB on both. Errors:
 *   YK_E_CAPACITY, YK_E_DEVICE (also where other bytes arrive), YK_E_NOMEM; YK_E_TIMEOUT where nothing arrives within 2
 *   s: what the copy may still write to is then left alone. Thread: any one; changes no current device. */
yk_status yk_p2p_link_test(int from, int to, yk_p2p_link_speed *out, yk_err *err);

#endif
