/* best_logits.h - the largest logit of each row of one rank's vocabulary shard: best_logits of kernels/device.h. A
 * cluster of thread blocks reads a row, once; logits need no alignment. Asynchronous on the stream. */
#ifndef YK_KERNELS_CUDA_SAMPLING_BEST_LOGITS_H
#define YK_KERNELS_CUDA_SAMPLING_BEST_LOGITS_H

#include <cuda_runtime_api.h>

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t yk_cuda_launch_best_logits(const yk_best_logits_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
