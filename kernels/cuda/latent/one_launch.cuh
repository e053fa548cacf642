/* one_launch.cuh - decode attention in one launch, with norm and rotation of new tokens and the products with
 * kv_b_proj: the common part of few_kernel and many_kernel.
 *
 *   consumer warps                                          producer warps
 *   queries K[h]^T q_nope, some columns of all rows         two: new tokens, rotation of q
 *                                                           two: work list; first tile of few queries
 *   ---- grid barrier ----------------------------------------------------------------------------------------------
 *   attention                                               tiles, queries; at the end weights for outputs
 *   ---- grid barrier ----------------------------------------------------------------------------------------------
 *   V[h] times the weighted sums, some heads and rows
 *
 * One launch saves the boundaries between three. Only tiles wait for the work list, which takes as long as the queries.
 * If memory bandwidth is the bound (few queries), the first tile, of older tokens, is loaded during the barrier. */
#ifndef YK_KERNELS_CUDA_LATENT_ONE_LAUNCH_CUH
#define YK_KERNELS_CUDA_LATENT_ONE_LAUNCH_CUH

#include "kernels/cuda/latent/ends.cuh"
#include "kernels/cuda/latent/grid_barrier.cuh"
#include "kernels/cuda/latent/new_token.cuh"
#include "kernels/cuda/latent/wgmma_tiles.cuh"
#include "kernels/cuda/ptx/target.cuh"

namespace yk_latent {

/* Shared memory besides that of the attention. */
template <int K_BUFFERS> struct ends_shared {
  item_splits splits[end_sums::ROWS]; /* splits of the rows of the outputs */
  uint64_t k_full[K_BUFFERS], v_full;
};

/* Named barriers. LIST: the work list is complete for the warps that load tiles. OWN_SHARE: the thread block's share of
 * queries and of new rows is computed, and the list is complete for all warps. */
constexpr int OWN_SHARE = 7, LIST = 8;
static_assert(WGMMA_THREADS == PRODUCER_THREADS + CONSUMER_THREADS, "which thread is_first_consumer is");

#if defined(YK_HAVE_SM90A)

__device__ __forceinline__ int32_t grid_block()
{
  return static_cast<int32_t>(blockIdx.y * gridDim.x + blockIdx.x);
}

__device__ __forceinline__ int32_t grid_blocks()
{
  return static_cast<int32_t>(gridDim.x * gridDim.y);
}

/* Called by one thread, before a barrier of the thread block. */
template <int K_BUFFERS> __device__ __forceinline__ void init_ends(ends_shared<K_BUFFERS> &s)
{
  for (int i = 0; i < K_BUFFERS; i++) mbarrier_init(&s.k_full[i], 1);
  mbarrier_init(&s.v_full, 1);
  fence_mbarrier_init();
}

/* Built by one warp: the pages that receive new tokens of the step's rows. */
struct new_pages {
  static constexpr int MOST = YK_CUDA_LATENT_ROWS / 32;
  int32_t page[MOST]; /* -1: none */

  __device__ __forceinline__ explicit new_pages(const params &p)
  {
#pragma unroll
    for (int i = 0; i < MOST; i++) {
      const int32_t row = 32 * i + static_cast<int32_t>(threadIdx.x % 32), slot = row < p.n_rows ? p.kv_slots[row] : -1;
      page[i] = slot < 0 ? -1 : slot / YK_KV_BLOCK_TOKENS;
    }
  }

