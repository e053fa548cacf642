/* attention.cuh - grouped-query attention of the decode kernel's row.
 *
 * The cached tokens of a KV head are divided into SPLITS runs of pages, each for one thread block: flash decoding with
 * mma.sync, a page a warp at a time. A page is multiplied as in attention/flash_decoding_warp.cuh: keys are the A
 * operand and the query heads the columns of B, so lane 4 g + t has the scores of tokens g and g + 8 and heads 2t and
 * 2t + 1, and of the output, for each of eight tiles, neighbouring dimensions of heads 2t and 2t + 1.
 *
 * The thread block's warps combine their outputs, and the thread block sends them to the others of the KV head, of
 * which each combines eight dimensions of all splits and sends them to all thread blocks. */
#ifndef YK_KERNELS_CUDA_DECODE_ATTENTION_CUH
#define YK_KERNELS_CUDA_DECODE_ATTENTION_CUH

#include "kernels/cuda/decode/ring.cuh"
#include "kernels/cuda/decode/x_rows.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace yk_decode {

constexpr int V_TILES = HEAD_DIM / 16;
static_assert(SPLITS * CHUNK == HEAD_DIM, "a thread block combines a chunk of each head");
static_assert(MOST_Q_PER_KV * SPLITS <= THREADS && WARP % SPLITS == 0, "lanes of a chunk: combine_splits");

/* A thread block's attention: its share, and where its data is. */
struct attention_state {
  const params &p;
  char *shared;
  attention_share share;
  int n_tokens;

  __device__ __forceinline__ uint2 *pairs(int32_t at) const
  {
    return reinterpret_cast<uint2 *>(p.exchange_memory + at);
  }
  __device__ __forceinline__ char *queries() const
  {
    return shared + p.shared.queries;
  }
  __device__ __forceinline__ char *new_k() const
  {
    return queries() + MOST_Q_PER_KV * TOKEN_BYTES;
  }
  __device__ __forceinline__ char *new_v() const
  {
    return new_k() + TOKEN_BYTES;
  }
  /* [ATTENTION_WARPS][q_per_kv][HEAD_DIM] outputs, then [ATTENTION_WARPS][q_per_kv] maxima and sums. */
  __device__ __forceinline__ float *outputs() const
  {
    return reinterpret_cast<float *>(shared + p.shared.sums[0]);
  }
  __device__ __forceinline__ float2 *maxima() const
  {
    return reinterpret_cast<float2 *>(outputs() + ATTENTION_WARPS * p.q_per_kv * HEAD_DIM);
  }
};

/* Receives a head of qkv, applies the RMSNorm, if there are weights, and the rotation, as qk_rope_kv does. Called by a
 * warp. Returns two pairs of neighbouring elements, which begin at 2 lane and at HEAD_DIM / 2 + 2 lane, in the
 * activation type. */
template <typename T, bool SHARED>
__device__ __forceinline__ uint2 receive_head(packet_reader<SHARED> &reader, const attention_state &a, int head,
                                              uint32_t tag, const void *norm_w, float eps)
{
  using yk_cuda::rounded;
  const int lane = threadIdx.x % WARP;
  uint32_t weights[2] = {};
  if (norm_w) {
    weights[0] = static_cast<const uint32_t *>(norm_w)[lane];
    weights[1] = static_cast<const uint32_t *>(norm_w)[WARP + lane];
  }
  const uint2 *from = a.pairs(a.p.exchange.of_gemm[YK_DECODE_QKV]) + head * (HEAD_DIM / 2) + lane;
  const uint2 words = receive_two(reader, from, WARP, tag);
  __syncwarp(); /* lanes continue together */
  float2 low = to_floats<T>(words.x), high = to_floats<T>(words.y);
  if (norm_w) {
    const float squares = yk_cuda::warp_sum(low.x * low.x + low.y * low.y + high.x * high.x + high.y * high.y);
    const float factor = rsqrtf(squares * (1.0f / HEAD_DIM) + eps);
    const float2 w = to_floats<T>(weights[0]), v = to_floats<T>(weights[1]);
    low = make_float2(rounded<T>(rounded<T>(low.x * factor) * w.x), rounded<T>(rounded<T>(low.y * factor) * w.y));
    high = make_float2(rounded<T>(rounded<T>(high.x * factor) * v.x), rounded<T>(rounded<T>(high.y * factor) * v.y));
  }
  const float2 c = reinterpret_cast<const float2 *>(a.shared + a.p.shared.angles)[lane];
  const float2 s = reinterpret_cast<const float2 *>(a.shared + a.p.shared.angles)[WARP + lane];
  return make_uint2(yk_ptx::round_pair<T>(low.x * c.x - high.x * s.x, low.y * c.y - high.y * s.y),
                    yk_ptx::round_pair<T>(high.x * c.x + low.x * s.x, high.y * c.y + low.y * s.y));
}

