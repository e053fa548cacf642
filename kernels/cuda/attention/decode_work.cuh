/* decode_work.cuh - the work items of a decode step: every thread block lists the sequences with one query row in its
 * shared memory, from the step's lengths alone, and derives its pages from the list. */
#ifndef YK_KERNELS_CUDA_ATTENTION_DECODE_WORK_CUH
#define YK_KERNELS_CUDA_ATTENTION_DECODE_WORK_CUH

#include "kernels/cuda/attention/params.cuh"
#include "kernels/cuda/attention/split_kv.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"

namespace yk_attn {

/* Bytes of pages that a thread block has in flight: twice a multiprocessor's share of bandwidth times latency. More
 * requests would only lengthen the memory queues and give some multiprocessors a larger share of the bandwidth. */
constexpr int DECODE_BYTES_AHEAD = 64 * 1024;

/* Stages of a warp's ring; each has a page of K and one of V. copies_values: whether the warp copies a whole V page to
 * registers; if not, the page occupies one more stage while it is multiplied. */
__host__ __device__ constexpr int decode_stages(int page_bytes, int n_warps, bool copies_values)
{
  const int n = DECODE_BYTES_AHEAD / (n_warps * 2 * page_bytes);
  return (n > 1 ? n : 1) + (copies_values ? 0 : 1);
}

/* Sequences of one launch: their lengths are kept in shared memory. Larger batches use several launches. */
constexpr int MAX_SEQS_PER_LAUNCH = 1024;

struct work_item {
  int32_t entry, kv_tokens; /* entry and length of its sequence */
  int32_t begin, end;       /* its pages on the page list */
  int32_t head_begin, n_heads;
  int64_t row;
};

/* The partial results of a work item's heads over the pages that one warp has read: ml = (m, l), the maximum of the
 * scores and the sum of their weights, and o, the weighted sum relative to 2^m and not divided by l. The vectors of 4
 * dimensions of a row of o are swizzled within groups of eight, so that the vectors that the lanes of a warp store
 * together (warp_state::results) are in different banks. */
template <int HD, int N_HEADS> struct warp_result {
  static constexpr int N_VECTORS = (HD / 4 + 7) / 8 * 8; /* vectors per head, rounded up to a multiple of eight */
  float4 o[N_HEADS][N_VECTORS];
  float2 ml[N_HEADS];

  /* Position of vector i of a head in its row. */
  __device__ __forceinline__ static int place(int head, int i)
  {
    return i ^ (head >> 1 & 1) ^ (head & 4);
  }

  /* Stores N pairs of dimensions, from dimension d on. */
  template <int N> __device__ __forceinline__ void keep(int head, int d, const float2 (&pairs)[N], float2 of_head)
  {
    if constexpr (N == 1) {
      reinterpret_cast<float2 *>(&o[head][place(head, d / 4)])[d / 2 % 2] = pairs[0];
    } else {
#pragma unroll
      for (int i = 0; i < N; i += 2)
        o[head][place(head, d / 4 + i / 2)] = make_float4(pairs[i].x, pairs[i].y, pairs[i + 1].x, pairs[i + 1].y);
    }
    if (d == 0) ml[head] = of_head;
  }

  /* Loads dimensions 4i .. 4i + 3; undefined past the last one. */
  __device__ __forceinline__ float4 kept(int head, int i) const
  {
    return o[head][place(head, i % N_VECTORS)];
  }
};

/* Shared memory besides the rings. HD: head_dim; N_TILES: tiles of 8 query heads; STAGES: of a warp's ring. */
template <int HD, int N_TILES, int WARPS, int STAGES> struct decode_shared {
  static constexpr int N_HEADS = 8 * N_TILES, N_WARPS = WARPS, N_THREADS = WARPS * 32, N_STAGES = STAGES;
  using result = warp_result<HD, N_HEADS>;
  /* results of work items that an earlier warp began and this warp ends */
  result ended[WARPS];
  uint64_t full[WARPS][STAGES]; /* mbarriers of the warps' stages */
  /* The sequences with one query row, in the order of the step. An index into these arrays is called entry below. */
  int32_t first_page[MAX_SEQS_PER_LAUNCH + 1]; /* on the page list; at the end the list's length */
  int32_t kv_tokens[MAX_SEQS_PER_LAUNCH];
  int32_t row[MAX_SEQS_PER_LAUNCH];
  int32_t seq[MAX_SEQS_PER_LAUNCH]; /* index of the sequence in the step */
  page_list of_warp[WARPS];         /* while the list is built: the extent of a warp's sequences */
  /* Work items whose results stay in shared memory: warp i began entry i, an earlier thread block began entry WARPS.
   * n_heads 0: none. */
  work_item kept[WARPS + 1];
};

__device__ __forceinline__ int32_t first_visible(const params &p, int32_t kv_tokens)
{
  if (p.window_is_chunk) return first_visible_at(p, kv_tokens - 1);
  return p.window_tokens > 0 && kv_tokens > p.window_tokens ? kv_tokens - p.window_tokens : 0;
}

/* Pages that hold the visible tokens of a sequence, for one KV head. */
__device__ __forceinline__ int32_t pages_of(const params &p, int32_t kv_tokens)
{
  return (kv_tokens + PAGE_TOKENS - 1) / PAGE_TOKENS - first_visible(p, kv_tokens) / PAGE_TOKENS;
}

/* The entry of the sequence to which page number index of the page list belongs, by bisection. */
__device__ __forceinline__ int32_t find_entry(const int32_t *first_page, int32_t n_entries, int32_t index)
{
  int32_t low = 0, high = n_entries;
  while (high - low > 1) {
    int32_t middle = (low + high) / 2;
    if (first_page[middle] <= index)
      low = middle;
    else
      high = middle;
  }
  return low;
}

__device__ __forceinline__ void prefetch_cache_line(const int32_t *table, int64_t n_values, int64_t cache_line)
{
  if (cache_line * 32 < n_values) prefetch_l2_evict_last(table + cache_line * 32);
}

/* Prefetches the step's tables into the L2 cache, where they stay from layer to layer. Large block tables are
 * excluded. */
template <int N_THREADS> __device__ __forceinline__ void prefetch_tables(const params &p)
{
  const int64_t n_values = static_cast<int64_t>(p.n_seqs) * p.block_table_stride;
  const int64_t cache_line = static_cast<int64_t>(blockIdx.x) * N_THREADS + threadIdx.x;
  prefetch_cache_line(p.row_starts, p.n_seqs + 1, cache_line);
  prefetch_cache_line(p.kv_tokens, p.n_seqs, cache_line);
  if (n_values <= 64 * 1024) prefetch_cache_line(p.block_tables, n_values, cache_line);
}

/* Fills the shared lists; returns the page list's extent. A thread takes one sequence of each N_THREADS: prefix sums
 * over the warp, then over the warps, give the sequence its entry and its first page. n_head_groups: work items of a
 * sequence. */
template <typename SHARED> __device__ page_list build_page_list(SHARED &s, const params &p, int32_t n_head_groups)
{
  const int tid = threadIdx.x, lane = tid % 32, warp = tid / 32;
  page_list list = {0, 0, 0};
  for (int32_t base = 0; base < p.n_seqs; base += SHARED::N_THREADS) {
    int32_t seq = base + tid, row = 0, kv = 0, pages = 0;
    if (seq < p.n_seqs) {
      row = p.row_starts[seq];
      kv = p.kv_tokens[seq];
      if (p.row_starts[seq + 1] - row == 1 && kv > 0) pages = pages_of(p, kv);
    }
    const uint32_t taken = __ballot_sync(~0u, pages > 0);
    const int32_t longest = __reduce_max_sync(~0u, pages);
    int32_t sum = pages * n_head_groups;
    for (int offset = 1; offset < 32; offset *= 2) {
      int32_t before = __shfl_up_sync(~0u, sum, offset);
      if (lane >= offset) sum += before;
    }
    if (lane == 31) s.of_warp[warp] = {sum, __popc(taken), longest};
    __syncthreads();
    int32_t first = list.n_pages + sum - pages * n_head_groups;
    int32_t entry = list.n_seqs + __popc(taken & ((1u << lane) - 1));
    for (int w = 0; w < SHARED::N_WARPS; w++) {
      const page_list part = s.of_warp[w];
      if (w < warp) first += part.n_pages, entry += part.n_seqs;
      list = {list.n_pages + part.n_pages, list.n_seqs + part.n_seqs, max(list.longest, part.longest)};
    }
    if (pages > 0) {
      s.first_page[entry] = first;
      s.kv_tokens[entry] = kv;
      s.row[entry] = row;
      s.seq[entry] = seq;
    }
    if (tid == 0) s.first_page[list.n_seqs] = list.n_pages;
    __syncthreads();
  }
  return list;
}

/* The pages that this thread block takes. */
template <typename SHARED>
__device__ block_pages pages_of_this_block(const SHARED &s, const params &p, const page_list &list,
                                           int32_t n_head_groups)
{
  const int32_t n_items = list.n_seqs * n_head_groups;
  return divide_pages(list, n_items, gridDim.x, blockIdx.x, [&](int32_t item) {
    if (item >= n_items) return list.n_pages;
    const int32_t entry = small_quotient(item, n_head_groups);
    return s.first_page[entry] + (item - entry * n_head_groups) * pages_of(p, s.kv_tokens[entry]);
  });
}

/* The work item of page number index. entry: entry of this page's sequence or of an earlier one. */
template <int N_HEADS, typename SHARED>
__device__ work_item work_item_at(const SHARED &s, const params &p, int32_t groups_per_kv_head, int32_t index,
                                  int32_t entry)
{
  while (index >= s.first_page[entry + 1]) entry++;
  const int32_t kv = s.kv_tokens[entry], n_pages = pages_of(p, kv);
  const int32_t head_group = (index - s.first_page[entry]) / n_pages;
  const int32_t begin = s.first_page[entry] + head_group * n_pages;
  const int32_t kv_head = small_quotient(head_group, groups_per_kv_head);
  head_range heads = q_heads_of(p.heads, kv_head);
  heads.begin += (head_group - kv_head * groups_per_kv_head) * N_HEADS;
  return {entry, kv, begin, begin + n_pages, heads.begin, min(heads.end - heads.begin, N_HEADS), s.row[entry]};
}

/* The local KV head that a work item's query heads read. */
__device__ __forceinline__ int32_t kv_head_of(const params &p, const work_item &item)
{
  return (p.heads.q_head_first + item.head_begin) / p.heads.q_per_kv - p.heads.kv_head_first;
}

} // namespace yk_attn

#endif
