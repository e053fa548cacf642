/* wna16_grouped_wgmma_kernel.cuh - grouped WNA16 GEMM on 9.0: one persistent thread block a multiprocessor.
 *
 *   work      output tiles of 256 columns by up to N rows of one matrix, over all of K. Each block has one to begin
 *             with and then takes the next one that nobody has (yk_grouped_call.next_tile). Whole tiles come first:
 *             those of a matrix are neighbours, and among them those of the same columns, so that a wave of blocks
 *             finds weights and x in the L2 cache. Then come the rows that matrices have beyond whole tiles, most rows
 *             first: a narrower instruction multiplies them in less time, and the last wave is short. A weight beside
 *             (yk_grouped_call.beside) is cut into parts of as many columns as a matrix has, each one more matrix
 *   producer  the last two warpgroups. Warp 0: takes tiles and tells the other warps (wna16_grouped_queue.cuh);
 *   warps     weights, one bulk copy a K tile. Warps 2 and up: a part of the rows of x each, by cp.async in the order
 *             that the 128-byte swizzle gives. wgmma reads shared memory past the path of ordinary accesses, so that a
 *             fence must stand between; one that waited for the copies that are still under way would stop the
 *             pipeline. So copies land at a barrier of their own, where warp 1 waits, fences and tells the consumers,
 *             once the K tile's weights are there too: one wait is less for them
 *   consumer  two warpgroups, each with half of the columns: wna16_grouped_mainloop.cuh, and the epilogue of
 *   warps     wna16_wgmma_kernel.cuh */
#ifndef YK_KERNELS_CUDA_GEMM_WNA16_GROUPED_WGMMA_KERNEL_CUH
#define YK_KERNELS_CUDA_GEMM_WNA16_GROUPED_WGMMA_KERNEL_CUH

#include "kernels/cuda/gemm/wna16_grouped_mainloop.cuh"
#include "kernels/cuda/gemm/wna16_grouped_params.cuh"
#include "kernels/cuda/gemm/wna16_grouped_queue.cuh"
#include "kernels/cuda/gemm/wna16_grouped_tiles.h"
#include "kernels/cuda/gemm/wna16_wgmma_kernel.cuh"