/* Stores the thread block's query heads in shared memory, and in the last split the new token's K and V in shared
 * memory and in the cache. A sync_warps must follow. */
template <typename T, bool SHARED>
__device__ __forceinline__ void receive_heads(packet_reader<SHARED> &reader, const attention_state &a,
                                              const yk_decode_weights &w, uint32_t tag)
{
  const params &p = a.p;
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  const bool has_new_token = a.share.split == SPLITS - 1;
  const bool is_key = has_new_token && warp == MOST_Q_PER_KV, is_value = has_new_token && warp == MOST_Q_PER_KV + 1;
  const int kv_head = a.share.kv_head;
  uint2 pairs;
  char *to;
  if (warp < a.p.q_per_kv) {
    pairs = receive_head<T>(reader, a, kv_head * a.p.q_per_kv + warp, tag, w.q_norm_w, p.shape.norm_eps);
    to = a.queries() + warp * TOKEN_BYTES;
  } else if (is_key) {
    pairs = receive_head<T>(reader, a, p.shape.n_q_heads + kv_head, tag, w.k_norm_w, p.shape.norm_eps);
    to = a.new_k();
  } else if (is_value) {
    const uint2 *from = a.pairs(a.p.exchange.of_gemm[YK_DECODE_QKV]) +
                        (p.shape.n_q_heads + p.shape.n_kv_heads + kv_head) * (HEAD_DIM / 2) + lane;
    pairs = receive_two(reader, from, WARP, tag);
    to = a.new_v();
  } else {
    return;
  }
  reinterpret_cast<uint32_t *>(to)[lane] = pairs.x;
  reinterpret_cast<uint32_t *>(to)[WARP + lane] = pairs.y;
  if (!is_key && !is_value) return;
  const int64_t slot = *p.call.kv_slot;
  if (slot < 0) return;
  const int64_t page = slot / YK_KV_BLOCK_TOKENS * p.shape.n_kv_heads + kv_head;
  char *cached =
      static_cast<char *>(is_key ? w.k : w.v) + (page * YK_KV_BLOCK_TOKENS + slot % YK_KV_BLOCK_TOKENS) * TOKEN_BYTES;
  reinterpret_cast<uint32_t *>(cached)[lane] = pairs.x;
  reinterpret_cast<uint32_t *>(cached)[WARP + lane] = pairs.y;
}

/* A warp's output over its pages, and the maximum and the sum of its probabilities, as powers of 2. */
struct warp_output {
  float o[V_TILES][4], m[2], l[2];
};

/* Completes the last page, whose units have arrived: the new token's K and V, and zeros in rows of V after it. Those
 * rows of the cache may hold NaNs, which a probability of 0 does not remove. */
__device__ __forceinline__ void complete_last_page(const attention_state &a, const unit_ring &ring)
{
  const int lane = threadIdx.x % WARP, row = (a.n_tokens - 1) % YK_KV_BLOCK_TOKENS;
  const auto at = [&](int first, int token) {
    return ring.address_of(first + token / PAGE_UNIT_TOKENS) + token % PAGE_UNIT_TOKENS * TOKEN_BYTES + lane * 8;
  };
  yk_ptx::store_shared8(at(0, row), reinterpret_cast<const uint2 *>(a.new_k())[lane]);
  yk_ptx::store_shared8(at(PAGE_UNITS, row), reinterpret_cast<const uint2 *>(a.new_v())[lane]);
#pragma unroll 1
  for (int token = row + 1; token < YK_KV_BLOCK_TOKENS; token++)
    yk_ptx::store_shared8(at(PAGE_UNITS, token), make_uint2(0, 0));
  yk_ptx::fence_async_shared(); /* before the slots' next copies */
  __syncwarp();
}

