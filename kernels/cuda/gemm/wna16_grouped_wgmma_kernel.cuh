/* wna16_grouped_wgmma_kernel.cuh - grouped WNA16 GEMM on 9.0 for matrices of more than a few rows: one persistent
 * thread block a multiprocessor.
 *
 *   work      output tiles of 256 columns by up to N rows of one matrix, over all of K, dealt out in turn. Whole tiles
 *             come first: those of a matrix are neighbours, and among them those of the same columns, so that a wave of
 *             blocks finds weights and x in the L2 cache. Then come the rows that matrices have beyond whole tiles,
 *             most rows first: a narrower instruction multiplies them in less time, and the last wave is short
 *   producer  the last warpgroup or two. Warp 0: weights, one bulk copy a K tile; warps 2 and up: a part of the rows of
 *   warps     x each, by cp.async in the order that the 128-byte swizzle gives. wgmma reads shared memory past the path
 *             of ordinary accesses, so that a fence must stand between; one that waited for the copies that are still
 *             under way would stop the pipeline. So copies land at a barrier of their own, where warp 1 waits, fences
 *             and tells the consumers
 *   consumer  as in wna16_wgmma_kernel.cuh, whose main loop and epilogue they run
 *   warps */
#ifndef YK_KERNELS_CUDA_GEMM_WNA16_GROUPED_WGMMA_KERNEL_CUH
#define YK_KERNELS_CUDA_GEMM_WNA16_GROUPED_WGMMA_KERNEL_CUH

#include "kernels/cuda/gemm/wna16_grouped_params.cuh"
#include "kernels/cuda/gemm/wna16_grouped_tiles.h"
#include "kernels/cuda/gemm/wna16_wgmma_kernel.cuh"

