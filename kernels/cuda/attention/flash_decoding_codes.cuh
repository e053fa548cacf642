/* flash_decoding_codes.cuh - what one warp of flash decoding computes on a cache of 8 bits: as flash_decoding_warp.cuh,
 * with codes that become float16 in registers, whatever the activation type is. kernels/kv_cache.h derives where scales
 * come in: K's static ones in the query, V's in the output (decode_output.cuh), the tokens' here.
 *
 * float16 has few exponents, so what goes into an mma is brought near 1 by a factor that float32 makes good again:
 *   query          divided by a power of two near its largest element, exactly; the scores are multiplied by it
 *   probabilities  times the token's scale, relative to unit, the largest scale of the tokens so far. Where a larger
 *                  one comes, the output so far is multiplied by the old unit over the new, as for a new maximum.
 *
 * Fragments are again whole reads of rows as they lie in memory. With g = lane / 4 and t = lane % 4:
 *   scores: lane (g, t) takes elements 16t .. 16t+15 of each 64 of rows g and g + 8 of the K page;
 *   output: lane (g, t) takes elements 8g .. 8g+7 of each 64 of tokens 2t, 2t+1, 2t+8, 2t+9 of the V page.
 * Of a last chunk of fewer than 64, a lane takes as many fewer. */
#ifndef YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_CODES_CUH
#define YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_CODES_CUH

#include "kernels/cuda/attention/page_ring.cuh"
#include "kernels/cuda/common/kv_codes.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace yk_attn {

/* 2^exponent for exponents of normal numbers. */
__device__ __forceinline__ float power_of_2(int exponent)
{
  return __int_as_float((exponent + 127) << 23);
}

/* Two neighbouring elements of the queries. */
__device__ __forceinline__ float2 act_pair(yk_dtype dtype, uint32_t pair)
{
  if (dtype == YK_F16) return __half22float2(*reinterpret_cast<const __half2 *>(&pair));
  const __nv_bfloat162 of_bf16 = *reinterpret_cast<const __nv_bfloat162 *>(&pair);
  return make_float2(__low2float(of_bf16), __high2float(of_bf16));
}

/* A warp's registers for one work item, as in warp_state; o is relative to unit. */
template <yk_kv_format FORMAT, int HD, int N_TILES> struct code_warp_state {
  static constexpr int N_CHUNKS = (HD + 63) / 64, N_K16 = HD / 16, N_D16 = HD / 16, AT_ONCE = 2;
  static constexpr float NO_UNIT = 1e-30f;

  uint32_t q[N_TILES][N_K16][2]; /* until start, as loaded */
  const float *channels;         /* K's static scales of the KV head; NULL: there are none */
  float q_scale[N_TILES][2];     /* of heads 2t and 2t+1: what scores are multiplied by */
  float o[N_TILES][N_D16][4];
  float m[N_TILES][2], l[N_TILES][2];
  float unit;

  /* Elements of a chunk that a lane takes of a row, in words of 4. */
  __device__ __forceinline__ static constexpr int k_words(int chunk)
  {
    return chunk < HD / 64 ? 4 : HD % 64 / 16;
  }

  /* Start loading the lane's elements of head g of each tile; zeros where there is no such head. They are used in
   * start, since loads that nobody waits for are under way while the work item before is combined. */
  __device__ void load_queries(const params &p, const work_item &item)
  {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    channels = p.k_channels ? p.k_channels + kv_head_of(p, item) * HD : nullptr;
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
      const int head = tile * 8 + g;
      const bool valid = head < item.n_heads;
      const char *row = static_cast<const char *>(p.q) +
                        2 * (item.row * p.q_stride + static_cast<int64_t>(item.head_begin + head) * HD);
#pragma unroll
      for (int c = 0; c < N_CHUNKS; c++) {
        const char *src = row + 2 * (c * 64 + t * 4 * k_words(c));
        uint32_t *to = &q[tile][c * 4][0];
#pragma unroll
        for (int i = 0; i < k_words(c) / 2; i++)
          *reinterpret_cast<uint4 *>(to + 4 * i) =
              valid ? *reinterpret_cast<const uint4 *>(src + 16 * i) : make_uint4(0, 0, 0, 0);
        if (k_words(c) == 1)
          *reinterpret_cast<uint2 *>(to) = valid ? *reinterpret_cast<const uint2 *>(src) : make_uint2(0, 0);
      }
    }
  }

  /* The queries that have been loaded, times K's static scales, as float16 near 1. */
  __device__ void bring_queries(const params &p)
  {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
      float2 x[N_K16][2];
      float largest = 0.0f;
#pragma unroll
      for (int i = 0; i < N_K16; i++) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
          x[i][j] = act_pair(p.dtype, q[tile][i][j]);
          if (channels) {
            const int d = i / 4 * 64 + t * 4 * k_words(i / 4) + i % 4 * 4 + 2 * j;
            x[i][j] = make_float2(x[i][j].x * channels[d], x[i][j].y * channels[d + 1]);
          }
          largest = fmaxf(largest, fmaxf(fabsf(x[i][j].x), fabsf(x[i][j].y)));
        }
      }
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
      /* At most 2^9 in size: float16 holds what is smaller by 2^-23 of it as a normal number. */
      const int exponent = min(max(__float_as_int(largest) >> 23, 20), 250) - 127 - 8;
      const float factor = power_of_2(-exponent);
