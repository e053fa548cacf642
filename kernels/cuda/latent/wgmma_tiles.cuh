/* wgmma_tiles.cuh - common parts of the two wgmma kernels: tiles of latent vectors and of queries in shared memory, the
 * warps that load them, and the destinations of results.
 *
 * A tile is [9 blocks of 64 columns][rows][128 bytes] with the 128-byte swizzle. For scores its rows are K-major; the
 * first 8 blocks of a tile of latent vectors are also the values, MN-major with tokens along k. */
#ifndef YK_KERNELS_CUDA_LATENT_WGMMA_TILES_CUH
#define YK_KERNELS_CUDA_LATENT_WGMMA_TILES_CUH

#include <cuda.h>

#include "kernels/cuda/common/accumulator_rows.cuh"
#include "kernels/cuda/common/stage_ring.cuh"
#include "kernels/cuda/latent/work_list.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"
#include "kernels/cuda/ptx/wgmma.cuh"

namespace yk_latent {

using namespace yk_ptx;

constexpr int N_BLOCKS = WIDTH / 64, VALUE_BLOCKS = KV_RANK / 64; /* blocks of 64 columns */
constexpr int BLOCK_BYTES = WGMMA_TOKENS * 128, TILE_BYTES = N_BLOCKS * BLOCK_BYTES;
constexpr int PAGES = WGMMA_TOKENS / YK_KV_BLOCK_TOKENS;
constexpr int WGMMA_THREADS = 384, Q_PRODUCER_THREADS = 64;

/* A tile is loaded and released in two halves, each with its own barriers: 4 blocks of values, the left ones in the
 * first buffer, the right ones in the second; then all other blocks. In the kernel for many queries each consumer
 * warpgroup multiplies with one half of the values, and with that of its own tile first. */
constexpr int HALVES = 2, HALF_BLOCKS = VALUE_BLOCKS / 2;

__device__ __forceinline__ constexpr int blocks_of_half(int half)
{
  return half == 0 ? HALF_BLOCKS : N_BLOCKS - HALF_BLOCKS;
}

/* Block number i of a half. */
__device__ __forceinline__ constexpr int block_of_half(int buffer, int half, int i)
{
  return i == HALF_BLOCKS ? VALUE_BLOCKS : (buffer ^ half) * HALF_BLOCKS + i;
}

template <int QUERIES, int Q_STAGES> struct loading {
  static constexpr bool IS_MANY = QUERIES == WGMMA_TOKENS; /* kernel for many queries */
  static constexpr int N_LOADERS = IS_MANY ? 2 : 1;        /* warps that load tiles: one for each buffer, or for both */
  alignas(1024) char q[Q_STAGES][N_BLOCKS * QUERIES * 128];
  alignas(1024) char tile[2][TILE_BYTES]; /* one for each consumer warpgroup */
  uint64_t q_full[Q_STAGES], q_empty[Q_STAGES];
  uint64_t full[2][HALVES], empty[2][HALVES];
  work_list list;
};

#if defined(YK_HAVE_SM90A)

/* Calls f with each of the thread block's segments and its number. */
template <typename F>
__device__ __forceinline__ void for_each_segment(const work_list &list, const block_tiles &mine, F f)
{
  int32_t item = item_at(list, mine.begin), n = 0;
  for (int32_t at = mine.begin; at < mine.end; n++, item++) {
    const segment of = segment_at(list, mine, at, item);
    f(of, n);
    at += of.n_tiles();
  }
}

/* Grid: tiles of heads x thread blocks that share the list of tiles of tokens. */
__device__ __forceinline__ int32_t head_tile()
{
  return static_cast<int32_t>(blockIdx.x);
}

__device__ __forceinline__ int32_t list_block()
{
  return static_cast<int32_t>(blockIdx.y);
}

/* Whether the thread block belongs to a cluster of two, which process the same tokens for two tiles of heads: each
 * loads every second page of a tile for both. */
template <typename LOADING> __device__ __forceinline__ bool is_paired(const LOADING &)
{
  return LOADING::IS_MANY && cluster_size() == 2;
}

/* Called by one lane of a consumer warp that has read half of a buffer for the last time. */
template <typename LOADING> __device__ __forceinline__ void release_half(LOADING &s, int buffer, int half)
{
  mbarrier_arrive(&s.empty[buffer][half]);
  if (is_paired(s)) mbarrier_arrive_remote(&s.empty[buffer][half], static_cast<int>(cluster_rank() ^ 1));
}

/* Called by one warp: prefetches into the L2 cache those of a tile's first n_pages pages that this thread block loads.
 * If tensor cores are the bound, this hides the memory latency of a free buffer; if memory bandwidth is the bound,
 * prefetching would only interfere. */
template <typename LOADING>
__device__ __forceinline__ void prefetch_tile(const LOADING &s, const params &p, const int32_t *table, int32_t n_pages)
{
  constexpr int PAGE_BYTES = YK_KV_BLOCK_TOKENS * WIDTH * 2;
  const int lane = threadIdx.x % 32;
  if (lane < min(PAGES, n_pages) && (!is_paired(s) || lane % 2 == static_cast<int>(cluster_rank())))
    bulk_prefetch_l2(static_cast<const char *>(p.cache) + static_cast<int64_t>(table[lane]) * PAGE_BYTES, PAGE_BYTES);
  __syncwarp();
}

/* Called by each of N_LOADERS warps: loads tiles by TMA, one page and one block of columns at a time. Pages after the
 * segment's last token are skipped. A single warp for both buffers limits the loads in flight to one tile: it requests
 * a half once that half of the previous tile has arrived. With two tiles in flight, multiprocessors get unequal shares
 * of the memory bandwidth, and the end waits for the slowest.
 * await: called when the buffer is free, before the tile is read, with the tile's number in the thread block's first
 * segment, or with 2 in other segments; with its pages, one per lane, and their number. Returns in bit b the parity by
 * which buffer b is free of its last tile. */
template <typename LOADING, typename F>
__device__ uint32_t load_tiles(LOADING &s, const params &p, const block_tiles &mine, const CUtensorMap *map, int loader,
                               F await)
{
  constexpr int STEP = LOADING::N_LOADERS;
  const int lane = threadIdx.x % 32;
  uint32_t phases = 3;
  int in_front = -1; /* the buffer of the previous tile */
  for_each_segment(s.list, mine, [&](const segment &of, int32_t n) {
    const int32_t *table = p.block_tables + static_cast<int64_t>(of.seq) * p.block_table_stride;
    const int32_t end_page = ceil_div(of.n_tokens, YK_KV_BLOCK_TOKENS);
    for (int32_t tile = of.begin + loader; tile < of.end; tile += STEP) {
      const int buffer = STEP == 1 ? (tile - of.begin) % 2 : loader;
      const int32_t n_pages = min(PAGES, end_page - tile * PAGES);
      const int32_t own = lane < n_pages ? table[tile * PAGES + lane] : 0;
#pragma unroll
      for (int half = 0; half < HALVES; half++) {
        mbarrier_wait_loop(&s.empty[buffer][half], phases >> buffer & 1);
        if (half == 0) await(n > 0 ? 2 : tile - of.begin, own, n_pages);
        if (STEP == 1 && in_front >= 0) mbarrier_wait_loop(&s.full[in_front][half], phases >> in_front & 1);
        if (elect_one())
          mbarrier_arrive_expect(&s.full[buffer][half], n_pages * YK_KV_BLOCK_TOKENS * 128 * blocks_of_half(half));
        for (int page = 0; page < n_pages; page++) {
          if (is_paired(s) && page % 2 != static_cast<int>(cluster_rank())) continue;
          const int32_t row = __shfl_sync(~0u, own, page) * YK_KV_BLOCK_TOKENS;
          if (!elect_one()) continue;
          for (int i = 0; i < blocks_of_half(half); i++) {
            const int block = block_of_half(buffer, half, i);
            const uint32_t to = shared_address(s.tile[buffer]) + block * BLOCK_BYTES + page * YK_KV_BLOCK_TOKENS * 128;
            if (is_paired(s))
              tensor_copy_to_both(to, map, block * 64, row, &s.full[buffer][half]);
            else if (LOADING::IS_MANY)
              tensor_copy(to, map, block * 64, row, &s.full[buffer][half]);
            else
              tensor_copy_once(to, map, block * 64, row, &s.full[buffer][half]);
          }
        }
      }
      phases ^= 1 << buffer;
      in_front = buffer;
      if (LOADING::IS_MANY && tile + 2 < of.end)
        prefetch_tile(s, p, table + (tile + 2) * PAGES, end_page - (tile + 2) * PAGES);
    }
  });
  return phases;
}

/* Called by two warps: loads the queries of each segment, the absorbed part and then the rotated part, 16 bytes of 8
 * queries at once. Missing queries become zeros. await: called before the first queries are read. */
template <typename T, int QUERIES, int Q_STAGES, typename F>
__device__ void load_queries(loading<QUERIES, Q_STAGES> &s, const params &p, const block_tiles &mine, F await)
{
  const int piece = threadIdx.x % 8, first_query = threadIdx.x % Q_PRODUCER_THREADS / 8;
  const int32_t first_head = head_tile() * p.tile_heads, n_heads = min(p.tile_heads, p.layout.n_heads - first_head);
  yk_cuda::ring_position at;
  for_each_segment(s.list, mine, [&](const segment &of, int32_t n) {
    mbarrier_wait_loop(&s.q_empty[at.stage], at.phase ^ 1);
    if (n == 0) await();
    for (int query = first_query; query < QUERIES; query += Q_PRODUCER_THREADS / 8) {
      const bool exists = query < of.n_rows * n_heads;
      const int32_t own_row = of.n_rows > 1 && exists ? query / n_heads : 0, row = of.first_row + own_row;
      const int64_t head = first_head + (exists ? query - own_row * n_heads : 0);
      const T *absorbed = static_cast<const T *>(p.absorbed) +
                          (static_cast<int64_t>(row) * p.layout.n_heads + head) * KV_RANK + piece * 8;
      const T *rotating = static_cast<const T *>(p.q) + step_row(p, row) * p.q_stride +
                          head * (p.layout.nope_dim + ROPE_DIM) + p.layout.nope_dim + piece * 8;
      const uint32_t to = shared_address(s.q[at.stage]) + query * 128 + ((piece ^ query) & 7) * 16;
#pragma unroll
      for (int block = 0; block < VALUE_BLOCKS; block++)
        cp_async_16(to + block * QUERIES * 128, absorbed + block * 64, exists);
      cp_async_16(to + VALUE_BLOCKS * QUERIES * 128, rotating, exists);
    }
    cp_async_commit();
    cp_async_wait<0>();
    fence_async_shared();
    mbarrier_arrive(&s.q_full[at.stage]);
    at.advance(Q_STAGES);
  });
}

template <int QUERIES, int Q_STAGES> __device__ __forceinline__ void init_loading(loading<QUERIES, Q_STAGES> &s)
{
  for (int i = 0; i < Q_STAGES; i++) {
    mbarrier_init(&s.q_full[i], Q_PRODUCER_THREADS);
    mbarrier_init(&s.q_empty[i], 8); /* consumer warps */
  }
  for (int buffer = 0; buffer < 2; buffer++) {
    for (int half = 0; half < HALVES; half++) {
      mbarrier_init(&s.full[buffer][half], 1);
      mbarrier_init(&s.empty[buffer][half], is_paired(s) ? 8 : 4); /* warps that read the half last */
    }
  }
  fence_mbarrier_init();
}

/* Called by a warpgroup: sets rows of a tile from n_valid on to zeros. The cache may have any content there, and a NaN
 * among the values would survive a probability of 0. */
__device__ inline void clear_rows(uint32_t tile, int32_t n_valid)
{
  for (int i = n_valid * 8 + static_cast<int>(threadIdx.x % 128); i < WGMMA_TOKENS * 8; i += 128) {
    for (int block = 0; block < N_BLOCKS; block++)
      store_shared16(tile + block * BLOCK_BYTES + i * 16, make_uint4(0, 0, 0, 0));
  }
  fence_async_shared();
}

/* Destination of a segment's results: weighted sums of T, or a partial result (partial_sums). */
struct destination {
  int32_t first_row, first_head, n_heads, n_queries;
  bool is_whole;
  int64_t place; /* index of a partial result, counted in queries */

