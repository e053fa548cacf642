/* split_kv_combine.cuh - flash decoding's partial results and their combine: those of the warps of a thread block, then
 * those of the thread blocks that share a work item.
 *
 * A warp takes consecutive pages of its thread block's, and a thread block consecutive pages of the page list. So at
 * most two of a warp's work items are shared with other warps: the one that an earlier warp began, and the one that it
 * begins itself and does not finish. The same holds of a thread block and others.
 *
 *   warp            delivers what it has of a work item if no other warp of the thread block has pages of it; else
 *                   keeps it in shared memory for the thread block, which combines and delivers it once all are done.
 *   deliver         to y, if the thread block has read the whole work item; else as a partial result to the workspace,
 *                   where a thread block has two: [2 * block] of the work item begun by an earlier one, [2 * block + 1]
 *                   of the one that it begins.
 *   thread block    counts its partial results; a shared work item's count is that of the thread block that begins it.
 *                   Whoever brings the count to the number of splits combines all of them, in order of the thread
 *                   blocks, and sets the count back to zero for the next launch. */
#ifndef YK_KERNELS_CUDA_ATTENTION_SPLIT_KV_COMBINE_CUH
#define YK_KERNELS_CUDA_ATTENTION_SPLIT_KV_COMBINE_CUH

#include "kernels/cuda/attention/decode_work.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"

namespace yk_attn {

/* In the workspace: (m, l) of every head, then o. */
template <int HD> struct partial_result {
  float2 ml[MAX_DECODE_HEADS];
  float4 o[MAX_DECODE_HEADS][HD / 4];
};

__device__ __forceinline__ void add_scaled(float4 &sum, float weight, float4 v)
{
  sum.x += weight * v.x;
  sum.y += weight * v.y;
  sum.z += weight * v.z;
  sum.w += weight * v.w;
}

/* Attention over some of the tokens: maximum (in powers of two), sum of probabilities and, relative to 2^m, 4
 * dimensions of the output of one head. */
struct partial {
  float m, l;
  float4 o;
};

/* Combine the partial results of a work item in order of the thread blocks: the second one of the thread block that
 * begins the work item, then the first one of each that follows. AT_ONCE of them are loaded together. */
template <int HD, int AT_ONCE, int N_THREADS, typename OUTPUT>
__device__ void combine_splits(const partial_result<HD> *results, const params &p, const split_item &split)
{
  const OUTPUT output = OUTPUT::of(p, split.item);
  for (int i = threadIdx.x; i < split.item.n_heads * (HD / 4); i += N_THREADS) {
    const int head = i / (HD / 4), d = i % (HD / 4) * 4;
    partial sum = {-INFINITY, 0.0f, make_float4(0, 0, 0, 0)};
    for (int32_t base = 0; base < split.n_splits; base += AT_ONCE) {
      float2 ml[AT_ONCE];
      float4 o[AT_ONCE];
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) {
        const int32_t n = min(base + j, split.n_splits - 1);
        const partial_result<HD> *result = results + 2 * (split.first_block + n) + (n == 0);
        ml[j] = __ldcg(&result->ml[head]);
        o[j] = __ldcg(&result->o[head][d / 4]);
        if (base + j >= split.n_splits) ml[j].x = -INFINITY;
      }
      float top = sum.m;
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) top = fmaxf(top, ml[j].x);
      const float rescale = exp2_approx(sum.m - top);
      sum = {top, sum.l * rescale,
             make_float4(sum.o.x * rescale, sum.o.y * rescale, sum.o.z * rescale, sum.o.w * rescale)};
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) {
        const float weight = exp2_approx(ml[j].x - top);
        sum.l += weight * ml[j].y;
        add_scaled(sum.o, weight, o[j]);
      }
    }
    const float2 o[2] = {make_float2(sum.o.x, sum.o.y), make_float2(sum.o.z, sum.o.w)};
    output.store(p, head, d, o, sum.l);
  }
}

/* Count this thread block's partial results, after a barrier that all their writers have passed. s.is_last then says of
 * which work items this thread block's was the last one. The atomic addition both releases what the thread block has
 * written and acquires what the others have (acq_rel, made cumulative over the thread block by the barriers). */
template <typename SHARED> __device__ void count_arrival(SHARED &s, int32_t *arrived)
{
  if (threadIdx.x % 32 == 0 && threadIdx.x < 2 * 32) {
    const split_item &split = s.split[threadIdx.x / 32];
    int32_t n_before = -2;
    if (split.n_splits > 0) n_before = increment_acq_rel_gpu(arrived + split.first_block);
    const bool is_last = n_before == split.n_splits - 1;
    s.is_last[threadIdx.x / 32] = is_last;
    if (is_last) arrived[split.first_block] = 0;
  }
  __syncthreads();
}

