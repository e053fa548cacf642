/* combine.h - the weighted sum of the experts' outputs of each row: combine of kernels/experts.h. Asynchronous on the
 * stream. */
#ifndef YK_KERNELS_CUDA_MOE_COMBINE_H
#define YK_KERNELS_CUDA_MOE_COMBINE_H

#include <cuda_runtime_api.h>

#include "base/dtype.h"
#include "kernels/experts.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_cuda_launch_combine - combine of kernels/experts.h, for any number of rows and any hidden; y and slots of dtype.
 *   Reads no memory before the preceding kernel has ended. Errors: those of the launch. */
cudaError_t yk_cuda_launch_combine(yk_dtype dtype, const yk_combine_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
