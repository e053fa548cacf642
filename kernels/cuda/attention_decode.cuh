/* attention_decode.cuh - one query row per sequence against its paged keys and values, at the speed of memory.
 *
 * Work: an item is one (sequence, KV head, chunk of at most 8 * N_TILES query heads). All pages of all items form one
 * line, sequences outermost, of which block c takes the c-th part (share_of_block). Every block finds its
 * share itself from kv_tokens, so the launch depends on no length. An item that spans blocks leaves f32 partials; the
 * block that completes the count adds them in block order.
 *
 * Inside a block each warp owns a ring of pages in shared memory that it fills and drains alone, running ahead across
 * items, and takes every N_WARPS-th page of the piece. Keys are the A operand of the matrix instruction and the query
 * heads its 8 columns, so scores come out as S^T [16 tokens, 8 heads] and the output as O^T [head_dim, 8 heads]. Both
 * products sum over an index whose order is free; it is chosen so that every fragment is whole 16-byte reads of rows
 * as they lie in memory:
 *   scores: lane (g, t) = (lane / 4, lane % 4) takes elements 8t .. 8t+7 of each 32 of rows g and g + 8;
 *   output: it takes elements 8g .. 8g+7 of each 64 of tokens 2t, 2t+1, 2t+8, 2t+9.                                  */
#ifndef YK_KERNELS_CUDA_ATTENTION_DECODE_CUH
#define YK_KERNELS_CUDA_ATTENTION_DECODE_CUH

#include "kernels/cuda/attention_decode_pages.cuh"

namespace yk_attn {

/* What a warp keeps of one item: running maximum (log2 units), sum and output of its pages. Lane (g, t) holds heads
 * 2t, 2t+1 of every tile; its sums cover its own tokens only until they are added over g.                            */
template <typename T, int HD, int N_TILES> struct decode_state {
  static constexpr int N_K32 = HD / 32, N_K16 = HD / 32 * 2 + HD % 32 / 16; /* steps of the score product */
  static constexpr int N_D16 = HD / 16;                                     /* row tiles of the output */

  uint32_t q[N_TILES][N_K16][2];
  float o[N_TILES][N_D16][4];
  float m[N_TILES][2], l[N_TILES][2];

  /* Ask for the item's queries. */
  __device__ void load_queries(const params &p, const decode_item &item)
  {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
      int32_t head = tile * 8 + g;
      bool valid = head < item.n_heads;
      const T *src = (const T *)p.q + item.row * p.q_stride + (int64_t)(item.head_begin + head) * HD;
#pragma unroll
      for (int j = 0; j < N_K32; j++) {
        uint4 v = valid ? *(const uint4 *)(src + j * 32 + t * 8) : make_uint4(0, 0, 0, 0);
        q[tile][2 * j][0] = v.x;
        q[tile][2 * j][1] = v.y;
        q[tile][2 * j + 1][0] = v.z;
        q[tile][2 * j + 1][1] = v.w;
      }
      if (HD % 32 == 16) {
        uint2 v = valid ? *(const uint2 *)(src + N_K32 * 32 + t * 4) : make_uint2(0, 0);
        q[tile][N_K16 - 1][0] = v.x;
        q[tile][N_K16 - 1][1] = v.y;
      }
    }
  }

  __device__ void start()
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

