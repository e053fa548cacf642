/* stage_producers.cuh - copies of weights and x into the stages of a ring, for every encoding and for W8A8. One lane of
 * a producer warp issues them, since each copy costs the issuing warp hundreds of cycles. */
#ifndef YK_KERNELS_CUDA_GEMM_STAGE_PRODUCERS_CUH
#define YK_KERNELS_CUDA_GEMM_STAGE_PRODUCERS_CUH

#include <cuda.h>

#include "kernels/cuda/gemm/common.cuh"
#include "kernels/cuda/gemm/schedule.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"

namespace yk_gemm {

/* The weights of a tile, one K tile after the other. */
struct weight_stream {
  const uint8_t *from; /* source of the next K tile */
  int64_t k_tile_bytes;
  int bytes; /* bytes per stage; 0: nothing is copied, but the stage's barrier completes */

  /* Copies one K tile into the stage, which is empty.
   *   ONCE         no other thread block reads these weights soon: evict-first in the L2 cache
   *   other_bytes  bytes of other copies into the stage that its full barrier counts */
  template <bool ONCE, typename RING> __device__ __forceinline__ void issue(RING &r, int other_bytes = 0)
  {
    yk_ptx::mbarrier_arrive_expect(r.full(), bytes + other_bytes);
    if (bytes > 0) {
      if constexpr (ONCE)
        yk_ptx::bulk_copy_once(r.data(), from, bytes, r.full());
      else
        yk_ptx::bulk_copy(r.data(), from, bytes, r.full());
    }
    from += k_tile_bytes;
    r.advance();
  }

  /* Copies the next k_tiles K tiles, each as soon as its stage is empty. */
  template <bool ONCE, typename RING> __device__ __forceinline__ void copy(RING &r, int k_tiles, int other_bytes = 0)
  {
#pragma unroll 1
    for (int k_tile = 0; k_tile < k_tiles; k_tile++) {
      yk_ptx::mbarrier_wait_asm_loop(r.empty(), r.at.phase);
      issue<ONCE>(r, other_bytes);
    }
  }
};

/* Prefetches the row scales of n_panels panels into the L2 cache, if the encoding has them. Called while the panels are
 * copied: consumers load row scales when they begin a tile of few rows, and a read of memory takes longer than the
 * products of that tile. */
template <typename PANEL>
__device__ __forceinline__ void prefetch_row_scales(const float *row_scales, int panel, int n_panels)
{
  constexpr int PANEL_BYTES = PANEL_COLUMNS * sizeof(float);
  if constexpr (has_row_scales(PANEL::ENCODING))
    if (n_panels > 0) yk_ptx::bulk_prefetch_l2(row_scales + panel * PANEL_COLUMNS, n_panels * PANEL_BYTES);
}

/* The weights of all work tiles of a thread block of the dense wgmma kernels. A unit is the element of the packed copy
 * of a K tile: a panel, or a row. A block past the last unit copies nothing.
 *   TILE_UNITS      of a thread block's tile M
 *   n_units         of a K tile
 *   cluster, rank   number of the block's cluster, and of the block in it */
template <int TILE_UNITS, int UNIT_BYTES, int CLUSTER, typename RING>
__device__ __forceinline__ void produce_weights(const wgmma_params &p, int n_units, RING r, int cluster, int rank)
{
  work_tile w;
  int tile_m, tile_n;
  r.start_producing();
  for (tile_scheduler scheduler(p, cluster); scheduler.next(p, w);) {
    tile_coordinates(p, w.tile, tile_m, tile_n);
    tile_m = tile_m * CLUSTER + rank;
    const int unit = tile_m * TILE_UNITS;
    const int64_t k_tile_bytes = static_cast<int64_t>(n_units) * UNIT_BYTES;
    weight_stream stream = {p.packed + w.first * k_tile_bytes + static_cast<int64_t>(unit) * UNIT_BYTES, k_tile_bytes,
                            max(0, min(TILE_UNITS, n_units - unit)) * UNIT_BYTES};
    stream.copy<false>(r, w.last - w.first);
  }
}

/* Bytes of a row of a box of x: the width of the swizzle. */
constexpr int X_BOX_BYTES = 128;

/* A box of x of each K tile, for all work tiles of a thread block of the dense wgmma kernels: N tokens, or this block's
 * half of them, by multicast to both blocks of a cluster.
 *   first_input   of the box within a K tile
 *   offset        of the box within a stage */
template <int N, int CLUSTER, typename RING>
__device__ __forceinline__ void produce_x(const CUtensorMap *map, const wgmma_params &p, RING r, int cluster, int rank,
                                          int first_input, int offset)
{
  constexpr int TOKENS = N / CLUSTER;
  work_tile w;
  int tile_m, tile_n;
  r.start_producing();
  for (tile_scheduler scheduler(p, cluster); scheduler.next(p, w);) {
    tile_coordinates(p, w.tile, tile_m, tile_n);
    int token = tile_n * N + rank * TOKENS, k = w.first * TILE_K + first_input;
    yk_ptx::wait_for_previous_kernel(); /* as late as possible; waits only for the first tile */
#pragma unroll 1
    for (int k_tile = w.first; k_tile < w.last; k_tile++, k += TILE_K) {
      yk_ptx::mbarrier_wait_asm_loop(r.empty(), r.at.phase);
      yk_ptx::mbarrier_arrive_expect(r.full(), N * X_BOX_BYTES);
      const uint32_t to = r.data() + offset + rank * TOKENS * X_BOX_BYTES;
      if constexpr (CLUSTER == 1)
        yk_ptx::tensor_copy(to, map, k, token, r.full());
      else
        yk_ptx::tensor_copy_to_both(to, map, k, token, r.full());
      r.advance();
    }
  }
}

} // namespace yk_gemm

#endif