/* Scores of the page's 16 tokens: tokens g and g + 8 (pairs of s), heads 2t and 2t + 1. */
template <typename T>
__device__ __forceinline__ void multiply_keys(const unit_ring &ring, const uint4 (&queries)[4], float (&s)[4])
{
  const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
  static_assert(PAGE_UNIT_TOKENS == 8, "tokens g and g + 8 are in two units");
  const uint32_t low = ring.address_of(0) + g * TOKEN_BYTES + t * 16;
  const uint32_t high = ring.address_of(1) + g * TOKEN_BYTES + t * 16;
  float odd[4] = {};
#pragma unroll
  for (int e = 0; e < 4; e++) s[e] = 0.0f;
#pragma unroll
  for (int c = 0; c < 4; c++) {
    const uint4 a = yk_ptx::load_shared16(low + c * 64), b = yk_ptx::load_shared16(high + c * 64);
    yk_ptx::mma_m16n8k16<T>(s, a.x, b.x, a.y, b.y, queries[c].x, queries[c].y);
    yk_ptx::mma_m16n8k16<T>(odd, a.z, b.z, a.w, b.w, queries[c].z, queries[c].w);
  }
#pragma unroll
  for (int e = 0; e < 4; e++) s[e] += odd[e];
}

/* The sum, or the largest, of the eight lanes that have the same heads. */
__device__ __forceinline__ float sum_over_tokens(float x)
{
#pragma unroll
  for (int offset = 4; offset < WARP; offset *= 2) x += __shfl_xor_sync(yk_cuda::ALL_LANES, x, offset);
  return x;
}

__device__ __forceinline__ float max_over_tokens(float x)
{
#pragma unroll
  for (int offset = 4; offset < WARP; offset *= 2) x = fmaxf(x, __shfl_xor_sync(yk_cuda::ALL_LANES, x, offset));
  return x;
}

/* out.o += V^T P^T of the page, whose units of V begin PAGE_UNITS after the ring's next. */
template <typename T>
__device__ __forceinline__ void multiply_values(const unit_ring &ring, const uint32_t (&b)[2], warp_output &out)
{
  const int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
  uint32_t rows[4]; /* tokens 2t, 2t + 1, 2t + 8, 2t + 9 */
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const int token = 2 * t + i % 2 + i / 2 * 8;
    rows[i] = ring.address_of(PAGE_UNITS + token / PAGE_UNIT_TOKENS) + token % PAGE_UNIT_TOKENS * TOKEN_BYTES + g * 16;
  }
#pragma unroll
  for (int c = 0; c < 2; c++) {
    uint4 v[4];
#pragma unroll
    for (int i = 0; i < 4; i++) v[i] = yk_ptx::load_shared16(rows[i] + c * 128);
    const auto word = [&](int i, int j) { return j == 0 ? v[i].x : j == 1 ? v[i].y : j == 2 ? v[i].z : v[i].w; };
#pragma unroll
    for (int j = 0; j < 4; j++)
      yk_ptx::mma_m16n8k16<T>(out.o[4 * c + j], __byte_perm(word(0, j), word(1, j), 0x5410),
                              __byte_perm(word(0, j), word(1, j), 0x7632), __byte_perm(word(2, j), word(3, j), 0x5410),
                              __byte_perm(word(2, j), word(3, j), 0x7632), b[0], b[1]);
  }
}

