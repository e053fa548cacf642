/* scratch.h - sizes of a mixture's scratch. Pure arithmetic, also compiled without CUDA, so that any machine can plan
 * memory for GPUs. */
#ifndef YK_KERNELS_CUDA_MOE_SCRATCH_H
#define YK_KERNELS_CUDA_MOE_SCRATCH_H

#include "kernels/mixture.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_cuda_mixture_scratch_bytes - mixture_scratch_bytes of the device's table. */
int64_t yk_cuda_mixture_scratch_bytes(const yk_mixture_sizes *sizes, const yk_linear_spec *gate_up,
                                      const yk_linear_spec *down);

#ifdef __cplusplus
}
#endif
#endif