  /* Whether one of a tile's n pages receives a new token; of_lane: the lane's page. */
  __device__ __forceinline__ bool have_one(int32_t of_lane, int32_t n) const
  {
    bool found = false;
#pragma unroll
    for (int i = 0; i < PAGES; i++) {
      const int32_t other = __shfl_sync(~0u, of_lane, i);
#pragma unroll
      for (int j = 0; j < MOST; j++) found |= i < n && page[j] == other;
    }
    return __any_sync(~0u, found);
  }
};

/* Called by one warp: rotates in place the rotary elements of a row's heads first, first + step, .. (first: of lane 0).
 * rotate_row: rotation of the row's position. */
template <typename T>
__device__ void rotate_heads(const params &p, const new_rows &rows, const rotation &rotate_row, int32_t row,
                             int32_t first, int32_t step)
{
  constexpr int AT_ONCE = 4; /* loads in flight */
  const int lane = threadIdx.x % 32;
  uint4 *pieces =
      reinterpret_cast<uint4 *>(static_cast<T *>(rows.q) + row * p.q_stride + END_HEAD_DIM) + lane % ROPE_PIECES;
  const auto of_head = [&](int32_t head) { return pieces + head * ((END_HEAD_DIM + ROPE_DIM) / 8); };
  for (int32_t base = first; base < p.layout.n_heads; base += AT_ONCE * step) {
    const int32_t head = base + lane / ROPE_PIECES;
    uint4 v[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) v[i] = *of_head(min(head + i * step, p.layout.n_heads - 1));
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
      v[i] = rotate_row.template apply<T>(v[i]);
      if (head + i * step < p.layout.n_heads) *of_head(head + i * step) = v[i];
    }
  }
}

/* Called by one warp, number `writer` of n_writers: norm, rotation and cache write of its share of rows and heads. The
 * first share of a row is its new token, the others are its heads; a single share is both. Inputs other than the rows
 * themselves are read before the wait. */
template <typename T>
__device__ void make_new_rows(const params &p, const new_rows &rows, int32_t writer, int32_t n_writers)
{
  constexpr int HEADS = 32 / ROPE_PIECES; /* heads that a warp processes at a time */
  const int32_t n_shares = max(n_writers / p.n_rows, 1);
  for (int32_t task = writer; rows.latent && task < n_shares * p.n_rows; task += n_writers) {
    const int32_t row = task % p.n_rows, share = task / p.n_rows, slot = p.kv_slots[row];
    if (slot < 0) continue; /* a padding row */
    const rotation rotate_row(rope_of(rows, p.positions[row]));
    if (share == 0) {
      const typename new_token<T>::weights norm(rows.norm_w);
      wait_for_previous_kernel();
      new_token<T> token;
      token.load(rows, row);
      token.make(rows, norm, rotate_row);
      token.store(rows, slot);
    }
    if (share > 0 || n_shares == 1) {
      wait_for_previous_kernel();
      rotate_heads<T>(p, rows, rotate_row, row, max(share - 1, 0) * HEADS, max(n_shares - 1, 1) * HEADS);
    }
  }
  wait_for_previous_kernel();
  fence_async_global();
}

/* Called after the thread block's share of queries and of new rows: loads tiles, those with new tokens only after the
 * grid barrier. If memory bandwidth is the bound (few queries), the first tile is requested at once and the next one
 * only after the queries: otherwise the queries and the preceding loads would wait behind the bytes of both tiles, and
 * both warpgroups would wait for memory, and multiply, at the same time. If tensor cores are the bound, weights and
 * then queries are loaded before any tile. */
template <typename SHARED>
__device__ uint32_t load_tiles_around_barrier(SHARED &s, const params &p, const new_rows &rows,
                                              const grid_barrier &grid, const block_tiles &mine, const CUtensorMap *map,
                                              int loader, const new_pages &added)
{
  bool is_first = true;
  if (!rows.latent) wait_for_previous_kernel();
  return load_tiles(s, p, mine, map, loader, [&](int32_t number, int32_t page, int32_t n_pages) {
    if (number == 1 || (SHARED::IS_MANY && number == 0)) {
      mbarrier_wait_loop(&s.q_full[0], 0);
    } else if (is_first && rows.latent && added.have_one(page, n_pages)) {
      wait_for_previous_kernel();
      grid.wait(0);
    }
    is_first = false; /* the buffer's next tile follows the use of the queries */
    fence_async_global();
  });
}

