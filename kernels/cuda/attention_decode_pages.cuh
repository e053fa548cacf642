/* attention_decode_pages.cuh - which pages of the cache a decode block reads, and how they come to it. */
#ifndef YK_KERNELS_CUDA_ATTENTION_DECODE_PAGES_CUH
#define YK_KERNELS_CUDA_ATTENTION_DECODE_PAGES_CUH

#include "kernels/cuda/attention_params.cuh"
#include "kernels/cuda/attention_shares.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/ring.cuh"

namespace yk_attn {

/* Warps of a block: as many where their pages find room, else half of them. */
constexpr int DECODE_WARPS = 8;
constexpr int DECODE_MAX_STAGES = 16;

/* Shared memory besides the ring. */
template <int HD, int N_TILES, int WARPS> struct decode_shared {
  static constexpr int N_HEADS = 8 * N_TILES, N_WARPS = WARPS, N_THREADS = WARPS * 32;
  alignas(16) float o[WARPS][N_HEADS][HD];
  float m[WARPS][N_HEADS], l[WARPS][N_HEADS];
  uint64_t full[WARPS][DECODE_MAX_STAGES];
  int32_t first_page[MAX_SEQS_PER_LAUNCH + 1]; /* place of each sequence with one row on the line of pages */
  int32_t kv_tokens[MAX_SEQS_PER_LAUNCH];
  int32_t row[MAX_SEQS_PER_LAUNCH];
  int32_t seq[MAX_SEQS_PER_LAUNCH]; /* its number in the step */
  page_line of_warp[WARPS];
  int32_t is_last[2];
};

/* A block's partial result of an item: maximum and sum of every head, then o. Two slots a block: for the item that it
 * begins in the middle of, and for the one that it begins and does not finish.                                       */
template <int HD> struct partial_slot {
  float2 ml[MAX_DECODE_HEADS];
  float4 o[MAX_DECODE_HEADS][HD / 4];
};

__device__ __forceinline__ int32_t first_visible(const params &p, int32_t kv_tokens)
{
  return p.window_tokens > 0 && kv_tokens > p.window_tokens ? kv_tokens - p.window_tokens : 0;
}

__device__ __forceinline__ int32_t pages_of(const params &p, int32_t kv_tokens)
{
  return (kv_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS - first_visible(p, kv_tokens) / PAGE_TOKENS;
}

/* The place of the sequence whose pages contain index, by bisection over [n_seqs + 1] ascending starts. */
__device__ __forceinline__ int32_t find_seq(const int32_t *first_page, int32_t n_seqs, int32_t index)
{
  int32_t low = 0, high = n_seqs;
  while (high - low > 1) {
    int32_t middle = (low + high) / 2;
    if (first_page[middle] <= index)
      low = middle;
    else
      high = middle;
  }
  return low;
}

__device__ __forceinline__ void prefetch_line(const int32_t *table, int64_t n_values, int64_t line)
{
  if (line * 32 < n_values) prefetch_l2_evict_last(table + line * 32);
}

/* Have the step's tables on their way to the L2, to stay there from layer to layer. Large block tables are left out. */
template <int N_THREADS> __device__ __forceinline__ void prefetch_tables(const params &p)
{
  const int64_t n_values = (int64_t)p.n_seqs * p.block_table_stride;
  const int64_t line = (int64_t)blockIdx.x * N_THREADS + threadIdx.x;
  prefetch_line(p.row_starts, p.n_seqs + 1, line);
  prefetch_line(p.kv_tokens, p.n_seqs, line);
  if (n_values <= 64 * 1024) prefetch_line(p.block_tables, n_values, line);
}

/* Fill the shared tables. */
template <typename SHARED> __device__ page_line lay_out_pages(SHARED &s, const params &p, int32_t n_units)
{
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  page_line line = {0, 0, 0};
  for (int32_t base = 0; base < p.n_seqs; base += SHARED::N_THREADS) {
    int32_t seq = base + tid, row = 0, kv = 0, pages = 0;
    if (seq < p.n_seqs) {
      row = p.row_starts[seq];
      kv = p.kv_tokens[seq];
      if (p.row_starts[seq + 1] - row == 1 && kv > 0) pages = pages_of(p, kv);
    }
    const uint32_t taken = __ballot_sync(~0u, pages > 0);
    const int32_t longest = __reduce_max_sync(~0u, pages);
    int32_t sum = pages * n_units;
    for (int offset = 1; offset < 32; offset *= 2) {
      int32_t before = __shfl_up_sync(~0u, sum, offset);
      if (lane >= offset) sum += before;
    }
    if (lane == 31) s.of_warp[warp] = {sum, __popc(taken), longest};
    __syncthreads();
    int32_t first = line.n_pages + sum - pages * n_units, place = line.n_seqs + __popc(taken & ((1u << lane) - 1));
    for (int w = 0; w < SHARED::N_WARPS; w++) {
      const page_line part = s.of_warp[w];
      if (w < warp) first += part.n_pages, place += part.n_seqs;
      line = {line.n_pages + part.n_pages, line.n_seqs + part.n_seqs, max(line.longest, part.longest)};
    }
    if (pages > 0) {
      s.first_page[place] = first;
      s.kv_tokens[place] = kv;
      s.row[place] = row;
      s.seq[place] = seq;
    }
    __syncthreads();
  }
  if (tid == 0) s.first_page[line.n_seqs] = line.n_pages;
  __syncthreads();
  return line;
}

/* This block's share of the line. An item is one of a sequence's n_units. */
template <typename SHARED>
__device__ block_share share_of_this_block(const SHARED &s, const params &p, const page_line &line, int32_t n_units)
{
  const int32_t n_items = line.n_seqs * n_units;
  return share_of_block(line, n_items, gridDim.x, blockIdx.x, [&](int32_t item) {
    if (item >= n_items) return line.n_pages;
    const int32_t place = divide_small(item, n_units);
    return s.first_page[place] + (item - place * n_units) * pages_of(p, s.kv_tokens[place]);
  });
}

/* One item as it lies on the line of pages. */
struct decode_item {
  int32_t place, kv_tokens; /* of its sequence */
  int32_t begin, end;       /* pages */
  int32_t head_begin, n_heads;
  int64_t row;
};

/* The item of page `at`; of no sequence before `place`. */
template <int N_HEADS, typename SHARED>
__device__ decode_item item_at(const SHARED &s, const params &p, int32_t n_chunks, int32_t at, int32_t place)
{
  while (at >= s.first_page[place + 1]) place++;
  const int32_t kv = s.kv_tokens[place], n_pages = pages_of(p, kv), unit = (at - s.first_page[place]) / n_pages;
  const int32_t begin = s.first_page[place] + unit * n_pages;
  head_range heads = q_heads_of(p.heads, unit / n_chunks);
  heads.begin += unit % n_chunks * N_HEADS;
  return {place, kv, begin, begin + n_pages, heads.begin, min(heads.end - heads.begin, N_HEADS), s.row[place]};
}

/* One warp's supply of pages: page number n of the warp is page first + n * N_WARPS of the line. */
template <typename T, int HD, typename SHARED> struct page_ring {
  static constexpr int PAGE_BYTES = PAGE_TOKENS * HD * (int)sizeof(T), N_WARPS = SHARED::N_WARPS;

  const params &p;
  SHARED &s;
  char *slots; /* [n_stages][K page, V page] */
  uint64_t *full;
  int32_t n_seqs, n_chunks, n_stages, first, end;
  int32_t n_issued, issue_stage;
  yk_cuda::ring_position oldest;
  int32_t ahead; /* lane i: physical page of the i-th page of the current 32 */

  __device__ void look_up_32()
  {
    int32_t index = first + (n_issued + (int32_t)(threadIdx.x % 32)) * SHARED::N_WARPS;
    ahead = 0;
    if (index >= end) return;
    int32_t place = find_seq(s.first_page, n_seqs, index);
    int32_t kv = s.kv_tokens[place], n_pages = pages_of(p, kv);
    int32_t within = index - s.first_page[place], unit = within / n_pages;
    int32_t logical = first_visible(p, kv) / PAGE_TOKENS + within - unit * n_pages;
    int32_t block = p.block_tables[(int64_t)s.seq[place] * p.block_table_stride + logical];
    ahead = block * p.heads.n_kv_heads + unit / n_chunks;
  }

  /* Start the copy of the next page, if there is one left. */
  __device__ void issue()
  {
    const int lane = threadIdx.x % 32;
    if (first + n_issued * SHARED::N_WARPS >= end) return;
    if (n_issued % 32 == 0 && n_issued > 0) look_up_32();
    int64_t offset = (int64_t)__shfl_sync(~0u, ahead, n_issued % 32) * PAGE_BYTES;
    const char *k = (const char *)p.k + offset, *v = (const char *)p.v + offset;
    uint32_t slot = shared_address(slots) + (uint32_t)issue_stage * 2 * PAGE_BYTES;
    uint64_t *bar = &full[issue_stage];
#if defined(YK_HAVE_SM90A)
    if (lane == 0) {
      mbarrier_arrive_expect(bar, 2 * PAGE_BYTES);
      bulk_copy(slot, k, PAGE_BYTES, bar);
      bulk_copy(slot + PAGE_BYTES, v, PAGE_BYTES, bar);
    }
#else
    for (int i = lane * 16; i < PAGE_BYTES; i += 512) {
      cp_async_16(slot + i, k + i, true);
      cp_async_16(slot + PAGE_BYTES + i, v + i, true);
    }
    cp_async_arrive(bar);
#endif
    n_issued++;
    if (++issue_stage == n_stages) issue_stage = 0;
  }

  /* The page that is ahead places after the oldest one, once it has arrived. */
  __device__ const char *wait(int ahead_by)
  {
    yk_cuda::ring_position at = oldest;
    at.advance_by(ahead_by, n_stages);
    mbarrier_wait(&full[at.stage], at.phase);
    return slots + at.stage * 2 * PAGE_BYTES;
  }

  /* Give back the n oldest pages and start as many new ones. */
  __device__ void release(int n)
  {
    __syncwarp();
    oldest.advance_by(n, n_stages);
    for (int i = 0; i < n; i++) issue();
  }
};

} // namespace yk_attn

#endif
