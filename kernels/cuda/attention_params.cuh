/* attention_params.cuh - what every attention kernel is given, and who launches which. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PARAMS_CUH
#define YK_KERNELS_CUDA_ATTENTION_PARAMS_CUH

#include "kernels/cuda/attention.h"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_attn {

using namespace yk_ptx;

constexpr float LOG2E = 1.4426950408889634f;

constexpr int PAGE_TOKENS = YK_KV_BLOCK_TOKENS;

/* Sequences of one launch: their page counts are kept in shared memory. Larger batches take several launches. */
constexpr int MAX_SEQS_PER_LAUNCH = 1024;

/* Query heads of one KV head that a decode block takes at once. */
constexpr int MAX_DECODE_HEADS = 16;

/* The start of the workspace, zero between launches: whoever counts last puts the zeros back. */
constexpr int MAX_BLOCKS = 1024;
struct workspace_head {
  int32_t arrived[MAX_BLOCKS]; /* decode: parts ready of the item that starts in this block and runs past it */
  int32_t next_tile;           /* prefill: tiles handed out */
  int32_t n_done;              /* prefill: blocks that have seen the end */
  int32_t unused[62];
};

struct params {
  void *y;
  const void *q, *k, *v;
  yk_head_layout heads;
  int64_t q_stride, y_stride; /* elements between rows */
  float scale_log2;           /* softmax scale times log2(e) */
  int32_t window_tokens;
  int32_t n_tokens, n_seqs, block_table_stride;
  const int32_t *row_starts, *kv_tokens, *block_tables, *seq_of_row;
  workspace_head *head;
  float *partials;
};

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

/* Launches. Each takes only the sequences that are its own: decode those with one row, prefill those with more; plain takes all.
 * Decode is cudaErrorNotSupported, and nothing is launched, where the GPU has too little shared memory for the head size. */
template <typename T> cudaError_t launch_decode(const yk_cuda_attention &device, const params &p, cudaStream_t stream);
template <typename T>
cudaError_t launch_prefill_sm80(const yk_cuda_attention &device, const params &p, cudaStream_t stream);
template <typename T>
cudaError_t launch_prefill_sm90(const yk_cuda_attention &device, const params &p, cudaStream_t stream);
template <typename T> cudaError_t launch_plain(const yk_cuda_attention &device, const params &p, cudaStream_t stream);

/* Launch a kernel that waits for the one before, with so much dynamic shared memory. */
template <typename... Args>
cudaError_t launch_blocks(void (*kernel)(Args...), int blocks, int threads, size_t shared_bytes, cudaStream_t stream,
                          const typename yk_ptx::same_type<Args>::type &...args)
{
  const cudaError_t rc =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes));
  if (rc != cudaSuccess) return rc;
  const yk_ptx::launch_shape shape = {dim3(static_cast<unsigned>(blocks)), threads, shared_bytes, 1};
  return yk_ptx::launch_dependent(kernel, shape, stream, args...);
}

} // namespace yk_attn

#endif
