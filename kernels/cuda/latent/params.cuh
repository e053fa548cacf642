/* params.cuh - parameters of the kernels of latent attention. */
#ifndef YK_KERNELS_CUDA_LATENT_PARAMS_CUH
#define YK_KERNELS_CUDA_LATENT_PARAMS_CUH

#include "kernels/cuda/latent/latent_types.h"
#include "kernels/cuda/latent/scratch.h"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/device.h"

namespace yk_latent {

/* Sizes that the tensor core kernels are compiled for: those of DeepSeek. */
constexpr int KV_RANK = 512, ROPE_DIM = 64, WIDTH = KV_RANK + ROPE_DIM;
constexpr int HEAD_MULTIPLE = 64;  /* nope_dim and value_dim of the wgmma kernels are multiples of this */
constexpr float NO_SCORE = -1e30f; /* maximum before the first token: finite, so that differences are numbers */

/* Location of the partial results that the wgmma kernels write for a row's item: n thread blocks from first_block
 * on. */
struct item_splits {
  int32_t first_row, first_block, n; /* first_row: of the item; n = 1: no partial results */
};

struct params {
  void *y;
  const void *q, *kv_up, *cache;
  int64_t q_stride;
  yk_latent_layout layout;
  float scale_log2; /* softmax scale times log2(e): the kernels compute powers of two */
  int32_t n_rows, block_table_stride;
  const int32_t *row_of; /* for the wgmma kernels: index of each row in q and y; NULL: the same index */
  const int32_t *positions, *kv_slots, *seq_of_row, *block_tables;
  /* For the tensor core kernels: rows and heads of a tile, and the split of a tile's tokens over thread blocks. */
  void *absorbed; /* act [n_rows, n_heads, kv_rank] */
  void *sums;     /* the same shape */
  int32_t tile_rows, tile_heads, n_head_tiles, n_splits;
  float *partial_sums;     /* [item, split, query of the tile, kv_rank], if n_splits > 1; of type T for few queries */
  float2 *partial_stats;   /* [item, split, query of the tile]: maximum, as a power of two, and sum */
  item_splits *splits;     /* [n_rows], for the wgmma kernels */
  uint32_t *grid_counters; /* for the grid_barrier of one-launch decode */
};

/* Sources and destinations of the new latent vectors of the step's rows, and their q: see yk_latent_attention_args. */
struct new_rows {
  void *q;
  const void *latent, *norm_w;
  int64_t stride;
  const float *rope;
  float norm_eps;
  void *cache;
};

/* The row's index in q and y. */
__device__ __forceinline__ int64_t step_row(const params &p, int32_t row)
{
  return p.row_of ? p.row_of[row] : row;
}

/* The cache slot of a sequence's token. */
__device__ __forceinline__ int64_t slot_of(const int32_t *table, int32_t token)
{
  return static_cast<int64_t>(table[token / YK_KV_BLOCK_TOKENS]) * YK_KV_BLOCK_TOKENS + token % YK_KV_BLOCK_TOKENS;
}

/* The wgmma kernels, with T __half or __nv_bfloat16; n_rows is at most YK_CUDA_LATENT_ROWS. launch_decode: decode with
 * nope_dim and value_dim of 128, in one launch. rows: the rows that first become new tokens; latent NULL: none. */
template <typename T>
cudaError_t launch_decode(const yk_cuda_latent &latent, const params &p, const new_rows &rows, cudaStream_t stream);
template <typename T>
cudaError_t launch_many(void *encode_tensor_map, int n_multiprocessors, const params &p, cudaStream_t stream);

/* Pairs of thread blocks of launch_decode that can run at once. */
template <typename T> cudaError_t count_pairs(int32_t *n);

/* Steps of few decode rows in one launch, by clusters of CLUSTER_BLOCKS thread blocks: at most CLUSTER_ROWS rows, each
 * with at most CLUSTER_MOST_TOKENS tokens. */
constexpr int CLUSTER_BLOCKS = 16, CLUSTER_ROWS = 8, CLUSTER_MOST_TOKENS = 4096;

/* Heads of a cluster: the more clusters share the heads of a row, the sooner the row is done, but all clusters must run
 * at once. 0: too many rows. */
inline int cluster_heads(const yk_latent_layout &layout, int32_t n_rows, int32_t n_clusters)
{
  for (int heads = 4; heads <= 8 && n_rows <= CLUSTER_ROWS; heads *= 2)
    if (n_rows * ((layout.n_heads + heads - 1) / heads) <= n_clusters) return heads;
  return 0;
}

/* Loads the kernels and counts the clusters of either kernel that can run at once: 0 on a GPU without clusters. */
template <typename T> cudaError_t init_cluster(int32_t *n_clusters);

/* n_heads: of a cluster, from cluster_heads; nope_dim and value_dim are 128. */
template <typename T>
cudaError_t launch_cluster(void *encode_tensor_map, int n_heads, const params &p, const new_rows &rows,
                           cudaStream_t stream);

/* Further parameters of attention with expanded keys and values. */
struct expanded_work;
struct expanded_launch {
  void *encode_tensor_map;
  int n_multiprocessors;
  expanded_work *work;
  void *made; /* keys and values of some heads */
  /* tokens: at least those of all sequences that use expanded keys and values, in whole tiles */
  int64_t made_bytes, made_tokens;
};

/* Rows of a step that do not use expanded keys and values, as a separate step; arrays of `most` elements. */
struct other_rows {
  int32_t *rows, *positions, *kv_slots, *seq_of_row;
  int32_t most;
};

/* list_expanded_kernel. */
cudaError_t launch_list_expanded(const yk_batch &batch, expanded_work *work, const other_rows &others,
                                 cudaStream_t stream);

/* Attention of the listed sequences, with T __half or __nv_bfloat16. */
template <typename T> cudaError_t launch_expanded(const expanded_launch &launch, const params &p, cudaStream_t stream);

cudaError_t launch_generic(yk_dtype dtype, const params &p, cudaStream_t stream);

} // namespace yk_latent

#endif
