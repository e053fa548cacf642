/* flash_decoding_warp.cuh - the computation of one warp of flash decoding: scores, online softmax and output of the
 * pages of one work item, on mma.sync (m16n8k16).
 *
 * Keys are the A operand and the query heads the 8 columns of B, so the scores come out transposed, S^T [16 tokens, 8
 * heads], and so does the output, O^T [head_dim, 8 heads]. The index that a GEMM sums over may be permuted. Both
 * permutations are chosen so that every fragment consists of wide reads of rows in memory order. With g = lane / 4 and
 * t = lane % 4:
 *   scores: lane (g, t) reads 16 bytes at a time of rows g and g + 8 of the K page: of each 4 E elements, where E is
 *   the number of elements in 16 bytes, elements E t .. E t + E - 1;
 *   output: lane (g, t) reads elements 8g .. 8g+7 of each 64 of tokens 2t, 2t+1, 2t+8, 2t+9 of the V page.
 * If head_dim is not a multiple of a chunk, the last chunk, and every lane's part of it, is shorter. */
#ifndef YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_WARP_CUH
#define YK_KERNELS_CUDA_ATTENTION_FLASH_DECODING_WARP_CUH

#include "kernels/cuda/attention/cache_elements.cuh"
#include "kernels/cuda/attention/page_ring.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace yk_attn {

/* Copies N_BYTES of shared or global memory to registers, in the fewest wide loads; from: aligned to the widest
 * load. */
template <int N_BYTES> __device__ __forceinline__ void read_bytes(const void *from, uint32_t *to)
{
#pragma unroll
  for (int i = 0; i < N_BYTES / 16; i++) reinterpret_cast<uint4 *>(to)[i] = static_cast<const uint4 *>(from)[i];
  if constexpr (N_BYTES == 8) *reinterpret_cast<uint2 *>(to) = *static_cast<const uint2 *>(from);
  if constexpr (N_BYTES == 4) *to = *static_cast<const uint32_t *>(from);
  if constexpr (N_BYTES == 2) *to = *static_cast<const uint16_t *>(from);
}

/* A warp's registers for one work item: its queries, and the running maximum m (as a power of two), sum l and output o
 * of the pages that the warp has read. Lazy rescaling: m is raised only if a score exceeds it by more than HEADROOM, so
 * that most pages need no exchange between lanes. m is then not the true maximum and probabilities are up to
 * 2^HEADROOM, but o / l is the same. N_TILES: tiles of 8 query heads. Lane (g, t) holds heads 2t and 2t+1 of every
 * tile; its l covers only its own tokens, until results adds the lanes' sums. */
