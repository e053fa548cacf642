/* small_batch_kernel.cuh - WNA16 GEMM of up to 32 tokens on 9.0, bound by memory bandwidth.
 *
 *   grid       one cluster of one or two thread blocks for each range of panels (16 columns of W); the two blocks of a
 *              cluster split K, so that partial sums stay within the cluster
 *   block      output tiles of tile_panels panels by N tokens, one after the other (usually only one)
 *   producers  warp 0: weights of a K tile, one bulk copy per stage; warps 1 and 2: half of its x each, by tensor map
 *              with the 128-byte swizzle and zeros past the edges; warp 3 is idle. With fusion NORM all but warp 0 are
 *              idle: consumers write all of x, normalised, before the ring (small_batch_fusions.cuh)
 *   consumers  eight warps, in K slices of slice_warps warps: a slice takes every k_slices-th stage (sliced-K), each of
 *              its warps WARP_PANELS panels
 *
 * At the end of K the accumulators of the slices are added in shared memory, then those of the cluster's two blocks,
 * each of which finishes half of the tile, in an order that depends only on the shape. Accumulators overwrite the ring
 * of stages, so a second tile's producers wait until the ring is free again (ring_free).
 *
 * Programmatic dependent launch: weights do not depend on the preceding kernel, so copies of the first stages' weights
 * are issued before griddepcontrol.wait. The next GEMM may start at once; its ring fills while this GEMM computes
 * (occupancy.cuh). A next kernel that reads x early may start after the wait (yk_gemm_call.next_reads_x). */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_SMALL_BATCH_KERNEL_CUH
#define YK_KERNELS_CUDA_GEMM_DENSE_SMALL_BATCH_KERNEL_CUH

#include <cuda.h>

#include <utility>

#include "kernels/cuda/common/stage_ring.cuh"
#include "kernels/cuda/gemm/dense/small_batch_fusions.cuh"
#include "kernels/cuda/gemm/mma_epilogue.cuh"
#include "kernels/cuda/gemm/mma_k_tile.cuh"
#include "kernels/cuda/gemm/stage_producers.cuh"
#include "kernels/cuda/gemm/tiles.h"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/registers.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_gemm {

constexpr int SMALL_BATCH_STAGES = 16; /* maximum */
using small_batch_ring = yk_cuda::stage_ring<SMALL_BATCH_STAGES>;

/* Registers per thread with occupancy MOST, at the start and of consumers after setmaxnreg: two sets of accumulators
 * (of a group of scales, and of all K) for three panels need more than a half has. */
constexpr int MOST_REGISTERS = 112, MOST_CONSUMER_REGISTERS = 152;
static_assert(3 * MOST_REGISTERS >= HALF_PRODUCER_REGISTERS + 2 * MOST_CONSUMER_REGISTERS, "of three warpgroups");

struct small_batch_params {
  const uint8_t *packed;
  output out;
  int k_tiles, n_panels;
  panel_split split;
  int stages;                /* a multiple of k_slices */
  int slice_warps, k_slices; /* warps of a K slice: 1, 2, 4 or 8; K slices of a block */
  int tile_panels;           /* panels of the warps of a slice */
  bool next_reads_x;         /* yk_gemm_call */
  const float *row_scales;   /* NULL for an encoding without */
  row_norm norm;             /* for fusion NORM */
  int norm_bytes;            /* of the normalised rows and their weights */
  float alpha;               /* for fusion SUM: yk_gemm_call */
};

/* x in each stage, for fusions other than NORM. */
__host__ __device__ constexpr int small_batch_x_bytes(int tokens)
{
  return tokens * TILE_K * 2;
}

__host__ __device__ constexpr int stage_x_bytes(int tokens, fusion f)
{
  return f == fusion::NORM ? 0 : small_batch_x_bytes(tokens);
}

/* x of a K tile, and panels of panel_bytes each. */
__host__ __device__ constexpr int stage_bytes_of(int tokens, int panels, int panel_bytes, fusion f)
{
  return stage_x_bytes(tokens, f) + panels * panel_bytes;
}

/* Bytes of the float32 accumulators of `panels` panels by `tokens` tokens. */
__host__ __device__ constexpr int panel_acc_bytes(int tokens, int panels)
{
  return panels * PANEL_COLUMNS * tokens * 4;
}

/* Addresses in shared memory. acc: a tile's accumulators, which overwrite the empty ring. received: partial sums from
 * the other block of the cluster, after the ring; two buffers if a block has several tiles, used by alternate tiles, so
 * that a block may send without waiting for a "buffer is free" arrival: such an arrival, with `.release.cluster` at a
 * remote barrier, costs a fence of the whole GPU. */
