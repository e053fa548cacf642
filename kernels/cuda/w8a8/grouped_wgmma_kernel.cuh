/* grouped_wgmma_kernel.cuh - grouped W8A8 GEMM on 9.0: one persistent thread block per multiprocessor.
 *
 *   work       output tiles of 128 rows of W by up to N slots of one matrix, over all of K, assigned round-robin. Tiles
 *              of a matrix are neighbours, and among them those of the same rows of W, so that a wave of blocks finds
 *              weights and x in the L2 cache
 *   warps      producers and consumers as in wgmma_kernel.cuh, whose main loop and epilogue they run. Copies of weights
 *              are issued before griddepcontrol.wait if the starts allow it */
#ifndef YK_KERNELS_CUDA_W8A8_GROUPED_WGMMA_KERNEL_CUH
#define YK_KERNELS_CUDA_W8A8_GROUPED_WGMMA_KERNEL_CUH

#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/w8a8/grouped_params.cuh"
#include "kernels/cuda/w8a8/grouped_tiles.h"
#include "kernels/cuda/w8a8/wgmma_kernel.cuh"

namespace yk_w8a8 {

/* As registers_of, but producers keep more: their position in the table. */
__host__ __device__ constexpr thread_registers grouped_registers_of(int tokens)
{
  return tokens <= 64 ? thread_registers{80, 40, 96} : registers_of(tokens);
}

/* The table's entry of each row tile, in shared memory. */
__host__ __device__ inline int grouped_map_bytes(int max_tiles)
{
  return (max_tiles * 2 + 15) / 16 * 16;
}

struct grouped_tile {
  int matrix, slot, end; /* end: of the matrix's slots */
  int tile_m;
};

/* Output tiles of this block, in order. */
template <int N> struct grouped_tiles {
  const yk_gemm::grouped_table &table;
  const uint16_t *map;
  int at;

  __device__ __forceinline__ bool next(const grouped_params &p, grouped_tile &w)
  {
    const int row_tile = p.by_tiles_m.quotient(at);
    if (row_tile >= table.size->y) return false;
    const yk_gemm::grouped_entry &e = table.entries[map[row_tile]];
    const unsigned of_matrix = (&e)[1].first_tile - e.first_tile, in_matrix = at - e.first_tile * p.tiles_m;
    const unsigned m = in_matrix / of_matrix;
    w = {e.matrix, e.first_slot + static_cast<int>(in_matrix - m * of_matrix) * N, e.end_slot, static_cast<int>(m)};
    at += gridDim.x;
    return true;
  }
};

/* Called by one warp, once the table is built. */
__device__ __forceinline__ void map_row_tiles(const yk_gemm::grouped_table &table, uint16_t *map)
{
  for (int i = threadIdx.x % 32; i < table.size->x; i += 32)
    for (int tile = table.entries[i].first_tile; tile < table.entries[i + 1].first_tile; tile++)
      map[tile] = static_cast<uint16_t>(i);
}

template <int N>
__device__ __forceinline__ void produce_grouped_weights(const grouped_params &p, tile_ring r, grouped_tiles<N> tiles)
{
  constexpr int TILE_ROWS = GROUPED_WARPGROUPS * WARPGROUP_ROWS;
  const int64_t k_tile_bytes = static_cast<int64_t>(p.out.n_rows) * TILE_K;
  grouped_tile w;
  r.start_producing();
  while (tiles.next(p, w)) {
    const int row = w.tile_m * TILE_ROWS;
    yk_gemm::weight_stream stream = {p.weights_of(w.matrix) + row * TILE_K, k_tile_bytes,
                                     min(TILE_ROWS, p.out.n_rows - row) * TILE_K};
    stream.copy<false>(r, p.k_tiles);
  }
}

/* map: of boxes of STEP rows. */
template <int N, int STEP>
__device__ __forceinline__ void produce_grouped_x(const CUtensorMap *map, const grouped_params &p, tile_ring r,
                                                  grouped_tiles<N> tiles)
{
  grouped_tile w;
  r.start_producing();
  yk_ptx::wait_for_previous_kernel();
  while (tiles.next(p, w)) {
    const int rows = (min(N, w.end - w.slot) + STEP - 1) / STEP * STEP;
#pragma unroll 1
    for (int k_tile = 0; k_tile < p.k_tiles; k_tile++) {
      yk_ptx::mbarrier_wait_asm_loop(r.empty(), r.at.phase);
      yk_ptx::mbarrier_arrive_expect(r.full(), rows * TILE_K);
      const uint32_t to = r.data() + weight_bytes(GROUPED_WARPGROUPS);
      for (int row = 0; row < rows; row += STEP)
        yk_ptx::tensor_copy(to + row * TILE_K, map, k_tile * TILE_K, w.slot + row, r.full());
      r.advance();
    }
  }
}

/* Computes one output tile, by the narrowest instruction of N and fewer rows. The terms of a row of W have memory
 * latency, so they are loaded before the main loop.
 *   results   of the warpgroup
 *   MOST      rows of x of the widest tile */
template <int N, int STEP, int MOST = N>
__device__ __forceinline__ void multiply_grouped_tile(const grouped_params &p, tile_ring &r, uint32_t results,
                                                      const grouped_tile &w)
{
  if constexpr (N > STEP) {
    if (w.end - w.slot <= N - STEP) {
      multiply_grouped_tile<N - STEP, STEP, MOST>(p, r, results, w);
      return;
    }
  }
  const int lane = threadIdx.x % 32, warpgroup = threadIdx.x / 128;
  const result_memory<N> memory(results, MOST);
  const output_params out = p.out_of(w.matrix, w.end);
  const int64_t row = (static_cast<int64_t>(w.tile_m) * GROUPED_WARPGROUPS + warpgroup) * WARPGROUP_ROWS;
  const int64_t own_row = row + threadIdx.x / 32 % 4 * 16 + lane / 4;
  const row_terms rows[2] = {row_terms(out, own_row), row_terms(out, own_row + 8)};
  int acc[N / 8][4];
  memory.fetch_scales(p.call.x_scales, w.slot);
  yk_ptx::named_barrier_sync(1 + warpgroup, 128);
  mainloop<GROUPED_WARPGROUPS, N, 1>(r, work_tile{0, 0, p.k_tiles}, warpgroup, lane, acc);
  write_output<N>(out, memory, row, w.slot, {0, N / 8}, rows, acc);
}

template <int N, int STEP>
__device__ __forceinline__ void consume_grouped(const grouped_params &p, tile_ring r, uint32_t results,
                                                grouped_tiles<N> tiles)
{
  const uint32_t own_results = results + threadIdx.x / 128 * result_memory<N>::BYTES;
  grouped_tile w;
  yk_ptx::wait_for_previous_kernel();
  if (threadIdx.x == 0) yk_ptx::let_next_kernel_start();
  while (tiles.next(p, w)) multiply_grouped_tile<N, STEP>(p, r, own_results, w);
}

template <int N, int STEP>
__global__ void __maxnreg__(grouped_registers_of(N).start)
    grouped_wgmma_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ grouped_params p)
{
#ifdef YK_HAVE_SM90A
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barriers[tile_ring::BARRIERS];
  const tile_ring ring(yk_ptx::shared_address(shared), yk_ptx::shared_address(barriers), p.n_stages,
                       stage_bytes(GROUPED_WARPGROUPS, N));
  const int results = p.n_stages * stage_bytes(GROUPED_WARPGROUPS, N),
            behind = results + GROUPED_WARPGROUPS * result_bytes(N);
  uint16_t *row_tiles = reinterpret_cast<uint16_t *>(shared + behind);
  const yk_gemm::grouped_table table =
      yk_gemm::grouped_table_at(shared + behind + grouped_map_bytes(p.max_tiles), p.call.n_matrices);
  if (threadIdx.x == GROUPED_WARPGROUPS * 128) {
    yk_ptx::prefetch_tensor_map(&map);
    ring.init(2, GROUPED_WARPGROUPS * 4);
    yk_ptx::fence_mbarrier_init();
  }
  if (!p.call.starts_are_settled) yk_ptx::wait_for_previous_kernel();
  if (threadIdx.x < 32) {
    yk_gemm::build_grouped_table<N>(table, p.call.starts, p.call.n_matrices);
    __syncwarp();
    map_row_tiles(table, row_tiles);
  }
  __syncthreads();
  const grouped_tiles<N> tiles = {table, row_tiles, static_cast<int>(blockIdx.x)};
  if (threadIdx.x >= GROUPED_WARPGROUPS * 128) {
    yk_ptx::lower_registers<grouped_registers_of(N).producer>();
    const int warp = threadIdx.x / 32 - GROUPED_WARPGROUPS * 4;
    if (threadIdx.x % 32 == 0) {
      if (warp == 0)
        produce_grouped_weights(p, ring, tiles);
      else if (warp == 1)
        produce_grouped_x<N, STEP>(&map, p, ring, tiles);
    }
  } else {
    yk_ptx::raise_registers<grouped_registers_of(N).consumer>();
    consume_grouped<N, STEP>(p, ring, ring.memory + results, tiles);
  }
#endif
}

} // namespace yk_w8a8

#endif