template <typename CACHE, int HD, int N_TILES> struct warp_state {
  using elements = cache_elements<CACHE>;
  using T = typename elements::operand;
  static constexpr int N_K16 = HD / 16, N_D16 = HD / 16; /* steps of K Q^T along head_dim; tiles of O^T along it */
  static constexpr int K_CHUNK = 64 / elements::BYTES;   /* elements of a row that four lanes read at a time */
  /* mma steps of a chunk, and of a short last chunk */
  static constexpr int K_STEPS = K_CHUNK / 16, K_REST = HD % K_CHUNK / 16;
  static constexpr int V_CHUNKS = (HD + 63) / 64, V_REST = HD % 64 / 16;
  /* A V page is copied to registers, so that its stage is refilled during the softmax, unless queries and output of two
   * wide tiles leave no registers for the page. */
  static constexpr bool COPIES_VALUES = HD * N_TILES <= 256;
  static constexpr float NO_UNIT = 1e-30f; /* unit before the first page: far below any scale but 0 */
  /* Amounts by which m (as a sum) and unit (as a factor) may be exceeded. Together 2^8 * 16, below float16's largest
   * 65504. */
  static constexpr float HEADROOM = 8.0f, UNIT_HEADROOM = 16.0f;

  uint32_t q[N_TILES][N_K16][2]; /* B operands; between load_queries and start in the activation type */
  float o[N_TILES][N_D16][4];
  float m[N_TILES][2], l[N_TILES][2];
  /* For codes only: */
  const float *channels;     /* K's static scales of the KV head, or NULL */
  float q_scale[N_TILES][2]; /* factor of the scores of heads 2t and 2t+1: see scale_query */
  float scale_log2;          /* of the query: scale_log2_at */
  float unit, inverse_unit;  /* V's scales, and so o, are divided by unit (cache_elements.cuh); 1 / unit */

  /* Column pairs of a V chunk per lane. */
  __device__ __forceinline__ static constexpr int v_pairs(int chunk)
  {
    return chunk < HD / 64 ? 4 : V_REST;
  }

  /* First column, in the head, of the lane's part of K chunk c. */
  __device__ __forceinline__ static int k_column(int c)
  {
    return c * K_CHUNK + static_cast<int>(threadIdx.x % 4) * 4 * (c < HD / K_CHUNK ? K_STEPS : K_REST);
  }

  /* Issues loads of the lane's elements of head g of each tile; zeros if there is no such head. The elements are first
   * used in start, so that the loads are in flight while the previous work item is combined. */
  __device__ void load_queries(const params &p, const work_item &item)
  {
    if (elements::ARE_CODES) channels = p.k_channels ? p.k_channels + kv_head_of(p, item) * HD : nullptr;
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
      const int head = tile * 8 + threadIdx.x % 32 / 4;
      const char *row = static_cast<const char *>(p.q) +
                        2 * (item.row * p.q_stride + static_cast<int64_t>(item.head_begin + head) * HD);
#pragma unroll
      for (int i = 0; i < N_K16; i++) q[tile][i][0] = q[tile][i][1] = 0;
      if (head >= item.n_heads) continue;
#pragma unroll
      for (int c = 0; c < HD / K_CHUNK; c++) read_bytes<8 * K_STEPS>(row + 2 * k_column(c), &q[tile][c * K_STEPS][0]);
      if constexpr (K_REST > 0) read_bytes<8 * K_REST>(row + 2 * k_column(HD / K_CHUNK), &q[tile][N_K16 - K_REST][0]);
    }
  }

  /* Converts the loaded queries to float16 near 1, for a cache of codes. */
  __device__ void scale_queries(const params &p)
  {
    const int t = threadIdx.x % 4;
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
      const auto column_of = [](int i) { return k_column(i / 2 / K_STEPS) + i / 2 % K_STEPS * 4 + i % 2 * 2; };
      const float scale = scale_query<2 * N_K16>(p.dtype, channels, &q[tile][0][0], column_of);
#pragma unroll
      for (int e = 0; e < 2; e++) q_scale[tile][e] = __shfl_sync(~0u, scale, (2 * t + e) * 4) * scale_log2;
    }
  }

  /* Begins a work item whose queries are loaded: no page has been read. */
  __device__ void start(const params &p, const work_item &item)
  {
    scale_log2 = scale_log2_at(p, item.kv_tokens - 1);
    if constexpr (elements::ARE_CODES) scale_queries(p);
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
    inverse_unit = 1.0f / NO_UNIT;
  }

  /* Mma steps first .. first + N - 1 along head_dim. Even and odd steps have separate accumulators, since an mma waits
   * for the previous mma on the same accumulator. row: the lane's part of row g of the page. */
  template <int N>
  __device__ __forceinline__ void score_chunk(const char *row, int first, float (&even)[N_TILES][4],
                                              float (&odd)[N_TILES][4]) const
  {
    uint32_t low[4], high[4];
    read_bytes<4 * N * elements::BYTES>(row, low);
    read_bytes<4 * N * elements::BYTES>(row + 8 * HD * elements::BYTES, high);
#pragma unroll
    for (int i = 0; i < N; i++) {
      uint32_t a0, a1, a2, a3;
      elements::key_operands(low, i, a0, a2);
      elements::key_operands(high, i, a1, a3);
#pragma unroll
      for (int tile = 0; tile < N_TILES; tile++)
        mma_m16n8k16<T>(i % 2 ? odd[tile] : even[tile], a0, a1, a2, a3, q[tile][first + i][0], q[tile][first + i][1]);
    }
  }

  /* s[tile] = K page [16, HD] Q^T, without any scale. */
  __device__ __forceinline__ void scores(const char *k_page, float (&s)[N_TILES][4]) const
  {
    const char *row = k_page + threadIdx.x % 32 / 4 * HD * elements::BYTES;
    float odd[N_TILES][4];
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
#pragma unroll
      for (int e = 0; e < 4; e++) s[tile][e] = odd[tile][e] = 0.0f;
    }
