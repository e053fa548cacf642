/* split_kv_combine.cuh - flash decoding's partial results and their combination: those of the warps of a thread block,
 * then those of the thread blocks that share a work item.
 *
 * A warp takes consecutive pages of its thread block, and a thread block consecutive pages of the page list. So a warp
 * shares at most two of its work items with other warps: the one that an earlier warp began, and the one that it begins
 * itself and does not finish. The same holds for thread blocks.
 *
 *   warp            a work item whose pages the warp has all read goes to y. Results of other work items stay in shared
 *                   memory.
 *   thread block    once all its warps are done, each of them combines some parts of heads (of PART_DIMS dimensions) of
 *                   the kept results. Parts whose pages the thread block has all read go to y; others go as partial
 *                   results to the workspace, where a thread block has two: [2 * block] for the work item begun by an
 *                   earlier thread block, [2 * block + 1] for the one that it begins. Parts are independent: from here
 *                   on no warp waits for another.
 *   warp            counts its partial results; the count of a shared part belongs to the thread block that begins the
 *                   work item. The warp that completes the count combines all partial results, in order of the thread
 *                   blocks, and resets the count for the next launch. */
#ifndef YK_KERNELS_CUDA_ATTENTION_SPLIT_KV_COMBINE_CUH
#define YK_KERNELS_CUDA_ATTENTION_SPLIT_KV_COMBINE_CUH

#include "kernels/cuda/attention/decode_work.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"

namespace yk_attn {

/* In the workspace: (m, l) of every head, once for each part, since different warps write the parts; then o. */
template <int HD> struct partial_result {
  float2 ml[MAX_DECODE_HEADS][parts_of(HD)];
  float4 o[MAX_DECODE_HEADS][HD / 4];
};

/* A part of a head of a work item. */
struct head_part {
  int head, part;

  /* Number index of the parts of all heads. */
  template <int HD> __device__ __forceinline__ static head_part at(int index)
  {
    return {index / parts_of(HD), index % parts_of(HD)};
  }

