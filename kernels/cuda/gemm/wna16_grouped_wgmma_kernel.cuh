/* wna16_grouped_wgmma_kernel.cuh - grouped WNA16 GEMM on 9.0: one persistent thread block a multiprocessor.
 *
 *   work      output tiles of 256 columns by up to N rows of one matrix, over all of K. Each block has one to begin
 *             with and then takes the next one that nobody has (yk_grouped_call.next_tile). Where rows are few, the
 *             first one is dealt out: blocks have the first row tiles of the first matrices, and ask for their weights
 *             before they may know whether there are rows. Of the others whole tiles come first: those of a matrix are
 *             neighbours, and among them those of the same columns, so that a wave of blocks finds weights and x in the
 *             L2 cache. Then come the rows that matrices have beyond whole tiles, most rows first: a narrower
 *             instruction multiplies them in less time, and the last wave is short. A weight beside
 *             (yk_grouped_call.beside) is cut into parts of as many columns as a matrix has, each one more matrix
 *   producer  the last two warpgroups. Warp 0: takes tiles and tells the other warps (wna16_grouped_queue.cuh);
 *   warps     weights, one bulk copy a K tile, of which a few are under way while others lie ready. Warps 2 and up: a
 *             part of the rows of x each, by cp.async in the order that the 128-byte swizzle gives. wgmma reads shared
 *             memory past the path of ordinary accesses, so that a fence must stand between; one that waited for the
 *             copies that are still under way would stop the pipeline. So copies land at a barrier of their own, where
 *             warp 1 waits, fences and tells the consumers, once the K tile's weights are there too: one wait is less
 *             for them
 *   consumer  two warpgroups, each with half of the columns: wna16_grouped_mainloop.cuh, and the epilogue of
 *   warps     wna16_wgmma_kernel.cuh */
#ifndef YK_KERNELS_CUDA_GEMM_WNA16_GROUPED_WGMMA_KERNEL_CUH
#define YK_KERNELS_CUDA_GEMM_WNA16_GROUPED_WGMMA_KERNEL_CUH

#include "kernels/cuda/gemm/wna16_grouped_mainloop.cuh"
#include "kernels/cuda/gemm/wna16_grouped_order.cuh"
#include "kernels/cuda/gemm/wna16_grouped_params.cuh"
#include "kernels/cuda/gemm/wna16_grouped_queue.cuh"
#include "kernels/cuda/gemm/wna16_grouped_tiles.h"
#include "kernels/cuda/gemm/wna16_wgmma_kernel.cuh"

