/* w4a16_multiply.cuh - the inner loop of the kernel of many tokens. */
#ifndef YK_KERNELS_CUDA_W4A16_MULTIPLY_CUH
#define YK_KERNELS_CUDA_W4A16_MULTIPLY_CUH

#include "kernels/cuda/w4a16_async.cuh"
#include "kernels/cuda/w4a16_mma.cuh"
#include "kernels/cuda/w4a16_wgmma_ops.cuh"
#include "kernels/cuda/w4a16_work.cuh"

namespace w4a16 {

/* B operand: K-major, 128-byte swizzle, 8 tokens 1024 bytes apart. */
__device__ __forceinline__ uint64_t b_descriptor(uint32_t address)
{
  return (static_cast<uint64_t>(1) << 62) | (static_cast<uint64_t>(1024 >> 4) << 32) |
         (static_cast<uint64_t>(1) << 16) | ((address & 0x3FFFFu) >> 4);
}

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
__device__ __forceinline__ void multiply(ring &x, ring &weights, const work &w, int group, int warp, int lane,
                                         float (&sum)[C][N / 2])
{
  uint32_t a[2][C][STEPS][4];
  uint32_t weights_read = 0, x_read = 0; /* barriers of the K tile before */
  for (int k_tile = w.first; k_tile < w.last; k_tile++) {
    barrier_wait(weights.full(), weights.phase);
    barrier_wait(x.full(), x.phase);
    uint32_t units = weights.data() + first_unit<C>(group, warp) * unit_bytes_of(GROUPS);
    uint64_t b = b_descriptor(x.data());
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
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (step == 0 && weights_read) barrier_release<1>(weights_read, lane);
        if (step == STEPS && x_read) barrier_release<CLUSTER>(x_read, lane);
      }
#pragma unroll
      for (int c = 0; c < C; c++) scales[c].expand(word_at(words[c], step % 4), a[batch][c][step % STEPS]);
      if (step % STEPS < STEPS - 1) continue;
      asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
      for (int i = 0; i < STEPS; i++) {
        const int at = step - STEPS + 1 + i;
#pragma unroll
        for (int c = 0; c < C; c++)
          wgmma<DTYPE, N>::run(sum[c], a[batch][c][i], b + x_step(N, at), at > 0 || k_tile > w.first);
      }
      asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    }
    weights_read = weights.empty();
    x_read = x.empty();
    weights.advance();
    x.advance();
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
  for (int i = 0; i < C * N / 2; i++) /* nothing that reads them may move up past the wait */
    asm volatile("" : "+f"(sum[i / (N / 2)][i % (N / 2)])::"memory");
  barrier_release<1>(weights_read, lane);
  barrier_release<CLUSTER>(x_read, lane);
}

} // namespace w4a16

#endif