namespace yk_gemm {

constexpr int GROUPED_M64 = 4, GROUPED_TILE_PANELS = GROUPED_M64 * WARPGROUP_PANELS;
/* Where there are registers for it, two warpgroups of producers: two warps cannot ask for the x of 96 rows as fast as
 * two warpgroups multiply. */
__host__ __device__ constexpr int grouped_producers(int warpgroups)
{
  return warpgroups == 2 ? 2 : 1;
}

/* Producer warps of x. */
__host__ __device__ constexpr int gather_warps(int warpgroups)
{
  return warpgroups == 2 ? 4 : 2;
}

__host__ __device__ constexpr int grouped_registers(int warpgroups)
{
  return SM_REGISTERS / (128 * (warpgroups + grouped_producers(warpgroups))) / 8 * 8;
}

constexpr int GATHER_REGISTERS = 32;

__host__ __device__ constexpr int grouped_consumer_registers(int warpgroups)
{
  const int producers = grouped_producers(warpgroups);
  return (grouped_registers(warpgroups) * (warpgroups + producers) - GATHER_REGISTERS * producers) / warpgroups / 8 * 8;
}

/* Beside the rings and staging: where the rows of x are, for each producer warp. map: the table's entry of each row
 * tile. */
__host__ __device__ constexpr int grouped_gather_bytes(int n)
{
  return n * 4;
}

__host__ __device__ inline int grouped_map_bytes(int max_tiles)
{
  return (max_tiles * 2 + 15) / 16 * 16;
}

/* By one warp, once the table counts whole tiles: the entries of the row tiles in the order of the work, whole ones and
 * then the others, narrowest instructions last. Returns the number of row tiles. */
template <int N, int LEAST_N, int STEP_N>
__device__ __forceinline__ int order_row_tiles(const grouped_table &table, uint16_t *map)
{
  const int lane = threadIdx.x % 32;
  const int2 size = *table.size;
  for (int i = lane; i < size.x; i += 32)
    for (int tile = table.entries[i].first_tile; tile < table.entries[i + 1].first_tile; tile++)
      map[tile] = static_cast<uint16_t>(i);
  int n_tiles = size.y;
  for (int n = N; n >= LEAST_N; n -= STEP_N)
    for (int first = 0; first < size.x; first += 32) {
      const grouped_entry e = table.entries[min(first + lane, size.x - 1)];
      const int rest = (e.end_slot - e.first_slot) % N;
      const bool is_here = first + lane < size.x && rest > (n == LEAST_N ? 0 : n - STEP_N) && rest <= n;
      const unsigned here = __ballot_sync(~0u, is_here);
      if (is_here) map[n_tiles + __popc(here & ((1u << lane) - 1))] = static_cast<uint16_t>(first + lane);
      n_tiles += __popc(here);
    }
  return n_tiles;
}

struct grouped_tile {
  int matrix, first_slot, rows, tile_m;
};

/* Output tiles of this block, in order. */
template <int N> struct grouped_tiles {
  const grouped_table &table;
  const uint16_t *map;
  int n_row_tiles, at;

  __device__ __forceinline__ bool next(const grouped_params &p, grouped_tile &w)
  {
    const int row_tile = p.by_tiles_m.quotient(at);
    if (row_tile >= n_row_tiles) return false;
    const grouped_entry &e = table.entries[map[row_tile]];
    unsigned m = at - row_tile * p.tiles_m, tile = (&e)[1].first_tile - e.first_tile; /* the one behind whole tiles */
    if (row_tile < table.size->y) {
      const unsigned in_entry = at - e.first_tile * p.tiles_m, whole_tiles = tile;
      m = in_entry / whole_tiles;
      tile = in_entry - m * whole_tiles;
    }
    w.matrix = e.matrix;
    w.tile_m = static_cast<int>(m);
    w.first_slot = e.first_slot + static_cast<int>(tile) * N;
    w.rows = min(N, e.end_slot - w.first_slot);
    at += gridDim.x;
    return true;
  }
};

template <typename PANEL, int N>
__device__ __forceinline__ void produce_grouped_weights(const grouped_params &p, tile_ring r, grouped_tiles<N> tiles)
{
  grouped_tile w;
  r.start_producing();
  while (tiles.next(p, w)) {
    const int panel = w.tile_m * GROUPED_TILE_PANELS;
    stream_panels<PANEL>(p, r, w.matrix, panel, min(GROUPED_TILE_PANELS, p.n_panels - panel));
  }
}

/* Copies eight rows a time: half a warp copies the 16 pieces of a row's K tile, so that a lane has four of the eight.
 * The warps take eights in turn, so that all of them have work where a tile has few rows.
 *   landed   barriers of the stages
 *   rows     in shared memory, this warp's part: where they begin in x, in pieces; -1 where there is none, whose
 *            accumulators are not used. Rows that a lane copies lie side by side: [half of the warp][4 of each
 *            eight] */
template <int N, int WARPS>
__device__ __forceinline__ void gather_x(const grouped_params &p, tile_ring r, uint32_t landed, grouped_tiles<N> tiles,
                                         int *rows, int warp)
{
  constexpr int WARP_ROWS = N / WARPS;
  const int lane = threadIdx.x % 32, piece = lane % 16, half = lane / 16;
  const uint8_t *x = static_cast<const uint8_t *>(p.call.x) + piece * 16;
  const uint32_t own_rows = shared_address(rows + half * (WARP_ROWS / 2));
  uint32_t at[4]; /* of the lane's rows of eight, in a stage */
#pragma unroll
  for (int i = 0; i < 4; i++)
    at[i] = piece / 8 * (N * 128) + (warp * 8 + 2 * i + half) * 128 + ((piece ^ (2 * i + half)) & 7) * 16;
  grouped_tile w;
  r.start_producing();
  wait_for_previous_kernel();
  while (tiles.next(p, w)) {
    __syncwarp();
    for (int i = lane; i < WARP_ROWS; i += 32) {
      const int row = (i / 8 * WARPS + warp) * 8 + i % 8;
      rows[i % 2 * (WARP_ROWS / 2) + i / 2] = row < w.rows ? p.row_of(w.first_slot + row) * (p.k / 8) : -1;
    }
    __syncwarp();
    const int eights = ((w.rows + 7) / 8 - warp + WARPS - 1) / WARPS;
#pragma unroll 1
    for (int k_tile = 0; k_tile < p.k_tiles; k_tile++) {
      const bool valid = k_tile * TILE_K + piece * 8 < p.k;
      const uint8_t *from = x + (valid ? k_tile * TILE_K * 2 : 0);
      mbarrier_wait_asm_loop(r.empty(), r.at.phase);
#pragma unroll 2
      for (int e = 0; e < eights; e++) {
        const uint4 of_lane = load_shared16(own_rows + e * 16);
        const uint32_t to = r.data() + e * WARPS * 1024;
        if (static_cast<int>(of_lane.x) >= 0) cp_async_16(to + at[0], from + of_lane.x * uint64_t{16}, valid);
        if (static_cast<int>(of_lane.y) >= 0) cp_async_16(to + at[1], from + of_lane.y * uint64_t{16}, valid);
        if (static_cast<int>(of_lane.z) >= 0) cp_async_16(to + at[2], from + of_lane.z * uint64_t{16}, valid);
        if (static_cast<int>(of_lane.w) >= 0) cp_async_16(to + at[3], from + of_lane.w * uint64_t{16}, valid);
      }
      cp_async_arrive(landed + r.at.stage * 8);
      r.advance();
    }
  }
}

/* By one lane. */
template <int N>
__device__ __forceinline__ void pass_on_x(const grouped_params &p, tile_ring r, uint32_t landed, grouped_tiles<N> tiles)
{
  grouped_tile w;
  while (tiles.next(p, w)) {
#pragma unroll 1
    for (int k_tile = 0; k_tile < p.k_tiles; k_tile++) {
      mbarrier_wait_asm_loop(landed + r.at.stage * 8, r.at.phase);
      fence_async_shared();
      mbarrier_arrive(r.full());
      r.advance();
    }
  }
}

/* One output tile of at most N rows. */
template <yk_dtype DTYPE, typename PANEL, int N, int WGMMA_M, int ROOM8>
__device__ __forceinline__ void multiply_grouped_tile(const grouped_params &p, tile_ring &x, tile_ring &weights,
                                                      const grouped_tile &w, uint32_t staging,
                                                      float (&acc)[WGMMA_M][ROOM8][4])
{
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, warpgroup = threadIdx.x / 128;
  const int panel = w.tile_m * GROUPED_TILE_PANELS + first_panel<WGMMA_M>(warpgroup, warp);
  mainloop<DTYPE, PANEL, WGMMA_M, N, 1>(x, weights, work_tile{0, 0, p.k_tiles}, warpgroup, warp, lane, acc);
  if constexpr (has_row_scales(PANEL::ENCODING)) {
#pragma unroll
    for (int c = 0; c < WGMMA_M; c++)
      scale_rows(load_row_scales(p.row_scales_of(w.matrix), min(panel + c, p.n_panels - 1), lane),
                 first_tokens<N>(acc[c]));
  }
  wgmma_params to = {};
  to.bias = p.bias_of(w.matrix);
  to.y = p.y_of(w.first_slot);
  to.m = w.rows;
  to.n = p.n;
  const int64_t row0 = static_cast<int64_t>(panel) * PANEL_COLUMNS;
  if (p.gate_up)
    write_output<DTYPE, WGMMA_M, N, true>(to, staging, row0, 0, {0, N / 8}, lane, acc);
  else
    write_output<DTYPE, WGMMA_M, N, false>(to, staging, row0, 0, {0, N / 8}, lane, acc);
}

/* The block's output tiles: those of more rows than narrower instructions hold come first. */
template <yk_dtype DTYPE, typename PANEL, int N, int LEAST_N, int STEP_N, int ROOM, int WGMMA_M>
__device__ __forceinline__ void multiply_grouped_tiles(const grouped_params &p, tile_ring &x, tile_ring &weights,
                                                       grouped_tiles<ROOM> &tiles, grouped_tile &w, bool &is_there,
                                                       uint32_t staging)
{
#pragma unroll 1
  while (is_there && (N == LEAST_N || w.rows > N - STEP_N)) {
    float acc[WGMMA_M][ROOM / 8][4];
    multiply_grouped_tile<DTYPE, PANEL, N>(p, x, weights, w, staging, acc);
    is_there = tiles.next(p, w);
  }
  if constexpr (N > LEAST_N)
    multiply_grouped_tiles<DTYPE, PANEL, N - STEP_N, LEAST_N, STEP_N, ROOM, WGMMA_M>(p, x, weights, tiles, w, is_there,
                                                                                     staging);
}

template <yk_dtype DTYPE, typename PANEL, int WARPGROUPS, int WGMMA_M, int N, int LEAST_N, int STEP_N>
__global__ void __maxnreg__(grouped_registers(WARPGROUPS))
    grouped_wgmma_kernel(const __grid_constant__ grouped_params p)
{
#ifdef YK_HAVE_SM90A
  static_assert(WARPGROUPS * WGMMA_M == GROUPED_M64, "256 columns");
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barriers[2 * tile_ring::BARRIERS], landed_barriers[MAX_STAGES];
  __shared__ int n_row_tiles;
  const block_shared_memory<PANEL, GROUPED_M64, N> memory = {shared_address(shared), shared_address(barriers)};
  constexpr int STAGING = WARPGROUPS * 4 * staging_bytes(WGMMA_M, N);
  uint8_t *behind = shared + p.x_stages * memory.X_BYTES + p.weight_stages * memory.WEIGHT_BYTES + STAGING;
  int *rows = reinterpret_cast<int *>(behind);
  uint16_t *map = reinterpret_cast<uint16_t *>(behind + grouped_gather_bytes(N));
  const grouped_table table =
      grouped_table_at(behind + grouped_gather_bytes(N) + grouped_map_bytes(p.max_tiles), p.call.n_matrices);
  wgmma_params rings = {};
  rings.x_stages = p.x_stages;
  rings.weight_stages = p.weight_stages;
  tile_ring x = memory.x(rings), weights = memory.weights(rings);
  const uint32_t landed = shared_address(landed_barriers);
  if (threadIdx.x == WARPGROUPS * 128) {
    x.init(1, WARPGROUPS * 4);
    weights.init(1, WARPGROUPS * 4);
    for (int i = 0; i < p.x_stages; i++) mbarrier_init(landed + i * 8, gather_warps(WARPGROUPS) * 32);
    fence_mbarrier_init();
  }
  wait_for_starts(p);
  if (threadIdx.x < 32) {
    build_grouped_table<N, row_tiles::WHOLE>(table, p.call.starts, p.call.n_matrices);
    __syncwarp();
    const int n = order_row_tiles<N, LEAST_N, STEP_N>(table, map);
    if (threadIdx.x == 0) n_row_tiles = n;
  }
  __syncthreads();
  grouped_tiles<N> tiles = {table, map, n_row_tiles, static_cast<int>(blockIdx.x)};
  if (threadIdx.x >= WARPGROUPS * 128) {
    lower_registers<GATHER_REGISTERS>();
    const int warp = threadIdx.x / 32 - WARPGROUPS * 4;
    constexpr int WARPS = gather_warps(WARPGROUPS);
    if (warp == 0) {
      if (threadIdx.x % 32 == 0) produce_grouped_weights<PANEL>(p, weights, tiles);
    } else if (warp == 1) {
      if (threadIdx.x % 32 == 0) pass_on_x<N>(p, x, landed, tiles);
    } else if (warp < 2 + WARPS) {
      gather_x<N, WARPS>(p, x, landed, tiles, rows + (warp - 2) * (N / WARPS), warp - 2);
    }
  } else {
    raise_registers<grouped_consumer_registers(WARPGROUPS)>();
    const uint32_t staging = memory.staging(rings) + threadIdx.x / 32 * staging_bytes(WGMMA_M, N);
    grouped_tile w;
    wait_in_grouped(p);
    bool is_there = tiles.next(p, w);
    multiply_grouped_tiles<DTYPE, PANEL, N, LEAST_N, STEP_N, N, WGMMA_M>(p, x, weights, tiles, w, is_there, staging);
  }
#endif
}

/* The kernels of one type, by tile. */
template <yk_wna16_encoding ENCODING, yk_dtype DTYPE, int GROUPS, size_t TILE> const void *grouped_wgmma_kernel_of()
{
  constexpr grouped_wgmma_shape S = GROUPED_WGMMA_SHAPES[TILE];
  if constexpr (!has_groups(ENCODING, GROUPS))
    return nullptr;
  else
    return reinterpret_cast<const void *>(
        grouped_wgmma_kernel<DTYPE, panel_layout<ENCODING, GROUPS>, S.warpgroups, S.wgmma_m, S.n, S.least_n, S.step_n>);
}

template <yk_wna16_encoding ENCODING, yk_dtype DTYPE, size_t... TILES>
const tile_kernels &grouped_wgmma_kernels_of_tile(int tile, std::index_sequence<TILES...>)
{
  static const tile_kernels table[] = {
      {{grouped_wgmma_kernel_of<ENCODING, DTYPE, 1, TILES>(), grouped_wgmma_kernel_of<ENCODING, DTYPE, 2, TILES>(),
        grouped_wgmma_kernel_of<ENCODING, DTYPE, 4, TILES>()}}...};
  return table[tile];
}

} // namespace yk_gemm

#endif
