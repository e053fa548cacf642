/* wgmma_mainloop.cuh - main loop of the wgmma kernel: a block's shared memory, and the multiplication of stages by a
 * consumer warpgroup. */
#ifndef YK_KERNELS_CUDA_GEMM_WGMMA_MAINLOOP_CUH
#define YK_KERNELS_CUDA_GEMM_WGMMA_MAINLOOP_CUH

#include "kernels/cuda/common/stage_ring.cuh"
#include "kernels/cuda/gemm/common.cuh"
#include "kernels/cuda/gemm/schedule.cuh"
#include "kernels/cuda/ptx/registers.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace yk_gemm {

constexpr int MAX_STAGES = 12;      /* maximum stages of each ring */
constexpr int WARPGROUP_PANELS = 4; /* panels of the 64 columns of one wgmma, one per warp */
using tile_ring = yk_cuda::stage_ring<MAX_STAGES>;

/* Bytes of a stage of x: 128 inputs of `tokens` tokens. */
__host__ __device__ constexpr int x_stage_bytes(int tokens)
{
  return tokens * TILE_K * 2;
}

/* Shared memory of a block: x in atoms of 1024 bytes with the 128-byte swizzle, weights, staging buffer of results.
 * Weights have a separate ring with more stages: their latency is longer, and they may be loaded before the preceding
 * kernel has ended.
 *   M64   tile M / 64 */
template <typename PANEL, int M64, int N> struct block_shared_memory {
  static constexpr int X_BYTES = x_stage_bytes(N), WEIGHT_BYTES = M64 * WARPGROUP_PANELS * PANEL::BYTES;
  uint32_t memory, barriers;

  __device__ __forceinline__ tile_ring x(const wgmma_params &p) const
  {
    return tile_ring(memory, barriers, p.x_stages, X_BYTES);
  }
  __device__ __forceinline__ tile_ring weights(const wgmma_params &p) const
  {
    return tile_ring(memory + p.x_stages * X_BYTES, barriers + tile_ring::BARRIERS * 8, p.weight_stages, WEIGHT_BYTES);
  }
  /* The epilogue's staging buffer: after the rings; or, if peers are a cluster, in place of x, which has been
   * multiplied by then, since the peers' partial sums (received) are after the rings. */
  __device__ __forceinline__ uint32_t staging(const wgmma_params &p) const
  {
    return p.peer_groups > 0 ? memory : received(p);
  }
  __device__ __forceinline__ uint32_t received(const wgmma_params &p) const
  {
    return memory + p.x_stages * X_BYTES + p.weight_stages * WEIGHT_BYTES;
  }
  __device__ __forceinline__ uint32_t received_full() const
  {
    return barriers + 2 * tile_ring::BARRIERS * 8;
  }
};

/* Consumer release: one arrival of the warp at a stage's empty barrier, in its own block or in each block of the
 * cluster. */
template <int CLUSTER> __device__ __forceinline__ void release_stage(uint32_t empty, int lane)
{
  if constexpr (CLUSTER == 1) {
    if (lane == 0) mbarrier_arrive(empty);
  } else if (lane < CLUSTER) {
    mbarrier_arrive_remote(empty, lane);
  }
}

/* Offset of the B operand of a k16 step from the start of a stage's x, in units of a wgmma descriptor: 32 bytes per
 * step within the swizzled rows of 64 inputs, then the other half of the stage. tokens: capacity of the stage. */
__host__ __device__ constexpr uint64_t x_step(int tokens, int step)
{
  return descriptor_step(step / 4 * tokens * 128 + step % 4 * 32);
}

/* The first of the WGMMA_M panels that a warp of a warpgroup takes, within those of its block. */
template <int WGMMA_M> __device__ __forceinline__ int first_panel(int warpgroup, int warp)
{
  return (warpgroup * WARPGROUP_PANELS + warp) * WGMMA_M;
}

/* The accumulators of the first N tokens. */
template <int N, int CAPACITY8> __device__ __forceinline__ float (&first_tokens(float (&acc)[CAPACITY8][4]))[N / 8][4]
{
  static_assert(N / 8 <= CAPACITY8, "they are there");
  return reinterpret_cast<float(&)[N / 8][4]>(acc);
}

