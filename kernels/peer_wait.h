/* peer_wait.h - how a kernel that waits for kernels of other ranks ends if they do not come. Written by communicators
 * (parallel/comm.h), read by devices. */
#ifndef YK_KERNELS_PEER_WAIT_H
#define YK_KERNELS_PEER_WAIT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* All pointers are to memory that the rank's device reads and writes, and the host too. */
typedef struct yk_peer_wait {
  const volatile int32_t *is_aborted; /* not 0 once the group is aborted: the kernel ends soon */
  /* A kernel that has waited longer than limit_ns for a rank stores that rank in *missing, then 1 in *failed, and ends
   * soon; the communicator reports the rank and aborts the group. Several threads may store. */
  volatile int32_t *failed, *missing;
  uint64_t limit_ns; /* UINT64_MAX: none */
} yk_peer_wait;

#ifdef __cplusplus
}
#endif
#endif
