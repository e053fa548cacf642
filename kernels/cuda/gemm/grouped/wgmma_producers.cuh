/* wgmma_producers.cuh - producer warps of the grouped wgmma kernel: weights, rows of x, and the warp that passes x to
 * the consumers. */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_WGMMA_PRODUCERS_CUH
#define YK_KERNELS_CUDA_GEMM_GROUPED_WGMMA_PRODUCERS_CUH

#include "kernels/cuda/gemm/grouped/wgmma_tiles.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_gemm {

/* Two warpgroups of producers: two warps cannot issue the copies of x of 96 rows as fast as two warpgroups multiply. */
constexpr int GROUPED_PRODUCERS = 2, GATHER_WARPS = 4; /* warpgroups; number of their warps that copy x */

/* Rows of a tile that a producer warp of x copies, a multiple of 8. */
__host__ __device__ constexpr int gathered_rows(int n)
{
  return (n / 8 + GATHER_WARPS - 1) / GATHER_WARPS * 8;
}

/* Shared memory for the offsets of the rows of x, for all warps that copy x. */
__host__ __device__ constexpr int grouped_gather_bytes(int n)
{
  return gathered_rows(n) * GATHER_WARPS * 4;
}

/* Maximum stages of weights in flight: requests of a multiprocessor beyond some 70 KB only wait, and make the shares of
 * the memory bandwidth unequal. More stages are kept full, for the time of the consumers' end of a tile. */
constexpr int MOST_UNDER_WAY = 4;

/* State of the one thread of a block that copies weights and chooses the block's tiles. */
template <typename PANEL, int N> struct weight_producer {
  const grouped_params &p;
  tile_ring issued, landed;         /* position of the next K tile to copy, and of the oldest in flight */
  int n_under_way = 0, n_ahead = 0; /* n_ahead: K tiles of the statically assigned tile */

  __device__ __forceinline__ weight_producer(const grouped_params &p, const tile_ring &r) : p(p), issued(r), landed(r)
  {
    issued.start_producing();
  }

  /* The weights of a tile, whose row scales are prefetched. */
  __device__ __forceinline__ weight_stream start_tile(const grouped_operands &of, int panel) const
  {
    const int n_panels = max(0, min(GROUPED_TILE_PANELS, of.n_panels - panel));
    prefetch_row_scales<PANEL>(of.row_scales, panel, n_panels);
    return stream_of_panels<PANEL>(of, panel, n_panels);
  }

  /* Called before starts may be read: copies the first K tiles of the tile assigned statically to this block. */
  __device__ __forceinline__ void issue_ahead()
  {
    const int number = blockIdx.x;
    if (number >= p.n_dealt * p.tiles_m) return;
    const int matrix = p.by_tiles_m.quotient(number);
    const grouped_operands of = p.operands_of(matrix);
    weight_stream stream = start_tile(of, (number - matrix * p.tiles_m) * GROUPED_TILE_PANELS);
    n_ahead = n_under_way = min(p.weight_stages, of.k_tiles);
#pragma unroll 1
    for (int k_tile = 0; k_tile < n_ahead; k_tile++) stream.issue<true>(issued);
  }

  /* Processes all of the block's tiles. A tile is taken while the previous tile is streamed. */
  __device__ __forceinline__ void run(const grouped_tiles<N> &tiles, tile_writer queue)
  {
    const int first = -tiles.n_dealt(p), n_tiles = tiles.n_tiles(p);
    unsigned answer = 0;
    for (int at = first + static_cast<int>(blockIdx.x);; at = next_of(p, answer, at, first)) {
      grouped_tile w = tiles.tile(p, at);
      const bool is_passed_over = at < 0 && w.rows <= 0;
      if (is_passed_over) w.rows = -n_ahead;
      queue.put(w);
      if (w.rows == 0) return;
      answer = fetch_next(p, n_tiles);
      if (is_passed_over) continue;
      const grouped_operands of = p.operands_of(w.matrix);
      weight_stream stream = start_tile(of, w.panel);
      const int ahead = at < 0 ? n_ahead : 0;
      stream.from += ahead * stream.k_tile_bytes;
#pragma unroll 1
      for (int k_tile = ahead; k_tile < of.k_tiles; k_tile++) {
        mbarrier_wait_asm_loop(issued.empty(), issued.at.phase);
#pragma unroll 1
        for (; n_under_way >= MOST_UNDER_WAY; n_under_way--) {
          mbarrier_wait_asm_loop(landed.full(), landed.at.phase);
          landed.advance();
        }
        n_under_way++;
        stream.issue<true>(issued);
      }
    }
  }
};

