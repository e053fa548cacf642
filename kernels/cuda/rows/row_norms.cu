/* row_norms.cu - see row_norms.h. */
#include "kernels/cuda/rows/row_norms.h"

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/rows/launch.cuh"

using namespace yk_cuda;
using namespace yk_ptx;
using namespace yk_rows;

namespace {

constexpr int NORMS_MOST_THREADS = 512;

/* Vectors of a row are of N elements of T; counts and places below are in vectors. */
struct row_norms_params {
  void *qkv;
  int64_t stride;             /* between rows */
  int32_t n_q, n_k;           /* of this rank's queries, which begin a row, and of the keys after them */
  int32_t k_first, k_counted; /* keys that the squares count: the first, and their number */
  int32_t n_tokens, rank, n_ranks;
  int32_t *squares;
  const void *q_w, *k_w;
  float per_q, per_k, eps; /* per_q, per_k: 1 / elements of the whole rows of all ranks */
};

template <typename T, int N> __device__ __forceinline__ float sum_of_squares(const vec<T, N> *x, int32_t n, float *sums)
{
  float squares = 0.0f;
  for (int32_t i = threadIdx.x; i < n; i += blockDim.x) {
    const vec<T, N> v = x[i];
#pragma unroll
    for (int j = 0; j < N; j++) squares += to_float(v.at[j]) * to_float(v.at[j]);
  }
  return block_sum(squares, sums);
}

/* Bits of a sum of squares whose order is that of the sums: those of a positive NaN for any NaN. */
__device__ __forceinline__ int32_t bits_of(float squares)
{
  return squares == squares ? __float_as_int(squares) : 0x7fc00000;
}

template <typename T, int N>
__global__ void __launch_bounds__(NORMS_MOST_THREADS) row_squares_kernel(const __grid_constant__ row_norms_params p)
{
  __shared__ float q_sums[WARP], k_sums[WARP];
  const int32_t row = blockIdx.x;
  const vec<T, N> *x = static_cast<const vec<T, N> *>(p.qkv) + row * p.stride;
  let_next_kernel_start();
  wait_for_previous_kernel();
  const float q = sum_of_squares<T, N>(x, p.n_q, q_sums);
  const float k = sum_of_squares<T, N>(x + p.n_q + p.k_first, p.k_counted, k_sums);
  for (int32_t i = threadIdx.x; i < 2 * p.n_ranks; i += blockDim.x) {
    const int32_t rank = i / 2;
    p.squares[(static_cast<int64_t>(rank) * p.n_tokens + row) * 2 + i % 2] =
        rank == p.rank ? bits_of(i % 2 == 0 ? q : k) : 0;
  }
}

/* 1 / root mean square of a whole row of q (part 0) or k (part 1); the same bits on every rank. */
__device__ __forceinline__ float row_factor(const row_norms_params &p, int32_t row, int part)
{
  float sum = 0.0f;
  for (int32_t rank = 0; rank < p.n_ranks; rank++)
    sum += __int_as_float(p.squares[(static_cast<int64_t>(rank) * p.n_tokens + row) * 2 + part]);
  return rsqrtf(sum * (part == 0 ? p.per_q : p.per_k) + p.eps);
}

template <typename T, int N>
__device__ __forceinline__ void scale_part(vec<T, N> *x, const vec<T, N> *weights, int32_t n, float factor)
{
  for (int32_t i = threadIdx.x; i < n; i += blockDim.x) {
    vec<T, N> v = x[i];
    const vec<T, N> w = weights[i];
#pragma unroll
    for (int j = 0; j < N; j++) v.at[j] = from_float<T>(rounded<T>(to_float(v.at[j]) * factor) * to_float(w.at[j]));
    x[i] = v;
  }
}

template <typename T, int N>
__global__ void __launch_bounds__(NORMS_MOST_THREADS) row_norms_kernel(const __grid_constant__ row_norms_params p)
{
  vec<T, N> *x = static_cast<vec<T, N> *>(p.qkv) + blockIdx.x * p.stride;
  let_next_kernel_start();
  wait_for_previous_kernel();
  scale_part<T, N>(x, static_cast<const vec<T, N> *>(p.q_w), p.n_q, row_factor(p, blockIdx.x, 0));
  scale_part<T, N>(x + p.n_q, static_cast<const vec<T, N> *>(p.k_w), p.n_k, row_factor(p, blockIdx.x, 1));
}

/* Vectors of n elements. */
row_norms_params params_of(const yk_row_norms_args &args, int n)
{
  const yk_head_layout &h = *args.heads;
  row_norms_params p = {};
  p.qkv = args.qkv;
  p.stride = yk_head_layout_width(&h) / n;
  p.n_q = h.n_q_heads * h.head_dim / n;
  p.n_k = h.n_kv_heads * h.head_dim / n;
  p.k_first = args.first_counted * h.head_dim / n;
  p.k_counted = args.n_counted * h.head_dim / n;
  p.n_tokens = args.n_tokens;
  p.rank = args.rank;
  p.n_ranks = args.n_ranks;
  p.squares = args.squares;
  p.q_w = args.q_w;
  p.k_w = args.k_w;
  p.per_q = 1.0f / static_cast<float>(args.q_size);
  p.per_k = 1.0f / static_cast<float>(args.k_size);
  p.eps = args.eps;
  return p;
}

cudaError_t launch(void (*wide)(row_norms_params), void (*narrow)(row_norms_params), const yk_row_norms_args &args,
                   cudaStream_t stream)
{
  const bool is_wide = args.heads->head_dim % WIDE == 0 && is_aligned(args.qkv, 16) && is_aligned(args.q_w, 16) &&
                       is_aligned(args.k_w, 16);
  const row_norms_params p = params_of(args, is_wide ? WIDE : 1);
  if (args.n_tokens == 0) return cudaSuccess;
  return launch_with_max_shared_memory(is_wide ? wide : narrow, dim3(args.n_tokens),
                                       std::min(row_threads(p.n_q), NORMS_MOST_THREADS), 0, stream, p);
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_row_squares(yk_dtype dtype, const yk_row_norms_args *args, cudaStream_t stream)
{
  return with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    return launch(row_squares_kernel<T, WIDE>, row_squares_kernel<T, 1>, *args, stream);
  });
}

extern "C" cudaError_t yk_cuda_launch_row_norms(yk_dtype dtype, const yk_row_norms_args *args, cudaStream_t stream)
{
  return with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    return launch(row_norms_kernel<T, WIDE>, row_norms_kernel<T, 1>, *args, stream);
  });
}
