/* probe.h - check that a GPU works at all. */
#ifndef YK_KERNELS_CUDA_DEVICE_PROBE_H
#define YK_KERNELS_CUDA_DEVICE_PROBE_H

#include "kernels/cuda/device/state.h"

/* yk_cuda_probe - uses the GPU once, and waits for the answer for a limited time. If an earlier engine of this process
 *   left a kernel hanging, the next free of device memory would wait for ever; the probe detects that first.
 *   Errors: YK_E_NOMEM; YK_E_CAPACITY; YK_E_DEVICE, also if the GPU does not answer in time. */
yk_status yk_cuda_probe(const yk_cuda_device *cuda, yk_err *err);

#endif