/* Accumulates one work tile: WGMMA_M times 64 columns by N tokens per warpgroup. Accumulators and a stage have a
 * capacity of CAPACITY8 times 8 tokens. The A operand has two sets of registers, so that one batch is dequantised while
 * the tensor cores work on the other; a batch's words are read from shared memory before the wait for the previous
 * batch. A batch is the wgmma of BATCH_STEPS k16 steps: one if accumulators leave no registers for two, four for few
 * tokens, since the warps of a warpgroup wait for each other in every batch. A stage is released once the wgmma that
 * read it are known to be complete, which is a batch into the next K tile.
 *   X_IS_LAST   a stage of x is full only once the weights of its K tile have arrived too
 *
 * The loop is close to the limit of the tensor cores. No branch may stand between two batches, else ptxas serialises
 * them (its note C7513): read its output after every change. Weights are scaled in the fragment: if the accumulators of
 * a group were scaled instead, every K tile would wait for its wgmma. A stage of x is released to a cluster without
 * `.release.cluster`, which is a fence of the whole GPU. */
template <yk_dtype DTYPE, typename PANEL, int WGMMA_M, int N, int CLUSTER, int BATCH_STEPS = 2, bool X_IS_LAST = false,
          int CAPACITY8>
__device__ __forceinline__ void mainloop(tile_ring &x, tile_ring &weights, const work_tile &w, int warpgroup, int warp,
                                         int lane, float (&acc)[WGMMA_M][CAPACITY8][4])
{
  uint32_t a[2][WGMMA_M][BATCH_STEPS][4];
  /* Kept in registers: the compiler would recompute them for each K tile from threadIdx, whose read is slow. */
  uint32_t own_panels = first_panel<WGMMA_M>(warpgroup, warp) * PANEL::BYTES;
  keep_in_registers(own_panels, lane);
  uint32_t weights_read = 0, x_read = 0; /* empty barriers of the stages of the previous K tile */
  for (int k_tile = w.first; k_tile < w.last; k_tile++) {
    if constexpr (!X_IS_LAST) mbarrier_wait_asm_loop(weights.full(), weights.at.phase);
    mbarrier_wait_asm_loop(x.full(), x.at.phase);
    uint32_t panels = weights.data() + own_panels;
    uint64_t b = tile_descriptor(x.data(), 1024, 16); /* K-major: groups of 8 tokens are 1024 bytes apart */
    uint4 words[WGMMA_M];
    uint2 scale_words[WGMMA_M];
    dequant<PANEL::ENCODING, DTYPE> scales[WGMMA_M];
#pragma unroll
    for (int step = 0; step < K_STEPS; step++) {
      const int batch = step / BATCH_STEPS % 2;
#pragma unroll
      for (int c = 0; c < WGMMA_M; c++) {
        uint32_t panel = panels + c * PANEL::BYTES;
        if (step % PANEL::LOAD_STEPS == 0) words[c] = load_shared16(words_at<PANEL>(panel, step, lane));
        if (step % PANEL::SCALE_STEPS == 0) scale_words[c] = load_shared8(scales_at<PANEL>(panel, step, lane));
        if (step % PANEL::GROUP_STEPS == 0) load_scales<PANEL>(scales[c], scale_words[c], step);
      }
      if (step % BATCH_STEPS == 0) {
        /* All but the newest batch are complete: a[batch] is free and, past a K tile's first batch, also the stage of x
         * of the previous K tile, whose weights have been read into registers earlier. */
        wgmma_wait<1>();
        if (step == 0 && weights_read) release_stage<1>(weights_read, lane);
        if (step == BATCH_STEPS && x_read) release_stage<CLUSTER>(x_read, lane);
      }
#pragma unroll
      for (int c = 0; c < WGMMA_M; c++)
        scales[c].expand(words[c], step % PANEL::LOAD_STEPS, a[batch][c][step % BATCH_STEPS]);
      if (step % BATCH_STEPS < BATCH_STEPS - 1) continue;
      wgmma_fence();
#pragma unroll
      for (int i = 0; i < BATCH_STEPS; i++) {
        const int at = step - BATCH_STEPS + 1 + i;
#pragma unroll
        for (int c = 0; c < WGMMA_M; c++)
          wgmma<element<DTYPE>, N>::run_rs(first_tokens<N>(acc[c]), a[batch][c][i], b + x_step(CAPACITY8 * 8, at),
                                           at > 0 || k_tile > w.first);
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
  for (int c = 0; c < WGMMA_M; c++) pin(first_tokens<N>(acc[c]));
  release_stage<1>(weights_read, lane);
  release_stage<CLUSTER>(x_read, lane);
}

} // namespace yk_gemm

#endif