struct small_batch_memory {
  uint32_t x, weights, acc, received;
  uint32_t normed_x;      /* with fusion NORM, before the ring: normalised rows of all K */
  uint32_t barriers;      /* mbarriers of the ring */
  uint32_t ring_free;     /* mbarrier: the accumulators of the previous tile have left the ring's memory */
  uint32_t received_full; /* two mbarriers, one for each buffer of received */
};

constexpr int SMALL_BATCH_BARRIERS = small_batch_ring::BARRIERS + 3;

template <typename PANEL, int N, fusion FUSION>
__device__ __forceinline__ small_batch_memory memory_of_block(const small_batch_params &p, uint32_t memory,
                                                              uint32_t barriers)
{
  constexpr int X_BYTES = stage_x_bytes(N, FUSION);
  small_batch_memory s;
  s.normed_x = memory;
  if constexpr (FUSION == fusion::NORM) memory += p.norm_bytes;
  s.x = memory;
  s.weights = memory + p.stages * X_BYTES;
  s.acc = memory;
  s.received = memory + p.stages * (X_BYTES + p.tile_panels * PANEL::BYTES);
  s.barriers = barriers;
  s.ring_free = barriers + small_batch_ring::BARRIERS * 8;
  s.received_full = s.ring_free + 8;
  return s;
}

__device__ __forceinline__ void init_barriers(const small_batch_params &p, const small_batch_memory &s)
{
  small_batch_ring(0, s.barriers, p.stages, 0).init(1, p.slice_warps);
  mbarrier_init(s.ring_free, 1);
  mbarrier_init(s.received_full, 1);
  mbarrier_init(s.received_full + 8, 1);
  fence_mbarrier_init();
}

/* ---- Producers --------------------------------------------------------------------------------------------------- */

/* Copies of weights, by one lane, which also sets the byte counts of weights and x at each full barrier. */
template <typename PANEL, int N, fusion FUSION>
__device__ __forceinline__ void produce_weights(const small_batch_params &p, const small_batch_memory &s,
                                                const block_work &w)
{
  small_batch_ring r(s.weights, s.barriers, p.stages, p.tile_panels * PANEL::BYTES);
  int tile = 0;
  int64_t k_tile_bytes = static_cast<int64_t>(p.n_panels) * PANEL::BYTES;
  r.start_producing();
#pragma unroll 1
  for (int panel = w.panel; panel < w.panel_end; panel += p.tile_panels, tile++) {
    weight_stream stream = {p.packed + w.first_k_tile * k_tile_bytes + static_cast<int64_t>(panel) * PANEL::BYTES,
                            k_tile_bytes, min(p.tile_panels, w.panel_end - panel) * PANEL::BYTES};
    if (tile > 0) mbarrier_wait_asm_loop(s.ring_free, (tile - 1) % 2);
    stream.copy<false>(r, w.k_tiles, stage_x_bytes(N, FUSION));
  }
}

/* Copies of a half of each stage's x: 64 inputs of all tokens. All blocks process K in the same order, although they
 * then request the same lines from the L2 cache at the same time: other orders are slower. */
template <int N>
__device__ __forceinline__ void produce_x(const CUtensorMap *map, const small_batch_params &p,
                                          const small_batch_memory &s, const block_work &w, int half)
{
  small_batch_ring r(s.x, s.barriers, p.stages, small_batch_x_bytes(N));
  int tile = 0;
  r.start_producing();
  wait_for_previous_kernel();
#pragma unroll 1
  for (int panel = w.panel; panel < w.panel_end; panel += p.tile_panels, tile++) {
    if (tile > 0) mbarrier_wait_asm_loop(s.ring_free, (tile - 1) % 2);
#pragma unroll 1
    for (int k_tile = 0; k_tile < w.k_tiles; k_tile++) {
      mbarrier_wait_asm_loop(r.empty(), r.at.phase);
      tensor_copy(r.data() + half * (N * 128), map, (w.first_k_tile + k_tile) * TILE_K + half * 64, 0, r.full());
      r.advance();
    }
  }
}

/* ---- Consumers: end of a tile ------------------------------------------------------------------------------------ */

/* For fusion SUM: the addends of the first item that this thread finishes in the block's first tile. Loaded before the
 * products, which hide the latency. */
template <int N> __device__ __forceinline__ uint2 first_addends(const small_batch_params &p, const block_work &w)
{
  constexpr int PANEL_ITEMS = N / 8 * 32;
  const int items = p.tile_panels * PANEL_ITEMS, own = w.own_part(items), thread = threadIdx.x;
  const int item = (w.n_ranks == 2 ? static_cast<int>(w.rank) * own : 0) + thread, panel = item / PANEL_ITEMS;
  if (thread >= own || panel >= w.panel_end - w.panel) return make_uint2(0, 0);
  return load_addends(p.out, w.panel + panel, item % 32 / 4, item / 32 % (N / 8) * 8 + item % 4 * 2);
}

