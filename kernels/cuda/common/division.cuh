/* division.cuh - divisions of integers. GPUs have no instruction for them, and the replacing sequence is long at the
 * start or end of a kernel.
 *   ceil_div         rounds up
 *   divider          by a number that the host has: a multiplication by the reciprocal that the host computes
 *   quotient         by a number of the device, through floats
 *   small_quotient   the same for smaller numbers in fewer instructions */
#ifndef YK_KERNELS_CUDA_COMMON_DIVISION_CUH
#define YK_KERNELS_CUDA_COMMON_DIVISION_CUH

#include <algorithm>
#include <cstdint>
#include <type_traits>

namespace yk_cuda {

template <typename A, typename B>
__host__ __device__ __forceinline__ constexpr std::common_type_t<A, B> ceil_div(A a, B b)
{
  return (static_cast<std::common_type_t<A, B>>(a) + b - 1) / b;
}

/* a / b for 0 <= a < 2^20. On a GPU by a reciprocal in float32, which is exact for such numbers. */
__host__ __device__ __forceinline__ int32_t small_quotient(int32_t a, int32_t b)
{
#ifdef __CUDA_ARCH__
  return static_cast<int32_t>(__fdividef(static_cast<float>(a) + 0.5f, static_cast<float>(b)));
#else
  return a / b;
#endif
}

/* a / b for 0 <= a < 2^30 and b > 0 if the quotient is below 2^21. On a GPU through floats, with an exact result: in
 * half the time of an integer division. */
__host__ __device__ __forceinline__ int32_t quotient(int32_t a, int32_t b)
{
#ifdef __CUDA_ARCH__
  const int32_t near = __float2int_rz(__fdividef(static_cast<float>(a), static_cast<float>(b))), rest = a - near * b;
  return near + (rest >= b ? 1 : 0) - (rest < 0 ? 1 : 0);
#else
  return a / b;
#endif
}

/* The upper 32 bits of the 64-bit product a * b. */
__host__ __device__ __forceinline__ uint32_t multiply_high(uint32_t a, uint32_t b)
{
#ifdef __CUDA_ARCH__
  return __umulhi(a, b);
#else
  return static_cast<uint32_t>(static_cast<uint64_t>(a) * b >> 32);
#endif
}

/* n / by for int n and a divisor that is the same for the whole launch; created on the host, used on host and GPU. */
struct divider {
  uint32_t by, reciprocal; /* reciprocal: 2^32 / by, rounded down, at most UINT32_MAX */

  /* by: from 1 to 2^31. */
  static divider of(int64_t by)
  {
    return {static_cast<uint32_t>(by), static_cast<uint32_t>(std::min<int64_t>((int64_t{1} << 32) / by, UINT32_MAX))};
  }

  /* n / by, for n of 0 or more. The guess is the quotient or one less: rounding the reciprocal down makes the product
   * too small by at most n / 2^32, which is below 1/2, and the upper half drops a fraction below 1. */
  __host__ __device__ __forceinline__ int quotient(int n) const
  {
    uint32_t dividend = static_cast<uint32_t>(n), guess = multiply_high(dividend, reciprocal);
    return static_cast<int>(dividend - guess * by >= by ? guess + 1 : guess);
  }
};

} // namespace yk_cuda

#endif