/* One page through the online softmax. first_token: of the page. */
template <typename T>
__device__ __forceinline__ void attend_page(const attention_state &a, unit_ring &ring, int first_token,
                                            const uint4 (&queries)[4], warp_output &out)
{
  const int g = threadIdx.x % WARP / 4;
#pragma unroll 1
  for (int i = 0; i < 2 * PAGE_UNITS; i++) ring.wait(i);
  if (first_token + YK_KV_BLOCK_TOKENS >= a.n_tokens) complete_last_page(a, ring);
  float s[4];
  multiply_keys<T>(ring, queries, s);
#pragma unroll
  for (int e = 0; e < 4; e++) s[e] = first_token + g + e / 2 * 8 < a.n_tokens ? s[e] * a.p.scale_log2 : -INFINITY;
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const float m = max_over_tokens(fmaxf(out.m[e], fmaxf(s[e], s[e + 2])));
    const float rescale = yk_ptx::exp2_approx(out.m[e] - m);
    out.m[e] = m;
    s[e] = yk_ptx::exp2_approx(s[e] - m);
    s[e + 2] = yk_ptx::exp2_approx(s[e + 2] - m);
    out.l[e] = out.l[e] * rescale + s[e] + s[e + 2];
#pragma unroll
    for (int i = 0; i < V_TILES; i++) {
      out.o[i][e] *= rescale;
      out.o[i][e + 2] *= rescale;
    }
  }
  const uint32_t b[2] = {yk_ptx::transpose_8x8(yk_ptx::round_pair<T>(s[0], s[1])),
                         yk_ptx::transpose_8x8(yk_ptx::round_pair<T>(s[2], s[3]))};
  multiply_values<T>(ring, b, out);
}

__device__ __forceinline__ void release_page(unit_ring &ring)
{
#pragma unroll 1
  for (int i = 0; i < 2 * PAGE_UNITS; i++) ring.release();
}

/* Attends to the pages of a warp that has any; the output goes to shared memory. A sync_warps must precede and follow.
 * The caller releases the last page, after the output, for which other warps wait. */
template <typename T> __device__ __forceinline__ void attend_pages(const attention_state &a, unit_ring &ring)
{
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
  warp_output out = {};
  out.m[0] = out.m[1] = -INFINITY;
  uint4 queries[4];
#pragma unroll
  for (int c = 0; c < 4; c++) {
    const uint4 *from = reinterpret_cast<const uint4 *>(a.queries() + g * TOKEN_BYTES);
    queries[c] = g < a.p.q_per_kv ? from[c * 4 + t] : make_uint4(0, 0, 0, 0);
  }
#pragma unroll 1
  for (int page = warp; page < a.share.n_pages; page += ATTENTION_WARPS) {
    if (page > warp) release_page(ring);
    attend_page<T>(a, ring, (a.share.first_page + page) * YK_KV_BLOCK_TOKENS, queries, out);
  }
#pragma unroll
  for (int e = 0; e < 2; e++) {
    const float l = sum_over_tokens(out.l[e]);
    const int head = warp * a.p.q_per_kv + 2 * t + e;
    if (2 * t + e >= a.p.q_per_kv) continue;
    float2 *to = reinterpret_cast<float2 *>(a.outputs() + head * HEAD_DIM);
#pragma unroll
    for (int i = 0; i < V_TILES; i++) to[i / 4 * 32 + g * 4 + i % 4] = make_float2(out.o[i][e], out.o[i][e + 2]);
    if (g == 0) a.maxima()[head] = make_float2(out.m[e], l);
  }
}

/* Sends the thread block's output, unnormalised, and its maximum and sum to the thread blocks of the KV head. */
__device__ __forceinline__ void send_split(const attention_state &a, uint32_t tag)
{
  const float2 *maxima = a.maxima();
  const int first_head = (a.share.kv_head * SPLITS + a.share.split) * a.p.q_per_kv;
  const int n_warps = min(a.share.n_pages, ATTENTION_WARPS);
  for (int i = threadIdx.x; i < a.p.q_per_kv * (HEAD_DIM / 2); i += THREADS) {
    const int head = i / (HEAD_DIM / 2), pair = i % (HEAD_DIM / 2);
    float m = -INFINITY, l = 0.0f;
    float2 o = make_float2(0.0f, 0.0f);
#pragma unroll 1
    for (int warp = 0; warp < n_warps; warp++) m = fmaxf(m, maxima[warp * a.p.q_per_kv + head].x);
#pragma unroll 1
    for (int warp = 0; warp < n_warps; warp++) {
      const float2 ml = maxima[warp * a.p.q_per_kv + head];
      const float2 v = reinterpret_cast<const float2 *>(a.outputs() + (warp * a.p.q_per_kv + head) * HEAD_DIM)[pair];
      const float weight = yk_ptx::exp2_approx(ml.x - m);
      l = fmaf(weight, ml.y, l);
      o = make_float2(fmaf(weight, v.x, o.x), fmaf(weight, v.y, o.y));
    }
    send_two(a.pairs(a.p.exchange.partials) + (first_head + head) * HEAD_DIM + 2 * pair, __float_as_uint(o.x),
             __float_as_uint(o.y), tag);
    if (pair == 0)
      send_two(a.pairs(a.p.exchange.maxima) + 2 * (first_head + head), __float_as_uint(m), __float_as_uint(l), tag);
  }
}

