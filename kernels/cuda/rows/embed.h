/* embed.h - row lookups: token embedding, gather. Asynchronous on the stream; see kernels/device.h for the
 * operations. */
#ifndef YK_KERNELS_CUDA_ROWS_EMBED_H
#define YK_KERNELS_CUDA_ROWS_EMBED_H

#include <cuda_runtime_api.h>

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t yk_cuda_launch_embed(yk_dtype dtype, const yk_embed_args *args, cudaStream_t stream);
cudaError_t yk_cuda_launch_gather_rows(const yk_gather_rows_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
