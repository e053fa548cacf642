/* sliced_mma_kernel.cuh - WNA16 GEMM of up to 8 tokens on 9.0 with a fixed division of K: the ring, the warps and the
 * epilogue of small_batch_kernel.cuh, with the bits of sliced_kernel.cuh. mma.sync and wgmma of 16 inputs give the same
 * bits, so a slice's sum is the same chain in both kernels, of the same rounded weights.
 *
 *   grid       as in small_batch_kernel.cuh: one cluster of one or two thread blocks for each range of panels
 *   consumers  eight warps; the slices of K of a block are those of its cluster's half of K, one for each slice_warps
 *              warps. Stages hold K tiles in the order in which the warps take them: the first of each slice, the
 *              second of each slice, and so on
 *
 * At the end of K the slices' sums are added in shared memory as the tree of sliced.cuh; its root is the sum of the
 * cluster's two blocks. Programmatic dependent launch: as in small_batch_kernel.cuh. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_SLICED_MMA_KERNEL_CUH
#define YK_KERNELS_CUDA_GEMM_DENSE_SLICED_MMA_KERNEL_CUH

#include "kernels/cuda/gemm/dense/small_batch_kernel.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_gemm {

constexpr int SLICED_MMA_TOKENS = 8;

/* k_slices divides the K tiles of a block; next_reads_x is false. */
struct sliced_mma_params : small_batch_params {
  bool f32_output;
};

/* ---- Producers --------------------------------------------------------------------------------------------------- */

/* Calls copy(K tile of the block) for each stage, in the order of stages. */
template <typename COPY>
__device__ __forceinline__ void for_each_sliced_stage(const sliced_mma_params &p, const block_work &w, COPY copy)
{
  const int of_slice = w.k_tiles / p.k_slices;
#pragma unroll 1
  for (int i = 0; i < of_slice; i++) {
#pragma unroll 1
    for (int k_tile = i; k_tile < w.k_tiles; k_tile += of_slice) copy(k_tile);
  }
}

template <typename PANEL>
__device__ __forceinline__ void produce_sliced_weights(const sliced_mma_params &p, const small_batch_memory &s,
                                                       const block_work &w)
{
  small_batch_ring r(s.weights, s.barriers, p.stages, p.tile_panels * PANEL::BYTES);
  const int64_t k_tile_bytes = static_cast<int64_t>(p.n_panels) * PANEL::BYTES;
  int tile = 0;
  r.start_producing();
#pragma unroll 1
  for (int panel = w.panel; panel < w.panel_end; panel += p.tile_panels, tile++) {
    const uint8_t *from = p.packed + w.first_k_tile * k_tile_bytes + static_cast<int64_t>(panel) * PANEL::BYTES;
    const int bytes = min(p.tile_panels, w.panel_end - panel) * PANEL::BYTES;
    if (tile > 0) mbarrier_wait_asm_loop(s.ring_free, (tile - 1) % 2);
    for_each_sliced_stage(p, w, [&](int k_tile) {
      mbarrier_wait_asm_loop(r.empty(), r.at.phase);
      mbarrier_arrive_expect(r.full(), bytes + small_batch_x_bytes(SLICED_MMA_TOKENS));
      bulk_copy(r.data(), from + k_tile * k_tile_bytes, bytes, r.full());
      r.advance();
    });
  }
}

/* Copies of a half of each stage's x: 64 inputs of all tokens. */
__device__ __forceinline__ void produce_sliced_x(const CUtensorMap *map, const sliced_mma_params &p,
                                                 const small_batch_memory &s, const block_work &w, int half)
{
  small_batch_ring r(s.x, s.barriers, p.stages, small_batch_x_bytes(SLICED_MMA_TOKENS));
  int tile = 0;
  r.start_producing();
  wait_for_previous_kernel();
#pragma unroll 1
  for (int panel = w.panel; panel < w.panel_end; panel += p.tile_panels, tile++) {
    if (tile > 0) mbarrier_wait_asm_loop(s.ring_free, (tile - 1) % 2);
    for_each_sliced_stage(p, w, [&](int k_tile) {
      mbarrier_wait_asm_loop(r.empty(), r.at.phase);
      tensor_copy(r.data() + half * (SLICED_MMA_TOKENS * 128), map, (w.first_k_tile + k_tile) * TILE_K + half * 64, 0,
                  r.full());
      r.advance();
    });
  }
}

