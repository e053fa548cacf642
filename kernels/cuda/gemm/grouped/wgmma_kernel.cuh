/* wgmma_kernel.cuh - grouped WNA16 GEMM on 9.0: one persistent thread block per multiprocessor.
 *
 *   work       output tiles of 256 columns by up to N rows of one matrix, over all of K. Each block begins with one
 *              tile and then takes the next unassigned tile (yk_grouped_call.next_tile). With few rows, the first tile
 *              is assigned statically: blocks have the first row tiles of the first matrices, and issue copies of their
 *              weights before the number of rows may be read. Among the other tiles whole tiles come first: those of a
 *              matrix are neighbours, and among them those of the same columns, so that a wave of blocks finds weights
 *              and x in the L2 cache. Then come the rows of matrices beyond whole tiles, most rows first: a narrower
 *              instruction multiplies them in less time, and the last wave is short. A shared expert's weight
 *              (yk_grouped_call.shared_expert) is cut into parts of as many columns as a matrix, each treated as one
 *              more matrix
 *   producers  the last two warpgroups. Warp 0: takes tiles and passes them to the other warps (tile_queue.cuh); copies
 *              weights, one bulk copy per K tile, a few of them in flight while others have arrived. Warps 2 and up: a
 *              part of the rows of x each, by cp.async in the order of the 128-byte swizzle. wgmma reads shared memory
 *              through the asynchronous proxy, so a fence must precede it; a fence that waited for copies still in
 *              flight would stall the pipeline. Copies therefore complete at a separate barrier, where warp 1 waits,
 *              fences and signals the consumers once the K tile's weights have arrived too: one wait less for the
 *              consumers
 *   consumers  two warpgroups, each with half of the columns: wgmma_mainloops.cuh, and the epilogue of
 *              dense/wgmma_kernel.cuh. A matrix's last tile may have no columns for the second
 *
 * Tiles and their order: wgmma_tiles.cuh. Producers: wgmma_producers.cuh. */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_WGMMA_KERNEL_CUH
#define YK_KERNELS_CUDA_GEMM_GROUPED_WGMMA_KERNEL_CUH

#include "kernels/cuda/gemm/dense/wgmma_kernel.cuh"
#include "kernels/cuda/gemm/grouped/wgmma_producers.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_gemm {

constexpr int GROUPED_THREADS = 128 * (GROUPED_WARPGROUPS + GROUPED_PRODUCERS);
constexpr int GROUPED_REGISTERS = SM_REGISTERS / GROUPED_THREADS / 8 * 8, GATHER_REGISTERS = 40;
constexpr int GROUPED_CONSUMER_REGISTERS =
    (GROUPED_REGISTERS * GROUPED_THREADS / 128 - GATHER_REGISTERS * GROUPED_PRODUCERS) / GROUPED_WARPGROUPS / 8 * 8;

/* Shared memory for staging results, of all consumer warps and for every width of instructions. */
__host__ __device__ constexpr int grouped_staging_bytes(int tile_n)
{
  int most = 0; /* maximum per warp */
  for (int n = tile_n; n > 0; n = fewer_rows(tile_n, n))
    most = most > staging_bytes(GROUPED_WGMMA_M, n) ? most : staging_bytes(GROUPED_WGMMA_M, n);
  return most * GROUPED_CONSUMER_WARPS;
}

/* An address in shared memory that stays in a register. */
__device__ __forceinline__ uint32_t kept_address(const void *pointer)
{
  uint32_t address = shared_address(pointer);
  keep_in_registers(address);
  return address;
}

/* Called by a consumer warp: frees stages of weights that were copied ahead for a matrix without rows. */
__device__ __forceinline__ void pass_over(tile_ring &weights, int n_stages)
{
  for (int i = 0; i < n_stages; i++) {
    mbarrier_wait_asm_loop(weights.full(), weights.at.phase);
    release_stage<1>(weights.empty(), threadIdx.x % 32);
    weights.advance();
  }
}

/* Called by a consumer warp: one output tile of at most N rows, from the products to y. staging: the warp's; CAPACITY8:
 * capacity of acc and of a stage of x, in groups of 8 rows. */
template <yk_dtype DTYPE, typename PANEL, int N, int CAPACITY8>
__device__ __forceinline__ void multiply_grouped_tile(const grouped_params &p, tile_ring &x, tile_ring &weights,
                                                      const grouped_tile &w, uint32_t staging,
                                                      float (&acc)[GROUPED_WGMMA_M][CAPACITY8][4])
{
  constexpr int WGMMA_M = GROUPED_WGMMA_M;
  const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32, warpgroup = threadIdx.x / 128;
  const int panel = w.panel + first_panel<WGMMA_M>(warpgroup, warp);
  const grouped_operands of = p.operands_of(w.matrix);
  float2 row_scales[WGMMA_M];
  if constexpr (has_row_scales(PANEL::ENCODING)) {
#pragma unroll
    for (int c = 0; c < WGMMA_M; c++)
      row_scales[c] = load_row_scales(of.row_scales, min(panel + c, of.n_panels - 1), lane);
  }
  /* A read of memory takes longer than the end of a tile: biases are loaded before the products. */
  const int64_t row0 = static_cast<int64_t>(panel) * PANEL_COLUMNS;
  uint16_t bias[WGMMA_M][2];
  load_biases(of.bias, of.n, p.activation.is_gated, row0, lane, bias);
  multiply_rows<DTYPE, PANEL, WGMMA_M, N>(x, weights, of.k_tiles, warpgroup, warp, lane, acc);
  if constexpr (has_row_scales(PANEL::ENCODING)) {
#pragma unroll
    for (int c = 0; c < WGMMA_M; c++) scale_rows(row_scales[c], first_tokens<N>(acc[c]));
  }
  wgmma_params to = {};
  to.y = p.y_of(of, w.first_slot);
  to.m = w.rows;
  to.n = of.n;
  to.activation = p.activation;
  if (p.activation.is_gated)
    write_biased<DTYPE, WGMMA_M, N, true>(to, staging, row0, 0, {0, N / 8}, lane, bias, acc);
  else
    write_biased<DTYPE, WGMMA_M, N, false>(to, staging, row0, 0, {0, N / 8}, lane, bias, acc);
}