/* Adds the partial sums of the tile that begins at panel0, and writes the results. An item is one lane's accumulator
 * fragment of one panel by 8 tokens: four float32. tile: the block's tiles counted from 0. first_addends: of the
 * thread's first item of tile 0. */
template <yk_dtype DTYPE, yk_dtype RESULT, fusion FUSION, int N, int WARP_PANELS>
__device__ __forceinline__ void finish_tile(const small_batch_params &p, const small_batch_memory &s,
                                            const block_work &w, int tile, int panel0,
                                            const float (&acc)[WARP_PANELS][N / 8][4], uint2 first_addends)
{
  constexpr int PANEL_ITEMS = N / 8 * 32;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int items = p.tile_panels * PANEL_ITEMS, own = w.own_part(items);
  int n_panels = min(p.tile_panels, w.panel_end - panel0);
  uint32_t received = s.received + tile % 2 * items * 16, received_full = s.received_full + tile % 2 * 8;
  auto finish = [&](int item, float4 v, bool is_first) {
    int panel = item / PANEL_ITEMS, token = item / 32 % (N / 8) * 8 + item % 4 * 2;
    if (panel >= n_panels) return;
    if constexpr (RESULT == YK_F32)
      store_floats(p.out, panel0 + panel, item % 32 / 4, token, v);
    else if constexpr (FUSION == fusion::SUM)
      store_sum<DTYPE>(p.out, p.alpha, panel0 + panel, item % 32 / 4, token, v,
                       tile == 0 && is_first ? first_addends
                                             : load_addends(p.out, panel0 + panel, item % 32 / 4, token));
    else
      store_output<DTYPE>(p.out, panel0 + panel, item % 32 / 4, token, v);
  };
  if (w.n_ranks > 1 && threadIdx.x == 0) mbarrier_arrive_expect(received_full, items * 16);
  sync_consumers(); /* all stages have been consumed: the ring's memory is free for accumulators */
#pragma unroll
  for (int c = 0; c < WARP_PANELS; c++) {
#pragma unroll
    for (int t = 0; t < N / 8; t++)
      store_acc(s.acc + (((warp * WARP_PANELS + c) * (N / 8) + t) * 32 + lane) * 16, acc[c][t]);
  }
  sync_consumers();
  /* One slice at a time: reading all slices ahead needs more registers than the larger tiles leave. */
  for (int item = threadIdx.x; item < items; item += CONSUMER_WARPS * 32) {
    float4 v = load_acc(s.acc + item * 16);
    for (int slice = 1; slice < p.k_slices; slice++) add_acc(v, load_acc(s.acc + (slice * items + item) * 16));
    if (w.n_ranks > 1) {
      int to = item >= own; /* the rank that finishes the item */
      store_async_remote16(received + (static_cast<int>(w.rank) * own + item - to * own) * 16, received_full,
                           static_cast<uint32_t>(to), v);
    } else {
      finish(item, v, item == static_cast<int>(threadIdx.x));
    }
  }
  if (w.n_ranks > 1) {
    mbarrier_wait_asm_loop(received_full, tile / 2 % 2);
    for (int i = threadIdx.x; i < own; i += CONSUMER_WARPS * 32) {
      float4 v = load_acc(received + i * 16);
      add_acc(v, load_acc(received + (own + i) * 16));
      finish(static_cast<int>(w.rank) * own + i, v, i == static_cast<int>(threadIdx.x));
    }
  }
  if (panel0 + p.tile_panels >= w.panel_end) return;
  fence_async_shared(); /* fences the reads of the accumulators before the next copies into the ring */
  sync_consumers();
  if (threadIdx.x == 0) mbarrier_arrive(s.ring_free);
}