  /* s[tile] = K page [16, HD] . Q^T; two accumulators shorten the chain. */
  __device__ __forceinline__ void scores(const char *k_page, float (&s)[N_TILES][4]) const
  {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    float odd[N_TILES][4];
#pragma unroll
    for (int tile = 0; tile < N_TILES; tile++) {
#pragma unroll
      for (int e = 0; e < 4; e++) s[tile][e] = odd[tile][e] = 0.0f;
    }
    const T *low = (const T *)k_page + g * HD, *high = low + 8 * HD;
#pragma unroll
    for (int j = 0; j < N_K32; j++) {
      uint4 a = *(const uint4 *)(low + j * 32 + t * 8), b = *(const uint4 *)(high + j * 32 + t * 8);
#pragma unroll
      for (int tile = 0; tile < N_TILES; tile++) {
        mma_m16n8k16<T>(s[tile], a.x, b.x, a.y, b.y, q[tile][2 * j][0], q[tile][2 * j][1]);
        mma_m16n8k16<T>(odd[tile], a.z, b.z, a.w, b.w, q[tile][2 * j + 1][0], q[tile][2 * j + 1][1]);
      }
    }
    if (HD % 32 == 16) {
      uint2 a = *(const uint2 *)(low + N_K32 * 32 + t * 4), b = *(const uint2 *)(high + N_K32 * 32 + t * 4);
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

  /* Online softmax over the tokens of N pages, of which the item sees begin .. end - 1; token[i] is the first of page
   * i. The probabilities become the B operand of the second product.                                                */
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

  /* The lane's part of a page of values: words[c][i] is row token_of(i) of column chunk c. */
  static constexpr int N_CHUNKS = (HD + 63) / 64, REST_WORDS = HD % 64 / 16; /* chunks of 64, the last may be short */
  using values = uint32_t[N_CHUNKS][4][4];

  __device__ __forceinline__ static int token_of(int i)
  {
    return 2 * (int)(threadIdx.x % 4) + i % 2 + i / 2 * 8;
  }

  __device__ __forceinline__ static void load_values(const char *v_page, values &w)
  {
    const int g = threadIdx.x % 32 / 4;
#pragma unroll
    for (int c = 0; c < N_CHUNKS; c++) {
      const int n_words = c < HD / 64 ? 4 : REST_WORDS;
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const T *src = (const T *)v_page + token_of(i) * HD + c * 64 + g * n_words * 2;
        if (n_words == 4)
          *(uint4 *)w[c][i] = *(const uint4 *)src;
        else if (n_words == 2)
          *(uint2 *)w[c][i] = *(const uint2 *)src;
        else
          w[c][i][0] = *(const uint32_t *)src;
      }
    }
  }

  /* Tokens from n_valid on have probability 0, but their values may be anything, NaN too. */
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

  /* o += V page^T . P^T. */
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

  /* The next N pages of the ring; the first begins at token, the others a page for every warp further each. */
  template <int N, typename RING>
  __device__ __forceinline__ void take(RING &pages, float scale_log2, int32_t first_token, int32_t begin, int32_t end)
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

  /* Leave the result in shared memory: element o[tile][4c + i] of lane (g, t) is head 2t + e % 2, dimension
   * 64 c + g * 2 * words + 2 i + e / 2, where words is 4 but in a short last chunk.                                 */
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
          *(float2 *)&s.o[warp][head][i / 4 * 64 + g * 2 * words + 2 * (i % 4)] = pair;
        }
      }
    }
  }
};

template <typename T> __device__ __forceinline__ void store_4(T *dst, float4 v, float factor)
{
  *(uint2 *)dst = make_uint2(round_pair<T>(v.x * factor, v.y * factor), round_pair<T>(v.z * factor, v.w * factor));
}

__device__ __forceinline__ void add_scaled(float4 &sum, float weight, float4 v)
{
  sum.x += weight * v.x;
  sum.y += weight * v.y;
  sum.z += weight * v.z;
  sum.w += weight * v.w;
}

/* What was summed over some tokens: values of 4 dimensions of a head, relative to 2^m, and the sum of probabilities. */
struct part {
  float m, l;
  float4 o;
};

/* The sum over the block's warps. */
template <typename SHARED> __device__ __forceinline__ part add_warps(const SHARED &s, int head, int d)
{
  part sum = {s.m[0][head], 0.0f, make_float4(0, 0, 0, 0)};
#pragma unroll
  for (int w = 1; w < SHARED::N_WARPS; w++) sum.m = fmaxf(sum.m, s.m[w][head]);
#pragma unroll
  for (int w = 0; w < SHARED::N_WARPS; w++) {
    const float weight = exp2_approx(s.m[w][head] - sum.m);
    sum.l += weight * s.l[w][head];
    add_scaled(sum.o, weight, *(const float4 *)&s.o[w][head][d]);
  }
  return sum;
}

/* Add up the warps' results of an item; the whole item goes to y, a part of it to the slot. */
template <typename T, int HD, typename SHARED>
__device__ void merge_warps(const SHARED &s, T *y, int32_t n_heads, partial_slot<HD> *slot)
{
  for (int i = threadIdx.x; i < n_heads * (HD / 4); i += SHARED::N_THREADS) {
    const int head = i / (HD / 4), d = i % (HD / 4) * 4;
    const part sum = add_warps(s, head, d);
    if (!slot) {
      store_4(y + head * HD + d, sum.o, 1.0f / sum.l);
      continue;
    }
    __stcg(&slot->o[head][d / 4], sum.o);
    if (d == 0) __stcg(&slot->ml[head], make_float2(sum.m, sum.l));
  }
}

/* Add up an item's parts in block order: the first block's second slot, then the first slots of those after it; AT_ONCE
 * of them are read together.                                                                                         */