/* Combines a chunk of each of the KV head's query heads over all splits and sends the chunks to all thread blocks.
 * SPLITS neighbouring lanes combine the chunk of a head. */
template <bool SHARED>
__device__ __forceinline__ void combine_splits(packet_reader<SHARED> &reader, const attention_state &a, uint32_t tag)
{
  const int head = threadIdx.x / SPLITS, split = threadIdx.x % SPLITS;
  if (threadIdx.x / WARP * (WARP / SPLITS) >= a.p.q_per_kv) return;
  const bool is_valid = head < a.p.q_per_kv;
  const int row = (a.share.kv_head * SPLITS + split) * a.p.q_per_kv + (is_valid ? head : 0);
  const uint2 *outputs = a.pairs(a.p.exchange.partials) + row * HEAD_DIM + CHUNK * a.share.split;
  const uint2 *const from[1 + CHUNK / 2] = {a.pairs(a.p.exchange.maxima) + 2 * row, outputs, outputs + 2, outputs + 4,
                                            outputs + 6};
  float2 values[1 + CHUNK / 2];
  receive_pairs(reader, from, tag, values);
  __syncwarp();
  float m = values[0].x;
#pragma unroll
  for (int offset = 1; offset < SPLITS; offset *= 2) m = fmaxf(m, __shfl_xor_sync(yk_cuda::ALL_LANES, m, offset));
  const float weight = yk_ptx::exp2_approx(values[0].x - m);
  float x[CHUNK], l = weight * values[0].y, largest = 0.0f;
#pragma unroll
  for (int i = 0; i < CHUNK; i++) x[i] = weight * (i % 2 ? values[1 + i / 2].y : values[1 + i / 2].x);
#pragma unroll 1
  for (int offset = 1; offset < SPLITS; offset *= 2) {
    l += __shfl_xor_sync(yk_cuda::ALL_LANES, l, offset);
#pragma unroll
    for (int i = 0; i < CHUNK; i++) x[i] += __shfl_xor_sync(yk_cuda::ALL_LANES, x[i], offset);
  }
  if (split > 0 || !is_valid) return;
  const float factor = __fdividef(1.0f, l);
  int integers[CHUNK];
#pragma unroll
  for (int i = 0; i < CHUNK; i++) {
    x[i] *= factor;
    largest = yk_ptx::max_or_nan(largest, fabsf(x[i]));
  }
  const int exponent = exponent_of(largest);
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < CHUNK; i++) integers[i] = integer_of(x[i], exponent);
#pragma unroll
  for (int i = 0; i < 4; i++) words[i] = word_of(integers[2 * i], integers[2 * i + 1]) | low_bits_of(i, exponent, tag);
  uint4 *to = a.p.exchange_memory + a.p.exchange.attended;
  yk_ptx::store_relaxed_gpu128(to + (a.share.kv_head * a.p.q_per_kv + head) * (HEAD_DIM / CHUNK) + a.share.split,
                               make_uint4(words[0], words[1], words[2], words[3]));
}

/* Attention of a layer; all threads of a thread block that has a KV head. */
template <typename T, bool SHARED>
__device__ __forceinline__ void attend(packet_reader<SHARED> &reader, const attention_state &a,
                                       const yk_decode_weights &w, unit_ring &ring, uint32_t tag)
{
  receive_heads<T>(reader, a, w, tag);
  sync_warps();
  const bool has_pages = static_cast<int>(threadIdx.x / WARP) < min(a.share.n_pages, ATTENTION_WARPS);
  if (has_pages) attend_pages<T>(a, ring);
  sync_warps();
  send_split(a, tag);
  if (has_pages) release_page(ring);
  combine_splits(reader, a, tag);
  sync_warps(); /* warps that combine nothing wait here, since their polls of the row would delay packets */
}

} // namespace yk_decode

#endif
