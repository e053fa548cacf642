/* single_token_inputs.cuh - the inputs of both GEMMs in shared memory: the row itself, and the values between the
 * GEMMs, which all thread blocks produce. */
#ifndef YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_INPUTS_CUH
#define YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_INPUTS_CUH

#include "kernels/cuda/moe/single_token_work.cuh"

namespace yk_moe {

/* The row's inputs in shared memory: for each K tile its inputs in the layout of row_x_at, and for weights that are
 * multiplied as integers their sum for each group of scales. */
struct single_token_x {
  uint32_t x;
  float *sums; /* [K tiles, 4] */
};

__host__ __device__ constexpr int single_token_x_bytes(int k_tiles)
{
  return row_x_bytes(k_tiles) + k_tiles * 16;
}

template <typename T> __device__ __forceinline__ float sum_of_pair(uint32_t word)
{
  if constexpr (std::is_same_v<T, __half>) {
    const float2 v = __half22float2(pair_of<__half2>(word));
    return v.x + v.y;
  } else {
    return __uint_as_float(word << 16) + __uint_as_float(word & 0xFFFF0000u);
  }
}

/* Called by a warp: stores the lane's eight inputs, piece `piece` of 16 of a K tile. Each half of the warp stores one
 * tile or nothing. */
template <typename T, typename PANEL>
__device__ __forceinline__ void store_single_token_x(const single_token_x &x, int tile, int piece, const uint4 &v,
                                                     bool has_tile)
{
  constexpr int LANES = 16 / PANEL::GROUPS;
  if constexpr (scales_exactly(PANEL::ENCODING)) {
    if (has_tile) store_shared16(x.x + row_x_at(tile) + piece / 8 * 1024 + piece % 8 * 16, v);
    return;
  }
  float sum = (sum_of_pair<T>(v.x) + sum_of_pair<T>(v.y)) + (sum_of_pair<T>(v.z) + sum_of_pair<T>(v.w));
#pragma unroll
  for (int other = 1; other < LANES; other *= 2) sum += __shfl_xor_sync(ALL_LANES, sum, other);
  if (!has_tile) return;
  store_shared16(x.x + row_x_at(tile) + piece / 8 * 1024 + piece % 8 * 16, v);
  if (piece % LANES == 0) x.sums[tile * 4 + piece / LANES] = sum;
}

/* Called by a warp: loads x of its K tiles, zeros after the end. */
template <typename T, typename PANEL>
__device__ __forceinline__ void load_single_token_x(const single_token_params &p, const single_token_work &w,
                                                    const single_token_x &x)
{
  for (int i = threadIdx.x % WARP; i - threadIdx.x % WARP < w.n_k_tiles * 16; i += WARP) {
    const int tile = w.k_tile + i / 16, k = tile * TILE_K + i % 16 * 8;
    const bool has_tile = i < w.n_k_tiles * 16;
    const uint4 v = has_tile && k < p.router.k
                        ? __ldcg(reinterpret_cast<const uint4 *>(static_cast<const uint16_t *>(p.router.x) + k))
                        : make_uint4(0, 0, 0, 0);
    store_single_token_x<T, PANEL>(x, tile, i % 16, v, has_tile);
  }
  __syncwarp();
}

__device__ __forceinline__ bool is_empty(const uint4 &v)
{
  return v.x == EMPTY_WORD || v.y == EMPTY_WORD || v.z == EMPTY_WORD || v.w == EMPTY_WORD;
}

/* Called by a warp: waits for the inputs of down in its K tiles and loads them. */
template <typename T, typename PANEL>
__device__ __forceinline__ void gather_inner(const single_token_params &p, const single_token_work &w,
                                             const uint32_t *inner, const single_token_x &x)
{
  constexpr int AT_ONCE = 2;
  const int lane = threadIdx.x % WARP, n = w.n_down_tiles * 16;
#pragma unroll 1
  for (int base = 0; base < n; base += AT_ONCE * WARP) {
    uint4 v[AT_ONCE];
    const uint4 *from[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++) {
      const int i = base + j * WARP + lane, tile = w.down_tile + i / 16;
      const int slot = min(p.by_down_tiles.quotient(tile), w.n_slots);
      const int k = (tile - slot * p.down.k_tiles) * TILE_K + i % 16 * 8;
      const bool is_valid = i < n && k < (slot < w.n_slots ? p.ffn : p.shared_ffn);
      from[j] = reinterpret_cast<const uint4 *>(inner + (slot * p.ffn + k) / 2);
      v[j] = make_uint4(0, 0, 0, 0);
      if (is_valid) v[j] = load_relaxed_gpu16(from[j]);
    }
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++) {
      while (__any_sync(ALL_LANES, is_empty(v[j])))
        if (is_empty(v[j])) v[j] = load_relaxed_gpu16(from[j]);
      const int i = base + j * WARP + lane;
      store_single_token_x<T, PANEL>(x, w.down_tile + i / 16, i % 16, v[j], i < n);
    }
  }
  __syncwarp();
}

} // namespace yk_moe

#endif