template <typename T, int HD, int AT_ONCE, int N_THREADS>
__device__ void combine_parts(const partial_slot<HD> *slots, int32_t first_block, int32_t n_parts, T *y,
                              int32_t n_heads)
{
  for (int i = threadIdx.x; i < n_heads * (HD / 4); i += N_THREADS) {
    const int head = i / (HD / 4), d = i % (HD / 4) * 4;
    part sum = {-INFINITY, 0.0f, make_float4(0, 0, 0, 0)};
    for (int32_t base = 0; base < n_parts; base += AT_ONCE) {
      float2 ml[AT_ONCE];
      float4 o[AT_ONCE];
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) {
        const int32_t n = min(base + j, n_parts - 1);
        const partial_slot<HD> *slot = slots + 2 * (first_block + n) + (n == 0);
        ml[j] = __ldcg(&slot->ml[head]);
        o[j] = __ldcg(&slot->o[head][d / 4]);
        if (base + j >= n_parts) ml[j].x = -INFINITY;
      }
      float top = sum.m;
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) top = fmaxf(top, ml[j].x);
      const float rescale = exp2_approx(sum.m - top);
      sum = {top, sum.l * rescale,
             make_float4(sum.o.x * rescale, sum.o.y * rescale, sum.o.z * rescale, sum.o.w * rescale)};
#pragma unroll
      for (int j = 0; j < AT_ONCE; j++) {
        const float weight = exp2_approx(ml[j].x - top);
        sum.l += weight * ml[j].y;
        add_scaled(sum.o, weight, o[j]);
      }
    }
    store_4(y + head * HD + d, sum.o, 1.0f / sum.l);
  }
}

/* An item of which this block has left a part. */
template <typename T> struct unfinished_item {
  int32_t first_block, n_parts; /* n_parts 0: there is none */
  int32_t n_heads;
  T *y;
};

/* Count this block's parts in, after a barrier; s.is_last tells every thread of which items it was the last. The addition, of
 * one thread, orders all that the block has written before and reads after; between two fences it took up to 0.3 us more. */
template <typename T, typename SHARED>
__device__ void arrive(SHARED &s, const unfinished_item<T> (&items)[2], int32_t *arrived)
{
  if (threadIdx.x % 32 == 0 && threadIdx.x < 2 * 32) {
    const unfinished_item<T> item = threadIdx.x ? items[1] : items[0];
    int32_t n_before = -2;
    if (item.n_parts > 0) n_before = increment_acq_rel_gpu(arrived + item.first_block);
    const bool is_last = n_before == item.n_parts - 1;
    s.is_last[threadIdx.x / 32] = is_last;
    if (is_last) arrived[item.first_block] = 0;
  }
  __syncthreads();
}

template <typename T, int HD, int N_TILES, int WARPS>
__global__ void __launch_bounds__(WARPS * 32, 1) decode_kernel(const params p, int32_t n_stages, int32_t n_chunks)
{
  using shared = decode_shared<HD, N_TILES, WARPS>;
  using ring = page_ring<T, HD, shared>;
  extern __shared__ __align__(128) char memory[];
  const int warp = threadIdx.x / 32;
  char *slots = memory + (size_t)warp * n_stages * 2 * ring::PAGE_BYTES;
  shared &s = *(shared *)(memory + (size_t)WARPS * n_stages * 2 * ring::PAGE_BYTES);

  if (threadIdx.x % 32 < n_stages) {
#if defined(YK_HAVE_SM90A)
    mbarrier_init(&s.full[warp][threadIdx.x % 32], 1);
    fence_mbarrier_init();
#else
    mbarrier_init(&s.full[warp][threadIdx.x % 32], 32);
#endif
  }
  prefetch_tables<shared::N_THREADS>(p);
  const int32_t n_units = p.heads.n_kv_heads * n_chunks;
  const page_line line = lay_out_pages(s, p, n_units);
  const block_share share = share_of_this_block(s, p, line, n_units);
  const int32_t begin = share.begin, end = share.end;

  ring pages = {p, s, slots, s.full[warp], line.n_seqs, n_chunks, n_stages, begin + warp, end, 0, 0, {}, 0};
  if (pages.first < end) pages.look_up_32();
  decode_item item = {};
  if (begin < end) item = item_at<shared::N_HEADS>(s, p, n_chunks, begin, find_seq(s.first_page, line.n_seqs, begin));
  decode_state<T, HD, N_TILES> state;
  wait_for_previous_kernel();
  if (begin < end) state.load_queries(p, item); /* before the copies, each of which takes a while to ask for */
  for (int i = 0; i < n_stages; i++) pages.issue();

  partial_slot<HD> *slots_of_parts = (partial_slot<HD> *)p.partials;
  unfinished_item<T> unfinished[2] = {}; /* begun by an earlier block, or by this one */
  int32_t mine = begin + warp;           /* the warp's next page */
  for (int32_t at = begin; at < end;) {
    const int32_t stop = min(item.end, end), visible = first_visible(p, item.kv_tokens);
    const int32_t line_token = (visible / PAGE_TOKENS - item.begin) * PAGE_TOKENS; /* token of the line's page 0 */
    state.start();
    for (; mine + WARPS < stop; mine += 2 * WARPS)
      state.template take<2>(pages, p.scale_log2, line_token + mine * PAGE_TOKENS, visible, item.kv_tokens);
    for (; mine < stop; mine += WARPS)
      state.template take<1>(pages, p.scale_log2, line_token + mine * PAGE_TOKENS, visible, item.kv_tokens);
    if (stop == end) let_next_kernel_start();
    state.store(s);
    const decode_item done = item;
    if (stop < end) {
      item = item_at<shared::N_HEADS>(s, p, n_chunks, stop, item.place);
      state.load_queries(p, item);
    }
    __syncthreads();
    if (done.n_heads > 0) {
      T *y = (T *)p.y + done.row * p.y_stride + (int64_t)done.head_begin * HD;
      const bool begins = at == done.begin, whole = begins && stop == done.end;
      merge_warps<T, HD>(s, y, done.n_heads, whole ? nullptr : slots_of_parts + 2 * blockIdx.x + begins);
      const unfinished_item<T> part = {share.first_block(blockIdx.x, done.begin), share.n_blocks(done.begin, done.end),
                                       done.n_heads, y};
      if (!whole && begins) unfinished[1] = part;
      if (!whole && !begins) unfinished[0] = part;
    }
    __syncthreads();
    at = stop;
  }
  if (unfinished[0].n_parts == 0 && unfinished[1].n_parts == 0) return;
  arrive(s, unfinished, p.head->arrived);
#pragma unroll
  for (int i = 0; i < 2; i++) {
    const unfinished_item<T> &u = unfinished[i];
    if (s.is_last[i])
      combine_parts<T, HD, N_TILES == 1 ? 16 : 8, shared::N_THREADS>(slots_of_parts, u.first_block, u.n_parts, u.y,
                                                                     u.n_heads);
  }
}

