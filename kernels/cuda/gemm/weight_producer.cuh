/* weight_producer.cuh - the producer warp of weights of the dense wgmma kernels, for every encoding and for W8A8. */
#ifndef YK_KERNELS_CUDA_GEMM_WEIGHT_PRODUCER_CUH
#define YK_KERNELS_CUDA_GEMM_WEIGHT_PRODUCER_CUH

#include "kernels/cuda/gemm/schedule.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/mbarrier.cuh"

namespace yk_gemm {

/* Copies a thread block's weights, one bulk copy per K tile, by one lane: each copy costs the issuing warp hundreds of
 * cycles. A unit is the element of the packed copy of a K tile: a panel, or a row. A block past the last unit copies
 * nothing, but its barriers complete.
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
    const int unit = tile_m * TILE_UNITS, bytes = max(0, min(TILE_UNITS, n_units - unit)) * UNIT_BYTES;
    const int64_t k_tile_bytes = static_cast<int64_t>(n_units) * UNIT_BYTES;
    const uint8_t *from = p.packed + w.first * k_tile_bytes + static_cast<int64_t>(unit) * UNIT_BYTES;
#pragma unroll 1
    for (int k_tile = w.first; k_tile < w.last; k_tile++, from += k_tile_bytes) {
      yk_ptx::mbarrier_wait_asm_loop(r.empty(), r.at.phase);
      yk_ptx::mbarrier_arrive_expect(r.full(), bytes);
      if (bytes > 0) yk_ptx::bulk_copy(r.data(), from, bytes, r.full());
      r.advance();
    }
  }
}

} // namespace yk_gemm

#endif
