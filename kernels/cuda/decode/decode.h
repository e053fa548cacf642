/* decode.h - one row through all layers of a dense model in one persistent kernel: kernels/decode_layers.h on a GPU of
 * compute capability 9.0. kernel.cuh describes the kernel, decode_layers.c connects it to the device. */
#ifndef YK_KERNELS_CUDA_DECODE_DECODE_H
#define YK_KERNELS_CUDA_DECODE_DECODE_H

#include <cuda_runtime_api.h>
#include <stddef.h>

#include "kernels/cuda/decode/types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_decode_max_kv_tokens - the most tokens of the sequence, the row's included, that a launch of this shape takes on
 *   the current GPU; 0: the kernel does not take the shape. Loads the kernel. */
cudaError_t yk_decode_max_kv_tokens(const yk_gemm_gpu *gpu, const yk_decode_shape *shape, int32_t *max_kv_tokens);

size_t yk_decode_exchange_bytes(const yk_decode_shape *shape);

/* yk_decode_launch - the kernel's thread blocks wait for each other: the launch is cooperative, and fails with
 *   cudaErrorCooperativeLaunchTooLarge where they cannot all run at once. The kernel reads kv_tokens, which must not
 *   exceed yk_decode_max_kv_tokens, when it runs. */
cudaError_t yk_decode_launch(const yk_gemm_gpu *gpu, const yk_decode_shape *shape, const yk_decode_call *call,
                             cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
