/* quantise.cu - see w4a8.h. One thread block for each row: the largest |x|, then every 16 inputs as 16 bytes. */
#include <algorithm>

#include <cuda_fp8.h>

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/gemm/common.cuh"
#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/w4a8/w4a8.h"
#include "kernels/linear.h"

namespace yk_w4a8 {
namespace {

constexpr int WARP = 32, MOST_THREADS = 512, UNIT = 16; /* inputs that a thread reads and writes together */

template <typename CODE> constexpr float LARGEST = 448.0f; /* code */
template <> constexpr float LARGEST<int8_t> = 127.0f;

struct quantise_params {
  const void *x;
  uint8_t *x_q;
  float *scales;
  int n_units; /* of a row */
};

template <typename T> struct unit {
  uint4 words[2];

  __device__ __forceinline__ float at(int i) const
  {
    return yk_cuda::to_float(reinterpret_cast<const T *>(words)[i]);
  }
};

/* The largest magnitude as bits, which order as magnitudes do; those of NaNs are largest. */
template <typename T> __device__ int largest_of(const unit<T> &x)
{
  int largest = 0;
#pragma unroll
  for (int i = 0; i < UNIT; i++) largest = max(largest, static_cast<int>(__float_as_uint(x.at(i)) & 0x7FFFFFFFu));
  return largest;
}

/* Four codes, the first in the lowest byte. */
template <typename CODE> __device__ __forceinline__ uint32_t codes_of(float2 low, float2 high)
{
  if constexpr (std::is_same_v<CODE, int8_t>) {
    /* Adding 1.5 * 2^23 rounds to an integer, ties to even, in the lowest bits. */
    const auto bits = [](float x) { return __float_as_uint(x + 12582912.0f); };
    return __byte_perm(__byte_perm(bits(low.x), bits(low.y), 0x0040), __byte_perm(bits(high.x), bits(high.y), 0x0040),
                       0x5410);
  } else {
    return __nv_cvt_float2_to_fp8x2(low, __NV_SATFINITE, __NV_E4M3) |
           static_cast<uint32_t>(__nv_cvt_float2_to_fp8x2(high, __NV_SATFINITE, __NV_E4M3)) << 16;
  }
}

/* Bytes 4c to 4c + 3 hold inputs 2c, 2c + 8, 2c + 1 and 2c + 9: the inverse of code_position. Products are rounded
 * before the sums of codes_of. */
template <typename CODE, typename T> __device__ uint4 codes_of(const unit<T> &x, float reciprocal)
{
  uint32_t words[4];
  const auto scaled = [&](int i) { return __fmul_rn(x.at(i), reciprocal); };
#pragma unroll
  for (int c = 0; c < 4; c++)
    words[c] = codes_of<CODE>(make_float2(scaled(2 * c), scaled(2 * c + 8)),
                              make_float2(scaled(2 * c + 1), scaled(2 * c + 9)));
  return make_uint4(words[0], words[1], words[2], words[3]);
}

/* KEPT: units that a thread keeps in registers; 0: x is read twice. */
template <typename T, typename CODE, int KEPT>
__global__ void __launch_bounds__(MOST_THREADS) quantise_kernel(const quantise_params p)
{
  __shared__ int maxima[MOST_THREADS / WARP];
  const int64_t row = blockIdx.x;
  const unit<T> *x = static_cast<const unit<T> *>(p.x) + row * p.n_units;
  uint4 *to = reinterpret_cast<uint4 *>(p.x_q) + row * p.n_units;
  unit<T> kept[KEPT > 0 ? KEPT : 1];
  int largest = 0;
  yk_ptx::let_next_kernel_start();
  yk_ptx::wait_for_previous_kernel();
  if constexpr (KEPT > 0) {
#pragma unroll
    for (int i = 0; i < KEPT; i++)
      if (threadIdx.x + i * blockDim.x < p.n_units) kept[i] = x[threadIdx.x + i * blockDim.x];
#pragma unroll
    for (int i = 0; i < KEPT; i++)
      if (threadIdx.x + i * blockDim.x < p.n_units) largest = max(largest, largest_of(kept[i]));
  } else {
    for (int at = threadIdx.x; at < p.n_units; at += blockDim.x) largest = max(largest, largest_of(x[at]));
  }
  largest = __reduce_max_sync(~0u, largest);
  if (threadIdx.x % WARP == 0) maxima[threadIdx.x / WARP] = largest;
  __syncthreads();
  largest = __reduce_max_sync(~0u, threadIdx.x % WARP < blockDim.x / WARP ? maxima[threadIdx.x % WARP] : 0);
  const float size = __int_as_float(largest), reciprocal = size < YK_LEAST_ROUNDED_INPUT ? 0.0f : LARGEST<CODE> / size;
  if (threadIdx.x == 0) p.scales[row] = largest >= 0x7F800000 ? __int_as_float(0x7FC00000) : size / LARGEST<CODE>;
  if constexpr (KEPT > 0) {
#pragma unroll
    for (int i = 0; i < KEPT; i++)
      if (threadIdx.x + i * blockDim.x < p.n_units)
        to[threadIdx.x + i * blockDim.x] = codes_of<CODE>(kept[i], reciprocal);
  } else {
    for (int at = threadIdx.x; at < p.n_units; at += blockDim.x) to[at] = codes_of<CODE>(x[at], reciprocal);
  }
}

template <typename T, typename CODE> cudaError_t launch(const quantise_params &p, int64_t m, cudaStream_t stream)
{
  constexpr int KEPT = 2;
  const int kept_threads = (p.n_units + KEPT - 1) / KEPT;
  const int threads = std::min((kept_threads + WARP - 1) / WARP * WARP, MOST_THREADS);
  const yk_ptx::launch_shape shape = {dim3(static_cast<unsigned>(m)), threads, 0, 1};
  if (kept_threads <= MOST_THREADS) return yk_ptx::launch_dependent(quantise_kernel<T, CODE, KEPT>, shape, stream, p);
  return yk_ptx::launch_dependent(quantise_kernel<T, CODE, 0>, shape, stream, p);
}

template <typename CODE>
cudaError_t launch_for(yk_dtype dtype, const quantise_params &p, int64_t m, cudaStream_t stream)
{
  return dtype == YK_F16 ? launch<__half, CODE>(p, m, stream) : launch<__nv_bfloat16, CODE>(p, m, stream);
}

} // namespace
} // namespace yk_w4a8

extern "C" yk_status yk_w4a8_quantise(yk_dtype dtype, yk_w4a8_codes codes, const void *x, uint8_t *x_q, float *scales,
                                      int64_t m, int64_t k, struct CUstream_st *stream, yk_err *err)
{
  if (m == 0 || k == 0) return YK_OK;
  const yk_w4a8::quantise_params p = {x, x_q, scales, static_cast<int>(k / yk_w4a8::UNIT)};
  return yk_gemm::cuda_status(codes == YK_W4A8_INT8 ? yk_w4a8::launch_for<int8_t>(dtype, p, m, stream)
                                                    : yk_w4a8::launch_for<__nv_fp8_e4m3>(dtype, p, m, stream),
                              "quantising inputs of 4-bit weights", err);
}