  /* The lane's vector of 4 dimensions. */
  __device__ __forceinline__ int vector() const
  {
    return part * (PART_DIMS / 4) + static_cast<int>(threadIdx.x % 32);
  }
};

__device__ __forceinline__ void add_scaled(float4 &sum, float weight, float4 v)
{
  sum.x += weight * v.x;
  sum.y += weight * v.y;
  sum.z += weight * v.z;
  sum.w += weight * v.w;
}

/* Attention over some of the tokens: maximum (as a power of two), sum of probabilities and, relative to 2^m, 4
 * dimensions of the output of one head. */
struct partial {
  float m, l;
  float4 o;
};

/* Combines the partial results of a part of a head in order of the thread blocks: the second partial result of the
 * thread block that begins the work item, then the first of each following thread block. AT_ONCE of them are loaded
 * together. The lane gets the dimensions of of.vector(); undefined past the last one. */
template <int HD, int AT_ONCE>
__device__ partial combine_splits(const partial_result<HD> *results, int32_t first_block, int32_t n_splits,
                                  head_part of)
{
  const int vector = min(of.vector(), HD / 4 - 1);
  partial sum = {-INFINITY, 0.0f, make_float4(0, 0, 0, 0)};
  for (int32_t base = 0; base < n_splits; base += AT_ONCE) {
    float2 ml[AT_ONCE];
    float4 o[AT_ONCE];
#pragma unroll
    for (int j = 0; j < AT_ONCE; j++) {
      ml[j] = make_float2(-INFINITY, 0.0f);
      o[j] = make_float4(0, 0, 0, 0);
      const int32_t n = base + j;
      if (n >= n_splits) continue;
      const partial_result<HD> *result = results + 2 * (first_block + n) + (n == 0);
      ml[j] = __ldcg(&result->ml[of.head][of.part]);
      o[j] = __ldcg(&result->o[of.head][vector]);
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
  return sum;
}

/* Combines the results of a thread block's warps into the output. rings: the warps', each of ring_bytes. */
template <int HD, typename OUTPUT, typename SHARED> struct block_results {
  using result = typename SHARED::result;
  static constexpr int N_WARPS = SHARED::N_WARPS;

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

  /* Memory of a warp's result of a work item that it shares with other warps. end: end of the work item's pages in the
   * thread block. If the warp's own pages end there or before, its ring is free and holds the result. */
  __device__ result &of_warp(int warp, int32_t end) const
  {
    return end >= of_warps.first(warp + 1) ? *reinterpret_cast<result *>(rings + warp * ring_bytes) : s.ended[warp];
  }

  /* Called by a warp: sum is of the lane's dimensions of a part. */
  __device__ void store(const work_item &item, head_part of, const partial &sum) const
  {
    const int d = of.vector() * 4;
    const float2 o[2] = {make_float2(sum.o.x, sum.o.y), make_float2(sum.o.z, sum.o.w)};
    if (d < HD) OUTPUT::of(p, item).store(p, of.head, d, o, make_float2(sum.m, sum.l));
  }

  /* Called by a warp that has consumed pages [begin, end) of a work item: the first and the last of its pages that
   * belong to it. */
  template <typename STATE>
  __device__ __forceinline__ void add(const STATE &state, const work_item &item, int32_t begin, int32_t end) const
  {
    if (item.begin >= begin && item.end <= end) {
      const OUTPUT output = OUTPUT::of(p, item);
      state.results([&](int head, int d, const auto &o, float2 ml) {
        if (head < item.n_heads) output.store(p, head, d, o, ml);
      });
      return;
    }
    const int warp = threadIdx.x / 32;
    result &to = of_warp(warp, end);
    state.results([&](int head, int d, const auto &o, float2 ml) {
      if (head < item.n_heads) to.keep(head, d, o, ml);
    });
    const bool is_first = max(item.begin, mine.begin) >= begin;
    if (is_first && threadIdx.x % 32 == 0) s.kept[item.begin < mine.begin ? N_WARPS : warp] = item;
  }

  /* Called by a warp: combines the results of the thread block's warps for a part of a head of a work item. first_warp:
   * the warp with the thread block's first pages of the item. */
  __device__ partial combine(const work_item &item, int first_warp, head_part of) const
  {
    const int lane = threadIdx.x % 32;
    const int32_t end = min(item.end, mine.end);
    const bool has_pages = lane >= first_warp && lane < N_WARPS && of_warps.first(lane) < end;
    const uint32_t have_pages = __ballot_sync(~0u, has_pages);
    const int place = has_pages ? static_cast<int>(reinterpret_cast<char *>(&of_warp(lane, end)) - rings) : 0;
    float2 ml[N_WARPS];
    float4 o[N_WARPS];
#pragma unroll
    for (int w = 0; w < N_WARPS; w++) {
      const result &r = *reinterpret_cast<const result *>(rings + __shfl_sync(~0u, place, w));
      ml[w] = make_float2(-INFINITY, 0.0f);
      o[w] = make_float4(0, 0, 0, 0);
      if (have_pages >> w & 1) {
        ml[w] = r.ml[of.head];
        o[w] = r.kept(of.head, of.vector());
      }
    }
    partial sum = {ml[0].x, 0.0f, make_float4(0, 0, 0, 0)};
#pragma unroll
    for (int w = 1; w < N_WARPS; w++) sum.m = fmaxf(sum.m, ml[w].x);
#pragma unroll
    for (int w = 0; w < N_WARPS; w++) {
      const float weight = exp2_approx(ml[w].x - sum.m);
      sum.l += weight * ml[w].y;
      add_scaled(sum.o, weight, o[w]);
    }
    return sum;
  }

  /* Called by all warps: combines the kept results. The parts of all work items' heads are distributed over the warps
   * round-robin; the work items that other thread blocks share come last, so that no warp has many of their parts.
   * AT_ONCE: partial results that are loaded together. */
  template <int AT_ONCE> __device__ void finish() const
  {
    __syncthreads();
    const int lane = threadIdx.x % 32;
    int index = threadIdx.x / 32;
    for (uint32_t left = __ballot_sync(~0u, lane <= N_WARPS && s.kept[lane].n_heads > 0); left; left &= left - 1) {
      const int slot = __ffs(left) - 1;
      const work_item &item = s.kept[slot];
      const int n_parts = item.n_heads * parts_of(HD);
      for (; index < n_parts; index += N_WARPS) {
        const head_part of = head_part::at<HD>(index);
        const partial sum = combine(item, slot == N_WARPS ? 0 : slot, of);
        if (slot == N_WARPS || item.end > mine.end) {
          deliver(item, of, sum);
          finish_shared<AT_ONCE>(item, of);
        } else {
          store(item, of, sum);
        }
      }
      index -= n_parts;
    }
  }

  /* Writes the thread block's partial result of a part of a head to the workspace. */
  __device__ void deliver(const work_item &item, head_part of, const partial &sum) const
  {
    partial_result<HD> &to = partial_results()[2 * blockIdx.x + (item.begin >= mine.begin)];
    if (of.vector() < HD / 4) __stcg(&to.o[of.head][of.vector()], sum.o);
    if (threadIdx.x % 32 == 0) __stcg(&to.ml[of.head][of.part], make_float2(sum.m, sum.l));
  }

  /* Counts the partial result of a part of a head, and combines the whole part if it was the last one. The atomic
   * addition both releases this warp's writes and acquires the others' (made cumulative over the warp by
   * __syncwarp). */
  template <int AT_ONCE> __device__ void finish_shared(const work_item &item, head_part of) const
  {
    const int lane = threadIdx.x % 32;
    const int32_t first_block = mine.first_block(blockIdx.x, item.begin);
    const int32_t n_splits = mine.n_blocks(item.begin, item.end);
    int32_t *arrived = &p.counters->arrived[first_block][of.head * parts_of(HD) + of.part];
    int32_t n_before = 0;
    __syncwarp();
    if (lane == 0) n_before = increment_acq_rel_gpu(arrived);
    __syncwarp();
    if (__shfl_sync(~0u, n_before, 0) != n_splits - 1) return;
    if (lane == 0) *arrived = 0;
    store(item, of, combine_splits<HD, AT_ONCE>(partial_results(), first_block, n_splits, of));
  }
};

} // namespace yk_attn

#endif