#pragma unroll
      for (int i = 0; i < N_K16; i++) {
#pragma unroll
        for (int j = 0; j < 2; j++) q[tile][i][j] = round_pair<__half>(x[i][j].x * factor, x[i][j].y * factor);
      }
#pragma unroll
      for (int e = 0; e < 2; e++)
        q_scale[tile][e] = __shfl_sync(~0u, power_of_2(exponent), (2 * t + e) * 4) * p.scale_log2;
    }
  }

  __device__ void start(const params &p)
  {
    bring_queries(p);
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
#pragma unroll
      for (int i = 0; i < N_D16; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++) o[tile][i][e] = 0.0f;
      }
      m[tile][0] = m[tile][1] = -INFINITY;
      l[tile][0] = l[tile][1] = 0.0f;
    }
    unit = NO_UNIT;
  }

  template <int WORDS> __device__ __forceinline__ static void read_words(const char *src, uint32_t (&w)[4])
  {
    if (WORDS == 4)
      *reinterpret_cast<uint4 *>(w) = *reinterpret_cast<const uint4 *>(src);
    else if (WORDS == 2)
      *reinterpret_cast<uint2 *>(w) = *reinterpret_cast<const uint2 *>(src);
    else
      w[0] = *reinterpret_cast<const uint32_t *>(src);
  }

  template <int WORDS>
  __device__ __forceinline__ void score_chunk(const char *low, int first_k, float (&even)[N_TILES][4],
                                              float (&odd)[N_TILES][4]) const
  {
    uint32_t a[4], b[4];
    read_words<WORDS>(low, a);
    read_words<WORDS>(low + 8 * HD, b);
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
      uint32_t a0, a2, b0, b2;
      yk_cuda::kv_decode_4<FORMAT>(a[i], a0, a2);
      yk_cuda::kv_decode_4<FORMAT>(b[i], b0, b2);
#pragma unroll
      for (int tile = 0; tile < N_TILES; tile++)
        mma_m16n8k16<__half>(i % 2 ? odd[tile] : even[tile], a0, b0, a2, b2, q[tile][first_k + i][0],
                             q[tile][first_k + i][1]);
    }
  }

  /* s[tile] = K page [16, HD] Q^T, without any scale. */
  __device__ __forceinline__ void scores(const char *k_page, float (&s)[N_TILES][4]) const
  {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    float odd[N_TILES][4];
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
#pragma unroll
      for (int e = 0; e < 4; e++) s[tile][e] = odd[tile][e] = 0.0f;
    }
