/* rope.h - RMSNorm of query and key heads, rotary embedding, and the write of K and V to the paged cache. Asynchronous
 * on the stream; see kernels/device.h for the operation.
 *
 * One warp per head of a row, eight warps in a thread block. A warp holds a head in registers: a lane has pairs of
 * neighbouring elements of the head's first half, and the pairs of the second half that they are rotated with: one of
 * each for heads of up to 128 elements, two for up to 256, else four. For many rows of heads of 128 or 256 see
 * rope_many.cuh.
 *
 *   norm weights, cosines, sines, KV slot --> registers, before griddepcontrol.wait
 *   query head --> norm --> rotation --> qkv, in place
 *   key head   --> norm --> rotation --> K cache, at the row's KV slot
 *   value head ----------------------> V cache, at the row's KV slot
 *
 * Norms after the rotation, norms of values, rows without values or keys, and heads without rotation are options of
 * separate template instances.
 *
 * For an 8-bit cache the head is quantised from the registers: the warp that has the head computes its largest
 * element. */
#ifndef YK_KERNELS_CUDA_ROWS_ROPE_H
#define YK_KERNELS_CUDA_ROWS_ROPE_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/common/limits.h"
#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* head_dim: a multiple of YK_CUDA_HEAD_DIM_UNIT, at most YK_CUDA_MAX_HEAD_DIM. */
cudaError_t yk_cuda_launch_qk_rope_kv(yk_dtype dtype, const yk_qk_rope_kv_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
