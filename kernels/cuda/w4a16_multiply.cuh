/* w4a16_multiply.cuh - the inner loops of the kernel of many tokens: wgmma, and mma.sync for up to 32. */
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

/* Sums of one run of K tiles: C times 64 columns a warpgroup. Fragments are double-buffered in batches of STEPS k16 steps, so
 * that one batch is expanded while the tensor cores work on the other. */
template <yk_dtype DTYPE, int GROUPS, int R, int C, int N, int STEPS, int CLUSTER>
__device__ __forceinline__ void multiply(const wgmma_params &p, ring<R, N> &r, const work &w, int group, int warp,
                                         int lane, float (&sum)[C][N / 2])
{
  uint32_t a[2][C][STEPS][4];
  uint32_t release = 0;
  for (int k_tile = w.first; k_tile < w.last; k_tile++, r.advance(p)) {
    barrier_wait(r.full(), r.phase);
    uint32_t units = r.weights(p) + first_unit<C>(group, warp) * p.unit_bytes;
    uint64_t b = b_descriptor(r.x());
    uint4 words[C];
    dequant<DTYPE> scales[C];
#pragma unroll
    for (int step = 0; step < 8; step++) {
      const int batch = step / STEPS % 2;
      if (step % STEPS == 0) {
        /* All but the newest batch of wgmma are done: a[batch] and, past the first, the stage before are free. */
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
        if (step == STEPS && release) barrier_release<CLUSTER>(release, lane);
      }
#pragma unroll
      for (int c = 0; c < C; c++) {
        uint32_t unit = units + c * p.unit_bytes;
        if (step % 4 == 0) words[c] = load_shared16(words_at(unit, step, lane));
        if (step % (8 / GROUPS) == 0) scales[c].load(load_shared8(scales_at(unit, step * GROUPS / 8, lane)));
        scales[c].expand(word_at(words[c], step % 4), a[batch][c][step % STEPS]);
      }
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
    release = r.empty();
  }
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  barrier_release<CLUSTER>(release, lane);
}

/* Words and x fragments of 64 inputs. words and x: where this lane's begin in the stage. */
template <int C, int N>
__device__ __forceinline__ void load_half(const wgmma_params &p, uint32_t words_address, const uint32_t (&x)[2],
                                          int half, uint4 (&words)[C], uint32_t (&b)[N / 8][2][4])
{
#pragma unroll
  for (int c = 0; c < C; c++) words[c] = load_shared16(words_address + c * p.unit_bytes + half * UNIT_HALF_BYTES);
#pragma unroll
  for (int t = 0; t < N / 8; t++) {
#pragma unroll
    for (int pair = 0; pair < 2; pair++) load_matrices(b[t][pair], x[pair] + half * N * 128 + t * 1024);
  }
}

/* The same for few tokens, where wgmma would leave most of its columns idle: mma.sync on unscaled weights. A group's sums
 * have registers of their own and are scaled in float32. */
template <yk_dtype DTYPE, int GROUPS, int R, int C, int N>
__device__ __forceinline__ void multiply_few(const wgmma_params &p, ring<R, N> &r, const work &w, int group, int warp,
                                             int lane, float (&sum)[C][N / 2])
{
  constexpr int GROUP_STEPS = 8 / GROUPS;
  /* Where registers allow, a stage is read at once and free before the products begin. */
  constexpr bool WHOLE = 8 * C + 2 * N + N * C <= 64;
  constexpr int CHAINS = N * C <= 16 ? 2 : 1; /* few products in a row: two sums in turn, for their latency */
  uint32_t units = first_unit<C>(group, warp) * p.unit_bytes;
  uint32_t words_offset = words_at(units, 0, lane), scales_offset = scales_at(units, 0, lane);
  /* Lane i gives ldmatrix the address of token i%8, inputs 8 (i/8).., pieces of 16 bytes swizzled. */
  uint32_t x_offset = lane % 8 * 128 + ((lane / 8) ^ (lane % 8)) * 16;
#pragma unroll
  for (int c = 0; c < C; c++) {
#pragma unroll
    for (int i = 0; i < N / 2; i++) sum[c][i] = 0.0f;
  }
  for (int k_tile = w.first; k_tile < w.last; k_tile++) {
    uint32_t stage = r.weights(p), empty = r.empty();
    const uint32_t x[2] = {r.x() + x_offset, r.x() + (x_offset ^ 64)};
    barrier_wait(r.full(), r.phase);
    r.advance(p);
    float part[CHAINS][C][N / 2];
    dequant<DTYPE> scales[C];
    uint4 words[2][C];
    uint32_t b[2][N / 8][2][4];
    uint2 scale_words[GROUPS][C];
#pragma unroll
    for (int i = 0; i < GROUPS; i++) {
#pragma unroll
      for (int c = 0; c < C; c++)
        scale_words[i][c] = load_shared8(stage + scales_offset + c * p.unit_bytes + i * UNIT_SCALE_BYTES);
    }
    load_half<C, N>(p, stage + words_offset, x, 0, words[0], b[0]);
    if constexpr (WHOLE) {
      load_half<C, N>(p, stage + words_offset, x, 1, words[1], b[1]);
      __syncwarp();
      if (lane == 0) barrier_arrive(empty);
    }
#pragma unroll
    for (int step = 0; step < 8; step++) {
      const int half = step / 4, i = step % 4;
      if (!WHOLE && step == 4) load_half<C, N>(p, stage + words_offset, x, 1, words[1], b[1]);
#pragma unroll
      for (int c = 0; c < C; c++) {
        if (step % GROUP_STEPS == 0) {
          scales[c].load(scale_words[step / GROUP_STEPS][c]);
#pragma unroll
          for (int j = 0; j < CHAINS * N / 2; j++) part[j / (N / 2)][c][j % (N / 2)] = 0.0f;
        }
        uint32_t a[4];
        scales[c].expand_unscaled(word_at(words[half][c], i), a);
#pragma unroll
        for (int t = 0; t < N / 8; t++)
          mma_step<DTYPE>(&part[step % CHAINS][c][t * 4], a, b[half][t][i / 2][i % 2 * 2],
                          b[half][t][i / 2][i % 2 * 2 + 1]);
        if ((step + 1) % GROUP_STEPS) continue;
#pragma unroll
        for (int j = 0; j < N / 2; j++) {
          float total = CHAINS == 1 ? part[0][c][j] : part[0][c][j] + part[CHAINS - 1][c][j];
          sum[c][j] = fmaf(scales[c].scale_of(j % 4 / 2), total, sum[c][j]);
        }
      }
    }
    if constexpr (!WHOLE) {
      __syncwarp();
      if (lane == 0) barrier_arrive(empty);
    }
  }
}

} // namespace w4a16

#endif
