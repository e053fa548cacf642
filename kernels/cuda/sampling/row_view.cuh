/* row_view.cuh - one thread block's view of a row of logits: its slice of the ids, and passes over the slice. */
#ifndef YK_KERNELS_CUDA_SAMPLING_ROW_VIEW_CUH
#define YK_KERNELS_CUDA_SAMPLING_ROW_VIEW_CUH

#include <cfloat>

#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/sampling/sample_types.h"

namespace yk_sample {

using namespace yk_cuda;

constexpr int THREADS = 512;
constexpr int WARPS = THREADS / WARP;
constexpr int LOADS = 4;          /* logits that a thread loads together, so that their latencies overlap */
constexpr int NO_ID = 0x7fffffff; /* greater than every id: in a tie any id comes first */

/* A row of logits, this thread block's slice of it, and the ids that the filters have kept so far. */
struct row_view {
  const yk_cuda_sample_launch *a;
  const yk_cuda_sample_row *params;
  const uint32_t *mask;   /* the row's mask while it applies and the slice is not in shared memory, else NULL */
  const uint32_t *counts; /* counts of the row's penalty slot while penalties apply, else NULL */
  int64_t row;
  int32_t n;          /* ids */
  int32_t begin, end; /* the slice: ids begin .. end - 1 */
  /* [end - begin] the slice in shared memory: raw logits, then scaled ones. NULL if one thread block has the row alone:
   * the row does not fit then, and each pass reads global memory and recomputes scaled logits. */
  float *slice;
  int parity;                 /* parity of all_gather */
  bool has_top_k;             /* top_k drops some ids */
  float temperature, maximum; /* maximum: the largest scaled logit */
  uint32_t lowest_key;        /* top_k keeps this key and greater ones */
  uint32_t last_key;          /* top_p keeps greater keys, and the ids up to last_id of this key */
  int32_t last_id;
  float lowest; /* top_k or top_p drops every scaled logit below this one */
};

/* The key of a float. Keys have the order of their floats; both zeros have the same key. */
__device__ inline uint32_t key_of(float x)
{
  const uint32_t bits = __float_as_uint(x + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ inline float value_of(uint32_t key)
{
  return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

/* This row's logits in a shard. */
__device__ inline float *shard_row(const row_view &v, int32_t shard)
{
  return v.a->logits + (static_cast<int64_t>(shard) * v.a->n_rows + v.row) * v.a->shard_stride;
}

__device__ inline float *logit_of(const row_view &v, int32_t id)
{
  int32_t s = 0;
  while (id >= v.a->shard_first[s + 1]) s++;
  return shard_row(v, s) + (id - v.a->shard_first[s]);
}

/* The address from which passes read a logit of the slice. */
__device__ inline float *logit_in_slice(const row_view &v, int32_t id)
{
  return v.slice ? &v.slice[id - v.begin] : logit_of(v, id);
}

/* Begin to copy the slice to shared memory, in units of 16 bytes if the shards' rows are aligned so. */
__device__ inline void load_slice(const row_view &v)
{
  for (int32_t s = 0; s < v.a->n_shards; s++) {
    const int32_t first = max(v.begin, v.a->shard_first[s]), n = min(v.end, v.a->shard_first[s + 1]) - first;
    const float *from = shard_row(v, s) + (first - v.a->shard_first[s]);
    const uint32_t to = yk_ptx::shared_address(v.slice + (first - v.begin));
    const bool is_aligned = (reinterpret_cast<uintptr_t>(from) | to) % 16 == 0;
    const int32_t n_fours = is_aligned ? n / 4 : 0;
    for (int32_t i = threadIdx.x; i < n_fours; i += THREADS) yk_ptx::cp_async_16(to + i * 16, from + i * 4, true);
    for (int32_t i = n_fours * 4 + threadIdx.x; i < n; i += THREADS) yk_ptx::cp_async_4(to + i * 4, from + i);
  }
  yk_ptx::cp_async_commit();
}

/* Begin to copy the words of the row's mask that hold bits of the slice. */
__device__ inline void load_mask(const row_view &v, uint32_t *to)
{
  const int32_t first = v.begin / 32, n = v.begin < v.end ? (v.end - 1) / 32 - first + 1 : 0;
  for (int32_t i = threadIdx.x; i < n; i += THREADS)
    yk_ptx::cp_async_4(yk_ptx::shared_address(to + i), v.params->mask + first + i);
  yk_ptx::cp_async_commit();
}

/* Wait until every thread's copies have landed. */
__device__ inline void wait_for_slice()
{
  yk_ptx::cp_async_wait<0>();
  __syncthreads();
}

/* The logit after repetition, frequency and presence penalties. The intrinsics keep the compiler from fusing
 * operations, so that each is rounded as it is written. A finite logit stays finite. */
__device__ inline float penalised(const row_view &v, int32_t id, float logit)
{
  if (!v.counts) return logit;
  const uint32_t count = v.counts[id], n_output = count / YK_CUDA_COUNT_OUTPUT;
  const yk_sample_row &p = v.params->row;
  if (count == 0 || logit == -INFINITY) return logit;
  logit = logit > 0.0f ? __fdiv_rn(logit, p.repetition_penalty) : __fmul_rn(logit, p.repetition_penalty);
  if (n_output > 0) {
    logit = __fsub_rn(logit, __fmul_rn(p.frequency_penalty, static_cast<float>(n_output)));
    logit = __fsub_rn(logit, p.presence_penalty);
  }
  return fminf(fmaxf(logit, -FLT_MAX), FLT_MAX);
}

/* The logit in global memory after mask and penalties. */
__device__ inline float adjusted(const row_view &v, int32_t id, float logit)
{
  if (v.mask && !(v.mask[id / 32] >> (id % 32) & 1)) return -INFINITY;
  return penalised(v, id, logit);
}

/* Calls f(id, element of the slice in shared memory) for every id. */
template <typename F> __device__ void for_each_in_slice(const row_view &v, F f)
{
  const int32_t end_of_fours = v.begin + (v.end - v.begin) / 4 * 4;
  for (int32_t id = v.begin + threadIdx.x * 4; id < end_of_fours; id += THREADS * 4) {
    const float4 four = *reinterpret_cast<const float4 *>(&v.slice[id - v.begin]);
    f(id, four.x);
    f(id + 1, four.y);
    f(id + 2, four.z);
    f(id + 3, four.w);
  }
  const int32_t id = end_of_fours + threadIdx.x;
  if (id < v.end) f(id, v.slice[id - v.begin]);
}

/* Calls f(id, logit) for every id of the slice, each id by one thread and a thread's in rising order, with mask and
 * penalties where v.mask and v.counts are set. */
template <typename F> __device__ void for_each_logit(const row_view &v, F f)
{
  if (v.slice) {
    for_each_in_slice(v, [&](int32_t id, float raw) { f(id, penalised(v, id, raw)); });
    return;
  }
  for (int32_t s = 0; s < v.a->n_shards; s++) {
    const float *logits = shard_row(v, s) - v.a->shard_first[s];
    const int32_t end = min(v.end, v.a->shard_first[s + 1]);
    for (int32_t id = max(v.begin, v.a->shard_first[s]) + threadIdx.x; id < end; id += THREADS * LOADS) {
      float loaded[LOADS];
      for (int j = 0; j < LOADS; j++) loaded[j] = id + j * THREADS < end ? logits[id + j * THREADS] : 0.0f;
      for (int j = 0; j < LOADS; j++)
        if (id + j * THREADS < end) f(id + j * THREADS, adjusted(v, id + j * THREADS, loaded[j]));
    }
  }
}

/* The logit divided by the temperature. */
__device__ inline float scaled(const row_view &v, float logit)
{
  return __fdiv_rn(logit, v.temperature);
}

__device__ inline float scaled_of(const row_view &v, int32_t id)
{
  return v.slice ? v.slice[id - v.begin] : scaled(v, adjusted(v, id, *logit_of(v, id)));
}

/* An interval of scaled logits. */
struct bounds {
  float lower = -INFINITY, upper = INFINITY;
};

/* Calls f(id, scaled logit) in the same way for every id of the slice within bounds, and perhaps for others. */
template <typename F> __device__ void for_each_scaled(const row_view &v, bounds b, F f)
{
  if (!v.slice) {
    for_each_logit(v, [&](int32_t id, float logit) { f(id, scaled(v, logit)); });
    return;
  }
#pragma unroll 1
  for (int32_t id = v.begin + threadIdx.x; id < v.end; id += THREADS) {
    const float s = v.slice[id - v.begin];
    if (s >= b.lower && s <= b.upper) f(id, s);
  }
}

/* Ids of a thread block's slice of n: whole units of 16 bytes. The last slices may be shorter. */
__host__ __device__ constexpr int32_t slice_ids(int32_t n, int cluster)
{
  return ((n + cluster - 1) / cluster + 3) / 4 * 4;
}

} // namespace yk_sample

#endif
