/* cluster_attend.cuh - attention of the cluster's queries to the tokens of a thread block. */
#ifndef YK_KERNELS_CUDA_LATENT_CLUSTER_ATTEND_CUH
#define YK_KERNELS_CUDA_LATENT_CLUSTER_ATTEND_CUH

#include "kernels/cuda/latent/cluster_tokens.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_latent {

#if defined(YK_HAVE_SM90A)

template <typename T, int HEADS>
__device__ inline void cluster_block<T, HEADS>::load_keys(uint32_t (&a)[SCORE_STEPS][4], int32_t page, int odd) const
{
  const int token = lane % 16;
  const uint32_t at = shared_address(s.page[page % RING]) + token * SWIZZLED_ROW;
  const uint32_t swizzled = ((odd * 2 + lane / 16) ^ token) & 7;
#pragma unroll
  for (int i = 0; i < SCORE_STEPS; i++) ldmatrix_x4(a[i], at + i / 2 * PAGE_BLOCK_BYTES + (swizzled ^ i % 2 * 4) * 16);
}

template <typename T, int HEADS>
__device__ inline void cluster_block<T, HEADS>::scores(const uint32_t (&a)[SCORE_STEPS][4], int32_t page, int odd) const
{
  constexpr int CHAINS = 6;
  float acc[CHAINS][4] = {};
  uint32_t b[SCORE_STEPS / 2][4];
  const uint32_t at = shared_address(&s.q[min(lane % 8, n_heads - 1)][(lane / 16 * 2 + odd) * 16 + lane / 8 % 2 * 8]);
#pragma unroll
  for (int i = 0; i < SCORE_STEPS / 2; i++) ldmatrix_x4(b[i], at + i * 128);
#pragma unroll
  for (int i = 0; i < SCORE_STEPS; i++)
    mma_m16n8k16<T>(acc[i % CHAINS], a[i][0], a[i][1], a[i][2], a[i][3], b[i / 2][i % 2 * 2], b[i / 2][i % 2 * 2 + 1]);
#pragma unroll
  for (int e = 0; e < 4; e++)
    s.score[odd][lane % 4 * 2 + e % 2][page % TILE_PAGES * PAGE + lane / 4 + e / 2 * 8] =
        acc[0][e] + acc[1][e] + acc[2][e] + (acc[3][e] + acc[4][e] + acc[5][e]);
}

template <typename T, int HEADS>
__device__ inline void cluster_block<T, HEADS>::softmax(int32_t n_visible, float &m, float &l) const
{
  if (warp >= n_heads) return;
  float score[2];
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const int token = lane + 32 * i;
    score[i] = token < n_visible ? (s.score[0][warp][token] + s.score[1][warp][token]) * p.scale_log2 : -INFINITY;
  }
  float top = fmaxf(m, fmaxf(score[0], score[1]));
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, offset));
  const float rescale = exp2_approx(m - top);
  l *= rescale;
  m = top;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const float probability = exp2_approx(score[i] - top);
    l += probability;
    reinterpret_cast<T *>(s.p[warp])[lane + 32 * i] = yk_cuda::from_float<T>(probability);
  }
  if (lane == 0) s.rescale[warp] = rescale;
}

template <typename T, int HEADS>
__device__ inline void cluster_block<T, HEADS>::load_values(uint32_t (&a)[TILE_PAGES][4][4], int32_t first_page,
                                                            uint32_t pages) const
{
  const int token = lane / 16 * 8 + lane % 8;
  const uint32_t at = warp * PAGE_BLOCK_BYTES + token * SWIZZLED_ROW, swizzled = (lane / 8 % 2 ^ token) & 7;
#pragma unroll
  for (int i = 0; i < TILE_PAGES; i++) {
    if (!(pages >> i & 1)) continue;
#pragma unroll
    for (int j = 0; j < 4; j++)
      ldmatrix_x4_trans(a[i][j], shared_address(s.page[(first_page + i) % RING]) + at + (swizzled ^ j * 2) * 16);
  }
}

