/* awq_group.cuh - the rounding of a group of weights: the arithmetic of kernels/awq_quantize.h on a GPU, with every
 * operation rounded once as defined there, so that the bits are the same. */
#ifndef YK_KERNELS_CUDA_QUANTIZE_AWQ_GROUP_CUH
#define YK_KERNELS_CUDA_QUANTIZE_AWQ_GROUP_CUH

#include <cuda_fp16.h>

#include <cstdint>

namespace yk_awq {

/* A word's nibbles are of outputs 0 2 4 6 1 3 5 7. */
__device__ __forceinline__ constexpr int output_of_nibble(int nibble)
{
  return nibble % 4 * 2 + nibble / 4;
}

__device__ __forceinline__ constexpr int nibble_of_output(int output)
{
  return output % 2 * 4 + output / 2;
}

/* Adding 1.5 * 2^23 rounds to an integer, ties to even, which is then in the low bits of the float. */
constexpr float WHOLE = 12582912.0f;

__device__ __forceinline__ float nearest(float x)
{
  return __fsub_rn(__fadd_rn(x, WHOLE), WHOLE);
}

__device__ __forceinline__ float clamp_q(float x)
{
  x = x < 0.0f ? 0.0f : x;
  return x > 15.0f ? 15.0f : x;
}

struct group {
  uint16_t scale_bits; /* f16 */
  float scale, zero;
  bool is_sound; /* a finite scale */
};

/* low and high: the least and the greatest of the weights and 0. Neither may be a NaN. */
__device__ __forceinline__ group group_of(float low, float high)
{
  const float width = __fsub_rn(high, low);
  const __half scale = __float2half_rn(__fdiv_rn(width < 1e-5f ? 1e-5f : width, 15.0f));
  group g;
  g.scale_bits = __half_as_ushort(scale);
  g.scale = __half2float(scale);
  g.zero = clamp_q(nearest(__fdiv_rn(-low, g.scale)));
  g.is_sound = (g.scale_bits & 0x7C00u) != 0x7C00u;
  return g;
}

/* q of a weight, for any float. */
__device__ __forceinline__ float whole_of(const group &g, float w)
{
  return clamp_q(__fadd_rn(nearest(__fdiv_rn(w, g.scale)), g.zero));
}

/* Keeps the smallest index that cannot be quantised; initially all bits are ones: none. */
__device__ __forceinline__ void note_bad(int64_t *first_bad, int64_t place)
{
  atomicMin(reinterpret_cast<unsigned long long *>(first_bad), static_cast<unsigned long long>(place));
}

/* Transposes eight words of eight nibbles: nibble j of result word i is nibble i of word j. */
__device__ __forceinline__ void transpose_nibbles(uint32_t (&w)[8])
{
  uint32_t a[8];
#pragma unroll
  for (int i = 0; i < 4; i++) { /* halves, of words four apart */
    a[i] = __byte_perm(w[i], w[i + 4], 0x5410);
    a[i + 4] = __byte_perm(w[i], w[i + 4], 0x7632);
  }
#pragma unroll
  for (int i = 0; i < 8; i += 4) { /* bytes, of words two apart */
    uint32_t b[4];
#pragma unroll
    for (int j = 0; j < 2; j++) {
      b[j] = __byte_perm(a[i + j], a[i + j + 2], 0x6240);
      b[j + 2] = __byte_perm(a[i + j], a[i + j + 2], 0x7351);
    }
#pragma unroll
    for (int j = 0; j < 4; j += 2) { /* nibbles, of neighbours */
      w[i + j] = (b[j] & 0x0F0F0F0Fu) | (b[j + 1] << 4 & 0xF0F0F0F0u);
      w[i + j + 1] = (b[j] >> 4 & 0x0F0F0F0Fu) | (b[j + 1] & 0xF0F0F0F0u);
    }
  }
}

} // namespace yk_awq

#endif