/* Called by a consumer warp: passes over tiles whose columns end before the warpgroup's half, from w on, and frees
 * their stages. Control flow must be uniform in the compiler's view as well (kept_in_warp, tile_reader): else every
 * wgmma would fetch its descriptor from vector registers. */
__device__ __forceinline__ void pass_over_others(const grouped_params &p, tile_ring &x, tile_ring &weights,
                                                 tile_reader &tiles, grouped_tile &w)
{
  const int first = static_cast<int>(kept_in_warp(threadIdx.x / 128)) * GROUPED_WGMMA_M * WARPGROUP_PANELS;
#pragma unroll 1
  while (w.rows > 0 && w.panel + first >= p.operands_of(w.matrix).n_panels) {
    const int k_tiles = p.operands_of(w.matrix).k_tiles;
#pragma unroll 1
    for (int k_tile = 0; k_tile < k_tiles; k_tile++) {
      mbarrier_wait_asm_loop(x.full(), x.at.phase);
      release_stage<1>(weights.empty(), threadIdx.x % 32);
      release_stage<1>(x.empty(), threadIdx.x % 32);
      weights.advance();
      x.advance();
    }
    tiles.next(w);
  }
}

/* Called by a consumer warp: the block's output tiles, from w on. Tiles with more rows than narrower instructions hold
 * come first, except for a statically assigned tile. */
template <yk_dtype DTYPE, typename PANEL, int N, int CAPACITY>
__device__ __forceinline__ void multiply_grouped_tiles(const grouped_params &p, tile_ring &x, tile_ring &weights,
                                                       tile_reader &tiles, grouped_tile &w, uint32_t staging)
{
#pragma unroll 1
  while (w.rows > fewer_rows(CAPACITY, N)) {
    float acc[GROUPED_WGMMA_M][CAPACITY / 8][4];
    multiply_grouped_tile<DTYPE, PANEL, N>(p, x, weights, w, staging, acc);
    tiles.next(w);
    pass_over_others(p, x, weights, tiles, w);
  }
  if constexpr (fewer_rows(CAPACITY, N) > 0)
    multiply_grouped_tiles<DTYPE, PANEL, fewer_rows(CAPACITY, N), CAPACITY>(p, x, weights, tiles, w, staging);
}

/* Called by a consumer warp: processes w if it is a statically assigned tile with fewer rows than the tiles that
 * follow; w is then the next tile. */
template <yk_dtype DTYPE, typename PANEL, int N>
__device__ __forceinline__ void multiply_dealt_tile(const grouped_params &p, tile_ring &x, tile_ring &weights,
                                                    tile_reader &tiles, grouped_tile &w, uint32_t staging)
{
  static_assert(fewer_rows(N, fewer_rows(N, N)) == 0, "two widths");
  if (w.rows <= 0 || w.rows > fewer_rows(N, N)) return;
  float acc[GROUPED_WGMMA_M][N / 8][4];
  multiply_grouped_tile<DTYPE, PANEL, fewer_rows(N, N)>(p, x, weights, w, staging, acc);
  tiles.next(w);
  pass_over_others(p, x, weights, tiles, w);
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
      row_tile_order_at(behind + grouped_gather_bytes(N), p.call.n_matrices + p.shared_expert_parts, n_widths(N));
  wgmma_params rings = {};
  rings.x_stages = p.x_stages;
  rings.weight_stages = p.weight_stages;
  tile_ring x = memory.x(rings), weights = memory.weights(rings);
  const uint32_t landed = kept_address(landed_barriers);
  weight_producer<PANEL, N> producer = {p, weights};
  if (threadIdx.x == GROUPED_CONSUMER_WARPS * 32) {
    x.init(1, GROUPED_CONSUMER_WARPS);
    weights.init(1, GROUPED_CONSUMER_WARPS);
    for (int i = 0; i < p.x_stages; i++) mbarrier_init(landed + i * 8, GATHER_WARPS * 32);
    queue.init(1 + GATHER_WARPS + GROUPED_CONSUMER_WARPS);
    fence_mbarrier_init();
    producer.issue_ahead();
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
    pass_over_others(p, x, weights, own, w);
    if constexpr (deals_tiles(N)) multiply_dealt_tile<DTYPE, PANEL, N>(p, x, weights, own, w, staging);
    multiply_grouped_tiles<DTYPE, PANEL, N, N>(p, x, weights, own, w, staging);
  }
#endif
}

} // namespace yk_gemm

#endif
