/* router_logits.cuh - the first half of the router's kernel: loads a cluster's rows, normalised or copied, and
 * multiplies them with the router's weights; the logits go to the blocks that choose. */
#ifndef YK_KERNELS_CUDA_MOE_ROUTER_LOGITS_CUH
#define YK_KERNELS_CUDA_MOE_ROUTER_LOGITS_CUH

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/moe/router_params.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"

namespace yk_moe::router_kernels {

/* Copies the block's part of K of the cluster's rows. */
template <int ROWS> __device__ __forceinline__ void copy_x(const router_params &p, int part, int row0, uint4 *to)
{
  const int n = p.n_pieces * ROWS * 4;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const int row = row0 + i / 4 % ROWS, at = (i / 4 / ROWS * BLOCKS + part) * 32 + i % 4 * 8;
    const bool is_there = row < p.route.n_tokens && at < p.k;
    const uint16_t *from = static_cast<const uint16_t *>(p.x) + (is_there ? static_cast<int64_t>(row) * p.k + at : 0);
    cp_async_16(shared_address(to + i), from, is_there);
  }
  cp_async_commit();
  cp_async_wait<0>();
}

/* The sum of the warps' values, in the order of block_sum (common/reduce.cuh). */
template <int WARPS> __device__ __forceinline__ float sum_of_warps(const float *of_warps)
{
  float sums[WARPS];
#pragma unroll
  for (int i = 0; i < WARPS; i++) sums[i] = of_warps[i];
#pragma unroll
  for (int step = 2; step <= WARPS; step *= 2) {
#pragma unroll
    for (int i = 0; i < WARPS / 2; i++)
      if (i < WARPS / step) sums[i] += sums[i + WARPS / step];
  }
  return sums[0];
}

/* Normalises the block's row of the cluster and sends it to the blocks that multiply it. A thread has one packet, and w
 * of the weights. The sum of squares has the same bits as in rows/norm.cu. squares: one per warp. */
template <typename T, int WARPS>
__device__ __forceinline__ void normalise(const router_params &p, int part, int cluster_row0, const vec<T, 8> &w,
                                          uint4 *x, uint64_t *x_full, float *squares)
{
  using V = vec<T, 8>;
  const router_norm &norm = p.norm;
  const int own = threadIdx.x, n = p.k / 8, warp = own / WARP, lane = own % WARP, piece = own / 4;
  const int row = cluster_row0 + part;
  const bool is_there = own < n && row < p.route.n_tokens;
  const int64_t at = static_cast<int64_t>(row) * n + own;
  V sum = {}, of_part = {}, y = {};
  float square = 0.0f;
  if (is_there) {
    sum = static_cast<const V *>(norm.residual)[at];
    of_part = static_cast<const V *>(norm.part)[at];
  }
#pragma unroll
  for (int j = 0; j < 8; j++) {
    sum.at[j] = from_float<T>(to_float(sum.at[j]) + norm.alpha * (0.0f + to_float(of_part.at[j])));
    square += to_float(sum.at[j]) * to_float(sum.at[j]);
  }
  square = warp_sum(square);
  if (lane == 0) squares[warp] = square;
  __syncthreads();
  const float factor = rsqrtf(sum_of_warps<WARPS>(squares) * norm.per_element + norm.eps);
#pragma unroll
  for (int j = 0; j < 8; j++)
    if (is_there) y.at[j] = from_float<T>(rounded<T>(to_float(sum.at[j]) * factor) * to_float(w.at[j]));
  if (piece / BLOCKS < p.n_pieces)
    store_async_remote16(shared_address(x + (piece / BLOCKS * BLOCKS + part) * 4 + own % 4), shared_address(x_full),
                         piece % BLOCKS, *reinterpret_cast<const float4 *>(&y));
  if (!is_there) return;
  static_cast<V *>(norm.residual)[at] = sum;
  static_cast<V *>(norm.y)[at] = y;
}

/* Called by one warp: sends the block's sums of a tile's columns to the blocks that choose. */
template <typename T, int ROWS>
__device__ __forceinline__ void multiply(const router_params &p, few_outputs_tile<T, ROWS> &t, int column,
                                         const router_memory &m, uint64_t *full)
{
  const int lane = threadIdx.x % WARP;
  float acc[ROWS / 8][4] = {};
  t.accumulate(
      p.w, p.n_logits, p.k, column, [&](int i, int r) { return m.x[(i * ROWS / 8 + r) * WARP + lane]; }, acc);
  const uint32_t to = shared_address(m.sums + (t.part * p.n_tiles + column / COLUMNS) * 8 + lane / 4);
#pragma unroll
  for (int r = 0; r < ROWS / 8; r++)
    store_async_remote16(to, shared_address(full), r * 4 + lane % 4,
                         make_float4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]));
}

/* Adds the parts, and the bias, to the logits of the block's rows. */
__device__ __forceinline__ void add_parts(const router_params &p, const router_memory &m, int row0, int n_rows)
{
  for (int column = threadIdx.x; column < p.n_logits; column += blockDim.x) {
    const float2 *from = reinterpret_cast<const float2 *>(m.sums) + (column / 16 * 8 + column % 8) * 2 + column / 8 % 2;
    const float bias = p.bias ? __ldg(p.bias + column) : 0.0f;
    float sums[OWN] = {};
#pragma unroll
    for (int part = 0; part < BLOCKS; part++) {
      const float2 v = from[part * p.n_tiles * COLUMNS];
      sums[0] += v.x;
      sums[1] += v.y;
    }
#pragma unroll
    for (int row = 0; row < OWN; row++) {
      sums[row] += bias;
      m.logits[row * p.n_tiles * COLUMNS + column] = sums[row];
      if (row < n_rows) p.logits[(row0 + row) * p.route.logits_stride + column] = sums[row];
    }
  }
}

} // namespace yk_moe::router_kernels

#endif
