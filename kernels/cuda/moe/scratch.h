/* scratch.h - the scratch memory of a mixture of experts. Pure arithmetic, compiled also where there is no CUDA, so
 * that a plan can be made for GPUs on any machine. */
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
