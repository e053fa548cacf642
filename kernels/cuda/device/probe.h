/* probe.h - whether a GPU works at all. */
#ifndef YK_KERNELS_CUDA_DEVICE_PROBE_H
#define YK_KERNELS_CUDA_DEVICE_PROBE_H

#include "kernels/cuda/device/state.h"

/* yk_cuda_probe - use the GPU once, and wait for the answer for a limited time. A kernel that an earlier engine of this
 *   process left hanging makes the next free of device memory wait for ever; the probe finds that out first.
 *   Errors: YK_E_NOMEM; YK_E_CAPACITY; YK_E_DEVICE, also where the GPU does not answer in time. */
yk_status yk_cuda_probe(const yk_cuda_device *cuda, yk_err *err);

#endif
