/* mma_k_tile.cuh - a warp multiplies one K tile of a few panels by mma.sync, for up to 32 tokens. */
#ifndef YK_KERNELS_CUDA_GEMM_MMA_K_TILE_CUH
#define YK_KERNELS_CUDA_GEMM_MMA_K_TILE_CUH

#include "kernels/cuda/gemm/common.cuh"
#include "kernels/cuda/gemm/encoding_int4_integers.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/shared_memory.cuh"

namespace yk_gemm {

/* Whether weights enter mma.sync as integers (encoding_int4_integers.cuh): that saves instructions for each panel, but
 * takes one more mma.sync for each k16 step and 8 tokens, for the sums of x. */
__host__ __device__ constexpr bool takes_integers(yk_gemm_encoding encoding, int tokens, int warp_panels)
{
  return encoding == YK_GEMM_INT4 && tokens == 8 && warp_panels > 1;
}

/* Offset in a stage's x of the row that a lane addresses for ldmatrix: see x of multiply_k_tile. */
__device__ __forceinline__ uint32_t lane_of_x(int lane)
{
  return lane % 8 * 128 + ((lane / 8) ^ (lane % 8)) * 16;
}

/* acc += 128 inputs of WARP_PANELS panels by N tokens. A group of scales has separate accumulators, which are scaled in
 * float32: fewer instructions than scaling the weights, and no rounding. Encodings whose scaled fragments are exact
 * need neither.
 *   panels   address of the warp's first panel in shared memory
 *   x        address of the row that this lane gives ldmatrix, in the first half of the stage's x. x is stored as two
 *            halves of 64 inputs, each [ROWS tokens][128 bytes] with the 128-byte swizzle: the 16-byte pieces of a row
 *            are permuted, so that the eight rows of an 8 x 8 matrix are in different banks.
 *   N        tokens, a multiple of 8; ROWS: capacity of a half of x in tokens */
template <yk_dtype DTYPE, typename PANEL, int N, int WARP_PANELS, int ROWS = N>
__device__ __forceinline__ void multiply_k_tile(uint32_t panels, uint32_t x, int lane,
                                                float (&acc)[WARP_PANELS][N / 8][4])
{
  constexpr int GROUP_STEPS = PANEL::GROUP_STEPS, LOAD_STEPS = PANEL::LOAD_STEPS, N8 = N / 8;
  constexpr bool INTEGERS = takes_integers(PANEL::ENCODING, N, WARP_PANELS), SCALED = scales_exactly(PANEL::ENCODING);
  using integers = integer_weights<DTYPE>;
  const uint32_t ones[4] = {integers::ONE, integers::UPPER_ONE, integers::ONE, integers::UPPER_ONE};
  uint4 words[WARP_PANELS];
  uint2 scale_words[WARP_PANELS];
  dequant<PANEL::ENCODING, DTYPE> scales[WARP_PANELS];
  uint32_t b[N8][4];
  float part[WARP_PANELS][N8][4], x_sum[N8][4]; /* accumulators of one group of scales, and the sums of its x */
#pragma unroll
  for (int step = 0; step < K_STEPS; step++) {
#pragma unroll
    for (int c = 0; c < WARP_PANELS; c++) {
      uint32_t panel = panels + c * PANEL::BYTES;
      if (step % LOAD_STEPS == 0) words[c] = load_shared16(words_at<PANEL>(panel, step, lane));
      if (step % PANEL::SCALE_STEPS == 0) scale_words[c] = load_shared8(scales_at<PANEL>(panel, step, lane));
      if constexpr (!INTEGERS)
        if (step % GROUP_STEPS == 0) load_scales<PANEL>(scales[c], scale_words[c], step);
    }
    if (step % GROUP_STEPS == 0) {
#pragma unroll
      for (int i = 0; i < N8 * 4; i++) {
        x_sum[i / 4][i % 4] = 0.0f;
#pragma unroll
        for (int c = 0; c < WARP_PANELS; c++) part[c][i / 4][i % 4] = 0.0f;
      }
    }
    if (step % 2 == 0) {
#pragma unroll
      for (int t = 0; t < N8; t++) ldmatrix_x4(b[t], (step % 4 ? x ^ 64 : x) + step / 4 * (ROWS * 128) + t * 1024);
    }
    if constexpr (INTEGERS) {
#pragma unroll
      for (int t = 0; t < N8; t++) mma<DTYPE>(x_sum[t], ones, b[t][step % 2 * 2], b[t][step % 2 * 2 + 1]);
    }
#pragma unroll
    for (int c = 0; c < WARP_PANELS; c++) {
      uint32_t a[4];
      if constexpr (SCALED)
        scales[c].expand(words[c], step % LOAD_STEPS, a);
      else if constexpr (INTEGERS)
        integers::expand(word_at(words[c], step % 4), a);
      else
        scales[c].expand_unscaled(words[c], step % LOAD_STEPS, a);
#pragma unroll
      for (int t = 0; t < N8; t++)
        mma<DTYPE>(SCALED ? acc[c][t] : part[c][t], a, b[t][step % 2 * 2], b[t][step % 2 * 2 + 1]);
      if (SCALED || (step + 1) % GROUP_STEPS) continue;
      if constexpr (INTEGERS) {
        integers w;
        w.load(scale_words[c]);
#pragma unroll
        for (int i = 0; i < N8 * 4; i++)
          acc[c][i / 4][i % 4] =
              fmaf(w.scale[i % 4 / 2], fmaf(w.offset[i % 4 / 2], x_sum[i / 4][i % 4], part[c][i / 4][i % 4]),
                   acc[c][i / 4][i % 4]);
      } else if constexpr (!SCALED) {
#pragma unroll
        for (int i = 0; i < N8 * 4; i++)
          acc[c][i / 4][i % 4] = fmaf(scales[c].scale_of(i % 4 / 2), part[c][i / 4][i % 4], acc[c][i / 4][i % 4]);
      }
    }
  }
}

} // namespace yk_gemm

#endif