  template <int QUERIES> static __device__ destination of(const params &p, const segment &of, const block_tiles &mine)
  {
    destination d;
    d.first_row = of.first_row;
    d.first_head = head_tile() * p.tile_heads;
    d.n_heads = min(p.tile_heads, p.layout.n_heads - d.first_head);
    d.n_queries = of.n_rows * d.n_heads;
    d.is_whole = of.is_whole;
    d.place = (static_cast<int64_t>(2 * list_block() + of.begins) * gridDim.x + head_tile()) * QUERIES;
    return d;
  }

  /* E: the type of partial results. */
  template <typename E> __device__ E *partial_of(const params &p, int query) const
  {
    return reinterpret_cast<E *>(p.partial_sums) + (place + query) * KV_RANK;
  }

  /* maximum: as a power of two. */
  __device__ void describe(const params &p, int query, float maximum, float sum) const
  {
    p.partial_stats[place + query] = make_float2(maximum == -INFINITY ? NO_SCORE : maximum, sum);
  }

  template <typename T> __device__ T *sums_of(const params &p, int query) const
  {
    const int64_t row = first_row + query / n_heads, head = first_head + query % n_heads;
    return static_cast<T *>(p.sums) + (row * p.layout.n_heads + head) * KV_RANK;
  }
};

/* Called by one warp: writes which thread blocks share the segment's item, for the combination. */
__device__ inline void describe_splits(const work_list &list, const params &p, const block_tiles &mine,
                                       const segment &of)
{
  if (!of.begins || head_tile() != 0) return;
  const int32_t first = list.first_tile[of.item], end = list.first_tile[of.item + 1];
  const int32_t block = mine.first_block(list_block(), first), n = of.is_whole ? 1 : mine.n_blocks(first, end);
  for (int i = threadIdx.x % 32; i < of.n_rows; i += 32) p.splits[of.first_row + i] = {of.first_row, block, n};
}

/* Called by one lane: prefetches a thread block's share of all V[h] into the L2 cache, for the output kernel. Called
 * after the loads of the last tiles have been issued, since earlier prefetches would be evicted. */
__device__ inline void prefetch_output_weights(const params &p)
{
  constexpr int ROWS = 16;
  const int32_t per_head = p.layout.value_dim / ROWS, n = p.layout.n_heads * per_head;
  for (int32_t i = blockIdx.y * gridDim.x + blockIdx.x; i < n; i += gridDim.x * gridDim.y) {
    const int64_t row = static_cast<int64_t>(i / per_head) * (p.layout.nope_dim + p.layout.value_dim) +
                        p.layout.nope_dim + i % per_head * ROWS;
    bulk_prefetch_l2(static_cast<const char *>(p.kv_up) + row * KV_RANK * 2, ROWS * KV_RANK * 2);
  }
}

#endif

} // namespace yk_latent

#endif
