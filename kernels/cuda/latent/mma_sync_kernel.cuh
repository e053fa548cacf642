/* mma_sync_kernel.cuh - softmax over cached latent vectors on GPUs without wgmma, by mma.sync.
 *
 * A thread block computes one tile of queries (tile_rows neighbouring rows times tile_heads heads, at most 16 MT) over
 * one split of their tokens. A latent vector is the key of every query of the tile; its first kv_rank elements are the
 * value:
 *
 *   queries --> shared memory, once
 *   32 tokens of the cache --cp.async--> a ring of stages in shared memory, zeros after the last token
 *   scores [16 MT, 32]: a warp has one of MT x 2 fragments of 16 queries x 16 tokens and a share of the 36 steps along
 *   the vector; shares are added in shared memory
 *   softmax: 16 / MT threads per query keep its running maximum and sum; probabilities --> shared memory
 *   sums [16 MT, 512] += probabilities x vectors: a warp has 64 of the 512 columns, in registers
 *
 * Rows of a tile may belong to several sequences: the tile then processes the tokens of one sequence after the other,
 * masked for the queries of the other sequences. */
#ifndef YK_KERNELS_CUDA_LATENT_MMA_SYNC_KERNEL_CUH
#define YK_KERNELS_CUDA_LATENT_MMA_SYNC_KERNEL_CUH

#include "kernels/cuda/latent/params.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace yk_latent {

using namespace yk_ptx;

constexpr int TILE_TOKENS = 32, WARPS = 8, THREADS = 32 * WARPS;
/* elements of a vector in shared memory: padded against bank conflicts of ldmatrix */
constexpr int ROW_ELEMENTS = WIDTH + 8;
constexpr int P_ELEMENTS = TILE_TOKENS + 8; /* elements of a row of probabilities: padded for the same reason */
constexpr int SCORE_FLOATS = TILE_TOKENS + 4;
constexpr int ROW_BYTES = ROW_ELEMENTS * 2, STAGE_BYTES = TILE_TOKENS * ROW_BYTES;

/* Shared memory before the ring. MT: fragments of 16 queries. */
template <int MT> struct shared_block {
  static constexpr int QUERIES = 16 * MT, K_SHARES = 4 / MT;
  alignas(128) uint16_t q[QUERIES][ROW_ELEMENTS];
  alignas(16) uint16_t p[QUERIES][P_ELEMENTS];
  alignas(16) float scores[K_SHARES][QUERIES][SCORE_FLOATS];
  float rescale[QUERIES];
};

/* The queries of a tile, and how many of the first tokens of the pass's sequence each query attends to. */
struct tile {
  int32_t first_row, first_head, n_rows, n_heads;

  __device__ __forceinline__ int32_t n_queries() const
  {
    return n_rows * n_heads;
  }
  __device__ __forceinline__ int32_t row_of(int query) const
  {
    return first_row + query / n_heads;
  }
};

__device__ __forceinline__ tile tile_of(const params &p, int item)
{
  const int32_t row = item / p.n_head_tiles * p.tile_rows, head = item % p.n_head_tiles * p.tile_heads;
  return {row, head, min(p.tile_rows, p.n_rows - row), min(p.tile_heads, p.layout.n_heads - head)};
}

/* One 16-byte piece per thread and iteration: the absorbed part, then the rotated part. */
template <typename T, int MT> __device__ void load_queries(shared_block<MT> &s, const params &p, const tile &t)
{
  constexpr int PIECES = WIDTH / 8;
  for (int i = threadIdx.x; i < shared_block<MT>::QUERIES * PIECES; i += THREADS) {
    const int query = i / PIECES, at = i % PIECES * 8;
    const bool exists = query < t.n_queries();
    const int64_t row = t.row_of(exists ? query : 0), head = t.first_head + (exists ? query % t.n_heads : 0);
    const T *from = at < KV_RANK ? static_cast<const T *>(p.absorbed) + (row * p.layout.n_heads + head) * KV_RANK + at
                                 : static_cast<const T *>(p.q) + row * p.q_stride +
                                       head * (p.layout.nope_dim + ROPE_DIM) + p.layout.nope_dim + at - KV_RANK;
    cp_async_16(shared_address(&s.q[query][at]), from, exists);
  }
}

