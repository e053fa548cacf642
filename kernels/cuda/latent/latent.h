/* latent.h - latent attention on CUDA devices: the operations of kernels/latent.h.
 *
 *   rope_cache.cu       norm and rotation of a row, and the write to the paged cache: one launch; new_token.cuh: within
 *                       others
 *   attention.cu        which rows and sizes take which kernels
 *
 * On Hopper (compute capability 9.0), where kv_rank is 512 and rope_dim 64, in one of four ways, the first three with
 * latent vectors as keys and values of all heads:
 *
 *   decode in one launch, norm and rotation too, of heads of 128 + 64 and 128
 *     few rows (one to three with 16 heads) of moderate length
 *       cluster_kernel      cluster_block.cuh        a cluster for some heads of a row
 *     others, 256 rows at a time: one_launch.cuh     queries, attention, outputs, between which all thread blocks meet
 *       few_kernel          wgmma_few_kernel.cuh     at most 16 heads: at the speed of memory
 *       many_kernel         wgmma_many_kernel.cuh    64 queries a tile: at the speed of tensor cores
 *         ends.cuh            queries = K[h]^T q_nope, act [rows, heads, kv_rank]; y = V[h] sums
 *         grid_barrier.cuh    how thread blocks meet
 *         work_list.cuh       which tokens of which rows a thread block takes
 *         wgmma_tiles.cuh     tiles in shared memory, and the warps that load them
 *   short runs of rows, decode with other heads, and of fewer than 8 rows with more than 16 heads, 256 rows at a time
 *     absorb_kernel       head_products.cuh        queries
 *     many_kernel         wgmma_many_kernel.cuh    attention alone
 *     output_kernel       head_products.cuh        combines splits; outputs; wide_output_kernel: of many rows
 *   keys and values of each head: sequences with many rows in the step, some heads at a time
 *     list_expanded_kernel  expanded_work.cu       which sequences, and the rows of all others
 *     make_heads_kernel     expanded_make.cuh      keys and values from the latent vectors of whole sequences
 *     attend_heads_kernel   expanded_attend.cuh    causal attention with them
 *
 * On other GPUs mma_sync_kernel.cuh, with cuBLAS for the products on both sides; for other sizes generic.cu, one thread
 * block for each row and head.
 *
 * Against latent vectors a head takes 2 kv_rank + rope_dim products a row and token, and each latent vector is read
 * once for all heads of a tile; against keys and values of its own, once these are made, nope_dim + rope_dim +
 * value_dim.
 * Both read latent vectors of earlier tokens from the cache, so that chunks and reused prefixes are nothing special.
 * Decode may be recorded in a graph: lengths are read from device memory, and counts that the host gives are upper
 * bounds. Partial results are combined in a fixed order: the same step gives the same bits. */
#ifndef YK_KERNELS_CUDA_LATENT_LATENT_H
#define YK_KERNELS_CUDA_LATENT_LATENT_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/latent/latent_types.h"
#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_cuda_latent_init - set n_clusters and n_pairs, of the current GPU, from the other fields. dtype: the device's. */
cudaError_t yk_cuda_latent_init(yk_cuda_latent *latent, yk_dtype dtype);

/* yk_cuda_launch_latent_rope_cache - the first step of latent_attention by itself: norm and rotation of the rows, and
 * their way to the cache. Errors: those of the launch. */
cudaError_t yk_cuda_launch_latent_rope_cache(yk_dtype dtype, const yk_latent_attention_args *args, cudaStream_t stream);

/* yk_cuda_latent_attention_run - latent_attention of the device's table, asynchronous; args->scratch has
 *   yk_cuda_latent_scratch_bytes (scratch.h). Errors: YK_E_DEVICE, YK_E_UNSUPPORTED where shared memory is too
 *   small for one latent vector a thread block. */
yk_status yk_cuda_latent_attention_run(const yk_cuda_latent *latent, const yk_latent_attention_args *args,
                                       yk_dtype dtype, cudaStream_t stream, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
