/* row_norms.h - norms of the queries of all heads of a row as one vector, and of the keys: kernels/row_norms.h. One
 * thread block per row. Asynchronous on the stream. */
#ifndef YK_KERNELS_CUDA_ROWS_ROW_NORMS_H
#define YK_KERNELS_CUDA_ROWS_ROW_NORMS_H

#include <cuda_runtime_api.h>

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t yk_cuda_launch_row_squares(yk_dtype dtype, const yk_row_norms_args *args, cudaStream_t stream);
cudaError_t yk_cuda_launch_row_norms(yk_dtype dtype, const yk_row_norms_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