/* What a thread block's warps have computed, on its way to the output. rings: the warps', each of ring_bytes. */
template <int HD, typename OUTPUT, typename SHARED> struct block_results {
  using result = typename SHARED::result;

  const params &p;
  SHARED &s;
  const block_pages &mine;
  const warp_pages &of_warps;
  char *rings;
  int ring_bytes;

  __device__ partial_result<HD> *partial_results() const
  {
    return reinterpret_cast<partial_result<HD> *>(p.partial_results);
  }

  /* Where a warp keeps its result of a work item that it shares with other warps. end: behind the last of the work
   * item's pages in the thread block. If the warp's own pages end there or before, its ring is free and takes it. */
  __device__ result &of_warp(int warp, int32_t end) const
  {
    return end >= of_warps.first(warp + 1) ? *reinterpret_cast<result *>(rings + warp * ring_bytes) : s.ended[warp];
  }

  __device__ bool begins(const work_item &item) const
  {
    return item.begin >= mine.begin;
  }

  /* Whether the thread block reads all of the work item. */
  __device__ bool is_whole(const work_item &item) const
  {
    return begins(item) && item.end <= mine.end;
  }

  /* N pairs of dimensions, from d on, of a warp's result of a work item. */
  template <int N> __device__ static void keep(result &to, int head, int d, const float2 (&o)[N], float2 ml)
  {
#pragma unroll
    for (int i = 0; i < N; i++) *reinterpret_cast<float2 *>(&to.o[head][d + 2 * i]) = o[i];
    if (d == 0) to.ml[head] = ml;
  }

  /* The same of the thread block's result. */
  template <int N>
  __device__ void deliver(const work_item &item, int head, int d, const float2 (&o)[N], float2 ml) const
  {
    if (is_whole(item)) {
      OUTPUT::of(p, item).store(p, head, d, o, ml.y);
      return;
    }
    partial_result<HD> &to = partial_results()[2 * blockIdx.x + begins(item)];
#pragma unroll
    for (int i = 0; i < N; i++) __stcg(reinterpret_cast<float2 *>(to.o[head]) + d / 2 + i, o[i]);
    if (d == 0) __stcg(&to.ml[head], ml);
  }

  /* Called by a warp: combine one head of a work item whose first pages in the thread block are first_warp's. */
  __device__ void combine(const work_item &item, int first_warp, int head) const
  {
    const int lane = threadIdx.x % 32, d = lane * 4;
    const int32_t end = min(item.end, mine.end);
    const bool has_pages = lane >= first_warp && lane < SHARED::N_WARPS && of_warps.first(lane) < end;
    const int end_warp = first_warp + __popc(__ballot_sync(~0u, has_pages));
    if (d >= HD) return;
    partial sum = {-INFINITY, 0.0f, make_float4(0, 0, 0, 0)};
#pragma unroll 4
    for (int w = first_warp; w < end_warp; w++) sum.m = fmaxf(sum.m, of_warp(w, end).ml[head].x);
#pragma unroll 4
    for (int w = first_warp; w < end_warp; w++) {
      const result &r = of_warp(w, end);
      const float weight = exp2_approx(r.ml[head].x - sum.m);
      sum.l += weight * r.ml[head].y;
      add_scaled(sum.o, weight, *reinterpret_cast<const float4 *>(&r.o[head][d]));
    }
    const float2 o[2] = {make_float2(sum.o.x, sum.o.y), make_float2(sum.o.z, sum.o.w)};
    deliver(item, head, d, o, make_float2(sum.m, sum.l));
  }

  /* Called by a warp that has consumed pages [begin, end) of a work item, the first and the last of its own that belong
   * to it: deliver its result if no other warp of the thread block has pages of it, else keep it for finish. */
  template <typename STATE>
  __device__ __forceinline__ void add(const STATE &state, const work_item &item, int32_t begin, int32_t end) const
  {
    const int warp = threadIdx.x / 32;
    const bool is_first = max(item.begin, mine.begin) >= begin, is_last = min(item.end, mine.end) <= end;
    if (is_first && is_last) {
      state.results([&](int head, int d, const auto &o, float2 ml) {
        if (head < item.n_heads) deliver(item, head, d, o, ml);
      });
    } else {
      result &to = of_warp(warp, end);
      state.results([&](int head, int d, const auto &o, float2 ml) {
        if (head < item.n_heads) keep(to, head, d, o, ml);
      });
    }
    if (!is_first || threadIdx.x % 32 > 0) return;
    if (!is_last) s.begun[warp] = item;
    if (!is_whole(item))
      s.split[begins(item)] = {mine.first_block(blockIdx.x, item.begin), mine.n_blocks(item.begin, item.end), item};
  }

  /* Called by the thread block: combine what several of its warps share, and what it shares with other thread blocks if
   * it is the last of them. AT_ONCE: partial results that are loaded together. */
  template <int AT_ONCE> __device__ void finish() const
  {
    __syncthreads();
    const int lane = threadIdx.x % 32, n_heads = lane < SHARED::N_WARPS ? s.begun[lane].n_heads : 0;
    int turn = threadIdx.x / 32; /* the heads of all work items go round the warps */
    for (uint32_t left = __ballot_sync(~0u, n_heads > 0); left; left &= left - 1) {
      const int first_warp = __ffs(left) - 1, n = __shfl_sync(~0u, n_heads, first_warp);
      for (; turn < n; turn += SHARED::N_WARPS) combine(s.begun[first_warp], first_warp, turn);
      turn -= n;
    }
    if (s.split[0].n_splits == 0 && s.split[1].n_splits == 0) return;
    __syncthreads();
    count_arrival(s, p.counters->arrived);
    for (int i = 0; i < 2; i++) {
      if (s.is_last[i]) combine_splits<HD, AT_ONCE, SHARED::N_THREADS, OUTPUT>(partial_results(), p, s.split[i]);
    }
  }
};

} // namespace yk_attn

#endif
