/* cluster_ends.cuh - the products with kv_b_proj of a thread block of cluster_kernel: the queries K[h]^T q_nope before
 * the attention, and V[h] times the weighted sums after it. */
#ifndef YK_KERNELS_CUDA_LATENT_CLUSTER_ENDS_CUH
#define YK_KERNELS_CUDA_LATENT_CLUSTER_ENDS_CUH

#include "kernels/cuda/latent/cluster_block.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_latent {

#if defined(YK_HAVE_SM90A)

template <typename T, int HEADS>
__device__ inline void cluster_block<T, HEADS>::load_weights(char (&to)[COLUMNS / 64][WEIGHT_BLOCK_BYTES],
                                                             int32_t first_row, uint64_t *full) const
{
  mbarrier_arrive_expect(full, sizeof to);
  for (int i = 0; i < COLUMNS / 64; i++)
    tensor_copy(shared_address(to[i]), &weights, share * COLUMNS + i * 64, first_row, full);
}

template <typename T, int HEADS>
__device__ inline void cluster_block<T, HEADS>::load_k_fragments(uint32_t (&a)[K_TILES][K_STEPS][4]) const
{
  const int d = lane % 8 / 2 * 4 + lane % 2 + lane / 16 * 2;
#pragma unroll
  for (int i = 0; i < K_TILES; i++) {
    const int column = (warp * K_TILES + i) * 16 + lane / 8 % 2 * 8;
    const uint32_t at = shared_address(s.k[column / 64]) + d * SWIZZLED_ROW + ((column % 64 / 8 ^ d) & 7) * 16;
#pragma unroll
    for (int step = 0; step < K_STEPS; step++) ldmatrix_x4_trans(a[i][step], at + step * 16 * SWIZZLED_ROW);
  }
}

template <typename T, int HEADS>
__device__ inline void cluster_block<T, HEADS>::absorb(const uint32_t (&a)[K_TILES][K_STEPS][4],
                                                       const uint2 (&b)[K_STEPS]) const
{
#pragma unroll
  for (int i = 0; i < K_TILES; i++) {
    float acc[2][4] = {};
#pragma unroll
    for (int step = 0; step < K_STEPS; step++)
      mma_m16n8k16<T>(acc[step % 2], a[i][step][0], a[i][step][1], a[i][step][2], a[i][step][3], b[step].x, b[step].y);
    /* Lane 4 g has columns g and g + 8: every lane gathers 8 neighbouring columns, for thread block lane / 2. */
    const uint32_t both = round_pair<T>(acc[0][0] + acc[1][0], acc[0][2] + acc[1][2]);
    float words[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
      words[j] = __uint_as_float(
          __byte_perm(__shfl_sync(~0u, both, 8 * j), __shfl_sync(~0u, both, 8 * j + 4), lane % 2 ? 0x7632 : 0x5410));
    const int column = share * COLUMNS + (warp * K_TILES + i) * 16 + lane % 2 * 8;
    if (lane / 2 < n_parts)
      store_async_remote16(shared_address(&s.q[rank / SHARES][column]), shared_address(&s.q_full), lane / 2,
                           make_float4(words[0], words[1], words[2], words[3]));
  }
}

template <typename T, int HEADS>
__device__ inline void cluster_block<T, HEADS>::load_v_fragments(uint32_t (&a)[V_STEPS][4]) const
{
  const int v_row = warp * 16 + lane % 16;
#pragma unroll
  for (int i = 0; i < V_STEPS; i++)
    ldmatrix_x4(a[i], shared_address(s.v[i / 4]) + v_row * SWIZZLED_ROW + ((i % 4 * 2 + lane / 16 ^ v_row) & 7) * 16);
}

template <typename T, int HEADS> __device__ inline void cluster_block<T, HEADS>::combine() const
{
  float weight[CLUSTER_BLOCKS], part[CLUSTER_BLOCKS], top = NO_SCORE, total = 0.0f, sum = 0.0f;
  if (threadIdx.x >= COLUMNS) return;
#pragma unroll
  for (int i = 0; i < CLUSTER_BLOCKS; i++) {
    const bool exists = i < n_parts;
    weight[i] = exists ? s.stats[i].x : NO_SCORE;
    part[i] = exists ? (&s.part[i][0][0][0][0])[threadIdx.x] : 0.0f;
    top = fmaxf(top, weight[i]);
  }
#pragma unroll
  for (int i = 0; i < CLUSTER_BLOCKS; i++) {
    weight[i] = exp2_approx(weight[i] - top);
    total += (i < n_parts ? s.stats[i].y : 0.0f) * weight[i];
    sum += part[i] * weight[i];
  }
  const int at = threadIdx.x, column = at / 64 * 64 + at / 32 % 2 * 32 + at / 2 % 2 * 16 + at / 4 % 8 + at % 2 * 8;
  const int place = column / 32 * 32 + column % 8 / 2 * 8 + column / 8 % 4 * 2 + column % 2;
  reinterpret_cast<T *>(s.sums)[place] = yk_cuda::from_float<T>(total > 0.0f ? sum / total : 0.0f);
}

template <typename T, int HEADS>
__device__ inline void cluster_block<T, HEADS>::multiply_v(const uint32_t (&a)[V_STEPS][4]) const
{
  float acc[2][4] = {};
#pragma unroll
  for (int i = 0; i < V_STEPS; i += 2) {
    const uint4 b = lane < 4 ? load_shared16(shared_address(&s.sums[i * 16 + lane * 8])) : make_uint4(0, 0, 0, 0);
    mma_m16n8k16<T>(acc[0], a[i][0], a[i][1], a[i][2], a[i][3], b.x, b.y);
    mma_m16n8k16<T>(acc[1], a[i + 1][0], a[i + 1][1], a[i + 1][2], a[i + 1][3], b.z, b.w);
  }
  /* Lane 4 g has rows g and g + 8: lanes 0 to 3 gather 4 neighbouring rows each. */
  const float low = acc[0][0] + acc[1][0], high = acc[0][2] + acc[1][2];
  float rows[4];
#pragma unroll
  for (int j = 0; j < 4; j++) {
    const int from = (lane % 2 * 4 + j) * 4;
    const float a_low = __shfl_sync(~0u, low, from), a_high = __shfl_sync(~0u, high, from);
    rows[j] = lane % 4 < 2 ? a_low : a_high;
  }
  const int first = warp * 16 + lane * 4;
  if (lane < 4)
    store_async_remote16(shared_address(&s.y[share][first % ROWS]), shared_address(&s.y_full),
                         rank / SHARES * SHARES + first / ROWS, make_float4(rows[0], rows[1], rows[2], rows[3]));
}

template <typename T, int HEADS> __device__ inline T *cluster_block<T, HEADS>::y() const
{
  return static_cast<T *>(p.y) + (static_cast<int64_t>(row) * p.layout.n_heads + head) * CLUSTER_HEAD_DIM +
         share * ROWS;
}

#endif

} // namespace yk_latent

#endif
