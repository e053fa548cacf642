/* cache_elements.cuh - the elements of a KV cache for flash decoding: conversion of a page's words to mma operands, and
 * the scale factors between an operand and the value that it represents.
 *
 * Elements of the activation type are operands as they are. Codes (the elements of an 8-bit cache) become float16 for
 * any activation type. kernels/kv_cache.h derives where their scales are applied: K's static scales to the query, V's
 * to the output (decode_output.cuh), the tokens' to scores and probabilities. float16 has a narrow range, so the other
 * operand of the mma is scaled to near 1, and the float32 result is scaled back:
 *
 *   query          divided, exactly, by a power of two near its largest element; the scores are multiplied by it
 *   probabilities  times the token's scale relative to unit, which is near the largest scale of the tokens so far. If a
 *                  much larger scale follows, unit grows and the output so far is multiplied by the old unit over the
 *                  new, as for a new maximum. */
#ifndef YK_KERNELS_CUDA_ATTENTION_CACHE_ELEMENTS_CUH
#define YK_KERNELS_CUDA_ATTENTION_CACHE_ELEMENTS_CUH

#include "kernels/cuda/attention/decode_output.cuh"
#include "kernels/cuda/attention/flash_decoding.cuh"
#include "kernels/cuda/attention/gates.cuh"
#include "kernels/cuda/common/accumulator_rows.cuh"
#include "kernels/cuda/common/kv_codes.cuh"

namespace yk_attn {

/* T: __half or __nv_bfloat16. */
template <typename T> struct cache_elements {
  using operand = T; /* operand type of the mma */
  template <int HD> using output = act_output<T, HD>;
  static constexpr int BYTES = 2, MAX_TILES = 2;
  static constexpr bool ARE_CODES = false;

  /* Warps of the largest thread block. */
  __host__ __device__ static constexpr int warps(int)
  {
    return 8;
  }

  __host__ __device__ static constexpr int page_bytes(int head_dim)
  {
    return PAGE_TOKENS * head_dim * BYTES;
  }

  /* Elements 4i, 4i+1 and 4i+2, 4i+3 of consecutive elements of one row. */
  __device__ __forceinline__ static void key_operands(const uint32_t *row, int i, uint32_t &first, uint32_t &second)
  {
    first = row[2 * i];
    second = row[2 * i + 1];
  }

  /* Elements 2i of two rows, and elements 2i+1 of the same rows. */
  __device__ __forceinline__ static void value_operands(const uint32_t *row, const uint32_t *next, int i,
                                                        uint32_t &first, uint32_t &second)
  {
    first = __byte_perm(row[i], next[i], 0x5410);
    second = __byte_perm(row[i], next[i], 0x7632);
  }
};

template <yk_kv_format FORMAT> struct cache_elements<codes<FORMAT>> {
  using operand = __half;
  template <int HD> using output = code_output<HD>;
  static constexpr int BYTES = 1, MAX_TILES = 1;
  static constexpr bool ARE_CODES = true;

  /* More warps, since conversions take time, unless a head needs more registers than 12 warps have. */
  __host__ __device__ static constexpr int warps(int head_dim)
  {
    return head_dim > 128 ? 8 : 12;
  }

  __host__ __device__ static constexpr int page_bytes(int head_dim)
  {
    return PAGE_TOKENS * yk_cuda::kv_token_bytes(head_dim);
  }

  __device__ __forceinline__ static void key_operands(const uint32_t *row, int i, uint32_t &first, uint32_t &second)
  {
    yk_cuda::kv_decode_4<FORMAT>(row[i], first, second);
  }

  __device__ __forceinline__ static void value_operands(const uint32_t *row, const uint32_t *next, int i,
                                                        uint32_t &first, uint32_t &second)
  {
    const uint32_t both = __byte_perm(row[i / 2], next[i / 2], i % 2 ? 0x7362 : 0x5140);
    yk_cuda::kv_decode_4<FORMAT>(both, first, second);
  }
};

/* ---- Codes: queries and probabilities near 1 --------------------------------------------------------------------- */

/* 2^exponent, for exponents of normal float32 numbers. */
__device__ __forceinline__ float power_of_2(int exponent)
{
  return __int_as_float((exponent + 127) << 23);
}

/* Converts a lane's N pairs of a query, which lanes 4g .. 4g+3 hold together, from the activation type to float16 near
 * 1, in place; first multiplied by K's static scales, if channels is not NULL. column_of(i): the position of pair i in
 * the head. Returns the factor for the scores that undoes the scaling. */
template <int N, typename COLUMN_OF>
__device__ __forceinline__ float scale_query(yk_dtype dtype, const float *channels, uint32_t *q, COLUMN_OF column_of)
{
  float2 x[N];
  float largest = 0.0f;
#pragma unroll
  for (int i = 0; i < N; i++) {
    x[i] = act_pair(dtype, q[i]);
    if (channels) x[i] = make_float2(x[i].x * channels[column_of(i)], x[i].y * channels[column_of(i) + 1]);
    largest = fmaxf(largest, fmaxf(fabsf(x[i].x), fabsf(x[i].y)));
  }
  largest = yk_cuda::quad_max(largest);
  /* The largest element is scaled to 2^8 .. 2^9: an element 2^-22 as large is still a normal float16 (2^-14 and more).
   * The bounds keep both powers of two normal float32. */
  const int exponent = min(max(__float_as_int(largest) >> 23, 20), 250) - 127 - 8;
  const float factor = power_of_2(-exponent);
#pragma unroll
  for (int i = 0; i < N; i++) q[i] = round_pair<__half>(x[i].x * factor, x[i].y * factor);
  return power_of_2(exponent);
}

/* The scales of tokens g and g + 8 (g = lane / 4). They follow the page's codes, one float32 per token. */
__device__ __forceinline__ float2 token_scales(const char *codes_end)
{
  const float *scales = reinterpret_cast<const float *>(codes_end) + threadIdx.x % 32 / 4;
  return make_float2(scales[0], scales[8]);
}

} // namespace yk_attn

#endif
