/* flash_decoding_warp.cuh - what one warp of flash decoding computes: scores, online softmax and output of the pages of
 * one work item, on mma.sync (m16n8k16).
 *
 * Keys are the A operand and the query heads the 8 columns of B, so the scores come out transposed, S^T [16 tokens,
 * 8 heads], and so does the output, O^T [head_dim, 8 heads]. The index that a GEMM sums over may come in any order.
 * Both orders are chosen so that every fragment is whole 16-byte reads of rows as they lie in memory. With g = lane / 4
 * and t = lane % 4:
 *   scores: lane (g, t) takes elements 8t .. 8t+7 of each 32 of rows g and g + 8 of the K page;
 *   output: lane (g, t) takes elements 8g .. 8g+7 of each 64 of tokens 2t, 2t+1, 2t+8, 2t+9 of the V page. */
#ifndef YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_WARP_CUH
#define YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_WARP_CUH

#include "kernels/cuda/attention/page_ring.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace yk_attn {

/* A warp's registers for one work item: its queries, and the running maximum m (in powers of two), sum l and output o
 * of the pages that the warp has read. N_TILES: tiles of 8 query heads. Lane (g, t) holds heads 2t and 2t+1 of every
 * tile; its l covers only the tokens that it holds itself, until store adds the lanes' sums up. */
template <typename T, int HD, int N_TILES> struct warp_state {
  static constexpr int N_K32 = HD / 32, N_K16 = HD / 32 * 2 + HD % 32 / 16; /* steps of K Q^T along head_dim */
  static constexpr int N_D16 = HD / 16;                                     /* tiles of O^T along head_dim */
  static constexpr int AT_ONCE = 2;                                         /* pages that are consumed together */

  uint32_t q[N_TILES][N_K16][2];
  float o[N_TILES][N_D16][4];
  float m[N_TILES][2], l[N_TILES][2];

  /* Start loading the work item's queries. */
  __device__ void load_queries(const params &p, const work_item &item)
  {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
      int32_t head = tile * 8 + g;
      bool valid = head < item.n_heads;
      const T *src =
          static_cast<const T *>(p.q) + item.row * p.q_stride + static_cast<int64_t>(item.head_begin + head) * HD;
#pragma unroll
      for (int j = 0; j < N_K32; j++) {
        uint4 v = valid ? *reinterpret_cast<const uint4 *>(src + j * 32 + t * 8) : make_uint4(0, 0, 0, 0);
        q[tile][2 * j][0] = v.x;
        q[tile][2 * j][1] = v.y;
        q[tile][2 * j + 1][0] = v.z;
        q[tile][2 * j + 1][1] = v.w;
      }
      if (HD % 32 == 16) {
        uint2 v = valid ? *reinterpret_cast<const uint2 *>(src + N_K32 * 32 + t * 4) : make_uint2(0, 0);
        q[tile][N_K16 - 1][0] = v.x;
        q[tile][N_K16 - 1][1] = v.y;
      }
    }
  }

  __device__ void start(const params &)
  {
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
  }

  /* s[tile] = K page [16, HD] Q^T. Two accumulators, since an mma waits for the one before on the same accumulator. */
  __device__ __forceinline__ void scores(const char *k_page, float (&s)[N_TILES][4]) const
  {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    float odd[N_TILES][4];
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
#pragma unroll
      for (int e = 0; e < 4; e++) s[tile][e] = odd[tile][e] = 0.0f;
    }
    const T *low = reinterpret_cast<const T *>(k_page) + g * HD, *high = low + 8 * HD;
#pragma unroll
    for (int j = 0; j < N_K32; j++) {
      uint4 a = *reinterpret_cast<const uint4 *>(low + j * 32 + t * 8),
            b = *reinterpret_cast<const uint4 *>(high + j * 32 + t * 8);
#pragma unroll
      for (int tile = 0; tile < N_TILES; tile++) {
        mma_m16n8k16<T>(s[tile], a.x, b.x, a.y, b.y, q[tile][2 * j][0], q[tile][2 * j][1]);
        mma_m16n8k16<T>(odd[tile], a.z, b.z, a.w, b.w, q[tile][2 * j + 1][0], q[tile][2 * j + 1][1]);
      }
    }
    if (HD % 32 == 16) {
      uint2 a = *reinterpret_cast<const uint2 *>(low + N_K32 * 32 + t * 4),
            b = *reinterpret_cast<const uint2 *>(high + N_K32 * 32 + t * 4);
#pragma unroll
      for (int tile = 0; tile < N_TILES; tile++)
        mma_m16n8k16<T>(s[tile], a.x, b.x, a.y, b.y, q[tile][N_K16 - 1][0], q[tile][N_K16 - 1][1]);
    }
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
#pragma unroll
      for (int e = 0; e < 4; e++) s[tile][e] += odd[tile][e];
    }
  }

  /* Online softmax over the tokens of N pages. token[i] is the first token of page i; tokens begin .. end - 1 are
   * visible. b: the probabilities as the B operand of V^T P^T. */
  template <int N>
  __device__ __forceinline__ void probabilities(float scale_log2, const int32_t (&token)[N], int32_t begin, int32_t end,
                                                float (&s)[N][N_TILES][4], uint32_t (&b)[N][N_TILES][2])
  {
    const int g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
      float rescale[2];
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float top = m[tile][e];
#pragma unroll
        for (int i = 0; i < N; i++) {
          const int32_t low = token[i] + g, high = low + 8;
          s[i][tile][e] = low >= begin && low < end ? s[i][tile][e] * scale_log2 : -INFINITY;
          s[i][tile][e + 2] = high >= begin && high < end ? s[i][tile][e + 2] * scale_log2 : -INFINITY;
          top = fmaxf(top, fmaxf(s[i][tile][e], s[i][tile][e + 2]));
        }
#pragma unroll
        for (int offset = 4; offset < 32; offset *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, offset));
        rescale[e] = exp2_approx(m[tile][e] - top);
        m[tile][e] = top;
        l[tile][e] *= rescale[e];
