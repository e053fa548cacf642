/* sample_rows.h - launches of the sampling kernel, and of the kernel that counts tokens for penalties. Asynchronous on
 * the stream. */
#ifndef YK_KERNELS_CUDA_SAMPLING_SAMPLE_ROWS_H
#define YK_KERNELS_CUDA_SAMPLING_SAMPLE_ROWS_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/sampling/sample_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sample rows first_row .. first_row + n_launched - 1, each by a cluster of thread blocks. The launch's pinned memory
 * must stay unchanged until the kernel has ended. */
cudaError_t yk_cuda_launch_sample(const yk_cuda_sample_launch *launch, cudaStream_t stream);

/* Add tokens to the counts [vocab] of one slot: the first n_prompt as prompt, the others as output. */
cudaError_t yk_cuda_launch_count(uint32_t *counts, const int32_t *tokens, int32_t n_tokens, int32_t n_prompt,
                                 cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
