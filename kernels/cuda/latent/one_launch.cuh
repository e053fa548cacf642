/* one_launch.cuh - decode attention in one launch, with norm and rotation of new tokens and the products with
 * kv_b_proj: what few_kernel and many_kernel share.
 *
 *   consumer warps                                          producer warps
 *   queries K[h]^T q_nope, some columns of all rows         new tokens, rotation of q
 *                                                           first tiles, of older tokens
 *   ---- all thread blocks meet ------------------------------------------------------------------------------------
 *   attention                                               tiles, queries
 *   ---- all thread blocks meet ------------------------------------------------------------------------------------
 *   V[h] times the weighted sums, some heads and rows
 *
 * No launch ends in between, and tiles come while thread blocks meet. They are asked for once the thread block has its
 * own share of queries: weights, q and new tokens would wait behind them for all of their bytes. Where the kernel in
 * front has made the new tokens (new_rows without latent) tiles follow that kernel. */
#ifndef YK_KERNELS_CUDA_LATENT_ONE_LAUNCH_CUH
#define YK_KERNELS_CUDA_LATENT_ONE_LAUNCH_CUH

#include "kernels/cuda/latent/ends.cuh"
#include "kernels/cuda/latent/grid_barrier.cuh"
#include "kernels/cuda/latent/new_token.cuh"
#include "kernels/cuda/latent/wgmma_tiles.cuh"

namespace yk_latent {

/* Beside what attention needs of shared memory. */
template <int K_ROOMS> struct ends_shared {
  int32_t new_page[YK_CUDA_LATENT_ROWS]; /* that a row's new token goes to; -1: none */
  uint64_t k_full[K_ROOMS], v_full;
};

constexpr int OWN_QUERIES = 7; /* named barrier: the thread block's share of queries and new rows is made */

#if defined(YK_HAVE_SM90A)

__device__ __forceinline__ int32_t grid_block()
{
  return static_cast<int32_t>(blockIdx.y * gridDim.x + blockIdx.x);
}

__device__ __forceinline__ int32_t grid_blocks()
{
  return static_cast<int32_t>(gridDim.x * gridDim.y);
}

/* What new tokens and q need beside themselves, into the L2 cache. By the first warp, before the first tiles are asked
 * for: behind them it would wait for all of their bytes. */
__device__ inline void prefetch_for_new_rows(const params &p, const new_rows &rows)
{
  for (int32_t row = grid_block(); rows.latent && row < p.n_rows; row += grid_blocks())
    prefetch_norm_and_rope(rows, p.positions[row]);
}

/* By the whole thread block, before a barrier of it. */
template <int K_ROOMS>
__device__ __forceinline__ void init_ends(ends_shared<K_ROOMS> &s, const params &p, const new_rows &rows)
{
  if (threadIdx.x < 32) prefetch_for_new_rows(p, rows);
  const int32_t row = threadIdx.x, slot = row < p.n_rows ? p.kv_slots[row] : -1;
  if (row < YK_CUDA_LATENT_ROWS) s.new_page[row] = slot < 0 ? -1 : slot / YK_KV_BLOCK_TOKENS;
  if (row != 0) return;
  for (int i = 0; i < K_ROOMS; i++) mbarrier_init(&s.k_full[i], 1);
  mbarrier_init(&s.v_full, 1);
}

/* By one warp: what rotates of a row's heads first, first + step .. of lane 0, in place. */
template <typename T>
__device__ void rotate_heads(const params &p, const new_rows &rows, int32_t row, int32_t first, int32_t step)
{
  constexpr int AT_ONCE = 4; /* loads on their way */
  const rotation turn(rope_of(rows, p.positions[row]));
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
      v[i] = turn.template apply<T>(v[i]);
      if (head + i * step < p.layout.n_heads) *of_head(head + i * step) = v[i];
    }
  }
}

/* By one warp, number `writer` of n_writers: latent_rope_cache of its share of rows and of heads. */
template <typename T>
__device__ void make_new_rows(const params &p, const new_rows &rows, int32_t writer, int32_t n_writers)
{
  constexpr int HEADS = 32 / ROPE_PIECES; /* of a warp at a time */
  const int32_t n_shares = max(n_writers / p.n_rows, 1);
  wait_for_previous_kernel();
  if (!rows.latent) return;
  for (int32_t task = writer; task < n_shares * p.n_rows; task += n_writers) {
    const int32_t row = task % p.n_rows, share = task / p.n_rows, slot = p.kv_slots[row];
    if (slot < 0) continue; /* a padding row */
    if (share == 0) {
      new_token<T> token;
      token.load(rows, row);
      token.make(rows, rows.norm_w, rope_of(rows, p.positions[row]));
      token.store(rows, slot);
    }
    rotate_heads<T>(p, rows, row, share * HEADS, n_shares * HEADS);
  }
  fence_async_global();
}

