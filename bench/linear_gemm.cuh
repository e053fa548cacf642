/* linear_gemm.cuh - one GEMM of 16-bit activations with quantised weights on the device for bench_linear: random
 * tensors, AWQ's or rows of bytes, and their packed copy. */
#ifndef YK_BENCH_LINEAR_GEMM_CUH
#define YK_BENCH_LINEAR_GEMM_CUH

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "bench/check.cuh"
#include "kernels/cuda/gemm/dense/dense.h"

namespace linear {

using bench::check;

/* Device memory with one owner. */
template <typename T> struct device_array {
  T *data = nullptr;
  size_t count = 0;
  explicit device_array(size_t n) : count(n)
  {
    check(cudaMalloc(&data, std::max<size_t>(n, 1) * sizeof(T)), "memory");
  }
  ~device_array()
  {
    cudaFree(data);
  }
  device_array(const device_array &) = delete;
  device_array &operator=(const device_array &) = delete;
};

/* ---- data -------------------------------------------------------------------------------------------------------- */

__device__ inline uint64_t mix(uint64_t v)
{
  v += 0x9E3779B97F4A7C15u;
  v = (v ^ v >> 30) * 0xBF58476D1CE4E5B9u;
  v = (v ^ v >> 27) * 0x94D049BB133111EBu;
  return v ^ v >> 31;
}

static __global__ void fill_words(uint32_t *out, size_t n, uint64_t seed)
{
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    out[i] = static_cast<uint32_t>(mix(seed * 0x100000001B3u + i));
}

/* Uniform in [low, high), rounded to dtype. */
static __global__ void fill_halves(uint16_t *out, size_t n, yk_dtype dtype, float low, float high, uint64_t seed)
{
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    float v = low + (high - low) * static_cast<float>(mix(seed * 0x100000001B3u + i) >> 40) * 0x1p-24f;
    out[i] = dtype == YK_F16 ? __half_as_ushort(__float2half_rn(v)) : __bfloat16_as_ushort(__float2bfloat16_rn(v));
  }
}

/* Random bytes without the NaNs of e4m3. */
static __global__ void remove_nans(uint8_t *bytes, size_t n)
{
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    if ((bytes[i] & 0x7F) == 0x7F) bytes[i] ^= 1;
}

/* Uniform in [low, high), rounded to multiples of unit if that is not 0. */
static __global__ void fill_floats(float *out, size_t n, float low, float high, float unit, uint64_t seed)
{
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    float v = low + (high - low) * static_cast<float>(mix(seed * 0x100000001B3u + i) >> 40) * 0x1p-24f;
    out[i] = unit > 0 ? rintf(v / unit) * unit : v;
  }
}

/* ---- one GEMM on the device -------------------------------------------------------------------------------------- */

/* Random tensors, their packed copy, activations and results. */
struct gemm_case {
  yk_gemm_desc desc;
  int64_t n_groups;
  device_array<uint32_t> qweight, qzeros;
  device_array<float> row_scales;
  device_array<uint16_t> scales, x, y;
  device_array<uint8_t> packed, workspace;

  gemm_case(const yk_gemm_gpu &gpu, const yk_gemm_desc &d, int64_t most_tokens, uint64_t seed)
      : desc(d), n_groups((d.k + d.group - 1) / d.group), qweight(d.k * d.n / (d.encoding == YK_GEMM_INT4 ? 8 : 4)),
        qzeros(n_groups * d.n / 8), row_scales(n_groups * d.n), scales(qzeros.count * 8), x(most_tokens * d.k),
        y(most_tokens * d.n), packed(yk_gemm_packed_bytes(&d)),
        workspace(yk_gemm_workspace_bytes(&gpu, &d, most_tokens))
  {
    fill_words<<<1024, 256>>>(qweight.data, qweight.count, seed + 1);
    fill_words<<<256, 256>>>(qzeros.data, qzeros.count, seed + 2);
    fill_halves<<<256, 256>>>(scales.data, scales.count, YK_F16, 0.002f, 0.02f, seed + 3);
    if (d.encoding == YK_GEMM_FP8) remove_nans<<<1024, 256>>>(bytes(), qweight.count * 4);
    if (d.encoding == YK_GEMM_FP4) /* numbers of four bits times a factor, as in NVFP4 */
      fill_floats<<<256, 256>>>(row_scales.data, row_scales.count, 8e-4f, 15e-4f, 1e-4f, seed + 3);
    else
      fill_floats<<<256, 256>>>(row_scales.data, row_scales.count, 2e-4f, 2e-3f, 0, seed + 3);
    fill_halves<<<1024, 256>>>(x.data, x.count, d.dtype, -1.0f, 1.0f, seed + 4);
    check(cudaMemset(workspace.data, 0, workspace.count), "workspace");
    pack();
    check(cudaDeviceSynchronize(), "pack");
  }

  uint8_t *bytes() const
  {
    return reinterpret_cast<uint8_t *>(qweight.data);
  }

private:
  void pack()
  {
    yk_err err = YK_ERR_INIT;
    if (desc.encoding != YK_GEMM_INT4) {
      const yk_gemm_rows from = {bytes(), row_scales.data, nullptr, desc.k, n_groups, desc.group, 0};
      return check(yk_gemm_pack_rows(&desc, packed.data, &from, 0, desc.n, nullptr, &err), err);
    }
    yk_gemm_source from = {};
    from.qweight = reinterpret_cast<int32_t *>(qweight.data);
    from.qzeros = reinterpret_cast<int32_t *>(qzeros.data);
    from.scales = scales.data;
    from.scales_dtype = YK_F16;
    from.words_per_row = desc.n / 8;
    from.group = desc.group;
    check(yk_gemm_pack(&desc, packed.data, &from, 0, desc.n, nullptr, &err), err);
  }
};

} // namespace linear

#endif
