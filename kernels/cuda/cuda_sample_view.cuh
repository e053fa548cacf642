/* cuda_sample_view.cuh - a row of logits as one block of its team sees it: a slice of the ids, and passes over that. */
#ifndef YK_KERNELS_CUDA_CUDA_SAMPLE_VIEW_CUH
#define YK_KERNELS_CUDA_CUDA_SAMPLE_VIEW_CUH

#include <cfloat>

#include "kernels/cuda/cuda_kernels.cuh"

namespace yk_sample {

using namespace yk_cuda;

constexpr int THREADS = 512;
constexpr int WARPS = THREADS / WARP;
constexpr int LOADS = 4; /* logits that a thread asks for at once */
constexpr int NO_ID = 0x7fffffff;

/* A row, and what has been decided of it so far. */
struct row_view {
  const yk_cuda_sample_launch *a;
  const yk_cuda_sample_row *params;
  const uint32_t *counts; /* of the row's slot while penalties apply, else NULL */
  int64_t row;
  int32_t n;          /* ids */
  int32_t begin, end; /* this block's slice of them */
  float *slice;       /* [end - begin] scaled logits in shared memory; a block alone has no room and works them out */
  int turn;           /* of the team's messages */
  float temperature, maximum; /* maximum: of the scaled logits */
  uint32_t lowest_key;        /* top_k keeps keys from here */
  uint32_t last_key;          /* top_p keeps greater keys, and of this key the ids up to last_id */
  int32_t last_id;
  float lowest; /* scaled logits below are dropped by one of the two */
};

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

/* Repetition, frequency and presence penalties, each operation rounded as written; a finite logit stays finite. */
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

/* f(id, logit) for every id of the slice, each by one thread, penalties applied where they are on. */
template <typename F> __device__ void for_each_logit(const row_view &v, F f)
{
  for (int32_t s = 0; s < v.a->n_shards; s++) {
    const float *logits = shard_row(v, s) - v.a->shard_first[s];
    const int32_t end = min(v.end, v.a->shard_first[s + 1]);
    for (int32_t id = max(v.begin, v.a->shard_first[s]) + threadIdx.x; id < end; id += THREADS * LOADS) {
      float loaded[LOADS];
      for (int j = 0; j < LOADS; j++) loaded[j] = id + j * THREADS < end ? logits[id + j * THREADS] : 0.0f;
      for (int j = 0; j < LOADS; j++)
        if (id + j * THREADS < end) f(id + j * THREADS, penalised(v, id + j * THREADS, loaded[j]));
    }
  }
}

__device__ inline float scaled(const row_view &v, float logit)
{
  return __fdiv_rn(logit, v.temperature);
}

__device__ inline float scaled_of(const row_view &v, int32_t id)
{
  return v.slice ? v.slice[id - v.begin] : scaled(v, penalised(v, id, *logit_of(v, id)));
}

/* An interval of scaled logits. */
struct bounds {
  float lower = -INFINITY, upper = INFINITY;
};

/* f(id, scaled logit) likewise for all within bounds, and perhaps for others. */
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

/* Ids of a block's slice, but for the last block's. */
__host__ __device__ constexpr int32_t slice_ids(int32_t n, int team)
{
  return (n + team - 1) / team;
}

} // namespace yk_sample

#endif
