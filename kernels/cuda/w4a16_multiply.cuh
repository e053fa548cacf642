/* w4a16_multiply.cuh - the inner loop of the kernel of many tokens. */
#ifndef YK_KERNELS_CUDA_W4A16_MULTIPLY_CUH
#define YK_KERNELS_CUDA_W4A16_MULTIPLY_CUH

#include "kernels/cuda/ptx/wgmma.cuh"
#include "kernels/cuda/w4a16_work.cuh"

namespace w4a16 {

/* A k16 step further in x: 32 bytes inside a swizzled row of 64 inputs, then the other half of the stage. */
__host__ __device__ constexpr int x_step(int tokens, int step)
{
  return (step / 4 * tokens * 128 + step % 4 * 32) >> 4;
}

/* Where a lane finds its words of a unit's half (4 steps) and its scales of a group. */
__device__ __forceinline__ uint32_t words_at(uint32_t unit, int step, int lane)
{
  return unit + step / 4 * UNIT_HALF_BYTES + lane * 16;
}

__device__ __forceinline__ uint32_t scales_at(uint32_t unit, int group, int lane)
{
  return unit + UNIT_NIBBLE_BYTES + group * UNIT_SCALE_BYTES + lane / 4 * 8;
}

/* The first of the C units that a warp of a warpgroup takes, within those of its block. */
template <int C> __device__ __forceinline__ int first_unit(int group, int warp)
{
  return (group * TILE_UNITS + warp) * C;
}

constexpr int STEPS = 2; /* of k16, whose products are one batch */

/* Sums of one run of K tiles: C times 64 columns a warpgroup. Fragments are double-buffered, so that one batch is expanded
 * while the tensor cores work on the other; a batch's words are read before the wait for them. */
template <yk_dtype DTYPE, int GROUPS, int C, int N, int CLUSTER>
__device__ __forceinline__ void multiply(tile_ring &x, tile_ring &weights, const work &w, int group, int warp, int lane,
                                         float (&sum)[C][N / 8][4])
{
  uint32_t a[2][C][STEPS][4];
  uint32_t weights_read = 0, x_read = 0; /* barriers of the K tile before */
  for (int k_tile = w.first; k_tile < w.last; k_tile++) {
    mbarrier_wait_asm(weights.full(), weights.at.phase);
    mbarrier_wait_asm(x.full(), x.at.phase);
    uint32_t units = weights.data() + first_unit<C>(group, warp) * unit_bytes_of(GROUPS);
    uint64_t b = tile_descriptor(x.data(), 1024, 16);
    uint4 words[C];
    dequant<DTYPE> scales[C];
#pragma unroll
    for (int step = 0; step < 8; step++) {
      const int batch = step / STEPS % 2;
#pragma unroll
      for (int c = 0; c < C; c++) {
        uint32_t unit = units + c * unit_bytes_of(GROUPS);
        if (step % 4 == 0) words[c] = load_shared16(words_at(unit, step, lane));
        if (step % (8 / GROUPS) == 0) scales[c].load(load_shared8(scales_at(unit, step * GROUPS / 8, lane)));
      }
      if (step % STEPS == 0) {
        /* All but the newest batch of wgmma are done: a[batch] and, past the first, the x before are free. */
        wgmma_wait<1>();
        if (step == 0 && weights_read) barrier_release<1>(weights_read, lane);
        if (step == STEPS && x_read) barrier_release<CLUSTER>(x_read, lane);
      }
#pragma unroll
      for (int c = 0; c < C; c++) scales[c].expand(word_at(words[c], step % 4), a[batch][c][step % STEPS]);
      if (step % STEPS < STEPS - 1) continue;
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < STEPS; i++) {
        const int at = step - STEPS + 1 + i;
#pragma unroll
        for (int c = 0; c < C; c++)
          wgmma<element<DTYPE>, N>::run_rs(sum[c], a[batch][c][i], b + x_step(N, at), at > 0 || k_tile > w.first);
      }
      wgmma_commit();
    }
    weights_read = weights.empty();
    x_read = x.empty();
    weights.advance();
    x.advance();
  }
  wgmma_wait<0>();
#pragma unroll
  for (int c = 0; c < C; c++) pin(sum[c]);
  barrier_release<1>(weights_read, lane);
  barrier_release<CLUSTER>(x_read, lane);
}

} // namespace w4a16

#endif
