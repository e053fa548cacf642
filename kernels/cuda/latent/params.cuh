/* params.cuh - what the kernels of latent attention are given. */
#ifndef YK_KERNELS_CUDA_LATENT_PARAMS_CUH
#define YK_KERNELS_CUDA_LATENT_PARAMS_CUH

#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/device.h"

namespace yk_latent {

struct params {
  void *y; /* the generic kernel's result; else sums are written to `sums` */
  const void *q, *kv_up, *cache;
  int64_t q_stride;
  yk_latent_layout layout;
  float scale_log2; /* softmax scale times log2(e): the kernels compute powers of two */
  int32_t n_rows, block_table_stride;
  const int32_t *positions, *kv_slots, *seq_of_row, *block_tables;
  /* The tensor core kernel: rows and heads of a tile, and how the tokens of a tile are split over thread blocks. */
  const void *absorbed; /* act [n_rows, n_heads, kv_rank] */
  void *sums;           /* likewise */
  int32_t tile_rows, tile_heads, n_head_tiles, n_splits;
  float *partial_sums;   /* [item, split, query of the tile, kv_rank], where n_splits > 1 */
  float2 *partial_stats; /* [item, split, query of the tile]: maximum in powers of two, and sum */
};

/* The place of a sequence's token in the cache. */
__device__ __forceinline__ int64_t slot_of(const int32_t *table, int32_t token)
{
  return static_cast<int64_t>(table[token / YK_KV_BLOCK_TOKENS]) * YK_KV_BLOCK_TOKENS + token % YK_KV_BLOCK_TOKENS;
}

cudaError_t launch_generic(yk_dtype dtype, const params &p, cudaStream_t stream);

} // namespace yk_latent

#endif
