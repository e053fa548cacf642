/* cuda_kernels.cuh - what the kernels of the CUDA device share: conversion, vectors of elements, sums over a block. */
#ifndef YK_KERNELS_CUDA_CUDA_KERNELS_CUH
#define YK_KERNELS_CUDA_CUDA_KERNELS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/cuda/cuda_internal.h"
#include "kernels/cuda/ptx/dependent_launch.cuh"

namespace yk_cuda {

using namespace yk_ptx;

constexpr int WARP = 32;
constexpr unsigned ALL_LANES = 0xffffffffu;

__device__ inline float to_float(float x)
{
  return x;
}

__device__ inline float to_float(__half x)
{
  return __half2float(x);
}

__device__ inline float to_float(__nv_bfloat16 x)
{
  return __bfloat162float(x);
}

template <typename T> __device__ inline T from_float(float x);

template <> __device__ inline float from_float<float>(float x)
{
  return x;
}

template <> __device__ inline __half from_float<__half>(float x)
{
  return __float2half_rn(x);
}

template <> __device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x)
{
  return __float2bfloat16_rn(x);
}

/* x as it is once stored. */
template <typename T> __device__ inline float rounded(float x)
{
  return to_float(from_float<T>(x));
}

/* N neighbours that are loaded and stored as one. */
template <typename T, int N> struct alignas(sizeof(T) * N) vec {
  T at[N];
};

template <typename T> __device__ inline T warp_sum(T x)
{
  for (int offset = WARP / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(ALL_LANES, x, offset);
  return x;
}

/* The sum over a lane and those before it. */
template <typename T> __device__ inline T warp_running_sum(T x)
{
  for (int offset = 1; offset < WARP; offset *= 2) {
    const T below = __shfl_up_sync(ALL_LANES, x, offset);
    if (threadIdx.x % WARP >= offset) x += below;
  }
  return x;
}

/* The sum over the block, in every thread and in a fixed order. The block is whole warps; shared holds one float a
 * warp. */
__device__ inline float block_sum(float x, float *shared)
{
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, n_warps = blockDim.x / WARP;
  x = warp_sum(x);
  if (lane == 0) shared[warp] = x;
  __syncthreads();
  return warp_sum(lane < n_warps ? shared[lane] : 0.0f);
}

/* Launch a kernel that waits for the one before and asks for the products' division of a multiprocessor's memory, which
 * can change only when that is empty. */
template <typename P>
cudaError_t launch_between_products(void (*kernel)(P), dim3 grid, int threads, size_t shared_bytes, cudaStream_t stream,
                                    const P &p)
{
  const cudaError_t error =
      cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  if (error != cudaSuccess) return error;
  return launch_dependent(kernel, {grid, threads, shared_bytes, 1}, stream, p);
}

inline bool is_aligned(const void *pointer, size_t bytes)
{
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

/* Calls f with a value of the type that dtype names: of activations, or of anything. */
template <typename F> cudaError_t with_act_type(yk_dtype dtype, F f)
{
  return dtype == YK_F16 ? f(__half()) : f(__nv_bfloat16());
}

template <typename F> cudaError_t with_type(yk_dtype dtype, F f)
{
  return dtype == YK_F32 ? f(float()) : with_act_type(dtype, f);
}

} // namespace yk_cuda

#endif
