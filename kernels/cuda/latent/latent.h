/* latent.h - latent attention on CUDA devices: the operations of kernels/latent.h.
 *
 *   rope_cache.cu       norm and rotation of a row, and the write to the paged cache, in one launch; new_token.cuh does
 *                       the same inside other kernels
 *   grow_queries.cu     scores that grow with the position: their factor, multiplied into the row's queries before all
 *                       other kernels, which rounds the queries once more
 *   attention.cu        the choice of kernels by rows and sizes
 *
 * On Hopper (compute capability 9.0), with kv_rank 512 and rope_dim 64, in one of four ways, the first three with
 * latent vectors as keys and values of all heads:
 *
 *   decode in one launch, with norm and rotation, for heads of 128 + 64 and 128
 *     few rows (one to three with 16 heads) of moderate length
 *       cluster_kernel      cluster_block.cuh        one cluster for some heads of a row
 *     others, 256 rows at a time: one_launch.cuh     queries, attention, outputs, separated by grid barriers
 *       few_kernel          wgmma_few_kernel.cuh     at most 16 heads: bound by memory bandwidth
 *       many_kernel         wgmma_many_kernel.cuh    64 queries per tile: bound by tensor cores
 *         ends.cuh            queries = K[h]^T q_nope, act [rows, heads, kv_rank]; y = V[h] sums
 *         grid_barrier.cuh    barriers of all thread blocks
 *         work_list.cuh       the tokens and rows of each thread block
 *         wgmma_tiles.cuh     tiles in shared memory, and the warps that load them
 *   short runs of rows, decode with other heads, and of fewer than 8 rows with more than 16 heads, 256 rows at a time
 *     absorb_kernel       head_products.cuh        queries
 *     many_kernel         wgmma_many_kernel.cuh    attention alone
 *     output_kernel       head_products.cuh        combines splits; outputs; wide_output_kernel: for many rows
 *   expanded keys and values: sequences with many rows in the step, some heads at a time
 *     list_expanded_kernel  expanded_work.cu       lists these sequences, and the rows of all others
 *     make_heads_kernel     expanded_make.cuh      keys and values from the latent vectors of whole sequences
 *     attend_heads_kernel   expanded_attend.cuh    causal attention with them
 *
 * Other GPUs use mma_sync_kernel.cuh, with cuBLAS for the products before and after; other sizes use generic.cu, one
 * thread block for each row and head.
 *
 * With latent vectors a head takes 2 kv_rank + rope_dim multiplications per row and token, and each latent vector is
 * read once for all heads of a tile. With keys and values per head, once these are computed, it takes nope_dim +
 * rope_dim + value_dim.
 * Both read latent vectors of earlier tokens from the cache, so chunks and reused prefixes need no special case. Decode
 * may be recorded in a graph: lengths are read from device memory, and counts from the host are upper bounds. Partial
 * results are combined in a fixed order: the same step gives the same bits. */
#ifndef YK_KERNELS_CUDA_LATENT_LATENT_H
#define YK_KERNELS_CUDA_LATENT_LATENT_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/latent/latent_types.h"
#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_cuda_latent_init - sets n_clusters and n_pairs, of the current GPU, from the other fields. dtype: the device's. */
cudaError_t yk_cuda_latent_init(yk_cuda_latent *latent, yk_dtype dtype);

/* yk_cuda_launch_latent_rope_cache - the first step of latent_attention alone: norm and rotation of the rows, and the
 *   write to the cache. Errors: those of the launch. */
cudaError_t yk_cuda_launch_latent_rope_cache(yk_dtype dtype, const yk_latent_attention_args *args, cudaStream_t stream);

/* yk_cuda_launch_grow_queries - multiplies the queries by their factors of args->growth, whose beta is not 0. Errors:
 *   those of the launch. */
cudaError_t yk_cuda_launch_grow_queries(yk_dtype dtype, const yk_latent_attention_args *args, cudaStream_t stream);

/* yk_cuda_latent_attention_run - latent_attention of the device's table, asynchronous; args->scratch has
 *   yk_cuda_latent_scratch_bytes (scratch.h). Errors: YK_E_DEVICE; YK_E_UNSUPPORTED if shared memory is too small for
 *   one latent vector per thread block. */
yk_status yk_cuda_latent_attention_run(const yk_cuda_latent *latent, const yk_latent_attention_args *args,
                                       yk_dtype dtype, cudaStream_t stream, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
