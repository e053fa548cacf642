/* kv_codes.cuh - the 8-bit codes of a KV cache in registers: from float32, and to float16, in which every code is
 * exact. kernels/kv_cache.h defines their values. */
#ifndef YK_KERNELS_CUDA_COMMON_KV_CODES_CUH
#define YK_KERNELS_CUDA_COMMON_KV_CODES_CUH

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/kv_format.h"

namespace yk_cuda {

/* The largest code with a scale per token and head. */
__host__ __device__ constexpr float kv_code_max(yk_kv_format format)
{
  return format == YK_KV_INT8 ? YK_KV_INT8_MAX : YK_KV_FP8_MAX;
}

/* Bytes of a token and head in a page: head_dim codes and a float32 scale. */
__host__ __device__ constexpr int kv_token_bytes(int head_dim)
{
  return head_dim + static_cast<int>(sizeof(float));
}

/* Converts two numbers to codes, the first in the low byte. Values out of range saturate. */
__device__ __forceinline__ uint16_t kv_encode_2(yk_kv_format format, float a, float b)
{
  if (format == YK_KV_FP8) return __nv_cvt_float2_to_fp8x2(make_float2(a, b), __NV_SATFINITE, __NV_E4M3);
  const int low = __float2int_rn(fminf(fmaxf(a, -128.0f), 127.0f));
  const int high = __float2int_rn(fminf(fmaxf(b, -128.0f), 127.0f));
  return static_cast<uint16_t>((low & 0xff) | (high & 0xff) << 8);
}

__device__ __forceinline__ uint32_t subtract_f16x2(uint32_t a, uint32_t b)
{
  const __half2 out = __hsub2(*reinterpret_cast<__half2 *>(&a), *reinterpret_cast<__half2 *>(&b));
  return *reinterpret_cast<const uint32_t *>(&out);
}

/* Four codes as pairs of float16: the first two and the last two. Integers: with u = q + 128 as low byte and 0x64 as
 * high byte, the float16 is 1024 + u; minus 1152 that is q. */
template <yk_kv_format FORMAT>
__device__ __forceinline__ void kv_decode_4(uint32_t codes, uint32_t &first, uint32_t &second)
{
  if (FORMAT == YK_KV_INT8) {
    constexpr uint32_t EXPONENTS = 0x64646464u, OFFSETS = 0x64806480u;
    codes ^= 0x80808080u;
    first = subtract_f16x2(__byte_perm(codes, EXPONENTS, 0x4140), OFFSETS);
    second = subtract_f16x2(__byte_perm(codes, EXPONENTS, 0x4342), OFFSETS);
    return;
  }
#if __CUDA_ARCH__ >= 890
  yk_ptx::e4m3x4_to_f16x2(codes, first, second);
#else
  /* The sign stays, the seven other bits move down by one: read as float16 that is exactly the number divided by 256,
   * subnormals too. */
  const __half2 factor = __float2half2_rn(256.0f);
  for (int i = 0; i < 2; i++) {
    const uint32_t spread = __byte_perm(codes, 0, i ? 0x3424 : 0x1404);
    uint32_t halves = (spread & 0x80008000u) | (spread >> 1 & 0x3f803f80u);
    const __half2 out = __hmul2(*reinterpret_cast<__half2 *>(&halves), factor);
    (i ? second : first) = *reinterpret_cast<const uint32_t *>(&out);
  }
#endif
}

/* Four codes as float32, for a format given at run time. */
__device__ __forceinline__ float4 kv_decode_4(yk_kv_format format, uint32_t codes)
{
  uint32_t words[2];
  if (format == YK_KV_INT8)
    kv_decode_4<YK_KV_INT8>(codes, words[0], words[1]);
  else
    kv_decode_4<YK_KV_FP8>(codes, words[0], words[1]);
  const float2 low = __half22float2(*reinterpret_cast<__half2 *>(&words[0]));
  const float2 high = __half22float2(*reinterpret_cast<__half2 *>(&words[1]));
  return make_float4(low.x, low.y, high.x, high.y);
}

} // namespace yk_cuda

#endif