#pragma unroll
    for (int c = 0; c < HD / K_CHUNK; c++)
      score_chunk<K_STEPS>(row + k_column(c) * elements::BYTES, c * K_STEPS, s, odd);
    if constexpr (K_REST > 0)
      score_chunk<K_REST>(row + k_column(HD / K_CHUNK) * elements::BYTES, N_K16 - K_REST, s, odd);
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
#pragma unroll
      for (int e = 0; e < 4; e++) s[tile][e] += odd[tile][e];
    }
  }

  /* The largest x of the eight lanes that have the same heads. */
  __device__ __forceinline__ static float max_over_tokens(float x)
  {
#pragma unroll
    for (int offset = 4; offset < 32; offset *= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, offset));
    return x;
  }

  /* The factor from a score of head 2t + e to an exponent of 2; the token's scale is applied separately. */
  __device__ __forceinline__ float score_scale(int tile, int e) const
  {
    return elements::ARE_CODES ? q_scale[tile][e] : scale_log2;
  }

  /* Raises m to the scores' maxima, and unit to the largest of V's scales. top: maxima of the lane's scores. */
  __device__ __forceinline__ void raise(const float (&top)[N_TILES][2], float2 v)
  {
    float rescale_unit = 1.0f;
    if constexpr (elements::ARE_CODES) {
      const float largest = max_over_tokens(fmaxf(unit, fmaxf(v.x, v.y)));
      rescale_unit = __fdividef(unit, largest);
      unit = largest;
      inverse_unit = __fdividef(1.0f, largest);
    }
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
      float rescale[2];
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const float new_m = max_over_tokens(fmaxf(m[tile][e], top[tile][e]));
        rescale[e] = exp2_approx(m[tile][e] - new_m);
        m[tile][e] = new_m;
        l[tile][e] *= rescale[e];
        rescale[e] *= rescale_unit;
      }