/* Loads tokens [first, first + TILE_TOKENS) of a sequence into a stage; tokens from n_tokens on become zeros. */
template <typename T>
__device__ void load_tokens(uint32_t stage, const params &p, const int32_t *table, int32_t first, int32_t n_tokens)
{
  constexpr int PIECES = WIDTH / 8;
  static_assert(TILE_TOKENS * PIECES % THREADS == 0, "whole iterations");
#pragma unroll
  for (int i = 0; i < TILE_TOKENS * PIECES / THREADS; i++) {
    const int piece = i * THREADS + threadIdx.x, token = piece / PIECES, at = piece % PIECES * 8;
    const bool exists = first + token < n_tokens;
    const int64_t slot = exists ? slot_of(table, first + token) : 0;
    cp_async_16(stage + token * ROW_BYTES + at * 2, static_cast<const T *>(p.cache) + slot * WIDTH + at, exists);
  }
}

/* scores[share][16 queries][16 tokens] of this warp's fragment. */
template <typename T, int MT> __device__ void score_fragment(shared_block<MT> &s, uint32_t stage)
{
  constexpr int STEPS = WIDTH / 16 / shared_block<MT>::K_SHARES;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int m = warp % MT, pair = warp / MT % 2, share = warp / MT / 2;
  float low[4] = {}, high[4] = {}; /* tokens 16 pair .. + 7, and the 8 after them */
  /* For A rows i % 16 and halves i / 16; for B tokens i % 8, half i / 8 % 2 along the vector, and tokens + 8 from lane
   * 16 on. */
  const uint32_t a_at = shared_address(&s.q[m * 16 + lane % 16][share * STEPS * 16 + lane / 16 * 8]);
  const uint32_t b_at =
      stage + (pair * 16 + lane / 16 * 8 + lane % 8) * ROW_BYTES + (share * STEPS * 16 + lane / 8 % 2 * 8) * 2;
#pragma unroll
  for (int step = 0; step < STEPS; step++) {
    uint32_t a[4], b[4];
    ldmatrix_x4(a, a_at + step * 32);
    ldmatrix_x4(b, b_at + step * 32);
    mma_m16n8k16<T>(low, a[0], a[1], a[2], a[3], b[0], b[1]);
    mma_m16n8k16<T>(high, a[0], a[1], a[2], a[3], b[2], b[3]);
  }
  const int g = lane / 4, t = lane % 4;
#pragma unroll
  for (int e = 0; e < 2; e++) {
    float *row = s.scores[share][m * 16 + g + 8 * e] + pair * 16 + 2 * t;
    *reinterpret_cast<float2 *>(row) = make_float2(low[2 * e], low[2 * e + 1]);
    *reinterpret_cast<float2 *>(row + 8) = make_float2(high[2 * e], high[2 * e + 1]);
  }
}

/* The softmax of one query, shared by THREADS / QUERIES neighbouring threads. */
template <typename T, int MT> struct softmax {
  static constexpr int PEERS = THREADS / shared_block<MT>::QUERIES, OWN = TILE_TOKENS / PEERS;
  float maximum = NO_SCORE, sum = 0.0f; /* sum: of this thread's own tokens */

  /* n_visible: tokens of the tile that the query attends to. */
  __device__ void add(shared_block<MT> &s, float scale_log2, int32_t n_visible)
  {
    const int query = threadIdx.x / PEERS, peer = threadIdx.x % PEERS;
    float score[OWN], top = maximum;
#pragma unroll
    for (int i = 0; i < OWN; i++) {
      const int token = peer * OWN + i;
      float value = 0.0f;
#pragma unroll
      for (int share = 0; share < shared_block<MT>::K_SHARES; share++) value += s.scores[share][query][token];
      score[i] = token < n_visible ? value * scale_log2 : -INFINITY;
      top = fmaxf(top, score[i]);
    }
#pragma unroll
    for (int offset = PEERS / 2; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, offset));
    const float rescale = exp2_approx(maximum - top);
    maximum = top;
    sum *= rescale;
#pragma unroll
    for (int i = 0; i < OWN; i += 2) {
      const float a = exp2_approx(score[i] - top), b = exp2_approx(score[i + 1] - top);
      sum += a + b;
      *reinterpret_cast<uint32_t *>(&s.p[query][peer * OWN + i]) = round_pair<T>(a, b);
    }
    if (peer == 0) s.rescale[query] = rescale;
  }

  __device__ float whole_sum() const
  {
    float whole = sum;
#pragma unroll
    for (int offset = PEERS / 2; offset > 0; offset /= 2) whole += __shfl_xor_sync(~0u, whole, offset);
    return whole;
  }
};