/* By one warp: whether one of n pages has a new token; page: of its lane. */
template <int K_ROOMS>
__device__ bool have_new_token(const ends_shared<K_ROOMS> &s, int32_t n_rows, int32_t page, int32_t n)
{
  bool found = false;
  for (int32_t i = 0; i < n; i++) {
    const int32_t other = __shfl_sync(~0u, page, i);
    for (int32_t row = threadIdx.x % 32; row < n_rows; row += 32) found |= s.new_page[row] == other;
  }
  return __any_sync(~0u, found);
}

/* Tiles, but those of new tokens once all thread blocks have met. A tile that is not its buffer's first one follows
 * the use of queries, which came after that meeting. */
template <typename SHARED>
__device__ void load_tiles_around_meeting(SHARED &s, const params &p, const new_rows &rows, const grid_barrier &grid,
                                          const block_tiles &mine, const CUtensorMap *map, int buffer)
{
  bool is_first = true;
  if (!rows.latent) wait_for_previous_kernel();
  load_tiles(s, p, mine, map, buffer, [&](int32_t slot, int32_t n_pages) {
    if (is_first && rows.latent && have_new_token(s.ends, p.n_rows, slot / YK_KV_BLOCK_TOKENS, n_pages)) {
      wait_for_previous_kernel();
      grid.wait(0);
    }
    fence_async_global();
    is_first = false;
  });
}

/* The first warpgroup. y: what the thread block makes at the end. */
template <typename T, typename OUTPUTS, typename SHARED>
__device__ void run_producers(SHARED &s, const params &p, const new_rows &rows, const grid_barrier &grid,
                              const block_tiles &mine, const CUtensorMap *map, const OUTPUTS &y)
{
  constexpr int32_t FEW_TILES = 4; /* of all thread blocks: in the L2 cache they leave V[h] its place */
  const int warp = threadIdx.x / 32;
  if (warp < 2) {
    const bool is_short = mine.end - mine.begin <= FEW_TILES;
    named_barrier_sync(OWN_QUERIES, WGMMA_THREADS);
    if (SHARED::IS_MANY && warp == 0 && is_short && elect_one()) y.prefetch_first();
    __syncwarp();
    load_tiles_around_meeting(s, p, rows, grid, mine, map, warp);
    if (SHARED::IS_MANY && warp == 0 && !is_short && elect_one()) y.prefetch_first();
    return;
  }
  make_new_rows<T>(p, rows, 2 * grid_block() + warp - 2, 2 * grid_blocks());
  named_barrier_arrive(OWN_QUERIES, WGMMA_THREADS);
  if (mine.begin == mine.end) return;
  grid.wait(0);
  load_queries<T>(s, p, mine);
}

/* The other warpgroups. k_rooms and sums: memory that attention does not need before or after. */
template <typename T, typename CONSUMER, typename OUTPUTS, int K_ROOMS, typename SHARED>
__device__ void run_consumers(SHARED &s, const params &p, const grid_barrier &grid, const block_tiles &mine,
                              const CUtensorMap &weights, char (&k_rooms)[K_ROOMS][K_SLICE_BYTES], end_sums &sums,
                              const OUTPUTS &y)
{
  make_queries<T>(p, weights, k_rooms, s.ends.k_full, grid_block(), grid_blocks());
  wait_for_previous_kernel();
  if (grid_block() == 0 && is_first_consumer()) grid.set_second_back();
  named_barrier_sync(OWN_QUERIES, WGMMA_THREADS);
  if (is_first_consumer()) grid.arrive(0);
  CONSUMER consumer = {s, p, static_cast<int>(threadIdx.x / 128) - 1, mine};
  consumer.run();
  consumers_sync();
  if (is_first_consumer()) {
    y.load_first();
    if (mine.begin == mine.end) grid.wait(0); /* all others have heard of it by their queries */
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