#pragma unroll
      for (int i = 0; i < N_D16; i++) {
#pragma unroll
        for (int e = 0; e < 4; e++) o[tile][i][e] *= rescale[e % 2];
      }
    }
  }

  /* Online softmax over the tokens of a page, the first of which is number token. Tokens begin .. end - 1 are visible,
   * others get a probability of 0. k, v: the scales of tokens g and g + 8, 1 if the cache has none. b: the
   * probabilities, times the scales of V, as the B operand of V^T P^T. */
  __device__ __forceinline__ void probabilities(int32_t token, int32_t begin, int32_t end, float2 k, float2 v,
                                                float (&s)[N_TILES][4], uint32_t (&b)[N_TILES][2])
  {
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
#pragma unroll
      for (int e = 0; e < 4; e++) s[tile][e] *= (e < 2 ? k.x : k.y) * score_scale(tile, e % 2);
    }
    if (token < begin || token + PAGE_TOKENS > end) hide(token, begin, end, v, s);
    float top[N_TILES][2];
    bool is_beyond = elements::ARE_CODES && fmaxf(v.x, v.y) > unit * UNIT_HEADROOM;
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        top[tile][e] = fmaxf(s[tile][e], s[tile][e + 2]);
        is_beyond |= top[tile][e] > m[tile][e] + HEADROOM;
      }
    }
    if (__any_sync(~0u, is_beyond)) raise(top, v);
    if constexpr (elements::ARE_CODES) v = make_float2(v.x * inverse_unit, v.y * inverse_unit);
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
#pragma unroll
      for (int e = 0; e < 4; e++) {
        s[tile][e] = exp2_approx(s[tile][e] - m[tile][e % 2]);
        l[tile][e % 2] += s[tile][e];
      }
      b[tile][0] = transpose_8x8(round_pair<T>(s[tile][0] * v.x, s[tile][1] * v.x));
      b[tile][1] = transpose_8x8(round_pair<T>(s[tile][2] * v.y, s[tile][3] * v.y));
    }
  }

  /* Sets scores of invisible tokens to minus infinity, and their scales of V to 0. */
  __device__ __forceinline__ static void hide(int32_t token, int32_t begin, int32_t end, float2 &v,
                                              float (&s)[N_TILES][4])
  {
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const int32_t t = token + static_cast<int32_t>(threadIdx.x % 32 / 4) + half * 8;
      if (t >= begin && t < end) continue;
      if constexpr (elements::ARE_CODES) (half ? v.y : v.x) = 0.0f;
#pragma unroll
      for (int tile = 0; tile < N_TILES; tile++) s[tile][2 * half] = s[tile][2 * half + 1] = -INFINITY;
    }
  }

  /* The lane's part of a column chunk of a V page: w[i] is of the row of token_of(i). */
  using value_chunk = uint32_t[4][2 * elements::BYTES];

  __device__ __forceinline__ static int token_of(int i)
  {
    return 2 * static_cast<int>(threadIdx.x % 4) + i % 2 + i / 2 * 8;
  }

  __device__ __forceinline__ static void load_values(const char *v_page, int c, value_chunk &w)
  {
    const int g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const char *row = v_page + token_of(i) * HD * elements::BYTES;
      if (c < HD / 64)
        read_bytes<8 * elements::BYTES>(row + (c * 64 + g * 8) * elements::BYTES, w[i]);
      else if constexpr (V_REST > 0)
        read_bytes<2 * V_REST * elements::BYTES>(row + (c * 64 + g * 2 * V_REST) * elements::BYTES, w[i]);
    }
  }

  /* Sets the values of tokens n_valid and later to zero: their probability is 0, but the cache may hold NaN there. */
  __device__ __forceinline__ static void clear_values(value_chunk &w, int32_t n_valid)
  {
#pragma unroll
    for (int i = 0; i < 4; i++) {
#pragma unroll
      for (int j = 0; j < 2 * elements::BYTES; j++) w[i][j] = token_of(i) < n_valid ? w[i][j] : 0;
    }
  }

  /* o += V page^T P^T, for the dimensions of column chunk c. */
  __device__ __forceinline__ void accumulate(int c, const value_chunk &w, const uint32_t (&b)[N_TILES][2])
  {
#pragma unroll
    for (int i = 0; i < v_pairs(c); i++) {
      uint32_t a0, a1, a2, a3;
      elements::value_operands(w[0], w[1], i, a0, a1);
      elements::value_operands(w[2], w[3], i, a2, a3);
#pragma unroll
      for (int tile = 0; tile < N_TILES; tile++)
        mma_m16n8k16<T>(o[tile][c * 4 + i], a0, a1, a2, a3, b[tile][0], b[tile][1]);
    }
  }

  /* Consumes the next page of the ring, whose first token is number token. Tokens begin .. end - 1 are visible. */
  template <typename RING>
  __device__ __forceinline__ void consume(RING &pages, int32_t token, int32_t begin, int32_t end)
  {
    float score[N_TILES][4];
    uint32_t prob[N_TILES][2];
    value_chunk w[V_CHUNKS];
    float2 k_scale = make_float2(1.0f, 1.0f), v_scale = k_scale;
    const char *page = pages.wait(), *v_page = page + RING::PAGE_BYTES;
    scores(page, score);
#pragma unroll
    for (int c = 0; c < V_CHUNKS && COPIES_VALUES; c++) load_values(v_page, c, w[c]);
    if constexpr (elements::ARE_CODES) {
      k_scale = token_scales(page + PAGE_TOKENS * HD);
      v_scale = token_scales(v_page + PAGE_TOKENS * HD);
    }
    if (COPIES_VALUES) pages.release(); /* the remaining data is in registers */
    probabilities(token, begin, end, k_scale, v_scale, score, prob);
#pragma unroll
    for (int c = 0; c < V_CHUNKS; c++) {
      if (!COPIES_VALUES) load_values(v_page, c, w[c]);
      if (end - token < PAGE_TOKENS) clear_values(w[c], end - token);
      accumulate(c, w[c], prob);
    }
    if (!COPIES_VALUES) pages.release();
  }

  /* Calls write(head, d, o, ml) for the lane's pairs of dimensions, from d on, of each head's output o, which is
   * relative to 2^m and not divided by l. Element o[tile][4c + i][e] of lane (g, t) is head 2t + e % 2, dimension 64 c
   * + 2 g v_pairs(c) + 2 i + e / 2. */
  template <typename WRITE> __device__ __forceinline__ void results(WRITE write) const
  {
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
#pragma unroll
      for (int e = 0; e < 2; e++) {
        float sum = l[tile][e];
#pragma unroll
        for (int offset = 4; offset < 32; offset *= 2) sum += __shfl_xor_sync(~0u, sum, offset);
#pragma unroll
        for (int c = 0; c < HD / 64; c++) write_chunk<4>(tile, e, c, sum, write);
        if constexpr (V_REST > 0) write_chunk<V_REST>(tile, e, HD / 64, sum, write);
      }
    }
  }

  template <int N, typename WRITE>
  __device__ __forceinline__ void write_chunk(int tile, int e, int c, float sum, WRITE write) const
  {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const float factor = elements::ARE_CODES ? unit : 1.0f;
    float2 pairs[N];
#pragma unroll
    for (int i = 0; i < N; i++)
      pairs[i] = make_float2(o[tile][c * 4 + i][e] * factor, o[tile][c * 4 + i][e + 2] * factor);
    write(tile * 8 + 2 * t + e, c * 64 + g * 2 * N, pairs, make_float2(m[tile][e], sum));
  }
};

} // namespace yk_attn

#endif