namespace yk_gemm {

constexpr int GROUPED_M64 = GROUPED_WARPGROUPS * GROUPED_WGMMA_M;
constexpr int GROUPED_TILE_PANELS = GROUPED_M64 * WARPGROUP_PANELS;
constexpr int GROUPED_CONSUMER_WARPS = 4 * GROUPED_WARPGROUPS;

/* Whether blocks have tiles dealt out: those kernels of which a block may have few rows first and more rows then. */
__host__ __device__ constexpr bool deals_tiles(int tile_n)
{
  return tile_n <= 16;
}

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

/* The widths of instructions that multiply a tile N, and the number of the narrowest one that holds so many rows: 0 is
 * the widest. */
__host__ __device__ constexpr int n_widths(int tile_n)
{
  int widths = 0;
  for (int n = tile_n; n > 0; n = fewer_rows(tile_n, n)) widths++;
  return widths;
}

template <int N> __device__ __forceinline__ int width_of(int rows)
{
  int width = -1;
#pragma unroll
  for (int n = N; n > 0; n = fewer_rows(N, n)) width += rows > 0 && rows <= n;
  return width;
}

/* By all threads. A matrix lacks the row tile that is dealt out; a part of the weight beside has all rows of its x. */
template <int N>
__device__ __forceinline__ void order_grouped_tiles(const grouped_params &p, const row_tile_order &order)
{
  const auto slots_of = [&](int m) {
    if (m >= p.call.n_matrices) return int2{0, p.call.beside.n_rows};
    const int32_t *starts = p.call.starts + m;
    return int2{__ldcg(starts) + (m < p.n_dealt ? N : 0), __ldcg(starts + 1)};
  };
  order_row_tiles<N, n_widths(N)>(order, p.call.n_matrices + p.beside_parts, slots_of, width_of<N>);
}

/* Output tiles in the order of the work. Those that are dealt out have the numbers below 0. */
template <int N> struct grouped_tiles {
  const row_tile_order &order;

  __device__ __forceinline__ int n_dealt(const grouped_params &p) const
  {
    return p.n_dealt * p.tiles_m;
  }
  __device__ __forceinline__ int n_tiles(const grouped_params &p) const
  {
    return n_dealt(p) + order.size->y * p.tiles_m;
  }

  /* Tile number `at`; rows are 0 behind the last one, and where one that was dealt out has none. */
  __device__ __forceinline__ grouped_tile tile(const grouped_params &p, int at) const
  {
    if (at < 0) return dealt(p, at + n_dealt(p));
    const int number = p.by_tiles_m.quotient(at);
    if (number >= order.size->y) return {};
    const int m = order.map[number];
    const ordered_matrix of = order.matrices[m];
    const unsigned whole = of.rows() / N;
    unsigned tile_m = at - number * p.tiles_m, tile = whole;
    if (number < order.size->x) {
      const unsigned in_matrix = at - of.first_tile * p.tiles_m;
      tile_m = in_matrix / whole;
      tile = in_matrix - tile_m * whole;
    }
    const int first_slot = of.first_slot + static_cast<int>(tile) * N, matrix = min(m, p.call.n_matrices);
    const int part = m - matrix; /* of the weight beside */
    return {matrix, first_slot, min(N, of.end_slot - first_slot),
            (part * p.tiles_m + static_cast<int>(tile_m)) * GROUPED_TILE_PANELS};
  }

private:
  __device__ __forceinline__ grouped_tile dealt(const grouped_params &p, int number) const
  {
    const int matrix = p.by_tiles_m.quotient(number), first_slot = order.matrices[matrix].first_slot - N;
    return {matrix, first_slot, min(N, order.matrices[matrix].end_slot - first_slot),
            (number - matrix * p.tiles_m) * GROUPED_TILE_PANELS};
  }
};

/* Stages of weights that are under way at most: what a multiprocessor asks for beyond some 70 KB waits, and makes the
 * shares of the memory's rate unequal. More lie ready, for the time that consumers need at the end of a tile. */
constexpr int MOST_UNDER_WAY = 4;

/* The one thread of a block that copies weights and chooses the block's tiles. */
template <typename PANEL, int N> struct weight_producer {
  const grouped_params &p;
  tile_ring asked, landed;          /* where the next K tile is asked for, and where the oldest one is under way */
  int n_under_way = 0, n_ahead = 0; /* n_ahead: K tiles of the tile that was dealt out */

  __device__ __forceinline__ weight_producer(const grouped_params &p, const tile_ring &r) : p(p), asked(r), landed(r)
  {
    asked.start_producing();
  }

  __device__ __forceinline__ panel_stream stream_of(const grouped_operands &of, int panel) const
  {
    return panel_stream::of<PANEL>(of, panel, max(0, min(GROUPED_TILE_PANELS, of.n_panels - panel)));
  }

  /* Before starts may be read: the first K tiles of what is dealt out to this block. */
  __device__ __forceinline__ void ask_ahead()
  {
    const int number = blockIdx.x;
    if (number >= p.n_dealt * p.tiles_m) return;
    const int matrix = p.by_tiles_m.quotient(number);
    const grouped_operands of = p.operands_of(matrix);
    panel_stream stream = stream_of(of, (number - matrix * p.tiles_m) * GROUPED_TILE_PANELS);
    n_ahead = n_under_way = min(p.weight_stages, of.k_tiles);
#pragma unroll 1
    for (int k_tile = 0; k_tile < n_ahead; k_tile++) stream.ask(asked);
  }

  /* All of the block's tiles. A tile is taken while the one before is streamed. */
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
      answer = ask_for_next(p, n_tiles);
      if (is_passed_over) continue;
      const grouped_operands of = p.operands_of(w.matrix);
      panel_stream stream = stream_of(of, w.panel);
      const int ahead = at < 0 ? n_ahead : 0;
      stream.from += ahead * stream.k_tile_bytes;
#pragma unroll 1
      for (int k_tile = ahead; k_tile < of.k_tiles; k_tile++) {
        mbarrier_wait_asm_loop(asked.empty(), asked.at.phase);
#pragma unroll 1
        for (; n_under_way >= MOST_UNDER_WAY; n_under_way--) {
          mbarrier_wait_asm_loop(landed.full(), landed.at.phase);
          landed.advance();
        }
        n_under_way++;
        stream.ask(asked);
      }
    }
  }
};

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
    if (w.rows < 0) continue;
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