/* This thread block's part of the list. */
__device__ __forceinline__ block_tiles tiles_of_block(const work_list &list)
{
  return divide_tiles(list.first_tile, list.n_items, list.longest, gridDim.y, list_block());
}

/* Work of the first warpgroup. outputs_of: returns the thread block's share of outputs. */
template <typename T, typename SHARED, typename F>
__device__ void run_producers(SHARED &s, const params &p, const new_rows &rows, const grid_barrier &grid,
                              const CUtensorMap *map, F outputs_of)
{
  /* at most this number of tiles, over all thread blocks, leaves enough of the L2 cache for V[h] */
  constexpr int32_t FEW_TILES = 4;
  const int warp = threadIdx.x / 32;
  if (warp >= 2) {
    make_new_rows<T>(p, rows, 2 * grid_block() + warp - 2, 2 * grid_blocks());
    named_barrier_sync(OWN_SHARE, WGMMA_THREADS);
    const block_tiles mine = tiles_of_block(s.list);
    load_queries<T>(s, p, mine, [&] { grid.wait(0); });
    return;
  }
  const new_pages added(p);
  if (warp == 0) s.list.build_decode(p);
  named_barrier_sync(LIST, 64);
  if (warp >= SHARED::N_LOADERS) {
    named_barrier_arrive(OWN_SHARE, WGMMA_THREADS);
    return;
  }
  const block_tiles mine = tiles_of_block(s.list);
  const bool prefetches = SHARED::IS_MANY && warp == 0, is_short = mine.end - mine.begin <= FEW_TILES;
  named_barrier_sync(OWN_SHARE, WGMMA_THREADS);
  if (prefetches && is_short && elect_one()) outputs_of().prefetch_first();
  __syncwarp();
  const uint32_t phases = load_tiles_around_barrier(s, p, rows, grid, mine, map, warp, added);
  if (prefetches && !is_short && elect_one()) outputs_of().prefetch_first();
  __syncwarp();
  for (int buffer = warp; buffer < 2; buffer += SHARED::N_LOADERS) {
    for (int half = 0; half < HALVES; half++) mbarrier_wait_loop(&s.empty[buffer][half], phases >> buffer & 1);
  }
  if (SHARED::IS_MANY) named_barrier_sync(LIST, 64); /* weights may occupy both buffers */
  if (warp == 0 && elect_one()) outputs_of().load_first();
}

/* Work of the other warpgroups. k_buffers and sums: memory that attention does not use before or after. */
template <typename T, typename CONSUMER, int K_BUFFERS, typename SHARED, typename F>
__device__ void run_consumers(SHARED &s, const params &p, const grid_barrier &grid, const CUtensorMap &weights,
                              char (&k_buffers)[K_BUFFERS][K_SLICE_BYTES], end_sums &sums, F outputs_of)
{
  consumers_sync(); /* the barriers of the shared memory are initialised */
  make_queries<T>(p, weights, k_buffers, s.ends.k_full, grid_block(), grid_blocks());
  wait_for_previous_kernel();
  if (grid_block() == 0 && is_first_consumer()) grid.set_second_back();
  named_barrier_sync(OWN_SHARE, WGMMA_THREADS);
  if (is_first_consumer()) grid.arrive(0);
  const block_tiles mine = tiles_of_block(s.list);
  const auto y = outputs_of();
  y.find_splits(s.list, mine, y.units.first_row);
  CONSUMER consumer = {s, p, static_cast<int>(threadIdx.x / 128) - 1, mine};
  consumer.run();
  consumers_sync();
  if (is_first_consumer()) {
    if (mine.begin == mine.end) grid.wait(0); /* all others wait for the grid barrier through their queries */
    grid.arrive(1);
    grid.wait(1);
    if (grid_block() == 0) grid.set_first_back();
  }
  consumers_sync();
  y.run(sums, s.list, mine);
}

#endif

} // namespace yk_latent

#endif
