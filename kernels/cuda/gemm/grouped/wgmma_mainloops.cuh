/* wgmma_mainloops.cuh - main loops of the grouped wgmma kernel. With few rows, the expansion of weights costs consumers
 * time: wgmma with an A operand from registers does not overlap with it, and takes as long for 8 rows as for 32.
 *   tile N up to 48, up to 8 rows   mma.sync, weights as integers: a third of the instructions
 *   tile N up to 48, more rows      wgmma, unscaled weights: a group's accumulators are scaled instead
 *   larger tiles, or 4-bit floats   mainloop of wgmma_mainloop.cuh: larger tiles leave no registers for a group's sums,
 *                                   and 4-bit floats need none */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_WGMMA_MAINLOOPS_CUH
#define YK_KERNELS_CUDA_GEMM_GROUPED_WGMMA_MAINLOOPS_CUH

#include "kernels/cuda/gemm/mma_k_tile.cuh"
#include "kernels/cuda/gemm/wgmma_mainloop.cuh"

namespace yk_gemm {

/* Whether a tile N is one for few rows. */
__host__ __device__ constexpr bool has_few_rows(int tile_n)
{
  return tile_n <= 48;
}

/* The rows of the next narrower instruction than that of n rows, within a tile N; 0 after the narrowest. For large
 * tiles fewer widths suffice. */
__host__ __device__ constexpr int fewer_rows(int tile_n, int n)
{
  if (has_few_rows(tile_n)) return n - 8;
  return n > 48 ? n - 16 : 0;
}

/* Arguments as in mainloop, over all of K. */
template <yk_dtype DTYPE, typename PANEL, int WGMMA_M, int N, int CAPACITY8>
__device__ __forceinline__ void mainloop_of_mma(tile_ring &x, tile_ring &weights, int k_tiles, int warpgroup, int warp,
                                                int lane, float (&acc)[WGMMA_M][CAPACITY8][4])
{
  float own[WGMMA_M][N / 8][4] = {};
  const uint32_t panels = first_panel<WGMMA_M>(warpgroup, warp) * PANEL::BYTES;
#pragma unroll 1
  for (int k_tile = 0; k_tile < k_tiles; k_tile++) {
    mbarrier_wait_asm_loop(x.full(), x.at.phase);
    multiply_k_tile<DTYPE, PANEL, N, WGMMA_M, CAPACITY8 * 8>(weights.data() + panels, x.data() + lane_of_x(lane), lane,
                                                             own);
    __syncwarp();
    release_stage<1>(weights.empty(), lane);
    release_stage<1>(x.empty(), lane);
    weights.advance();
    x.advance();
  }
#pragma unroll
  for (int i = 0; i < WGMMA_M * (N / 8); i++) {
    float(&v)[4] = own[i / (N / 8)][i % (N / 8)];
    if constexpr (takes_integers(PANEL::ENCODING, N, WGMMA_M)) integer_weights<DTYPE>::to_output(v);
#pragma unroll
    for (int e = 0; e < 4; e++) acc[i / (N / 8)][i % (N / 8)][e] = v[e];
  }
}

/* The words of a lane's next k16 steps, and the scale words of their group. */
template <typename PANEL, int WGMMA_M> struct lane_words {
  uint4 words[WGMMA_M];
  uint2 scales[WGMMA_M];

  /* Called before k16 step `step`. panels: address of the warp's first panel. */
  __device__ __forceinline__ void load(uint32_t panels, int step, int lane)
  {
#pragma unroll
    for (int c = 0; c < WGMMA_M; c++) {
      const uint32_t panel = panels + c * PANEL::BYTES;
      if (step % PANEL::LOAD_STEPS == 0) words[c] = load_shared16(words_at<PANEL>(panel, step, lane));
      if (step % PANEL::GROUP_STEPS == 0) scales[c] = load_shared8(scales_at<PANEL>(panel, step, lane));
    }
  }
};

/* As mainloop, but a group's products go into separate accumulators, which are scaled and added to acc once the next
 * group's first batch has been expanded: until then the tensor cores may work on them. A warp's time is about the sum
 * of its instructions and its wgmma: wgmma of few rows take half of the capacity of registers and schedulers. So the
 * number of instructions counts, also outside the expansion of weights. The place where stages are released matters:
 * ptxas serialises wgmma if it is adjacent to reads of accumulators (its note C7514). */
template <yk_dtype DTYPE, typename PANEL, int WGMMA_M, int N, int CAPACITY8>
__device__ __forceinline__ void mainloop_by_group(tile_ring &x, tile_ring &weights, int k_tiles, int warpgroup,
                                                  int warp, int lane, float (&acc)[WGMMA_M][CAPACITY8][4])
{
  constexpr int GROUP_STEPS = PANEL::GROUP_STEPS, BATCH_STEPS = GROUP_STEPS == K_STEPS ? 4 : 2;
  uint32_t a[2][WGMMA_M][BATCH_STEPS][4];
  float part[WGMMA_M][N / 8][4], scale[WGMMA_M][2]; /* accumulators and scales of one group */
#pragma unroll
  for (int c = 0; c < WGMMA_M; c++) {
    scale[c][0] = scale[c][1] = 0.0f;
#pragma unroll
    for (int i = 0; i < N / 2; i++) acc[c][i / 4][i % 4] = part[c][i / 4][i % 4] = 0.0f;
  }
  const auto add_group = [&] {
    wgmma_wait<0>();
#pragma unroll
    for (int c = 0; c < WGMMA_M; c++) {
      pin(part[c]);
#pragma unroll
      for (int i = 0; i < N / 2; i++)
        acc[c][i / 4][i % 4] = fmaf(scale[c][i % 4 / 2], part[c][i / 4][i % 4], acc[c][i / 4][i % 4]);
    }
  };
  uint32_t x_read = 0; /* empty barrier of the previous K tile */
#pragma unroll 1
  for (int k_tile = 0; k_tile < k_tiles; k_tile++) {
    mbarrier_wait_asm_loop(x.full(), x.at.phase);
    const uint32_t panels = weights.data() + first_panel<WGMMA_M>(warpgroup, warp) * PANEL::BYTES;
    const uint64_t b = tile_descriptor(x.data(), 1024, 16); /* K-major: groups of 8 rows are 1024 bytes apart */
    lane_words<PANEL, WGMMA_M> next;
    unscaled_weights<PANEL::ENCODING, DTYPE> group[WGMMA_M];
    next.load(panels, 0, lane);
#pragma unroll
    for (int step = 0; step < K_STEPS; step++) {
      const int batch = step / BATCH_STEPS % 2;
      if (step % BATCH_STEPS == 0) {
        wgmma_wait<1>(); /* a[batch] is free and, past the first batch, the previous x */
        if (step == BATCH_STEPS && x_read) release_stage<1>(x_read, lane);
      }
#pragma unroll
      for (int c = 0; c < WGMMA_M; c++) {
        if (step % GROUP_STEPS == 0) group[c].load(next.scales[c]);
        group[c].expand(next.words[c], step % PANEL::LOAD_STEPS, a[batch][c][step % BATCH_STEPS]);
      }
      if (step + 1 < K_STEPS) next.load(panels, step + 1, lane);
      if (step % BATCH_STEPS < BATCH_STEPS - 1) continue;
      if (step % GROUP_STEPS == BATCH_STEPS - 1) {
        add_group();
#pragma unroll
        for (int c = 0; c < WGMMA_M; c++) {
          scale[c][0] = group[c].scale(0);
          scale[c][1] = group[c].scale(1);
        }
      }
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < BATCH_STEPS; i++) {
        const int at = step - BATCH_STEPS + 1 + i;
#pragma unroll
        for (int c = 0; c < WGMMA_M; c++)
          wgmma<element<DTYPE>, N>::run_rs(part[c], a[batch][c][i], b + x_step(CAPACITY8 * 8, at),
                                           at % GROUP_STEPS > 0);
      }
      wgmma_commit();
    }
    release_stage<1>(weights.empty(), lane);
    x_read = x.empty();
    weights.advance();
    x.advance();
  }
  add_group();
  release_stage<1>(x_read, lane);
}

/* The main loop for N rows. */
template <yk_dtype DTYPE, typename PANEL, int WGMMA_M, int N, int CAPACITY8>
__device__ __forceinline__ void multiply_rows(tile_ring &x, tile_ring &weights, int k_tiles, int warpgroup, int warp,
                                              int lane, float (&acc)[WGMMA_M][CAPACITY8][4])
{
  constexpr int BATCH_STEPS = has_few_rows(CAPACITY8 * 8) ? 4 : N <= 128 ? 2 : 1;
  if constexpr (N < 16)
    mainloop_of_mma<DTYPE, PANEL, WGMMA_M, N>(x, weights, k_tiles, warpgroup, warp, lane, acc);
  else if constexpr (has_few_rows(CAPACITY8 * 8) && !scales_exactly(PANEL::ENCODING))
    mainloop_by_group<DTYPE, PANEL, WGMMA_M, N>(x, weights, k_tiles, warpgroup, warp, lane, acc);
  else
    mainloop<DTYPE, PANEL, WGMMA_M, N, 1, BATCH_STEPS, true>(x, weights, work_tile{0, 0, k_tiles}, warpgroup, warp,
                                                             lane, acc);
}

} // namespace yk_gemm

#endif