/* By a consumer warp: stages of weights whose matrix has no rows. */
__device__ __forceinline__ void pass_over(tile_ring &weights, int n_stages)
{
  for (int i = 0; i < n_stages; i++) {
    mbarrier_wait_asm_loop(weights.full(), weights.at.phase);
    release_stage<1>(weights.empty(), threadIdx.x % 32);
    weights.advance();
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

/* The block's output tiles: those of more rows than narrower instructions hold come first, but for one that is dealt
 * out. */
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

/* The tile that is dealt out, if it has fewer rows than the widest instruction holds. */
template <yk_dtype DTYPE, typename PANEL, int N>
__device__ __forceinline__ void multiply_dealt_tile(const grouped_params &p, tile_ring &x, tile_ring &weights,
                                                    tile_reader &tiles, grouped_tile &w, uint32_t staging)
{
  static_assert(fewer_rows(N, fewer_rows(N, N)) == 0, "two widths");
  if (w.rows <= 0 || w.rows > fewer_rows(N, N)) return;
  float acc[GROUPED_WGMMA_M][N / 8][4];
  multiply_grouped_tile<DTYPE, PANEL, fewer_rows(N, N)>(p, x, weights, w, staging, acc);
  tiles.next(w);
}

template <yk_dtype DTYPE, typename PANEL, int N>
__global__ void __maxnreg__(GROUPED_REGISTERS) grouped_wgmma_kernel(const __grid_constant__ grouped_params p)
{
#ifdef YK_HAVE_SM90A
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barriers[2 * tile_ring::BARRIERS], landed_barriers[MAX_STAGES];
  __shared__ tile_queue queue;
  const block_shared_memory<PANEL, GROUPED_M64, N> memory = {kept_address(shared), kept_address(barriers)};
  constexpr int STAGING = grouped_staging_bytes(N);
  uint8_t *behind = shared + p.x_stages * memory.X_BYTES + p.weight_stages * memory.WEIGHT_BYTES + STAGING;
  int *rows = reinterpret_cast<int *>(behind);
  const row_tile_order order =
      row_tile_order_at(behind + grouped_gather_bytes(N), p.call.n_matrices + p.beside_parts, n_widths(N));
  wgmma_params rings = {};
  rings.x_stages = p.x_stages;
  rings.weight_stages = p.weight_stages;
  tile_ring x = memory.x(rings), weights = memory.weights(rings);
  const uint32_t landed = shared_address(landed_barriers);
  weight_producer<PANEL, N> producer = {p, weights};
  if (threadIdx.x == GROUPED_CONSUMER_WARPS * 32) {
    x.init(1, GROUPED_CONSUMER_WARPS);
    weights.init(1, GROUPED_CONSUMER_WARPS);
    for (int i = 0; i < p.x_stages; i++) mbarrier_init(landed + i * 8, GATHER_WARPS * 32);
    queue.init(1 + GATHER_WARPS + GROUPED_CONSUMER_WARPS);
    fence_mbarrier_init();
    producer.ask_ahead();
  }
  wait_for_starts(p);
  order_grouped_tiles<N>(p, order);
  const tile_reader tiles = {queue};
  if (threadIdx.x >= GROUPED_CONSUMER_WARPS * 32) {
    lower_registers<GATHER_REGISTERS>();
    const int warp = threadIdx.x / 32 - GROUPED_CONSUMER_WARPS;
    if (warp == 0) {
      if (threadIdx.x % 32 == 0) producer.run({order}, {queue});
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
    if (w.rows < 0) {
      pass_over(weights, -w.rows);
      own.next(w);
    }
    if constexpr (deals_tiles(N)) multiply_dealt_tile<DTYPE, PANEL, N>(p, x, weights, own, w, staging);
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