#pragma unroll
    for (int c = 0; c < HD / 64; c++) score_chunk<4>(k_page + g * HD + c * 64 + t * 16, c * 4, s, odd);
    if (HD % 64) {
      constexpr int REST = HD % 64 / 16 ? HD % 64 / 16 : 1;
      score_chunk<REST>(k_page + g * HD + HD / 64 * 64 + t * 4 * REST, HD / 64 * 4, s, odd);
    }
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
#pragma unroll
      for (int e = 0; e < 4; e++) s[tile][e] += odd[tile][e];
    }
  }

  /* The tokens' scales, which lie behind a page: of tokens g and g + 8. */
  __device__ __forceinline__ static float2 token_scales(const char *page)
  {
    const float *scales = reinterpret_cast<const float *>(page + PAGE_TOKENS * HD) + threadIdx.x % 32 / 4;
    return make_float2(scales[0], scales[8]);
  }

  /* Take the tokens' scales of V into unit. Returns the old unit over the new one; v becomes relative to the latter. */
  template <int N> __device__ __forceinline__ float rescale_unit(float2 (&v)[N])
  {
    float top = unit;
#pragma unroll
    for (int i = 0; i < N; i++) top = fmaxf(top, fmaxf(v[i].x, v[i].y));
#pragma unroll
    for (int offset = 4; offset < 32; offset *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, offset));
    const float inverse = __fdividef(1.0f, top), rescale = unit * inverse;
    unit = top;
#pragma unroll
    for (int i = 0; i < N; i++) v[i] = make_float2(v[i].x * inverse, v[i].y * inverse);
    return rescale;
  }

  /* Online softmax over the tokens of N pages, as in warp_state. k, v: the scales of the lane's tokens. What is not
   * visible gets a probability and a scale of V of 0. */
  template <int N>
  __device__ __forceinline__ void probabilities(const int32_t (&token)[N], int32_t begin, int32_t end,
                                                const float2 (&k)[N], float2 (&v)[N], float (&s)[N][N_TILES][4],
                                                uint32_t (&b)[N][N_TILES][2])
  {
    const int g = threadIdx.x % 32 / 4;
    const bool is_partial = token[0] < begin || token[N - 1] + PAGE_TOKENS > end;
    if (is_partial) {
#pragma unroll
      for (int i = 0; i < N; i++) {
        const int32_t low = token[i] + g, high = low + 8;
        if (low < begin || low >= end) v[i].x = 0.0f;
        if (high < begin || high >= end) v[i].y = 0.0f;
      }
    }
    const float unit_rescale = rescale_unit<N>(v);
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
      float rescale[2];
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float top = m[tile][e];
#pragma unroll
        for (int i = 0; i < N; i++) {
          const int32_t low = token[i] + g, high = low + 8;
          s[i][tile][e] *= k[i].x * q_scale[tile][e];
          s[i][tile][e + 2] *= k[i].y * q_scale[tile][e];
          if (is_partial) {
            if (low < begin || low >= end) s[i][tile][e] = -INFINITY;
            if (high < begin || high >= end) s[i][tile][e + 2] = -INFINITY;
          }
          top = fmaxf(top, fmaxf(s[i][tile][e], s[i][tile][e + 2]));
        }
#pragma unroll
        for (int offset = 4; offset < 32; offset *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, offset));
        rescale[e] = exp2_approx(m[tile][e] - top);
        m[tile][e] = top;
        l[tile][e] *= rescale[e];
        rescale[e] *= unit_rescale;
#pragma unroll
        for (int i = 0; i < N; i++) {
          s[i][tile][e] = exp2_approx(s[i][tile][e] - top);
          s[i][tile][e + 2] = exp2_approx(s[i][tile][e + 2] - top);
          l[tile][e] += s[i][tile][e] + s[i][tile][e + 2];
        }
      }
#pragma unroll
      for (int i = 0; i < N; i++) {
        b[i][tile][0] = transpose_8x8(round_pair<__half>(s[i][tile][0] * v[i].x, s[i][tile][1] * v[i].x));
        b[i][tile][1] = transpose_8x8(round_pair<__half>(s[i][tile][2] * v[i].y, s[i][tile][3] * v[i].y));
      }