/* Called by one of the warps that copy x: copies its rows of all of the block's tiles, eight rows at a time. Half a
 * warp copies the 16 pieces of a row's K tile, so that a lane has four of the eight rows. Groups of eight rows are
 * distributed over the warps round-robin, so that all of them have work if a tile has few rows.
 *   landed   barriers of the stages
 *   rows     in shared memory, this warp's part: offsets of the rows in x, in pieces; -1 for a missing row, whose
 *            accumulators are not used. The rows that a lane copies are adjacent: [half of the warp][4 of each
 *            eight] */
template <int N>
__device__ __forceinline__ void gather_x(const grouped_params &p, tile_ring r, uint32_t landed, tile_reader tiles,
                                         int *rows, int warp)
{
  constexpr int WARP_ROWS = gathered_rows(N);
  const int lane = kept_lane(), piece = lane % 16, half = lane / 16;
  const uint32_t own_rows = shared_address(rows + half * (WARP_ROWS / 2));
  uint32_t at[4]; /* addresses of the lane's rows of eight, in a stage */
#pragma unroll
  for (int i = 0; i < 4; i++)
    at[i] = piece / 8 * (N * 128) + (warp * 8 + 2 * i + half) * 128 + ((piece ^ (2 * i + half)) & 7) * 16;
  grouped_tile w;
  r.start_producing();
  wait_for_previous_kernel();
  while (tiles.next(w)) {
    if (w.rows < 0) continue;
    const grouped_operands of = p.operands_of(w.matrix);
    const uint8_t *x = static_cast<const uint8_t *>(of.x) + piece * 16, *from = x;
    const int whole_k_tiles = (of.k - piece * 8 + TILE_K - 1) / TILE_K; /* those that have this piece */
    for (int i = lane; i < WARP_ROWS; i += 32) {
      const int row = (i / 8 * GATHER_WARPS + warp) * 8 + i % 8;
      rows[i % 2 * (WARP_ROWS / 2) + i / 2] = row < w.rows ? p.row_of(w.matrix, w.first_slot + row) * (of.k / 8) : -1;
    }
    __syncwarp();
    const int eights = ((w.rows + 7) / 8 - warp + GATHER_WARPS - 1) / GATHER_WARPS;
#pragma unroll 1
    for (int k_tile = 0; k_tile < of.k_tiles; k_tile++) {
      const bool valid = k_tile < whole_k_tiles;
      if (!valid) from = x;
      mbarrier_wait_asm_loop(r.empty(), r.at.phase);
#pragma unroll 2
      for (int e = 0; e < eights; e++) {
        const uint4 of_lane = load_shared16(own_rows + e * 16);
        const uint32_t to = r.data() + e * GATHER_WARPS * 1024;
        if (static_cast<int>(of_lane.x) >= 0) cp_async_16(to + at[0], from + of_lane.x * uint64_t{16}, valid);
        if (static_cast<int>(of_lane.y) >= 0) cp_async_16(to + at[1], from + of_lane.y * uint64_t{16}, valid);
        if (static_cast<int>(of_lane.z) >= 0) cp_async_16(to + at[2], from + of_lane.z * uint64_t{16}, valid);
        if (static_cast<int>(of_lane.w) >= 0) cp_async_16(to + at[3], from + of_lane.w * uint64_t{16}, valid);
      }
      cp_async_arrive(landed + r.at.stage * 8);
      from += TILE_K * 2;
      r.advance();
    }
  }
}

/* Called by one warp, once x may be read: signals that x and the weights of the same K tile have arrived. */
__device__ __forceinline__ void pass_on_x(const grouped_params &p, tile_ring r, tile_ring weights, uint32_t landed,
                                          tile_reader tiles)
{
  grouped_tile w;
  while (tiles.next(w)) {
    if (w.rows < 0) {
      weights.at.advance_by(-w.rows, p.weight_stages);
      continue;
    }
    const int k_tiles = p.operands_of(w.matrix).k_tiles;
#pragma unroll 1
    for (int k_tile = 0; k_tile < k_tiles; k_tile++) {
      mbarrier_wait_asm_loop(landed + r.at.stage * 8, r.at.phase);
      fence_async_shared();
      mbarrier_wait_asm_loop(weights.full(), weights.at.phase);
      if (threadIdx.x % 32 == 0) mbarrier_arrive(r.full());
      r.advance();
      weights.advance();
    }
  }
}

} // namespace yk_gemm

#endif
