/* params.cuh - the arguments of every attention kernel, the workspace, and the launch itself. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PARAMS_CUH
#define YK_KERNELS_CUDA_ATTENTION_PARAMS_CUH

#include "kernels/cuda/attention/attention_types.h"
#include "kernels/cuda/common/division.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/device.h"

namespace yk_attn {

using namespace yk_ptx;

constexpr int PAGE_TOKENS = YK_KV_BLOCK_TOKENS;

/* Query heads of one KV head that a decode thread block computes at once: the columns of its tile. */
constexpr int MAX_DECODE_HEADS = 16;

/* Dimensions of a head that a warp combines at once: four a lane. A wider head has several parts, which are combined
 * separately. */
constexpr int PART_DIMS = 128, MAX_HEAD_PARTS = 4;

__host__ __device__ constexpr int parts_of(int head_dim)
{
  return (head_dim + PART_DIMS - 1) / PART_DIMS;
}

/* The largest partial result of prefill: rows of a work tile and their dimensions. */
constexpr int MAX_SPLIT_ROWS = 128, MAX_SPLIT_DIMS = 128;

/* Maximum of a decode launch, which has one thread block per multiprocessor. */
constexpr int MAX_THREAD_BLOCKS = 1024;

/* The start of the workspace. All counters are zero between launches: the last thread block to count resets them. */
struct workspace_counters {
  /* Decode: number of partial results written for each part of a head of the work item that begins in thread block i
   * and ends in a later one. Prefill: for the rows of each warp of the work tile whose first partial result is i. */
  int32_t arrived[MAX_THREAD_BLOCKS][MAX_DECODE_HEADS * MAX_HEAD_PARTS];
  int32_t next_tile;  /* prefill: number of assigned work tiles */
  int32_t n_done;     /* prefill: thread blocks that found no further work tile */
  int32_t unused[62]; /* pads to 256 bytes, so that the following partial results are aligned */
};

struct params {
  void *y;
  const void *q, *k, *v;
  yk_dtype dtype; /* type of q and y */
  yk_kv_format format;
  const float *k_channels, *v_channels; /* as in yk_kv_layer */
  yk_head_layout heads;
  int64_t q_stride, y_stride; /* elements between rows */
  float scale_log2;           /* softmax scale times log2(e): the kernels compute powers of two */
  int32_t window_tokens;
  int32_t n_tokens, n_seqs, block_table_stride;
  const int32_t *row_starts, *kv_tokens, *block_tables, *seq_of_row;
  workspace_counters *counters;
  float *partial_results;      /* see split_kv_combine.cuh (decode) and prefill_wgmma_splits.cuh */
  void *k_staging, *v_staging; /* pages of dtype that decode fills for prefill (kv_staging.cuh); may be NULL */
  const float *sinks;          /* as in yk_attention_args */
  yk_score_growth growth;      /* the same */
  bool window_is_chunk;        /* the same */
  bool is_invariant;           /* the same: prefill splits no work tile */
  bool takes_single_rows;      /* prefill also takes sequences with one row */
  int64_t gates_column;        /* of the first head's gates in a row of q, if there are gates */
};

constexpr float LOG2_E = 1.4426950408889634f;

/* scale_log2 of the query at a position of its sequence: see yk_score_growth_at. */
__device__ __forceinline__ float scale_log2_at(const params &p, int32_t position)
{
  const yk_score_growth &g = p.growth;
  if (g.beta == 0.0f || position < g.period - g.shift) return p.scale_log2;
  const int32_t n_periods = yk_cuda::quotient(position + g.shift, g.period);
  return p.scale_log2 * (1.0f + g.beta * __logf(static_cast<float>(1 + n_periods)));
}

/* The first position that the query at a position attends to; it never decreases with the position. */
__device__ __forceinline__ int32_t first_visible_at(const params &p, int32_t position)
{
  if (p.window_is_chunk) return yk_cuda::quotient(position, p.window_tokens) * p.window_tokens;
  return p.window_tokens > 0 ? max(0, position - p.window_tokens + 1) : 0;
}

/* The sum of probabilities with the sink of a local query head, if there are sinks. m, l: the maximum, as a power of
 * two, and the sum of probabilities relative to 2^m. A sink far above m gives infinity: the output becomes 0. */
__device__ __forceinline__ float add_sink(const params &p, int32_t head, float m, float l)
{
  return p.sinks ? l + exp2_approx(p.sinks[head] * LOG2_E - m) : l;
}

/* The local query heads [begin, end) that read local KV head kv_head. */
struct head_range {
  int32_t begin, end;
};

__host__ __device__ inline head_range q_heads_of(const yk_head_layout &h, int32_t kv_head)
{
  int32_t begin = (h.kv_head_first + kv_head) * h.q_per_kv - h.q_head_first;
  int32_t end = begin + h.q_per_kv;
  head_range r = {begin < 0 ? 0 : begin, end > h.n_q_heads ? h.n_q_heads : end};
  return r;
}

/* The largest number of local query heads that share a KV head. */
__host__ inline int32_t max_heads_per_kv(const yk_head_layout &h)
{
  return h.q_per_kv < h.n_q_heads ? h.q_per_kv : h.n_q_heads;
}

/* Launches a kernel of n_blocks thread blocks that itself waits for the previous kernel (dependent_launch.cuh).
 * shared_bytes: dynamic shared memory of a thread block. */
template <typename... Args>
cudaError_t launch_kernel(void (*kernel)(Args...), int n_blocks, int n_threads, size_t shared_bytes,
                          cudaStream_t stream, const typename yk_ptx::same_type<Args>::type &...args)
{
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  if (error != cudaSuccess) return error;
  const yk_ptx::launch_shape shape = {dim3(static_cast<unsigned>(n_blocks)), n_threads, shared_bytes, 1};
  return yk_ptx::launch_dependent(kernel, shape, stream, args...);
}

} // namespace yk_attn

#endif
