/* recurrent_arrays.cuh - device arrays of benchmarks of recurrent layers. */
#ifndef YK_BENCH_RECURRENT_ARRAYS_CUH
#define YK_BENCH_RECURRENT_ARRAYS_CUH

#include <vector>

#include "bench/kernel_bench.cuh"

namespace bench {

template <typename T> T *device_new(size_t n)
{
  void *p;
  CUDA_OK(cudaMalloc(&p, n * sizeof(T)));
  CUDA_OK(cudaMemset(p, 0, n * sizeof(T)));
  return static_cast<T *>(p);
}

inline int32_t *send(const std::vector<int32_t> &values)
{
  int32_t *p = device_new<int32_t>(values.size());
  CUDA_OK(cudaMemcpy(p, values.data(), values.size() * sizeof(int32_t), cudaMemcpyHostToDevice));
  return p;
}

inline __global__ void fill_floats(float *dst, size_t n, float scale, float offset)
{
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    unsigned x = (unsigned)i * 2654435761u;
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15;
    dst[i] = offset + scale * ((float)(x & 0xffff) / 32768.0f - 1.0f);
  }
}

inline float *floats(size_t n, float scale, float offset)
{
  float *p = device_new<float>(n);
  fill_floats<<<256, 256>>>(p, n, scale, offset);
  return p;
}

} // namespace bench

#endif
