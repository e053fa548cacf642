/* split_kv_combine.cuh - flash decoding's partial results and their combine: those of the warps of a thread block, then
 * those of the thread blocks that share a work item.
 *
 * A thread block takes consecutive pages of the page list, so at most two of its work items are shared with other
 * thread blocks: the one that an earlier thread block began, and the one that it begins itself and does not finish. It
 * therefore has two partial results in the workspace, [2 * block] and [2 * block + 1]. A shared work item's count is
 * that of the thread block that begins it; whoever brings the count to the number of splits combines all of them, in
 * order of the thread blocks, and sets the count back to zero for the next launch. */
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

/* The partial results of the thread block's warps, combined: head, and dimensions d .. d+3 of it. */
template <typename SHARED> __device__ __forceinline__ partial combine_warps_at(const SHARED &s, int head, int d)
{
  partial sum = {s.m[0][head], 0.0f, make_float4(0, 0, 0, 0)};
#pragma unroll
  for (int w = 1; w < SHARED::N_WARPS; w++) sum.m = fmaxf(sum.m, s.m[w][head]);
#pragma unroll
  for (int w = 0; w < SHARED::N_WARPS; w++) {
    const float weight = exp2_approx(s.m[w][head] - sum.m);
    sum.l += weight * s.l[w][head];
    add_scaled(sum.o, weight, *reinterpret_cast<const float4 *>(&s.o[w][head][d]));
  }
  return sum;
}

/* Combine the warps' partial results of a work item: into its output where the thread block has read all its pages
 * (result is NULL), else into this thread block's partial result in the workspace. */
template <int HD, typename OUTPUT, typename SHARED>
__device__ void combine_warps(const SHARED &s, const params &p, const OUTPUT &output, int32_t n_heads,
                              partial_result<HD> *result)
{
  for (int i = threadIdx.x; i < n_heads * (HD / 4); i += SHARED::N_THREADS) {
    const int head = i / (HD / 4), d = i % (HD / 4) * 4;
    const partial sum = combine_warps_at(s, head, d);
    if (!result) {
      output.store(p, head, d, sum.o, sum.l);
      continue;
    }
    __stcg(&result->o[head][d / 4], sum.o);
    if (d == 0) __stcg(&result->ml[head], make_float2(sum.m, sum.l));
  }
}

/* A work item of which this thread block has written a partial result. */
template <typename OUTPUT> struct split_item {
  int32_t first_block, n_splits; /* n_splits 0: there is none */
  int32_t n_heads;
  OUTPUT output;
};

/* Combine the partial results of a work item in order of the thread blocks: the second one of the thread block that
 * begins the work item, then the first one of each that follows. AT_ONCE of them are loaded together. */
template <int HD, int AT_ONCE, int N_THREADS, typename OUTPUT>
__device__ void combine_splits(const partial_result<HD> *results, const params &p, const split_item<OUTPUT> &item)
{
  for (int i = threadIdx.x; i < item.n_heads * (HD / 4); i += N_THREADS) {
    const int head = i / (HD / 4), d = i % (HD / 4) * 4;
    partial sum = {-INFINITY, 0.0f, make_float4(0, 0, 0, 0)};
    for (int32_t base = 0; base < item.n_splits; base += AT_ONCE) {
      float2 ml[AT_ONCE];
      float4 o[AT_ONCE];
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) {
        const int32_t n = min(base + j, item.n_splits - 1);
        const partial_result<HD> *result = results + 2 * (item.first_block + n) + (n == 0);
        ml[j] = __ldcg(&result->ml[head]);
        o[j] = __ldcg(&result->o[head][d / 4]);
        if (base + j >= item.n_splits) ml[j].x = -INFINITY;
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
    item.output.store(p, head, d, sum.o, sum.l);
  }
}

/* Count this thread block's partial results, after a barrier that all their writers have passed. s.is_last then says of
 * which work items this thread block's was the last one. The atomic addition both releases what the thread block has
 * written and acquires what the others have (acq_rel, made cumulative over the thread block by the barriers). */
template <typename OUTPUT, typename SHARED>
__device__ void count_arrival(SHARED &s, const split_item<OUTPUT> (&items)[2], int32_t *arrived)
{
  if (threadIdx.x % 32 == 0 && threadIdx.x < 2 * 32) {
    const split_item<OUTPUT> item = threadIdx.x ? items[1] : items[0];
    int32_t n_before = -2;
    if (item.n_splits > 0) n_before = increment_acq_rel_gpu(arrived + item.first_block);
    const bool is_last = n_before == item.n_splits - 1;
    s.is_last[threadIdx.x / 32] = is_last;
    if (is_last) arrived[item.first_block] = 0;
  }
  __syncthreads();
}

} // namespace yk_attn

#endif
