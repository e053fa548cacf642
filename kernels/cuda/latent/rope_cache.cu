/* rope_cache.cu - norm, rotation and cache write of latent attention: see kernels/latent.h. */
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/latent/latent.h"
#include "kernels/cuda/rows/launch.cuh"

using namespace yk_cuda;
using namespace yk_ptx;
using namespace yk_rows;

namespace {

constexpr int ROPE_THREADS = 256;

struct rope_cache_params {
  void *q, *latent, *cache;
  const void *norm_w;
  const float *rope;
  const int32_t *positions, *kv_slots;
  int64_t q_stride, latent_stride;
  yk_latent_layout layout;
  float eps;
};

/* Rotates pair i of a vector whose first half rotates with its second half; from and to may be equal. */
template <typename T> __device__ void rotate_pair(const T *from, T *to, int32_t i, int32_t half, const float *rope)
{
  const float a = to_float(from[i]), b = to_float(from[i + half]), c = rope[i], s = rope[i + half];
  to[i] = from_float<T>(a * c - b * s);
  to[i + half] = from_float<T>(b * c + a * s);
}

/* One thread block per row. Before the wait it reads only data that no kernel of the step writes. */
template <typename T> __global__ void __launch_bounds__(ROPE_THREADS) rope_cache_kernel(const rope_cache_params p)
{
  __shared__ float sums[WARP];
  const int64_t row = blockIdx.x;
  const yk_latent_layout &l = p.layout;
  const int32_t half = l.rope_dim / 2, head_width = l.nope_dim + l.rope_dim;
  const float *rope = p.rope + static_cast<int64_t>(p.positions[row]) * l.rope_dim;
  const T *norm_w = static_cast<const T *>(p.norm_w);
  const int64_t slot = p.kv_slots[row];
  let_next_kernel_start();
  wait_for_previous_kernel();
  if (slot < 0) return; /* a padding row */
  T *latent = static_cast<T *>(p.latent) + row * p.latent_stride, *q = static_cast<T *>(p.q) + row * p.q_stride;
  T *cached = static_cast<T *>(p.cache) + slot * (l.kv_rank + l.rope_dim);
  float squares = 0.0f;
  for (int32_t i = threadIdx.x; i < l.kv_rank; i += ROPE_THREADS) squares += to_float(latent[i]) * to_float(latent[i]);
  const float factor = rsqrtf(block_sum(squares, sums) / static_cast<float>(l.kv_rank) + p.eps);
  for (int32_t i = threadIdx.x; i < l.kv_rank; i += ROPE_THREADS)
    cached[i] = from_float<T>(rounded<T>(to_float(latent[i]) * factor) * to_float(norm_w[i]));
  for (int32_t i = threadIdx.x; i < half; i += ROPE_THREADS)
    rotate_pair(latent + l.kv_rank, cached + l.kv_rank, i, half, rope);
  for (int32_t i = threadIdx.x; i < l.n_heads * half; i += ROPE_THREADS) {
    T *head = q + static_cast<int64_t>(i / half) * head_width + l.nope_dim;
    rotate_pair(head, head, i % half, half, rope);
  }
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_latent_rope_cache(yk_dtype dtype, const yk_latent_attention_args *args,
                                                        cudaStream_t stream)
{
  if (args->batch->n_tokens == 0) return cudaSuccess;
  rope_cache_params p = {};
  p.q = args->q;
  p.latent = args->latent;
  p.cache = args->cache;
  p.norm_w = args->norm_w;
  p.rope = args->rope;
  p.positions = args->batch->positions;
  p.kv_slots = args->batch->kv_slots;
  p.q_stride = args->q_stride;
  p.latent_stride = args->latent_stride;
  p.layout = args->layout;
  p.eps = args->norm_eps;
  return with_act_type(dtype, [&](auto type) {
    return launch_with_max_shared_memory(rope_cache_kernel<decltype(type)>, dim3(args->batch->n_tokens), ROPE_THREADS,
                                         0, stream, p);
  });
}
