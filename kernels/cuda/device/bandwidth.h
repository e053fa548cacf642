/* bandwidth.h - the speed at which a GPU reads and copies its own memory. */
#ifndef YK_KERNELS_CUDA_DEVICE_BANDWIDTH_H
#define YK_KERNELS_CUDA_DEVICE_BANDWIDTH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_cuda_bandwidth_time - microseconds of n_repeats reads of n_bytes, or with `copies` copies of n_bytes to other
 *   memory of the same GPU, each by a separate kernel between two events, after two uncounted runs.
 *   n_bytes: a multiple of 16, more than the L2 cache holds. us [n_repeats]. Takes n_bytes of device memory, twice with
 *   `copies`.
 *   Errors: YK_E_CAPACITY, YK_E_DEVICE, naming the GPU; YK_E_TIMEOUT if the kernels do not end within seconds: memory
 *   that they may still access is then leaked. Thread: any one; changes no current device. */
yk_status yk_cuda_bandwidth_time(int ordinal, int64_t n_bytes, bool copies, int n_repeats, double *us, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