/* A consumer warp: member number `member` of K slice `slice`, through all tiles of the block. */
template <yk_dtype DTYPE, yk_dtype RESULT, typename PANEL, fusion FUSION, int N, int WARP_PANELS>
__device__ __forceinline__ void consume(const small_batch_params &p, const small_batch_memory &s, const block_work &w,
                                        float *sums)
{
  constexpr bool NORMS = FUSION == fusion::NORM;
  constexpr bool KEEPS = N == 8; /* wider tiles leave no registers for values that are read once */
  int warp = threadIdx.x / 32, lane = KEEPS ? kept_lane() : static_cast<int>(threadIdx.x % 32);
  int slice = warp / p.slice_warps, member = warp % p.slice_warps;
  uint32_t x = NORMS ? s.normed_x + w.first_k_tile * (TILE_K * 2) +
                           lane_of_normed_x(lane, p.out.m, p.norm.vectors * NORM_VECTOR_BYTES)
                     : s.x + lane_of_x(lane);
  uint32_t panels = member * WARP_PANELS * PANEL::BYTES;
  small_batch_ring r(s.weights, KEEPS ? kept_in_warp(s.barriers) : s.barriers, p.stages, p.tile_panels * PANEL::BYTES);
  r.at.stage = slice;
  int ahead = slice; /* number of K tiles of the output tile before this slice's next one */
  float2 row_scales[WARP_PANELS];
  const auto load_scales_of_rows = [&](int panel) {
    if constexpr (has_row_scales(PANEL::ENCODING)) {
#pragma unroll
      for (int c = 0; c < WARP_PANELS; c++)
        row_scales[c] = load_row_scales(p.row_scales, min(panel + member * WARP_PANELS + c, p.n_panels - 1), lane);
    }
  };
  load_scales_of_rows(w.panel); /* weights: before the wait */
  if constexpr (NORMS)
    normalise_x<DTYPE>(p.norm, p.out.m, s.normed_x, sums);
  else
    wait_for_previous_kernel();
  if (p.next_reads_x && threadIdx.x == 0) let_next_kernel_start();
  uint2 addends = {};
  if constexpr (FUSION == fusion::SUM) addends = first_addends<N>(p, w);
  for (int panel = w.panel, tile = 0; panel < w.panel_end; panel += p.tile_panels, tile++) {
    float acc[WARP_PANELS][N / 8][4] = {};
#pragma unroll 1
    for (; ahead < w.k_tiles; ahead += p.k_slices) {
      mbarrier_wait_asm_loop(r.full(), r.at.phase);
      if (member * WARP_PANELS < w.panel_end - panel)
        multiply_k_tile<DTYPE, PANEL, N, WARP_PANELS, NORMS ? 1 : N>(
            r.data() + panels, x + (NORMS ? ahead * (TILE_K * 2) : r.at.stage * small_batch_x_bytes(N)), lane, acc);
      __syncwarp();
      if (lane == 0) mbarrier_arrive(r.empty());
      r.at.advance_by(p.k_slices, p.stages);
    }
    ahead -= w.k_tiles;
    if constexpr (takes_integers(PANEL::ENCODING, N, WARP_PANELS)) {
#pragma unroll
      for (int i = 0; i < WARP_PANELS * (N / 8); i++) integer_weights<DTYPE>::to_output(acc[i / (N / 8)][i % (N / 8)]);
    }
    if constexpr (has_row_scales(PANEL::ENCODING)) {
#pragma unroll
      for (int c = 0; c < WARP_PANELS; c++) scale_rows(row_scales[c], acc[c]);
    }
    load_scales_of_rows(panel + p.tile_panels); /* of the next tile; unused after the last */
    finish_tile<DTYPE, RESULT, FUSION, N, WARP_PANELS>(p, s, w, tile, panel, acc, addends);
  }
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

/* PANEL: a panel_layout; N and WARP_PANELS: n and panels of small_batch_shape; RESULT: type of y. */
template <yk_dtype DTYPE, yk_dtype RESULT, typename PANEL, fusion FUSION, int N, int WARP_PANELS, occupancy OCCUPANCY>
__global__ void __maxnreg__(OCCUPANCY == occupancy::MOST ? MOST_REGISTERS : HALF_REGISTERS)
    small_batch_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ small_batch_params p)
{
#ifdef YK_HAVE_SM90A
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barriers[SMALL_BATCH_BARRIERS];
  __shared__ float sums[2 * CONSUMER_WARPS];
  uint32_t memory = shared_address(shared), barrier = shared_address(barriers);
  begin_block(&map, p.next_reads_x, [&] { init_barriers(p, memory_of_block<PANEL, N, FUSION>(p, memory, barrier)); });
  constexpr int REGISTERS = OCCUPANCY == occupancy::MOST ? MOST_CONSUMER_REGISTERS : HALF_CONSUMER_REGISTERS;
  run_warps<REGISTERS>(
      [&](int producer) {
        small_batch_memory s = memory_of_block<PANEL, N, FUSION>(p, memory, barrier);
        block_work w = work_of_block(p.split, p.k_tiles);
        if (producer == 0)
          produce_weights<PANEL, N, FUSION>(p, s, w);
        else if (FUSION != fusion::NORM && producer <= 2)
          produce_x<N>(&map, p, s, w, producer - 1);
      },
      [&] {
        consume<DTYPE, RESULT, PANEL, FUSION, N, WARP_PANELS>(p, memory_of_block<PANEL, N, FUSION>(p, memory, barrier),
                                                              work_of_block(p.split, p.k_tiles), sums);
      });
#endif
}

} // namespace yk_gemm

#endif