template <typename T, int HD, int N_TILES, int WARPS>
cudaError_t launch_decode_as(const yk_cuda_attention &device, const params &all, cudaStream_t stream)
{
  using shared = decode_shared<HD, N_TILES, WARPS>;
  const int32_t n_chunks = (max_heads_per_kv(all.heads) + 8 * N_TILES - 1) / (8 * N_TILES);
  const int stage_bytes = WARPS * 2 * PAGE_TOKENS * HD * (int)sizeof(T);
  int n_stages = (device.smem_bytes - (int)sizeof(shared)) / stage_bytes;
  if (n_stages < 2) return cudaErrorNotSupported; /* a warp takes two pages at a time */
  if (n_stages > DECODE_MAX_STAGES) n_stages = DECODE_MAX_STAGES;
  const size_t smem_bytes = (size_t)n_stages * stage_bytes + sizeof(shared);
  for (int32_t first = 0; first < all.n_seqs; first += MAX_SEQS_PER_LAUNCH) {
    params p = all;
    p.n_seqs = all.n_seqs - first < MAX_SEQS_PER_LAUNCH ? all.n_seqs - first : MAX_SEQS_PER_LAUNCH;
    p.row_starts += first;
    p.kv_tokens += first;
    p.block_tables += (int64_t)first * all.block_table_stride;
    cudaError_t rc = launch_blocks(decode_kernel<T, HD, N_TILES, WARPS>, device.n_sms, WARPS * 32, smem_bytes, stream,
                                   p, n_stages, n_chunks);
    if (rc != cudaSuccess) return rc;
  }
  return cudaSuccess;
}

template <typename T, int HD, int N_TILES>
cudaError_t launch_decode_in_room(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  const cudaError_t rc = launch_decode_as<T, HD, N_TILES, DECODE_WARPS>(device, p, stream);
  return rc == cudaErrorNotSupported ? launch_decode_as<T, HD, N_TILES, DECODE_WARPS / 2>(device, p, stream) : rc;
}

template <typename T, int HD>
cudaError_t launch_decode_sized(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  return max_heads_per_kv(p.heads) <= 8 ? launch_decode_in_room<T, HD, 1>(device, p, stream)
                                        : launch_decode_in_room<T, HD, 2>(device, p, stream);
}

template <typename T> cudaError_t launch_decode(const yk_cuda_attention &device, const params &p, cudaStream_t stream)
{
  switch (p.heads.head_dim) {
  case 64: return launch_decode_sized<T, 64>(device, p, stream);
  case 80: return launch_decode_sized<T, 80>(device, p, stream);
  case 96: return launch_decode_sized<T, 96>(device, p, stream);
  case 128: return launch_decode_sized<T, 128>(device, p, stream);
  default: return cudaErrorInvalidValue;
  }
}

} // namespace yk_attn

#endif