/* ---- Consumers --------------------------------------------------------------------------------------------------- */

/* acc += 128 inputs of WARP_PANELS panels by 8 tokens, as one chain in the order of K, of weights that are scaled and
 * rounded. panels, x: as in multiply_k_tile. */
template <yk_dtype DTYPE, typename PANEL, int WARP_PANELS>
__device__ __forceinline__ void multiply_rounded_k_tile(uint32_t panels, uint32_t x, int lane,
                                                        float (&acc)[WARP_PANELS][1][4])
{
  constexpr int HALF_OF_X = SLICED_MMA_TOKENS * 128;
  uint4 words[WARP_PANELS];
  uint2 scale_words[WARP_PANELS];
  dequant<PANEL::ENCODING, DTYPE> scales[WARP_PANELS];
  uint32_t b[4];
#pragma unroll
  for (int step = 0; step < K_STEPS; step++) {
    if (step % 2 == 0) ldmatrix_x4(b, (step % 4 ? x ^ 64 : x) + step / 4 * HALF_OF_X);
#pragma unroll
    for (int c = 0; c < WARP_PANELS; c++) {
      const uint32_t panel = panels + c * PANEL::BYTES;
      if (step % PANEL::LOAD_STEPS == 0) words[c] = load_shared16(words_at<PANEL>(panel, step, lane));
      if (step % PANEL::SCALE_STEPS == 0) scale_words[c] = load_shared8(scales_at<PANEL>(panel, step, lane));
      if (step % PANEL::GROUP_STEPS == 0) load_scales<PANEL>(scales[c], scale_words[c], step);
      uint32_t a[4];
      scales[c].expand(words[c], step % PANEL::LOAD_STEPS, a);
      mma<DTYPE>(acc[c][0], a, b[step % 2 * 2], b[step % 2 * 2 + 1]);
    }
  }
}

/* An item's sum over `count` slices, a power of two, whose accumulators are slice_bytes apart. */
__device__ __forceinline__ float4 sum_of_tree(uint32_t acc, int count, uint32_t slice_bytes)
{
  const auto two = [&](int i) {
    float4 v = load_acc(acc + i * slice_bytes);
    add_acc(v, load_acc(acc + (i + 1) * slice_bytes));
    return v;
  };
  const auto four = [&](int i) {
    float4 v = two(i);
    add_acc(v, two(i + 2));
    return v;
  };
  if (count == 1) return load_acc(acc);
  if (count == 2) return two(0);
  float4 v = four(0);
  if (count == 8) add_acc(v, four(4));
  return v;
}