namespace yk_gemm {

constexpr int GROUPED_M64 = GROUPED_WARPGROUPS * GROUPED_WGMMA_M;
constexpr int GROUPED_TILE_PANELS = GROUPED_M64 * WARPGROUP_PANELS;
constexpr int GROUPED_CONSUMER_WARPS = 4 * GROUPED_WARPGROUPS;

/* Two warpgroups of producers: two warps cannot ask for the x of 96 rows as fast as two warpgroups multiply. */
constexpr int GROUPED_PRODUCERS = 2, GATHER_WARPS = 4; /* warpgroups; warps of them that copy x */
constexpr int GROUPED_THREADS = 128 * (GROUPED_WARPGROUPS + GROUPED_PRODUCERS);
constexpr int GROUPED_REGISTERS = SM_REGISTERS / GROUPED_THREADS / 8 * 8, GATHER_REGISTERS = 32;
constexpr int GROUPED_CONSUMER_REGISTERS =
    (GROUPED_REGISTERS * GROUPED_THREADS / 128 - GATHER_REGISTERS * GROUPED_PRODUCERS) / GROUPED_WARPGROUPS / 8 * 8;

/* Rows of a tile that a producer warp of x copies, in eights. */
__host__ __device__ constexpr int gathered_rows(int n)
{
  return (n / 8 + GATHER_WARPS - 1) / GATHER_WARPS * 8;
}

/* Beside the rings: staging of results, for all widths of instructions; where the rows of x are, for each producer
 * warp. map: the table's entry of each row tile. */
__host__ __device__ constexpr int grouped_staging_bytes(int tile_n)
{
  int most = 0; /* of a warp */
  for (int n = tile_n; n > 0; n = fewer_rows(tile_n, n))
    most = most > staging_bytes(GROUPED_WGMMA_M, n) ? most : staging_bytes(GROUPED_WGMMA_M, n);
  return most * GROUPED_CONSUMER_WARPS;
}

__host__ __device__ constexpr int grouped_gather_bytes(int n)
{
  return gathered_rows(n) * GATHER_WARPS * 4;
}

/* An address in shared memory that stays in a register. Else the compiler works it out wherever it is used, from a
 * special register that is slow to read. */
__device__ __forceinline__ uint32_t kept_address(const void *pointer)
{
  uint32_t address = shared_address(pointer);
  asm volatile("" : "+r"(address));
  return address;
}

/* By one thread, once the table counts whole tiles: the parts of the weight beside become matrices, each with all rows
 * of its x. */
template <int N> __device__ __forceinline__ void add_parts_beside(const grouped_params &p, const grouped_table &table)
{
  const int rows = p.call.beside.n_rows;
  int2 size = *table.size;
  for (int part = 0; part < p.beside_parts; part++, size.x++, size.y += rows / N)
    table.entries[size.x] = {p.call.n_matrices + part, size.y, 0, rows};
  table.entries[size.x] = {p.call.n_matrices + p.beside_parts, size.y, 0, 0};
  *table.size = size;
}

/* By one warp, once the table counts whole tiles: the entries of the row tiles in the order of the work, whole ones and
 * then the others, narrowest instructions last. Returns the number of row tiles. */
template <int N> __device__ __forceinline__ int order_row_tiles(const grouped_table &table, uint16_t *map)
{
  const int lane = threadIdx.x % 32;
  const int2 size = *table.size;
  for (int i = lane; i < size.x; i += 32)
    for (int tile = table.entries[i].first_tile; tile < table.entries[i + 1].first_tile; tile++)
      map[tile] = static_cast<uint16_t>(i);
  int n_tiles = size.y;
  for (int n = N; n > 0; n = fewer_rows(N, n))
    for (int first = 0; first < size.x; first += 32) {
      const grouped_entry e = table.entries[min(first + lane, size.x - 1)];
      const int rest = (e.end_slot - e.first_slot) % N;
      const bool is_here = first + lane < size.x && rest > fewer_rows(N, n) && rest <= n;
      const unsigned here = __ballot_sync(~0u, is_here);
      if (is_here) map[n_tiles + __popc(here & ((1u << lane) - 1))] = static_cast<uint16_t>(first + lane);
      n_tiles += __popc(here);
    }
  return n_tiles;
}

/* Output tiles in the order of the work. */
template <int N> struct grouped_tiles {
  const grouped_table &table;
  const uint16_t *map;
  int n_row_tiles;

  /* Tile number `at`; rows are 0 behind the last one. */
  __device__ __forceinline__ grouped_tile tile(const grouped_params &p, int at) const
  {
    const int row_tile = p.by_tiles_m.quotient(at);
    if (row_tile >= n_row_tiles) return {};
    const grouped_entry &e = table.entries[map[row_tile]];
    unsigned m = at - row_tile * p.tiles_m, tile = (&e)[1].first_tile - e.first_tile; /* the one behind whole tiles */
    if (row_tile < table.size->y) {
      const unsigned in_entry = at - e.first_tile * p.tiles_m, whole_tiles = tile;
      m = in_entry / whole_tiles;
      tile = in_entry - m * whole_tiles;
    }
    const int first_slot = e.first_slot + static_cast<int>(tile) * N, matrix = min(e.matrix, p.call.n_matrices);
    const int tile_m = static_cast<int>(m) + (e.matrix - matrix) * p.tiles_m;
    return {matrix, first_slot, min(N, e.end_slot - first_slot), tile_m * GROUPED_TILE_PANELS};
  }
};

/* By one thread, which also chooses the block's tiles. A tile is taken while the one before is streamed. */
template <typename PANEL, int N>
__device__ __forceinline__ void produce_grouped_weights(const grouped_params &p, tile_ring r,
                                                        const grouped_tiles<N> &tiles, tile_writer queue)
{
  r.start_producing();
  for (int at = blockIdx.x;;) {
    const grouped_tile w = tiles.tile(p, at);
    queue.put(w);
    if (w.rows == 0) return;
    at = take_next(p, at, tiles.n_row_tiles * p.tiles_m);
    const grouped_operands of = p.operands_of(w.matrix);
    stream_panels<PANEL>(of, r, w.panel, max(0, min(GROUPED_TILE_PANELS, of.n_panels - w.panel)));
  }
}

/* Copies eight rows a time: half a warp copies the 16 pieces of a row's K tile, so that a lane has four of the eight.
 * The warps take eights in turn, so that all of them have work where a tile has few rows.
 *   landed   barriers of the stages
 *   rows     in shared memory, this warp's part: where they begin in x, in pieces; -1 where there is none, whose
 *            accumulators are not used. Rows that a lane copies lie side by side: [half of the warp][4 of each
 *            eight] */
template <int N>
__device__ __forceinline__ void gather_x(const grouped_params &p, tile_ring r, uint32_t landed, tile_reader tiles,
                                         int *rows, int warp)
{
  constexpr int WARP_ROWS = gathered_rows(N);
  const int lane = threadIdx.x % 32, piece = lane % 16, half = lane / 16;
  const uint32_t own_rows = shared_address(rows + half * (WARP_ROWS / 2));
  uint32_t at[4]; /* of the lane's rows of eight, in a stage */
#pragma unroll
  for (int i = 0; i < 4; i++)
    at[i] = piece / 8 * (N * 128) + (warp * 8 + 2 * i + half) * 128 + ((piece ^ (2 * i + half)) & 7) * 16;
  grouped_tile w;
  r.start_producing();
  wait_for_previous_kernel();
  while (tiles.next(w)) {
    const grouped_operands of = p.operands_of(w.matrix);
    const uint8_t *x = static_cast<const uint8_t *>(of.x) + piece * 16;
    for (int i = lane; i < WARP_ROWS; i += 32) {
      const int row = (i / 8 * GATHER_WARPS + warp) * 8 + i % 8;
      rows[i % 2 * (WARP_ROWS / 2) + i / 2] = row < w.rows ? p.row_of(w.matrix, w.first_slot + row) * (of.k / 8) : -1;
    }
    __syncwarp();
    const int eights = ((w.rows + 7) / 8 - warp + GATHER_WARPS - 1) / GATHER_WARPS;
#pragma unroll 1
    for (int k_tile = 0; k_tile < of.k_tiles; k_tile++) {
      const bool valid = k_tile * TILE_K + piece * 8 < of.k;
      const uint8_t *from = x + (valid ? k_tile * TILE_K * 2 : 0);
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
      r.advance();
    }
  }
}

/* By one warp. Once x may be read, and the weights that go with it are there. */
__device__ __forceinline__ void pass_on_x(const grouped_params &p, tile_ring r, tile_ring weights, uint32_t landed,
                                          tile_reader tiles)
{
  grouped_tile w;
  while (tiles.next(w)) {
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

/* One output tile of at most N rows. */
template <yk_dtype DTYPE, typename PANEL, int N, int ROOM8>
__device__ __forceinline__ void multiply_grouped_tile(const grouped_params &p, tile_ring &x, tile_ring &weights,
                                                      const grouped_tile &w, uint32_t staging,
                                                      float (&acc)[GROUPED_WGMMA_M][ROOM8][4])
{
  constexpr int WGMMA_M = GROUPED_WGMMA_M;
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, warpgroup = threadIdx.x / 128;
  const int panel = w.panel + first_panel<WGMMA_M>(warpgroup, warp);
  const grouped_operands of = p.operands_of(w.matrix);
  multiply_rows<DTYPE, PANEL, WGMMA_M, N>(x, weights, of.k_tiles, warpgroup, warp, lane, acc);
  if constexpr (has_row_scales(PANEL::ENCODING)) {
#pragma unroll
    for (int c = 0; c < WGMMA_M; c++)
      scale_rows(load_row_scales(of.row_scales, min(panel + c, of.n_panels - 1), lane), first_tokens<N>(acc[c]));
  }
  wgmma_params to = {};
  to.bias = of.bias;
  to.y = p.y_of(of, w.first_slot);
  to.m = w.rows;
  to.n = of.n;
  const int64_t row0 = static_cast<int64_t>(panel) * PANEL_COLUMNS;
  if (p.gate_up)
    write_output<DTYPE, WGMMA_M, N, true>(to, staging, row0, 0, {0, N / 8}, lane, acc);
  else
    write_output<DTYPE, WGMMA_M, N, false>(to, staging, row0, 0, {0, N / 8}, lane, acc);
}

/* The block's output tiles: those of more rows than narrower instructions hold come first. */
template <yk_dtype DTYPE, typename PANEL, int N, int ROOM>
__device__ __forceinline__ void multiply_grouped_tiles(const grouped_params &p, tile_ring &x, tile_ring &weights,
                                                       tile_reader &tiles, grouped_tile &w, uint32_t staging)
{
#pragma unroll 1
  while (w.rows > fewer_rows(ROOM, N)) {
    float acc[GROUPED_WGMMA_M][ROOM / 8][4];
    multiply_grouped_tile<DTYPE, PANEL, N>(p, x, weights, w, staging, acc);
    tiles.next(w);
  }
  if constexpr (fewer_rows(ROOM, N) > 0)
    multiply_grouped_tiles<DTYPE, PANEL, fewer_rows(ROOM, N), ROOM>(p, x, weights, tiles, w, staging);
}

template <yk_dtype DTYPE, typename PANEL, int N>
__global__ void __maxnreg__(GROUPED_REGISTERS) grouped_wgmma_kernel(const __grid_constant__ grouped_params p)
{
#ifdef YK_HAVE_SM90A
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barriers[2 * tile_ring::BARRIERS], landed_barriers[MAX_STAGES];
  __shared__ int n_row_tiles;
  __shared__ tile_queue queue;
  const block_shared_memory<PANEL, GROUPED_M64, N> memory = {kept_address(shared), kept_address(barriers)};
  constexpr int STAGING = grouped_staging_bytes(N);
  uint8_t *behind = shared + p.x_stages * memory.X_BYTES + p.weight_stages * memory.WEIGHT_BYTES + STAGING;
  int *rows = reinterpret_cast<int *>(behind);
  uint16_t *map = reinterpret_cast<uint16_t *>(behind + grouped_gather_bytes(N));
  const grouped_table table = grouped_table_at(behind + grouped_gather_bytes(N) + row_tile_map_bytes(p.max_tiles),
                                               p.call.n_matrices + p.beside_parts);
  wgmma_params rings = {};
  rings.x_stages = p.x_stages;
  rings.weight_stages = p.weight_stages;
  tile_ring x = memory.x(rings), weights = memory.weights(rings);
  const uint32_t landed = shared_address(landed_barriers);
  if (threadIdx.x == GROUPED_CONSUMER_WARPS * 32) {
    x.init(1, GROUPED_CONSUMER_WARPS);
    weights.init(1, GROUPED_CONSUMER_WARPS);
    for (int i = 0; i < p.x_stages; i++) mbarrier_init(landed + i * 8, GATHER_WARPS * 32);
    queue.init(1 + GATHER_WARPS + GROUPED_CONSUMER_WARPS);
    fence_mbarrier_init();
  }
  wait_for_starts(p);
  if (threadIdx.x < 32) {
    build_grouped_table<N, row_tiles::WHOLE>(table, p.call.starts, p.call.n_matrices);
    __syncwarp();
    if (threadIdx.x == 0 && p.beside_parts > 0) add_parts_beside<N>(p, table);
    __syncwarp();
    const int n = order_row_tiles<N>(table, map);
    if (threadIdx.x == 0) n_row_tiles = n;
  }
  __syncthreads();
  const tile_reader tiles = {queue};
  if (threadIdx.x >= GROUPED_CONSUMER_WARPS * 32) {
    lower_registers<GATHER_REGISTERS>();
    const int warp = threadIdx.x / 32 - GROUPED_CONSUMER_WARPS;
    if (warp == 0) {
      if (threadIdx.x % 32 == 0)
        produce_grouped_weights<PANEL>(p, weights, grouped_tiles<N>{table, map, n_row_tiles}, {queue});
    } else if (warp == 1) {
      pass_on_x(p, x, weights, landed, tiles);
    } else if (warp < 2 + GATHER_WARPS) {
      gather_x<N>(p, x, landed, tiles, rows + (warp - 2) * gathered_rows(N), warp - 2);
    }
  } else {
    raise_registers<GROUPED_CONSUMER_REGISTERS>();
    const uint32_t staging = memory.staging(rings) + threadIdx.x / 32 * (STAGING / GROUPED_CONSUMER_WARPS);
    tile_reader own = tiles;
    grouped_tile w;
    wait_in_grouped(p);
    own.next(w);
    multiply_grouped_tiles<DTYPE, PANEL, N, N>(p, x, weights, own, w, staging);
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
    return reinterpret_cast<const void *>(grouped_wgmma_kernel<DTYPE, panel_layout<ENCODING, GROUPS>, S.n>);
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