/* This warp's 64 columns of the sums, for all queries. */
template <typename T, int MT> struct weighted_sums {
  float acc[MT][8][4] = {};

  __device__ void add(const shared_block<MT> &s, uint32_t stage)
  {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < MT; m++) {
      const float low = s.rescale[m * 16 + lane / 4], high = s.rescale[m * 16 + lane / 4 + 8];
#pragma unroll
      for (int n = 0; n < 8; n++) {
        acc[m][n][0] *= low;
        acc[m][n][1] *= low;
        acc[m][n][2] *= high;
        acc[m][n][3] *= high;
      }
    }
#pragma unroll
    for (int step = 0; step < TILE_TOKENS / 16; step++) {
      uint32_t a[MT][4];
#pragma unroll
      for (int m = 0; m < MT; m++)
        ldmatrix_x4(a[m], shared_address(&s.p[m * 16 + lane % 16][step * 16 + lane / 16 * 8]));
#pragma unroll
      for (int n = 0; n < 8; n += 2) {
        uint32_t b[4]; /* tokens i % 16, columns + 8 from lane 16 on; transposed by the load */
        ldmatrix_x4_trans(b, stage + (step * 16 + lane % 16) * ROW_BYTES + (warp * 64 + n * 8 + lane / 16 * 8) * 2);
#pragma unroll
        for (int m = 0; m < MT; m++) {
          mma_m16n8k16<T>(acc[m][n], a[m][0], a[m][1], a[m][2], a[m][3], b[0], b[1]);
          mma_m16n8k16<T>(acc[m][n + 1], a[m][0], a[m][1], a[m][2], a[m][3], b[2], b[3]);
        }
      }
    }
  }
};

/* The tokens of one sequence that a thread block processes. */
struct pass {
  const int32_t *table;
  int32_t first_row, end_row;   /* the sequence's rows within the tile */
  int32_t n_tokens;             /* visible to its last row */
  int32_t begin_tile, end_tile; /* range of this split, in tiles of TILE_TOKENS */
};

__device__ __forceinline__ bool is_padding(const params &p, int32_t row)
{
  return p.kv_slots[row] < 0;
}

/* Returns the next run of rows of one sequence, from row on. Each padding row is a run without tokens. */
__device__ inline pass next_pass(const params &p, int32_t row, int32_t end_row)
{
  pass next = {nullptr, row, row + 1, 0, 0, 0};
  if (is_padding(p, row)) return next;
  const int32_t seq = p.seq_of_row[row];
  while (next.end_row < end_row && !is_padding(p, next.end_row) && p.seq_of_row[next.end_row] == seq) next.end_row++;
  next.table = p.block_tables + static_cast<int64_t>(seq) * p.block_table_stride;
  next.n_tokens = p.positions[next.end_row - 1] + 1;
  const int32_t n_tiles = (next.n_tokens + TILE_TOKENS - 1) / TILE_TOKENS, split = blockIdx.y;
  next.begin_tile = static_cast<int32_t>(static_cast<int64_t>(n_tiles) * split / p.n_splits);
  next.end_tile = static_cast<int32_t>(static_cast<int64_t>(n_tiles) * (split + 1) / p.n_splits);
  return next;
}

/* Columns of the sums of one query: 2 neighbours. */
template <typename T>
__device__ __forceinline__ void store_sums(const params &p, const tile &t, int query, int column, float a, float b,
                                           float inverse)
{
  if (p.n_splits > 1) {
    const int64_t at = (static_cast<int64_t>(blockIdx.x) * p.n_splits + blockIdx.y) * (p.tile_rows * p.tile_heads);
    *reinterpret_cast<float2 *>(p.partial_sums + (at + query) * KV_RANK + column) = make_float2(a, b);
    return;
  }
  const int64_t row = t.row_of(query), head = t.first_head + query % t.n_heads;
  T *to = static_cast<T *>(p.sums) + (row * p.layout.n_heads + head) * KV_RANK + column;
  *reinterpret_cast<uint32_t *>(to) = round_pair<T>(a * inverse, b * inverse);
}