/* As finish_tile, with the tree over slices. */
template <yk_dtype DTYPE, int WARP_PANELS>
__device__ __forceinline__ void finish_tree(const sliced_mma_params &p, const small_batch_memory &s,
                                            const block_work &w, int tile, int panel0,
                                            const float (&acc)[WARP_PANELS][1][4])
{
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int items = p.tile_panels * 32, own = w.own_part(items), n_panels = min(p.tile_panels, w.panel_end - panel0);
  const uint32_t received = s.received + tile % 2 * items * 16, received_full = s.received_full + tile % 2 * 8;
  const auto finish = [&](int item, float4 v) {
    const int panel = item / 32, row = item % 32 / 4, token = item % 4 * 2;
    if (panel >= n_panels) return;
    if (p.f32_output)
      store_floats(p.out, panel0 + panel, row, token, v);
    else
      store_output<DTYPE>(p.out, panel0 + panel, row, token, v);
  };
  if (w.n_ranks > 1 && threadIdx.x == 0) mbarrier_arrive_expect(received_full, items * 16);
  sync_consumers(); /* all stages have been consumed: the ring's memory is free for accumulators */
#pragma unroll
  for (int c = 0; c < WARP_PANELS; c++) store_acc(s.acc + ((warp * WARP_PANELS + c) * 32 + lane) * 16, acc[c][0]);
  sync_consumers();
  for (int item = threadIdx.x; item < items; item += CONSUMER_WARPS * 32) {
    const float4 v = sum_of_tree(s.acc + item * 16, p.k_slices, items * 16);
    if (w.n_ranks > 1) {
      const int to = item >= own; /* the rank that finishes the item */
      store_async_remote16(received + (static_cast<int>(w.rank) * own + item - to * own) * 16, received_full,
                           static_cast<uint32_t>(to), v);
    } else {
      finish(item, v);
    }
  }
  if (w.n_ranks > 1) {
    mbarrier_wait_asm_loop(received_full, tile / 2 % 2);
    for (int i = threadIdx.x; i < own; i += CONSUMER_WARPS * 32) {
      float4 v = load_acc(received + i * 16);
      add_acc(v, load_acc(received + (own + i) * 16));
      finish(static_cast<int>(w.rank) * own + i, v);
    }
  }
  if (panel0 + p.tile_panels >= w.panel_end) return;
  fence_async_shared(); /* fences the reads of the accumulators before the next copies into the ring */
  sync_consumers();
  if (threadIdx.x == 0) mbarrier_arrive(s.ring_free);
}

/* A consumer warp, through all tiles of the block. */
template <yk_dtype DTYPE, typename PANEL, int WARP_PANELS>
__device__ __forceinline__ void consume_sliced(const sliced_mma_params &p, const small_batch_memory &s,
                                               const block_work &w)
{
  const int warp = threadIdx.x / 32, lane = kept_lane();
  const int slice = warp / p.slice_warps, member = warp % p.slice_warps, of_slice = w.k_tiles / p.k_slices;
  const uint32_t x = s.x + lane_of_x(lane), panels = member * WARP_PANELS * PANEL::BYTES;
  small_batch_ring r(s.weights, kept_in_warp(s.barriers), p.stages, p.tile_panels * PANEL::BYTES);
  r.at.stage = slice;
  wait_for_previous_kernel();
  for (int panel = w.panel, tile = 0; panel < w.panel_end; panel += p.tile_panels, tile++) {
    float acc[WARP_PANELS][1][4] = {};
#pragma unroll 1
    for (int i = 0; i < of_slice; i++) {
      mbarrier_wait_asm_loop(r.full(), r.at.phase);
      if (member * WARP_PANELS < w.panel_end - panel)
        multiply_rounded_k_tile<DTYPE, PANEL, WARP_PANELS>(
            r.data() + panels, x + r.at.stage * small_batch_x_bytes(SLICED_MMA_TOKENS), lane, acc);
      __syncwarp();
      if (lane == 0) mbarrier_arrive(r.empty());
      r.at.advance_by(p.k_slices, p.stages);
    }
    finish_tree<DTYPE, WARP_PANELS>(p, s, w, tile, panel, acc);
  }
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

/* PANEL: a panel_layout of 4-bit integers. */
template <yk_dtype DTYPE, typename PANEL, int WARP_PANELS>
__global__ void __maxnreg__(HALF_REGISTERS)
    sliced_mma_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ sliced_mma_params p)
{
#ifdef YK_HAVE_SM90A
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barriers[SMALL_BATCH_BARRIERS];
  const small_batch_memory s =
      memory_of_block<PANEL, SLICED_MMA_TOKENS, fusion::NONE>(p, shared_address(shared), shared_address(barriers));
  begin_block(&map, false, [&] { init_barriers(p, s); });
  run_warps<HALF_CONSUMER_REGISTERS>(
      [&](int producer) {
        const block_work w = work_of_block(p.split, p.k_tiles);
        if (producer == 0)
          produce_sliced_weights<PANEL>(p, s, w);
        else if (producer <= 2)
          produce_sliced_x(&map, p, s, w, producer - 1);
      },
      [&] { consume_sliced<DTYPE, PANEL, WARP_PANELS>(p, s, work_of_block(p.split, p.k_tiles)); });
#endif
}

} // namespace yk_gemm

#endif