#pragma unroll
        for (int i = 0; i < N; i++) {
          s[i][tile][e] = exp2_approx(s[i][tile][e] - top);
          s[i][tile][e + 2] = exp2_approx(s[i][tile][e + 2] - top);
          l[tile][e] += s[i][tile][e] + s[i][tile][e + 2];
        }
      }
#pragma unroll
      for (int i = 0; i < N; i++) {
        b[i][tile][0] = transpose_8x8(round_pair<T>(s[i][tile][0], s[i][tile][1]));
        b[i][tile][1] = transpose_8x8(round_pair<T>(s[i][tile][2], s[i][tile][3]));
      }
#pragma unroll
      for (int i = 0; i < N_D16; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++) o[tile][i][e] *= rescale[e % 2];
      }
    }
  }

  /* The lane's part of a V page: w[c][i] is the row of token_of(i) in column chunk c. */
  static constexpr int N_CHUNKS = (HD + 63) / 64, REST_WORDS = HD % 64 / 16; /* chunks of 64, the last may be short */
  using values = uint32_t[N_CHUNKS][4][4];

  __device__ __forceinline__ static int token_of(int i)
  {
    return 2 * static_cast<int>(threadIdx.x % 4) + i % 2 + i / 2 * 8;
  }

  __device__ __forceinline__ static void load_values(const char *v_page, values &w)
  {
    const int g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int c = 0; c < N_CHUNKS; c++) {
      const int n_words = c < HD / 64 ? 4 : REST_WORDS;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const T *src = reinterpret_cast<const T *>(v_page) + token_of(i) * HD + c * 64 + g * n_words * 2;
        if (n_words == 4)
          *reinterpret_cast<uint4 *>(w[c][i]) = *reinterpret_cast<const uint4 *>(src);
        else if (n_words == 2)
          *reinterpret_cast<uint2 *>(w[c][i]) = *reinterpret_cast<const uint2 *>(src);
        else
          w[c][i][0] = *reinterpret_cast<const uint32_t *>(src);
      }
    }
  }

  /* Set the values of tokens n_valid and later to zero: their probability is 0, but the cache may hold NaN there. */
  __device__ __forceinline__ static void clear_values(values &w, int32_t n_valid)
  {
#pragma unroll
    for (int c = 0; c < N_CHUNKS; c++) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        if (token_of(i) >= n_valid) w[c][i][0] = w[c][i][1] = w[c][i][2] = w[c][i][3] = 0;
      }
    }
  }

  /* o += V page^T P^T. */
  __device__ __forceinline__ void accumulate(const values &w, const uint32_t (&b)[N_TILES][2])
  {
#pragma unroll
    for (int c = 0; c < N_CHUNKS; c++) {
#pragma unroll
      for (int i = 0; i < (c < HD / 64 ? 4 : REST_WORDS); i++) {
        uint32_t a0 = __byte_perm(w[c][0][i], w[c][1][i], 0x5410), a1 = __byte_perm(w[c][0][i], w[c][1][i], 0x7632);
        uint32_t a2 = __byte_perm(w[c][2][i], w[c][3][i], 0x5410), a3 = __byte_perm(w[c][2][i], w[c][3][i], 0x7632);
#pragma unroll
        for (int tile = 0; tile < N_TILES; tile++)
          mma_m16n8k16<T>(o[tile][c * 4 + i], a0, a1, a2, a3, b[tile][0], b[tile][1]);
      }
    }
  }

  /* Consume the next N pages of the ring. The first one begins with first_token, each further one N_WARPS pages
   * later. */
  template <int N, typename RING>
  __device__ __forceinline__ void consume(RING &pages, float scale_log2, int32_t first_token, int32_t begin,
                                          int32_t end)
  {
    float score[N][N_TILES][4];
    uint32_t prob[N][N_TILES][2];
    int32_t token[N];
    values w[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
      token[i] = first_token + i * RING::N_WARPS * PAGE_TOKENS;
      const char *page = pages.wait(i);
      scores(page, score[i]);
      load_values(page + RING::PAGE_BYTES, w[i]);
    }
    probabilities<N>(scale_log2, token, begin, end, score, prob);
#pragma unroll
    for (int i = 0; i < N; i++) {
      if (end - token[i] < PAGE_TOKENS) clear_values(w[i], end - token[i]);
      accumulate(w[i], prob[i]);
    }
    pages.release(N);
  }

  /* Write the warp's m, l and o to shared memory. Element o[tile][4c + i][e] of lane (g, t) is head 2t + e % 2,
   * dimension 64 c + g * 2 * words + 2 i + e / 2, where words is 4 except in a short last chunk. */
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
          const int words = i / 4 < HD / 64 ? 4 : HD % 64 / 16;
          float2 pair = make_float2(o[tile][i][e], o[tile][i][e + 2]);
          *reinterpret_cast<float2 *>(&s.o[warp][head][i / 4 * 64 + g * 2 * words + 2 * (i % 4)]) = pair;
        }
      }
    }
  }
};

} // namespace yk_attn

#endif
