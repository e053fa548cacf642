/* row_tile_order.cuh - the order in which row tiles of a grouped GEMM are multiplied on 9.0. Whole tiles of N rows come
 * first, matrix by matrix; then the remaining rows of each matrix, those of the widest instruction first. Every thread
 * block computes the order, since only the device has the number of slots of each matrix. */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_ROW_TILE_ORDER_CUH
#define YK_KERNELS_CUDA_GEMM_GROUPED_ROW_TILE_ORDER_CUH

#include <cstdint>

#include "kernels/cuda/common/reduce.cuh"

namespace yk_gemm {

/* The slots of a matrix to be ordered. */
struct ordered_matrix {
  int first_slot, end_slot; /* end_slot < first_slot: no slots */
  int first_tile;           /* the number of whole tiles of the matrices before it */

  __device__ __forceinline__ int rows() const
  {
    return max(end_slot - first_slot, 0);
  }
};

/* In shared memory. */
struct row_tile_order {
  int2 *size;               /* whole tiles, all tiles */
  ordered_matrix *matrices; /* [n] */
  int32_t *counts;          /* [1 + widths][warpfuls of matrices]: number of preceding tiles */
  uint16_t *map;            /* the matrix of each tile */
};

__host__ __device__ constexpr int row_tile_order_bytes(int n_matrices, int widths, int64_t most_tiles)
{
  const int warpfuls = (n_matrices + yk_cuda::WARP - 1) / yk_cuda::WARP;
  const int64_t bytes = sizeof(int2) + n_matrices * static_cast<int64_t>(sizeof(ordered_matrix)) +
                        (1 + widths) * warpfuls * sizeof(int32_t) + most_tiles * sizeof(uint16_t);
  return static_cast<int>((bytes + 15) / 16 * 16);
}

/* memory: row_tile_order_bytes, 8-byte aligned. */
__device__ __forceinline__ row_tile_order row_tile_order_at(uint8_t *memory, int n_matrices, int widths)
{
  ordered_matrix *matrices = reinterpret_cast<ordered_matrix *>(memory + sizeof(int2));
  int32_t *counts = reinterpret_cast<int32_t *>(matrices + n_matrices);
  const int warpfuls = (n_matrices + yk_cuda::WARP - 1) / yk_cuda::WARP;
  return {reinterpret_cast<int2 *>(memory), matrices, counts,
          reinterpret_cast<uint16_t *>(counts + (1 + widths) * warpfuls)};
}

/* Called by all threads of the block, with barriers; a warp processes 32 matrices at a time, one per lane. Counts the
 * tiles, adds the counts, then writes the tiles to their positions.
 *   slots_of   (matrix) -> int2: first slot, end
 *   width_of   (rows, less than N) -> the number of the width that multiplies them, 0 for the widest; -1 for no rows */
template <int N, int WIDTHS, typename SLOTS, typename WIDTH>
__device__ __forceinline__ void order_row_tiles(const row_tile_order &order, int n_matrices, SLOTS slots_of,
                                                WIDTH width_of)
{
  using namespace yk_cuda;
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP, n_warps = blockDim.x / WARP;
  const int warpfuls = (n_matrices + WARP - 1) / WARP, n_counts = (1 + WIDTHS) * warpfuls;
#pragma unroll 1
  for (int i = warp; i < warpfuls; i += n_warps) {
    const int m = i * WARP + lane;
    const int2 slots = m < n_matrices ? slots_of(m) : int2{0, 0};
    const ordered_matrix of = {slots.x, slots.y, 0};
    if (m < n_matrices) order.matrices[m] = of;
    const int whole = __reduce_add_sync(ALL_LANES, of.rows() / N), width = width_of(of.rows() % N);
    if (lane == 0) order.counts[i] = whole;
#pragma unroll
    for (int w = 0; w < WIDTHS; w++) {
      const unsigned here = __ballot_sync(ALL_LANES, width == w);
      if (lane == 0) order.counts[(1 + w) * warpfuls + i] = __popc(here);
    }
  }
  __syncthreads();
  if (warp == 0) {
    int before = 0;
#pragma unroll 1
    for (int first = 0; first < n_counts; first += WARP) {
      const int i = first + lane, own = i < n_counts ? order.counts[i] : 0, up_to = warp_prefix_sum(own);
      if (i < n_counts) order.counts[i] = before + up_to - own;
      if (i == warpfuls) order.size->x = before + up_to - own;
      before += __shfl_sync(ALL_LANES, up_to, WARP - 1);
    }
    if (lane == 0) order.size->y = before;
  }
  __syncthreads();
#pragma unroll 1
  for (int i = warp; i < warpfuls; i += n_warps) {
    const int m = i * WARP + lane, rows = m < n_matrices ? order.matrices[m].rows() : 0;
    const int whole = rows / N, width = width_of(rows % N);
    int at = order.counts[i] + warp_prefix_sum(whole) - whole;
    if (m < n_matrices) order.matrices[m].first_tile = at;
#pragma unroll 1
    for (const int end = at + whole; at < end; at++) order.map[at] = static_cast<uint16_t>(m);
#pragma unroll
    for (int w = 0; w < WIDTHS; w++) {
      const unsigned here = __ballot_sync(ALL_LANES, width == w);
      if (width == w)
        order.map[order.counts[(1 + w) * warpfuls + i] + __popc(here & ((1u << lane) - 1))] = static_cast<uint16_t>(m);
    }
  }
  __syncthreads();
}

} // namespace yk_gemm

#endif
