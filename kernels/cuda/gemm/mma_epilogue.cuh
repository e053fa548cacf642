/* mma_epilogue.cuh - epilogue of the small-batch kernel: bias, gated activation, one rounding, and stores of single
 * elements, or stores of float32; accumulator fragments to and from shared memory. */
#ifndef YK_KERNELS_CUDA_GEMM_MMA_EPILOGUE_CUH
#define YK_KERNELS_CUDA_GEMM_MMA_EPILOGUE_CUH

#include "kernels/cuda/gemm/mma_warps.cuh"

namespace yk_gemm {

/* Destination of results; pointers to global memory. */
struct output {
  const void *bias; /* [n] or NULL */
  void *y;          /* [m, n], or [m, n/2] with gates */
  int m, n;
  yk_activation activation;
  int64_t y_stride; /* elements between rows of float32 results; others are contiguous */
};

template <yk_dtype DTYPE> __device__ __forceinline__ float bias_of(const output &out, int column)
{
  return out.bias ? load_float<DTYPE>(out.bias, column) : 0.0f;
}

/* Writes the results of one lane's accumulator fragment: panel rows row (v.x, v.y) and row + 8 (v.z, v.w), tokens token
 * and token + 1. Results past m or n are dropped. */
template <yk_dtype DTYPE>
__device__ __forceinline__ void store_output(const output &out, int panel, int row, int token, float4 v)
{
  uint16_t *y = static_cast<uint16_t *>(out.y);
  const float lower[2] = {v.x, v.y}, upper[2] = {v.z, v.w};
  int width = out.activation.is_gated ? out.n / 2 : out.n, column = panel * (out.activation.is_gated ? 8 : 16) + row;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    if (token + i >= out.m) return;
    uint16_t *to = y + static_cast<int64_t>(token + i) * width + column;
    if (out.activation.is_gated) {
      if (column >= width) return;
      float gate = lower[i] + bias_of<DTYPE>(out, column), up = upper[i] + bias_of<DTYPE>(out, width + column);
      to[0] = static_cast<uint16_t>(round_pair<element<DTYPE>>(yk_cuda::gated(out.activation, gate, up), 0.0f));
      continue;
    }
    if (column < width)
      to[0] = static_cast<uint16_t>(round_pair<element<DTYPE>>(lower[i] + bias_of<DTYPE>(out, column), 0.0f));
    if (column + 8 < width)
      to[8] = static_cast<uint16_t>(round_pair<element<DTYPE>>(upper[i] + bias_of<DTYPE>(out, column + 8), 0.0f));
  }
}

/* The same as float32, without bias and activation. */
__device__ __forceinline__ void store_floats(const output &out, int panel, int row, int token, float4 v)
{
  const float lower[2] = {v.x, v.y}, upper[2] = {v.z, v.w};
  const int column = panel * PANEL_COLUMNS + row;
#pragma unroll
  for (int i = 0; i < 2; i++) {
    if (token + i >= out.m) return;
    float *to = static_cast<float *>(out.y) + (token + i) * out.y_stride + column;
    if (column < out.n) to[0] = lower[i];
    if (column + 8 < out.n) to[8] = upper[i];
  }
}

/* Loads a fragment from a 16-byte aligned address of shared memory. */
__device__ __forceinline__ float4 load_acc(uint32_t address)
{
  uint4 v = load_shared16(address);
  return make_float4(__uint_as_float(v.x), __uint_as_float(v.y), __uint_as_float(v.z), __uint_as_float(v.w));
}

__device__ __forceinline__ void store_acc(uint32_t address, const float (&v)[4])
{
  store_shared16(
      address, make_uint4(__float_as_uint(v[0]), __float_as_uint(v[1]), __float_as_uint(v[2]), __float_as_uint(v[3])));
}

__device__ __forceinline__ void add_acc(float4 &acc, float4 v)
{
  acc.x += v.x;
  acc.y += v.y;
  acc.z += v.z;
  acc.w += v.w;
}

} // namespace yk_gemm

#endif