template <typename T, int MT>
__global__ void __launch_bounds__(THREADS, 1) attention_kernel(const params p, int n_stages)
{
  using shared = shared_block<MT>;
  extern __shared__ __align__(128) char memory[];
  shared &s = *reinterpret_cast<shared *>(memory);
  const uint32_t ring = shared_address(memory + sizeof(shared));
  const tile t = tile_of(p, blockIdx.x);
  const int query = threadIdx.x / softmax<T, MT>::PEERS;
  const int32_t own_row = query < t.n_queries() ? t.row_of(query) : -1;
  const int32_t own_tokens = own_row >= 0 && !is_padding(p, own_row) ? p.positions[own_row] + 1 : 0;
  softmax<T, MT> probabilities;
  weighted_sums<T, MT> sums;
  let_next_kernel_start();
  wait_for_previous_kernel();
  load_queries<T, MT>(s, p, t);
  const int32_t end_row = t.first_row + t.n_rows;
  pass now = next_pass(p, t.first_row, end_row);
  for (;;) {
    /* The first group of the first pass includes the queries. */
    for (int i = 0; i < n_stages - 1; i++) {
      if (now.begin_tile + i < now.end_tile)
        load_tokens<T>(ring + i * STAGE_BYTES, p, now.table, (now.begin_tile + i) * TILE_TOKENS, now.n_tokens);
      cp_async_commit();
    }
    int stage = 0;
    for (int32_t at = now.begin_tile; at < now.end_tile; at++) {
      if (n_stages == 4)
        cp_async_wait<2>();
      else if (n_stages == 3)
        cp_async_wait<1>();
      else
        cp_async_wait<0>();
      __syncthreads(); /* the stage is full; the previous stage is free */
      const int last = (stage + n_stages - 1) % n_stages;
      if (at + n_stages - 1 < now.end_tile)
        load_tokens<T>(ring + last * STAGE_BYTES, p, now.table, (at + n_stages - 1) * TILE_TOKENS, now.n_tokens);
      cp_async_commit();
      const uint32_t tokens = ring + stage * STAGE_BYTES;
      score_fragment<T, MT>(s, tokens);
      __syncthreads();
      const bool sees = own_row >= now.first_row && own_row < now.end_row;
      probabilities.add(s, p.scale_log2, sees ? own_tokens - at * TILE_TOKENS : 0);
      __syncthreads();
      sums.add(s, tokens);
      stage = (stage + 1) % n_stages;
    }
    if (now.end_row >= end_row) break;
    now = next_pass(p, now.end_row, end_row);
    cp_async_wait<0>();
    __syncthreads(); /* no warp still reads a stage */
  }
  cp_async_wait<0>();
  const float whole = probabilities.whole_sum();
  __syncthreads();
  if (threadIdx.x % softmax<T, MT>::PEERS == 0) {
    s.rescale[query] = whole > 0.0f ? 1.0f / whole : 0.0f;
    if (p.n_splits > 1 && own_row >= 0) {
      const int64_t at = (static_cast<int64_t>(blockIdx.x) * p.n_splits + blockIdx.y) * (p.tile_rows * p.tile_heads);
      p.partial_stats[at + query] = make_float2(probabilities.maximum, whole);
    }
  }
  __syncthreads();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
  for (int m = 0; m < MT; m++) {
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const int of = m * 16 + lane / 4 + 8 * e;
      if (of >= t.n_queries()) continue;
#pragma unroll
      for (int n = 0; n < 8; n++)
        store_sums<T>(p, t, of, warp * 64 + n * 8 + lane % 4 * 2, sums.acc[m][n][2 * e], sums.acc[m][n][2 * e + 1],
                      s.rescale[of]);
    }
  }
}

/* Combines the partial results of the splits of one query, in order: one thread block for each item and query. */
template <typename T> __global__ void __launch_bounds__(KV_RANK / 4) combine_kernel(const params p)
{
  const tile t = tile_of(p, blockIdx.x);
  const int query = blockIdx.y, stride = p.tile_rows * p.tile_heads;
  let_next_kernel_start();
  wait_for_previous_kernel();
  if (query >= t.n_queries()) return;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * p.n_splits * stride + query;
  float maximum = NO_SCORE, sum = 0.0f;
  float4 value = make_float4(0, 0, 0, 0);
  for (int split = 0; split < p.n_splits; split++) {
    const float2 stats = p.partial_stats[first + static_cast<int64_t>(split) * stride];
    const float4 part = reinterpret_cast<const float4 *>(
        p.partial_sums + (first + static_cast<int64_t>(split) * stride) * KV_RANK)[threadIdx.x];
    const float top = fmaxf(maximum, stats.x), before = exp2_approx(maximum - top), weight = exp2_approx(stats.x - top);
    value.x = value.x * before + part.x * weight;
    value.y = value.y * before + part.y * weight;
    value.z = value.z * before + part.z * weight;
    value.w = value.w * before + part.w * weight;
    sum = sum * before + stats.y * weight;
    maximum = top;
  }
  const float inverse = sum > 0.0f ? 1.0f / sum : 0.0f;
  const int64_t row = t.row_of(query), head = t.first_head + query % t.n_heads;
  T *to = static_cast<T *>(p.sums) + (row * p.layout.n_heads + head) * KV_RANK + threadIdx.x * 4;
  *reinterpret_cast<uint2 *>(to) = make_uint2(round_pair<T>(value.x * inverse, value.y * inverse),
                                              round_pair<T>(value.z * inverse, value.w * inverse));
}

} // namespace yk_latent

#endif
