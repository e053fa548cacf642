/* divider.cuh - division of integers by a divisor that the host knows, as a multiplication by the reciprocal that the
 * host works out. GPUs have no instruction for integer division, and the sequence of instructions that replaces it is
 * long where a kernel starts or ends. */
#ifndef YK_KERNELS_CUDA_COMMON_DIVIDER_CUH
#define YK_KERNELS_CUDA_COMMON_DIVIDER_CUH

#include <algorithm>
#include <cstdint>

namespace yk_cuda {

/* The upper 32 bits of the 64-bit product a * b. */
__host__ __device__ __forceinline__ uint32_t multiply_high(uint32_t a, uint32_t b)
{
#ifdef __CUDA_ARCH__
  return __umulhi(a, b);
#else
  return static_cast<uint32_t>(static_cast<uint64_t>(a) * b >> 32);
#endif
}

/* n / by for int n and a divisor that is the same for the whole launch; made on the host, used on either side. */
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