#pragma unroll
      for (int i = 0; i < N_D16; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++) o[tile][i][e] *= rescale[e % 2];
      }
    }
  }

  /* The lane's part of a V page: w[c][i] is the row of token_of(i) in column chunk c, 8 codes or fewer. */
  using values = uint32_t[N_CHUNKS][4][2];

  __device__ __forceinline__ static int token_of(int i)
  {
    return 2 * static_cast<int>(threadIdx.x % 4) + i % 2 + i / 2 * 8;
  }

  __device__ __forceinline__ static void load_values(const char *v_page, values &w)
  {
    const int g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int c = 0; c < N_CHUNKS; c++) {
      const int n_bytes = 2 * k_words(c);
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const char *src = v_page + token_of(i) * HD + c * 64 + g * n_bytes;
        if (n_bytes == 8)
          *reinterpret_cast<uint2 *>(w[c][i]) = *reinterpret_cast<const uint2 *>(src);
        else if (n_bytes == 4)
          w[c][i][0] = *reinterpret_cast<const uint32_t *>(src);
        else
          w[c][i][0] = *reinterpret_cast<const uint16_t *>(src);
      }
    }
  }

  /* Codes of tokens n_valid and later become 0: their probability is 0, but FP8 has codes that are NaNs. */
  __device__ __forceinline__ static void clear_values(values &w, int32_t n_valid)
  {
#pragma unroll
    for (int c = 0; c < N_CHUNKS; c++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        if (token_of(i) >= n_valid) w[c][i][0] = w[c][i][1] = 0;
      }
    }
  }

  /* o += V page^T P^T. Codes of the two tokens of a pair are brought together before they become float16. */
  __device__ __forceinline__ void accumulate(const values &w, const uint32_t (&b)[N_TILES][2])
  {
#pragma unroll
    for (int c = 0; c < N_CHUNKS; c++) {
#pragma unroll
      for (int i = 0; i < k_words(c); i++) {
        const int word = i / 2, pick = i % 2 ? 0x7362 : 0x5140;
        uint32_t a0, a1, a2, a3;
        yk_cuda::kv_decode_4<FORMAT>(__byte_perm(w[c][0][word], w[c][1][word], pick), a0, a1);
        yk_cuda::kv_decode_4<FORMAT>(__byte_perm(w[c][2][word], w[c][3][word], pick), a2, a3);
#pragma unroll
        for (int tile = 0; tile < N_TILES; tile++)
          mma_m16n8k16<__half>(o[tile][c * 4 + i], a0, a1, a2, a3, b[tile][0], b[tile][1]);
      }
    }
  }

  /* Consume the next N pages of the ring, as in warp_state. The softmax scale is in q_scale. */
  template <int N, typename RING>
  __device__ __forceinline__ void consume(RING &pages, float, int32_t first_token, int32_t begin, int32_t end)
  {
    float score[N][N_TILES][4];
    uint32_t prob[N][N_TILES][2];
    int32_t token[N];
    values w[N];
    float2 k_scale[N], v_scale[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
      token[i] = first_token + i * RING::N_WARPS * PAGE_TOKENS;
      const char *page = pages.wait(i);
      scores(page, score[i]);
      load_values(page + RING::PAGE_BYTES, w[i]);
      k_scale[i] = token_scales(page);
      v_scale[i] = token_scales(page + RING::PAGE_BYTES);
    }
    probabilities<N>(token, begin, end, k_scale, v_scale, score, prob);
#pragma unroll
    for (int i = 0; i < N; i++) {
      if (end - token[i] < PAGE_TOKENS) clear_values(w[i], end - token[i]);
      accumulate(w[i], prob[i]);
    }
    pages.release(N);
  }

  /* Write the warp's m, l and o, times unit, to shared memory: element o[tile][4c + i][e] as in warp_state. */
  template <typename SHARED> __device__ void store(SHARED &s) const
  {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4, warp = threadIdx.x / 32;
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const int head = tile * 8 + 2 * t + e;
        float sum = l[tile][e];
#pragma unroll
        for (int offset = 4; offset < 32; offset *= 2) sum += __shfl_xor_sync(~0u, sum, offset);
        if (g == 0) {
          s.m[warp][head] = m[tile][e];
          s.l[warp][head] = sum;
        }
#pragma unroll
        for (int i = 0; i < N_D16; i++) {
          const int words = k_words(i / 4);
          float2 pair = make_float2(o[tile][i][e] * unit, o[tile][i][e + 2] * unit);
          *reinterpret_cast<float2 *>(&s.o[warp][head][i / 4 * 64 + g * 2 * words + 2 * (i % 4)]) = pair;
        }
      }
    }
  }
};

} // namespace yk_attn

#endif
