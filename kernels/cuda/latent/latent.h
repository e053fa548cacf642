/* latent.h - latent attention on CUDA devices: the operations of kernels/latent.h.
 *
 *   rope_cache.cu       norm and rotation of a row, and the write to the paged cache: one launch
 *   attention.cu        in blocks of rows:
 *     cuBLAS              queries = K[h]^T q_nope, for every head, act [rows, heads, kv_rank]
 *     attention_kernel.cuh   softmax over the cache and weighted sums of latent vectors, act [rows, heads, kv_rank]
 *     cuBLAS              y = V[h] sums, for every head
 *   generic.cu          other sizes than kv_rank 512 and rope_dim 64: one thread block for each row and head
 *
 * The absorbed product reads a latent vector once for all heads of a tile, whatever their number; its flops are those
 * of a head of kv_rank + rope_dim for scores and kv_rank for sums. Prefill takes the same kernel, in tiles of several
 * rows. Everything may be recorded in a graph: lengths are read from device memory, and counts that the host gives are
 * upper bounds. */
#ifndef YK_KERNELS_CUDA_LATENT_LATENT_H
#define YK_KERNELS_CUDA_LATENT_LATENT_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/device/blas.h"
#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What the launches need of a device. */
typedef struct yk_cuda_latent {
  int32_t n_multiprocessors, shared_bytes; /* largest shared memory of a thread block */
  const yk_cuda_blas *blas;
} yk_cuda_latent;

/* latent_rope_cache of the device's table. */
cudaError_t yk_cuda_launch_latent_rope_cache(yk_dtype dtype, const yk_latent_rope_cache_args *args,
                                             cudaStream_t stream);

/* yk_cuda_latent_attention_run - latent_attention of the device's table, asynchronous; args->scratch has
 *   yk_cuda_latent_scratch_bytes (linear/layout.h). Errors: YK_E_DEVICE, YK_E_UNSUPPORTED where shared memory is too
 *   small for one latent vector a thread block. */
yk_status yk_cuda_latent_attention_run(const yk_cuda_latent *latent, const yk_latent_attention_args *args,
                                       yk_dtype dtype, cudaStream_t stream, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
