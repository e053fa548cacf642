/* elements.cuh - elements of activations in kernels: conversion to and from float32, vectors of neighbouring elements,
 * and the choice of a kernel's element type on the host. */
#ifndef YK_KERNELS_CUDA_COMMON_ELEMENTS_CUH
#define YK_KERNELS_CUDA_COMMON_ELEMENTS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include "base/dtype.h"

namespace yk_cuda {

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

/* x rounded to the nearest T, ties to even. */
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

/* The value that x has after a store as T. */
template <typename T> __device__ inline float rounded(float x)
{
  return to_float(from_float<T>(x));
}

/* N neighbouring elements, loaded and stored by one instruction. */
template <typename T, int N> struct alignas(sizeof(T) * N) vec {
  T at[N];
};

inline bool is_aligned(const void *pointer, size_t bytes)
{
  return reinterpret_cast<uintptr_t>(pointer) % bytes == 0;
}

/* Calls f with a value of the element type that dtype names: float16 or bfloat16. */
template <typename F> cudaError_t with_act_type(yk_dtype dtype, F f)
{
  return dtype == YK_F16 ? f(__half()) : f(__nv_bfloat16());
}

/* The same for any dtype, float32 too. */
template <typename F> cudaError_t with_type(yk_dtype dtype, F f)
{
  return dtype == YK_F32 ? f(float()) : with_act_type(dtype, f);
}

} // namespace yk_cuda

#endif