template <typename T, int HEADS>
__device__ inline void cluster_block<T, HEADS>::add_values(float (&o)[4][4], const uint32_t (&a)[TILE_PAGES][4][4],
                                                           int32_t n) const
{
  const float rescale[2] = {s.rescale[lane % 4 * 2], s.rescale[lane % 4 * 2 + 1]};
  uint32_t b[TILE_PAGES / 2][4];
#pragma unroll
  for (int i = 0; i < TILE_PAGES / 2; i++)
    ldmatrix_x4(b[i], shared_address(&s.p[min(lane % 8, n_heads - 1)][32 * i + lane / 8 * 8]));
#pragma unroll
  for (int j = 0; j < 4; j++) {
#pragma unroll
    for (int e = 0; e < 4; e++) o[j][e] *= rescale[e % 2];
  }
#pragma unroll
  for (int i = 0; i < TILE_PAGES; i++) {
    if (i >= n) break;
#pragma unroll
    for (int j = 0; j < 4; j++)
      mma_m16n8k16<T>(o[j], a[i][j][0], a[i][j][1], a[i][j][2], a[i][j][3], b[i / 2][i % 2 * 2],
                      b[i / 2][i % 2 * 2 + 1]);
  }
}

template <typename T, int HEADS>
__device__ inline void cluster_block<T, HEADS>::send_part(const float (&o)[4][4], float m, float l) const
{
  constexpr int WARPS = CLUSTER_WARPS / SHARES; /* warps that share a share's columns */
  const uint32_t full = shared_address(&s.part_full);
#pragma unroll
  for (int h = 0; h < 2; h++) {
    const int to_head = lane % 4 * 2 + h;
    if (to_head >= n_heads) continue;
#pragma unroll
    for (int j = 0; j < 2; j++)
      store_async_remote16(shared_address(s.part[rank][warp % WARPS][j][lane / 4]), full,
                           to_head * SHARES + warp / WARPS,
                           make_float4(o[2 * j][h], o[2 * j][2 + h], o[2 * j + 1][h], o[2 * j + 1][2 + h]));
  }
  if (warp >= n_heads) return;
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) l += __shfl_xor_sync(~0u, l, offset);
  if (lane < SHARES)
    store_async_remote16(shared_address(&s.stats[rank]), full, warp * SHARES + lane, make_float4(m, l, 0.0f, 0.0f));
}

template <typename T, int HEADS> __device__ inline uint32_t cluster_block<T, HEADS>::pages_of_tile(int32_t at) const
{
  return (1u << min(TILE_PAGES, n_pages - at)) - 1;
}

template <typename T, int HEADS>
__device__ inline void cluster_block<T, HEADS>::load_tile(tile &t, int32_t at, uint32_t pages) const
{
  const int32_t own = warp % TILE_PAGES;
  for (int32_t i = 0; i < TILE_PAGES; i++)
    if (pages >> i & 1) wait_for_page(at + i);
  if (pages >> own & 1) load_keys(t.keys, at + own, warp / TILE_PAGES);
  load_values(t.values, at, pages);
}

template <typename T, int HEADS>
__device__ inline void cluster_block<T, HEADS>::attend(tile &t, const new_tokens &added, int32_t last,
                                                       const new_token<T> &of_warp) const
{
  const int odd = warp / TILE_PAGES;
  float o[4][4] = {}, m = NO_SCORE, l = 0.0f;
  for (int32_t at = 0; at < n_pages; at += TILE_PAGES) {
    const int32_t own = at + warp % TILE_PAGES, n = n_pages - at;
    if (at > 0 && added.pages >> at) {
      if (added.of_warp >= at && added.of_warp < at + TILE_PAGES) put_token(of_warp, added.of_warp);
      if (last >= at && last < at + TILE_PAGES) clear_behind(last);
      __syncthreads();
    }
    if (at > 0 || !LOADS_EARLY) load_tile(t, at, pages_of_tile(at));
    if (at == 0) mbarrier_wait_loop(&s.q_full, 0);
    if (own < n_pages) scores(t.keys, own, odd);
    __syncthreads(); /* all warps have also read the tile's pages */
    const int32_t next = at + RING + warp - TILE_PAGES;
    if (warp >= TILE_PAGES && next < n_pages) {
      fence_async_shared(); /* put_token and clear_behind may have written to the page's memory */
      load_page(next);
    }
    softmax(min(position + 1 - (begin_page + at) * PAGE, n * PAGE), m, l);
    __syncthreads();
    add_values(o, t.values, n);
  }
  send_part(o, m, l);
}

#endif

} // namespace yk_latent

#endif
