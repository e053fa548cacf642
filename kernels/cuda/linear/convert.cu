/* convert.cu - see convert.h. Kernels are grid-stride loops, one element per thread and iteration. */
#include <algorithm>

#include "kernels/cuda/common/activation.cuh"
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/linear/convert.h"
#include "kernels/weight.h"

using namespace yk_cuda;

namespace {

constexpr int CONVERT_THREADS = 256;

int blocks_for(int64_t n)
{
  return static_cast<int>(std::clamp<int64_t>((n + CONVERT_THREADS - 1) / CONVERT_THREADS, 1, 1 << 16));
}

template <typename T, typename S> __global__ void convert_kernel(T *dst, const S *src, int64_t n)
{
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < n; i += step)
    dst[i] = from_float<T>(to_float(src[i]));
}

__device__ int nibble_of(const int32_t *words, int64_t words_per_row, int64_t row, int64_t column)
{
  constexpr int order[8] = YK_AWQ_NIBBLE_OF_COLUMN;
  return words[row * words_per_row + column / 8] >> (4 * order[column % 8]) & 0xF;
}

/* Stores the weight of input i of column j of W. */
template <typename T> __device__ void store_weight(const yk_cuda_unpack_target &to, int64_t i, int64_t j, float weight)
{
  const int64_t column = to.order ? to.order[i] : i;
  if (column >= 0) static_cast<T *>(to.weights)[j * to.stride + column] = from_float<T>(weight);
}

template <typename T>
__global__ void unpack_awq_kernel(const yk_cuda_unpack_target to, const yk_gemm_source source, int64_t k, int64_t n)
{
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; at < k * n; at += step) {
    const int64_t i = at % k, j = at / k, column = source.first_column + j, group = (source.k_phase + i) / source.group;
    const int64_t scale_at = group * 8 * source.words_per_row + column;
    const float scale = source.scales_dtype == YK_F16
                            ? to_float(static_cast<const __half *>(source.scales)[scale_at])
                            : to_float(static_cast<const __nv_bfloat16 *>(source.scales)[scale_at]);
    const int q = nibble_of(source.qweight, source.words_per_row, i, column);
    const int zero = nibble_of(source.qzeros, source.words_per_row, group, column);
    store_weight<T>(to, i, j, scale * static_cast<float>(q - zero));
  }
}

template <typename T>
__global__ void unpack_int8_kernel(const yk_cuda_unpack_target to, const yk_gemm_rows source, int64_t k, int64_t n)
{
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; at < k * n; at += step) {
    const int64_t i = at % k, j = at / k, group = j * source.n_groups + (source.k_phase + i) / source.group;
    const float q = static_cast<float>(static_cast<int8_t>(source.bytes[j * source.row_bytes + i]));
    store_weight<T>(to, i, j, source.scales[group] * (q - (source.zeros ? source.zeros[group] : 0.0f)));
  }
}

template <typename T> __global__ void copy_rows_kernel(T *y, int64_t y_stride, const T *src, int64_t n_rows, int64_t n)
{
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; at < n_rows * n; at += step)
    y[at / n * y_stride + at % n] = src[at];
}

__device__ float with_bias(const yk_cuda_finish_args &a, int64_t row, int64_t column)
{
  return a.src[row * a.n + column] + (a.bias ? a.bias[column] : 0.0f);
}

template <typename T> __global__ void finish_kernel(const yk_cuda_finish_args a)
{
  const bool is_gated = a.activation.is_gated;
  const int64_t n_out = is_gated ? a.n / 2 : a.n, step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; at < a.n_rows * n_out; at += step) {
    const int64_t row = at / n_out, column = at % n_out;
    float value = with_bias(a, row, column);
    value = is_gated ? gated<true>(a.activation, value, with_bias(a, row, n_out + column))
                     : activated<true>(a.activation, value);
    static_cast<T *>(a.y)[row * a.y_stride + column] = from_float<T>(value);
  }
}

template <typename T> __global__ void activate_kernel(const yk_cuda_activate_args a)
{
  const int64_t n_rows = a.n_rows ? *a.n_rows : a.max_rows, step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t at = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; at < n_rows * a.n; at += step) {
    T &y = static_cast<T *>(a.y)[at / a.n * a.y_stride + at % a.n];
    y = from_float<T>(activated<true>(a.activation, to_float(y)));
  }
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_convert(yk_dtype dtype, void *dst, yk_dtype src_dtype, const void *src, int64_t n,
                                              cudaStream_t stream)
{
  if (n == 0) return cudaSuccess;
  return with_act_type(dtype, [&](auto to) {
    return with_type(src_dtype, [&](auto from) {
      using T = decltype(to);
      using S = decltype(from);
      convert_kernel<<<blocks_for(n), CONVERT_THREADS, 0, stream>>>(static_cast<T *>(dst), static_cast<const S *>(src),
                                                                    n);
      return cudaGetLastError();
    });
  });
}

extern "C" cudaError_t yk_cuda_launch_unpack_awq(const yk_cuda_unpack_target *to, const yk_gemm_source *source,
                                                 int64_t k, int64_t n, cudaStream_t stream)
{
  if (k * n == 0) return cudaSuccess;
  return with_act_type(to->dtype, [&](auto type) {
    unpack_awq_kernel<decltype(type)><<<blocks_for(k * n), CONVERT_THREADS, 0, stream>>>(*to, *source, k, n);
    return cudaGetLastError();
  });
}

extern "C" cudaError_t yk_cuda_launch_unpack_int8(const yk_cuda_unpack_target *to, const yk_gemm_rows *source,
                                                  int64_t k, int64_t n, cudaStream_t stream)
{
  if (k * n == 0) return cudaSuccess;
  return with_act_type(to->dtype, [&](auto type) {
    unpack_int8_kernel<decltype(type)><<<blocks_for(k * n), CONVERT_THREADS, 0, stream>>>(*to, *source, k, n);
    return cudaGetLastError();
  });
}

extern "C" cudaError_t yk_cuda_launch_copy_rows(yk_dtype dtype, void *y, int64_t y_stride, const void *src,
                                                int64_t n_rows, int64_t n, cudaStream_t stream)
{
  if (n_rows * n == 0) return cudaSuccess;
  return with_act_type(dtype, [&](auto type) {
    using T = decltype(type);
    copy_rows_kernel<<<blocks_for(n_rows * n), CONVERT_THREADS, 0, stream>>>(static_cast<T *>(y), y_stride,
                                                                             static_cast<const T *>(src), n_rows, n);
    return cudaGetLastError();
  });
}

extern "C" cudaError_t yk_cuda_launch_finish(const yk_cuda_finish_args *args, cudaStream_t stream)
{
  if (args->n_rows * args->n == 0) return cudaSuccess;
  return with_type(args->y_dtype, [&](auto type) {
    finish_kernel<decltype(type)><<<blocks_for(args->n_rows * args->n), CONVERT_THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
  });
}

extern "C" cudaError_t yk_cuda_launch_activate(const yk_cuda_activate_args *args, cudaStream_t stream)
{
  if (args->max_rows * args->n == 0) return cudaSuccess;
  return with_type(args->dtype, [&](auto type) {
    activate_kernel<decltype(type)><<<blocks_for(args->max_rows * args->n), CONVERT_THREADS, 0, stream>>>(*args);
    return cudaGetLastError();
  });
}
