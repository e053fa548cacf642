/* cluster_kernel.cuh - latent attention of few decode rows in one launch: what a step of so few rows waits for are the
 * boundaries between launches, not bytes or products.
 *
 * A cluster of CLUSTER_BLOCKS thread blocks takes one row and HEADS of its heads. SHARES thread blocks share a head,
 * each with COLUMNS of its KV_RANK columns, and every thread block takes its part of the row's tokens, whole pages, for
 * all heads of the cluster:
 *
 *   before the kernel in front has ended: weights and latent vectors of earlier steps --> shared memory
 *   own columns of K[h]^T q_nope                                  --> all thread blocks of the cluster
 *   latent vectors of this step's tokens, normed and rotated      --> own pages; by one cluster of a row to the cache
 *   softmax over own tokens, their part of the weighted sums      --> the thread block that has head and columns
 *   the parts added up in the order of the thread blocks; V[h] times own columns of that
 *                                                                 --> the thread block that has head and rows of y
 *   y, again added up in order
 *
 * Latent vectors of earlier steps may be read before the wait, since a step's first kernel is not a dependent one: the
 * kernels that wrote them have ended. What is read of this step's tokens is nobody's: every thread block makes those
 * that lie in its pages itself, the row's own one and, as sequences share pages, those of other rows. Warp i has row i.
 *
 * All products are mma.sync's: A has weights or latent vectors, B one row of q, or of sums, or the cluster's queries.
 * What A comes from is loaded by TMA in blocks of 64 columns, [rows][128 bytes] with the 128-byte swizzle. */
#ifndef YK_KERNELS_CUDA_LATENT_CLUSTER_KERNEL_CUH
#define YK_KERNELS_CUDA_LATENT_CLUSTER_KERNEL_CUH

#include <cuda.h>

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/latent/new_token.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/cluster_barrier.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"

namespace yk_latent {

using namespace yk_ptx;

constexpr int CLUSTER_HEAD_DIM = 128; /* nope_dim and value_dim: DeepSeek's */
constexpr int CLUSTER_WARPS = CLUSTER_ROWS, CLUSTER_THREADS = 32 * CLUSTER_WARPS;
constexpr int TILE_PAGES = 4, CLUSTER_TOKENS = TILE_PAGES * YK_KV_BLOCK_TOKENS; /* of a tile */
constexpr int SWIZZLED_ROW = 128;                                               /* bytes: 64 columns */
constexpr int WEIGHT_BLOCK_BYTES = CLUSTER_HEAD_DIM * SWIZZLED_ROW;
constexpr int PAGE_BLOCK_BYTES = YK_KV_BLOCK_TOKENS * SWIZZLED_ROW, PAGE_BLOCKS = WIDTH / 64;
constexpr int PAGE_BYTES = PAGE_BLOCKS * PAGE_BLOCK_BYTES;

/* A thread block's shared memory. */
template <int HEADS> struct cluster_shared {
  static constexpr int SHARES = CLUSTER_BLOCKS / HEADS, COLUMNS = KV_RANK / SHARES, ROWS = CLUSTER_HEAD_DIM / SHARES;
  static constexpr int RING = COLUMNS <= 128 ? 2 * TILE_PAGES : TILE_PAGES; /* pages at a time */
  union {
    alignas(1024) char k[COLUMNS / 64][WEIGHT_BLOCK_BYTES];
    /* Then parts of the sums: columns 16 (2 j + i) + g + 8 e of each 64 at [j][g][2 i + e]. */
    float part[CLUSTER_BLOCKS][COLUMNS / 64][2][8][4];
  };
  alignas(1024) char v[COLUMNS / 64][WEIGHT_BLOCK_BYTES];
  alignas(1024) char page[RING][PAGE_BYTES];
  alignas(16) uint16_t q[HEADS][WIDTH + 8]; /* padded: ldmatrix without bank conflicts */
  alignas(16) uint16_t p[HEADS][CLUSTER_TOKENS + 8];
  float score[2][8][CLUSTER_TOKENS + 4]; /* of even and of odd steps along the columns */
  float rescale[8];
  float4 stats[CLUSTER_BLOCKS]; /* of each part: maximum in powers of two, sum */
  alignas(16) uint16_t sums[COLUMNS];
  alignas(16) uint16_t norm_w[KV_RANK];
  alignas(16) float rope[CLUSTER_WARPS][ROPE_DIM]; /* of each row's position */
  alignas(16) float y[SHARES][ROWS];               /* by the columns of each share */
  uint64_t k_full, v_full, q_full, part_full, y_full, page_full[RING];
};

#if defined(YK_HAVE_SM90A)

template <typename T, int HEADS> struct cluster_block {
  using shared = cluster_shared<HEADS>;
  static constexpr int SHARES = shared::SHARES, COLUMNS = shared::COLUMNS, ROWS = shared::ROWS, RING = shared::RING;
  static constexpr int PAGE = YK_KV_BLOCK_TOKENS, PIECES = TOKEN_PIECES;
  static constexpr int K_TILES = COLUMNS / 16 / CLUSTER_WARPS; /* of 16 columns a warp */
  static constexpr bool LOADS_EARLY = K_TILES == 1; /* the first tile, while registers have room for K[h] beside it */
  static constexpr int K_STEPS = CLUSTER_HEAD_DIM / 16, SCORE_STEPS = WIDTH / 16 / 2, V_STEPS = COLUMNS / 16;

  shared &s;
  const params &p;
  const new_rows &rows;
  const CUtensorMap &weights, &cache;
  const int lane, warp, rank;
  const int32_t row, first_head, n_heads;               /* n_heads: of the cluster */
  const int32_t head, share;                            /* this thread block's */
  const int32_t position, begin_page, n_pages, n_parts; /* n_pages: own; n_parts: thread blocks that have any */
  const int32_t *const table;

  __device__ bool has_head() const
  {
    return rank / SHARES < n_heads;
  }

  __device__ void init_barriers() const
  {
    mbarrier_init(&s.k_full, 1);
    mbarrier_init(&s.v_full, 1);
    mbarrier_init(&s.q_full, 1);
    mbarrier_init(&s.part_full, 1);
    mbarrier_init(&s.y_full, 1);
    for (int i = 0; i < RING; i++) mbarrier_init(&s.page_full[i], 1);
    fence_mbarrier_init();
    mbarrier_arrive_expect(&s.q_full, n_heads * KV_RANK * 2);
    mbarrier_arrive_expect(&s.part_full, n_parts * static_cast<int>(sizeof s.part[0] + sizeof s.stats[0]));
    mbarrier_arrive_expect(&s.y_full, sizeof s.y);
  }

  /* By one lane: this thread block's columns of K[h] or of V[h]. */
  __device__ void load_weights(char (&to)[COLUMNS / 64][WEIGHT_BLOCK_BYTES], int32_t first_row, uint64_t *full) const
  {
    mbarrier_arrive_expect(full, sizeof to);
    for (int i = 0; i < COLUMNS / 64; i++)
      tensor_copy(shared_address(to[i]), &weights, share * COLUMNS + i * 64, first_row, full);
  }

  /* Own page i, counted from begin_page; by the whole warp. */
  __device__ void load_page(int32_t i) const
  {
    const int32_t slot = table[begin_page + i] * PAGE;
    if (!elect_one()) return;
    uint64_t *full = &s.page_full[i % RING];
    mbarrier_arrive_expect(full, PAGE_BYTES);
    for (int block = 0; block < PAGE_BLOCKS; block++)
      tensor_copy(shared_address(s.page[i % RING]) + block * PAGE_BLOCK_BYTES, &cache, block * 64, slot, full);
  }

  /* By all warps. */
  __device__ void load_first_pages() const
  {
    for (int32_t i = warp; i < min(n_pages, RING); i += CLUSTER_WARPS) load_page(i);
  }

  __device__ void wait_for_page(int32_t i) const
  {
    mbarrier_wait_loop(&s.page_full[i % RING], i / RING % 2);
  }

  /* 16 bytes of a token in page i. */
  __device__ uint32_t piece_address(int32_t i, int token, int piece) const
  {
    return shared_address(s.page[i % RING]) + piece / 8 * PAGE_BLOCK_BYTES + token * SWIZZLED_ROW +
           ((piece ^ token) & 7) * 16;
  }

  /* Where this step's tokens are: own pages that have any, as bits, and that of the row of this warp, or -1. */
  struct new_tokens {
    uint32_t pages;
    int32_t of_warp;
  };

  __device__ new_tokens find_new_tokens() const
  {
    const int32_t slot = lane < p.n_rows ? p.kv_slots[lane] : -1;
    int32_t page = -1;
    for (int32_t i = 0; i < n_pages; i++) {
      if (slot >= 0 && table[begin_page + i] == slot / PAGE) page = i;
    }
    return {__reduce_or_sync(~0u, page < 0 ? 0 : 1u << page), __shfl_sync(~0u, page, warp)};
  }

  /* What make_token needs beside the token. */
  __device__ void load_norm_and_rope() const
  {
    const uint4 *norm_w = static_cast<const uint4 *>(rows.norm_w);
    const float4 *rope = reinterpret_cast<const float4 *>(rope_of(rows, p.positions[warp]));
    for (int i = lane; i < KV_RANK / 8; i += 32) cp_async_16(shared_address(&s.norm_w[i * 8]), norm_w + i, true);
    if (lane < ROPE_DIM / 4) cp_async_16(shared_address(&s.rope[warp][lane * 4]), rope + lane, true);
    cp_async_commit();
  }

  __device__ void make_token(new_token<T> &t) const
  {
    cp_async_wait<0>();
    __syncwarp();
    t.make(rows, typename new_token<T>::weights(s.norm_w), rotation(s.rope[warp]));
  }

  /* The token of the row of this warp into own page i, and to the cache by the row's first cluster. */
  __device__ void put_token(const new_token<T> &t, int32_t i) const
  {
    const int32_t slot = p.kv_slots[warp];
    wait_for_page(i);
    t.for_each_piece([&](int piece, uint4 v) { store_shared16(piece_address(i, slot % PAGE, piece), v); });
    if (warp == row && first_head == 0) t.store(rows, slot);
  }

  /* Zeros behind the row's own token, which is in own page i: the cache may hold anything there, and a NaN among the
   * values would survive a probability of 0. By all warps. */
  __device__ void clear_behind(int32_t i) const
  {
    const int first = position % PAGE + 1, n = (PAGE - first) * PIECES;
    wait_for_page(i);
    for (int at = threadIdx.x; at < n; at += CLUSTER_THREADS)
      store_shared16(piece_address(i, first + at / PIECES, at % PIECES), make_uint4(0, 0, 0, 0));
  }

  /* K[h]^T as fragments of A: columns 16 (K_TILES warp + i) .., and 16 of nope_dim a step, of which lane t has 4
   * consecutive ones, so that it reads 8 bytes of q_nope for them. */
  __device__ void load_k_fragments(uint32_t (&a)[K_TILES][K_STEPS][4]) const
  {
    const int d = lane % 8 / 2 * 4 + lane % 2 + lane / 16 * 2;
#pragma unroll
    for (int i = 0; i < K_TILES; i++) {
      const int column = (warp * K_TILES + i) * 16 + lane / 8 % 2 * 8;
      const uint32_t at = shared_address(s.k[column / 64]) + d * SWIZZLED_ROW + ((column % 64 / 8 ^ d) & 7) * 16;
#pragma unroll
      for (int step = 0; step < K_STEPS; step++) ldmatrix_x4_trans(a[i][step], at + step * 16 * SWIZZLED_ROW);
    }
  }

  /* Own columns of the head's query, to all thread blocks that have tokens. b: q_nope, of lanes 0 to 3. */
  __device__ void absorb(const uint32_t (&a)[K_TILES][K_STEPS][4], const uint2 (&b)[K_STEPS]) const
  {
#pragma unroll
    for (int i = 0; i < K_TILES; i++) {
      float acc[2][4] = {};
#pragma unroll
      for (int step = 0; step < K_STEPS; step++)
        mma_m16n8k16<T>(acc[step % 2], a[i][step][0], a[i][step][1], a[i][step][2], a[i][step][3], b[step].x,
                        b[step].y);
      /* Lane 4 g has columns g and g + 8: every lane gathers 8 neighbours of them, for the thread block lane / 2. */
      const uint32_t both = round_pair<T>(acc[0][0] + acc[1][0], acc[0][2] + acc[1][2]);
      float words[4];
#pragma unroll
      for (int j = 0; j < 4; j++)
        words[j] = __uint_as_float(
            __byte_perm(__shfl_sync(~0u, both, 8 * j), __shfl_sync(~0u, both, 8 * j + 4), lane % 2 ? 0x7632 : 0x5410));
      const int column = share * COLUMNS + (warp * K_TILES + i) * 16 + lane % 2 * 8;
      if (lane / 2 < n_parts)
        store_async_remote16(shared_address(&s.q[rank / SHARES][column]), shared_address(&s.q_full), lane / 2,
                             make_float4(words[0], words[1], words[2], words[3]));
    }
  }

  /* Tokens of one page as fragments of A, for the even or the odd ones of the steps along their columns. */
  __device__ void load_keys(uint32_t (&a)[SCORE_STEPS][4], int32_t page, int odd) const
  {
    const int token = lane % 16;
    const uint32_t at = shared_address(s.page[page % RING]) + token * SWIZZLED_ROW;
    const uint32_t swizzled = ((odd * 2 + lane / 16) ^ token) & 7;
#pragma unroll
    for (int i = 0; i < SCORE_STEPS; i++)
      ldmatrix_x4(a[i], at + i / 2 * PAGE_BLOCK_BYTES + (swizzled ^ i % 2 * 4) * 16);
  }

  __device__ void scores(const uint32_t (&a)[SCORE_STEPS][4], int32_t page, int odd) const
  {
    constexpr int CHAINS = 6;
    float acc[CHAINS][4] = {};
    uint32_t b[SCORE_STEPS / 2][4];
    const uint32_t at = shared_address(&s.q[min(lane % 8, n_heads - 1)][(lane / 16 * 2 + odd) * 16 + lane / 8 % 2 * 8]);
#pragma unroll
    for (int i = 0; i < SCORE_STEPS / 2; i++) ldmatrix_x4(b[i], at + i * 128);
#pragma unroll
    for (int i = 0; i < SCORE_STEPS; i++)
      mma_m16n8k16<T>(acc[i % CHAINS], a[i][0], a[i][1], a[i][2], a[i][3], b[i / 2][i % 2 * 2],
                      b[i / 2][i % 2 * 2 + 1]);
#pragma unroll
    for (int e = 0; e < 4; e++)
      s.score[odd][lane % 4 * 2 + e % 2][page % TILE_PAGES * PAGE + lane / 4 + e / 2 * 8] =
          acc[0][e] + acc[1][e] + acc[2][e] + (acc[3][e] + acc[4][e] + acc[5][e]);
  }

  /* By one warp for each head. m and l: maximum in powers of two, and this lane's sum. */
  __device__ void softmax(int32_t n_visible, float &m, float &l) const
  {
    if (warp >= n_heads) return;
    float score[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int token = lane + 32 * i;
      score[i] = token < n_visible ? (s.score[0][warp][token] + s.score[1][warp][token]) * p.scale_log2 : -INFINITY;
    }
    float top = fmaxf(m, fmaxf(score[0], score[1]));
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, offset));
    const float rescale = exp2_approx(m - top);
    l *= rescale;
    m = top;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const float probability = exp2_approx(score[i] - top);
      l += probability;
      reinterpret_cast<T *>(s.p[warp])[lane + 32 * i] = yk_cuda::from_float<T>(probability);
    }
    if (lane == 0) s.rescale[warp] = rescale;
  }

  /* The warp's 64 columns of a tile's values, transposed, as fragments of A: 16 columns and a page each, for those of
   * the tile's pages whose bits are set. */
  __device__ void load_values(uint32_t (&a)[TILE_PAGES][4][4], int32_t first_page, uint32_t pages) const
  {
    const int token = lane / 16 * 8 + lane % 8;
    const uint32_t at = warp * PAGE_BLOCK_BYTES + token * SWIZZLED_ROW, swizzled = (lane / 8 % 2 ^ token) & 7;
#pragma unroll
    for (int i = 0; i < TILE_PAGES; i++) {
      if (!(pages >> i & 1)) continue;
#pragma unroll
      for (int j = 0; j < 4; j++)
        ldmatrix_x4_trans(a[i][j], shared_address(s.page[(first_page + i) % RING]) + at + (swizzled ^ j * 2) * 16);
    }
  }

  /* o [64 columns of the warp, 8 heads] += values times probabilities. */
  __device__ void add_values(float (&o)[4][4], const uint32_t (&a)[TILE_PAGES][4][4], int32_t n) const
  {
    const float rescale[2] = {s.rescale[lane % 4 * 2], s.rescale[lane % 4 * 2 + 1]};
    uint32_t b[TILE_PAGES / 2][4];
#pragma unroll
    for (int i = 0; i < TILE_PAGES / 2; i++)
      ldmatrix_x4(b[i], shared_address(&s.p[min(lane % 8, n_heads - 1)][32 * i + lane / 8 * 8]));
#pragma unroll
    for (int j = 0; j < 4; j++) {
#pragma unroll
      for (int e = 0; e < 4; e++) o[j][e] *= rescale[e % 2];
    }
#pragma unroll
    for (int i = 0; i < TILE_PAGES; i++) {
      if (i >= n) break;
#pragma unroll
      for (int j = 0; j < 4; j++)
        mma_m16n8k16<T>(o[j], a[i][j][0], a[i][j][1], a[i][j][2], a[i][j][3], b[i / 2][i % 2 * 2],
                        b[i / 2][i % 2 * 2 + 1]);
    }
  }

  /* The warp's 64 columns of this thread block's part, to the thread block of each head that has them. */
  __device__ void send_part(const float (&o)[4][4], float m, float l) const
  {
    constexpr int WARPS = CLUSTER_WARPS / SHARES; /* of a share's columns */
    const uint32_t full = shared_address(&s.part_full);
#pragma unroll
    for (int h = 0; h < 2; h++) {
      const int to_head = lane % 4 * 2 + h;
      if (to_head >= n_heads) continue;
#pragma unroll
      for (int j = 0; j < 2; j++)
        store_async_remote16(shared_address(s.part[rank][warp % WARPS][j][lane / 4]), full,
                             to_head * SHARES + warp / WARPS,
                             make_float4(o[2 * j][h], o[2 * j][2 + h], o[2 * j + 1][h], o[2 * j + 1][2 + h]));
    }
    if (warp >= n_heads) return;
#pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) l += __shfl_xor_sync(~0u, l, offset);
    if (lane < SHARES)
      store_async_remote16(shared_address(&s.stats[rank]), full, warp * SHARES + lane, make_float4(m, l, 0.0f, 0.0f));
  }

  /* What this warp needs of a tile. */
  struct tile {
    uint32_t keys[SCORE_STEPS][4], values[TILE_PAGES][4][4];
  };

  __device__ void load_tile(tile &t, int32_t at) const
  {
    const int32_t own = at + warp % TILE_PAGES;
    for (int32_t i = at; i < min(at + TILE_PAGES, n_pages); i++) wait_for_page(i);
    if (own < n_pages) load_keys(t.keys, own, warp / TILE_PAGES);
    load_values(t.values, at, (1u << min(TILE_PAGES, n_pages - at)) - 1);
  }

  /* Of the first tile, those pages once more whose bits are set. */
  __device__ void reload_pages(tile &t, uint32_t pages) const
  {
    if (pages >> warp % TILE_PAGES & 1) load_keys(t.keys, warp % TILE_PAGES, warp / TILE_PAGES);
    load_values(t.values, 0, pages);
  }

  /* Own tokens. t: the first tile, where LOADS_EARLY; this step's tokens are in it. last: own page with the row's own
   * token, or -1; of_warp: this warp's token. */
  __device__ void attend(tile &t, const new_tokens &added, int32_t last, const new_token<T> &of_warp) const
  {
    const int odd = warp / TILE_PAGES;
    float o[4][4] = {}, m = NO_SCORE, l = 0.0f;
    for (int32_t at = 0; at < n_pages; at += TILE_PAGES) {
      const int32_t own = at + warp % TILE_PAGES, n = n_pages - at;
      if (at > 0 && added.pages >> at) {
        if (added.of_warp >= at && added.of_warp < at + TILE_PAGES) put_token(of_warp, added.of_warp);
        if (last >= at && last < at + TILE_PAGES) clear_behind(last);
        __syncthreads();
      }
      if (at > 0 || !LOADS_EARLY) load_tile(t, at);
      if (at == 0) mbarrier_wait_loop(&s.q_full, 0);
      if (own < n_pages) scores(t.keys, own, odd);
      __syncthreads(); /* and nobody reads the tile's pages any more */
      const int32_t next = at + RING + warp - TILE_PAGES;
      if (warp >= TILE_PAGES && next < n_pages) {
        fence_async_shared(); /* put_token and clear_behind may have written where the page goes */
        load_page(next);
      }
      softmax(min(position + 1 - (begin_page + at) * PAGE, n * PAGE), m, l);
      __syncthreads();
      add_values(o, t.values, n);
    }
    send_part(o, m, l);
  }

  /* V[h] as fragments of A: 16 rows a warp. */
  __device__ void load_v_fragments(uint32_t (&a)[V_STEPS][4]) const
  {
    const int v_row = warp * 16 + lane % 16;
#pragma unroll
    for (int i = 0; i < V_STEPS; i++)
      ldmatrix_x4(a[i], shared_address(s.v[i / 4]) + v_row * SWIZZLED_ROW + ((i % 4 * 2 + lane / 16 ^ v_row) & 7) * 16);
  }

  /* Own columns of the head's sums from all parts, in their order, as operands of B: of 32 columns those of lane t lie
   * side by side. */
  __device__ void combine() const
  {
    float weight[CLUSTER_BLOCKS], part[CLUSTER_BLOCKS], top = NO_SCORE, total = 0.0f, sum = 0.0f;
    if (threadIdx.x >= COLUMNS) return;
#pragma unroll
    for (int i = 0; i < CLUSTER_BLOCKS; i++) {
      const bool exists = i < n_parts;
      weight[i] = exists ? s.stats[i].x : NO_SCORE;
      part[i] = exists ? (&s.part[i][0][0][0][0])[threadIdx.x] : 0.0f;
      top = fmaxf(top, weight[i]);
    }
#pragma unroll
    for (int i = 0; i < CLUSTER_BLOCKS; i++) {
      weight[i] = exp2_approx(weight[i] - top);
      total += (i < n_parts ? s.stats[i].y : 0.0f) * weight[i];
      sum += part[i] * weight[i];
    }
    const int at = threadIdx.x, column = at / 64 * 64 + at / 32 % 2 * 32 + at / 2 % 2 * 16 + at / 4 % 8 + at % 2 * 8;
    const int place = column / 32 * 32 + column % 8 / 2 * 8 + column / 8 % 4 * 2 + column % 2;
    reinterpret_cast<T *>(s.sums)[place] = yk_cuda::from_float<T>(total > 0.0f ? sum / total : 0.0f);
  }

  /* V[h] times own columns of the sums, to the thread block that has the rows. */
  __device__ void multiply_v(const uint32_t (&a)[V_STEPS][4]) const
  {
    float acc[2][4] = {};
#pragma unroll
    for (int i = 0; i < V_STEPS; i += 2) {
      const uint4 b = lane < 4 ? load_shared16(shared_address(&s.sums[i * 16 + lane * 8])) : make_uint4(0, 0, 0, 0);
      mma_m16n8k16<T>(acc[0], a[i][0], a[i][1], a[i][2], a[i][3], b.x, b.y);
      mma_m16n8k16<T>(acc[1], a[i + 1][0], a[i + 1][1], a[i + 1][2], a[i + 1][3], b.z, b.w);
    }
    /* Lane 4 g has rows g and g + 8: lanes 0 to 3 gather 4 neighbours each. */
    const float low = acc[0][0] + acc[1][0], high = acc[0][2] + acc[1][2];
    float rows[4];
#pragma unroll
    for (int j = 0; j < 4; j++) {
      const int from = (lane % 2 * 4 + j) * 4;
      const float a_low = __shfl_sync(~0u, low, from), a_high = __shfl_sync(~0u, high, from);
      rows[j] = lane % 4 < 2 ? a_low : a_high;
    }
    const int first = warp * 16 + lane * 4;
    if (lane < 4)
      store_async_remote16(shared_address(&s.y[share][first % ROWS]), shared_address(&s.y_full),
                           rank / SHARES * SHARES + first / ROWS, make_float4(rows[0], rows[1], rows[2], rows[3]));
  }

  /* This thread block's rows. */
  __device__ T *y() const
  {
    return static_cast<T *>(p.y) + (static_cast<int64_t>(row) * p.layout.n_heads + head) * CLUSTER_HEAD_DIM +
           share * ROWS;
  }

  /* Asks for everything that may be read before the kernel in front has ended. */
  __device__ new_tokens start() const
  {
    if (threadIdx.x == 0) init_barriers();
    __syncthreads();
    cluster_arrive_relaxed(); /* this thread block's barriers are there */
    load_first_pages();
    if (has_head() && warp == CLUSTER_WARPS - 1 && elect_one())
      load_weights(s.k, 2 * head * CLUSTER_HEAD_DIM, &s.k_full);
    __syncwarp();
    if (warp < p.n_rows && p.kv_slots[warp] >= 0) load_norm_and_rope();
    return find_new_tokens();
  }

  __device__ void run() const
  {
    const int32_t of_last = position / PAGE - begin_page;
    const int32_t last = of_last >= 0 && of_last < n_pages ? of_last : -1;
    const T *q = static_cast<const T *>(p.q) + row * p.q_stride;
    const new_tokens added = start();
    const rotation turn(rope_of(rows, position));
    /* First what is behind the wait, since it is on its way while weights and pages come. */
    wait_for_previous_kernel();
    uint2 q_nope[K_STEPS];
    uint4 rotating = {};
    new_token<T> own = {};
#pragma unroll
    for (int i = 0; i < K_STEPS; i++) {
      const T *from = q + static_cast<int64_t>(head) * (CLUSTER_HEAD_DIM + ROPE_DIM) + i * 16 + lane * 4;
      q_nope[i] = has_head() && lane < 4 ? *reinterpret_cast<const uint2 *>(from) : make_uint2(0, 0);
    }
    if (added.of_warp >= 0) own.load(rows, warp);
    const int rotating_head = threadIdx.x / ROPE_PIECES, piece = threadIdx.x % ROPE_PIECES;
    if (rotating_head < n_heads)
      rotating = *reinterpret_cast<const uint4 *>(
          q + static_cast<int64_t>(first_head + rotating_head) * (CLUSTER_HEAD_DIM + ROPE_DIM) + CLUSTER_HEAD_DIM +
          piece * 8);
    uint32_t k[K_TILES][K_STEPS][4];
    tile t;
    if (has_head()) {
      mbarrier_wait_loop(&s.k_full, 0);
      load_k_fragments(k);
    }
    if (last >= 0 && last < TILE_PAGES) clear_behind(last);
    if (LOADS_EARLY) load_tile(t, 0);
    /* V[h] is needed last: what comes first is not to wait behind it. */
    if (has_head() && warp == CLUSTER_WARPS - 2 && elect_one())
      load_weights(s.v, (2 * head + 1) * CLUSTER_HEAD_DIM, &s.v_full);
    __syncwarp();
    if (warp * 32 < n_heads * ROPE_PIECES) rotating = turn.template apply<T>(rotating);
    if (rotating_head < n_heads) store_shared16(shared_address(&s.q[rotating_head][KV_RANK + piece * 8]), rotating);
    cluster_wait();
    if (has_head()) absorb(k, q_nope);
    if (added.of_warp >= 0) make_token(own);
    if (added.of_warp >= 0 && added.of_warp < TILE_PAGES) put_token(own, added.of_warp);
    __syncthreads();
    const uint32_t in_first_tile = added.pages & ((1u << TILE_PAGES) - 1);
    if (LOADS_EARLY && in_first_tile) reload_pages(t, in_first_tile);
    if (n_pages > 0) attend(t, added, last, own);
    if (!has_head()) return;
    uint32_t v[V_STEPS][4];
    mbarrier_wait_loop(&s.v_full, 0);
    load_v_fragments(v);
    mbarrier_wait_loop(&s.part_full, 0);
    combine();
    __syncthreads();
    multiply_v(v);
    if (threadIdx.x >= ROWS) return;
    mbarrier_wait_loop(&s.y_full, 0);
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < SHARES; i++) sum += s.y[i][threadIdx.x];
    y()[threadIdx.x] = yk_cuda::from_float<T>(sum);
  }
};

#endif

/* Grid: thread blocks of all heads' clusters x rows. */
template <typename T, int HEADS>
__global__ void __launch_bounds__(CLUSTER_THREADS, 1)
    cluster_kernel(const params p, const new_rows rows, const __grid_constant__ CUtensorMap weights,
                   const __grid_constant__ CUtensorMap cache)
{
#if defined(YK_HAVE_SM90A)
  extern __shared__ __align__(1024) char memory[];
  using shared = cluster_shared<HEADS>;
  const int rank = static_cast<int>(cluster_rank()), lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const int32_t row = blockIdx.y, first_head = blockIdx.x / CLUSTER_BLOCKS * HEADS,
                head = first_head + rank / shared::SHARES;
  const int32_t position = p.kv_slots[row] < 0 ? -1 : p.positions[row]; /* -1: a padding row, without tokens */
  const int32_t all_pages = (position + YK_KV_BLOCK_TOKENS) / YK_KV_BLOCK_TOKENS;
  const int32_t each = (all_pages + CLUSTER_BLOCKS - 1) / CLUSTER_BLOCKS, begin = rank * each;
  const int32_t n_pages = max(min(each, all_pages - begin), 0);
  const int32_t *table = p.block_tables + static_cast<int64_t>(max(p.seq_of_row[row], 0)) * p.block_table_stride;
  let_next_kernel_start();
  const cluster_block<T, HEADS> block = {*reinterpret_cast<shared *>(memory),
                                         p,
                                         rows,
                                         weights,
                                         cache,
                                         lane,
                                         warp,
                                         rank,
                                         row,
                                         first_head,
                                         min(HEADS, p.layout.n_heads - first_head),
                                         head,
                                         rank % shared::SHARES,
                                         position,
                                         begin,
                                         n_pages,
                                         each > 0 ? (all_pages + each - 1) / each : 0,
                                         table};
  if (position >= 0) {
    block.run();
    return;
  }
  wait_for_previous_kernel();
  if (block.has_head() && threadIdx.x < shared::ROWS) block.y()[threadIdx.x] = yk_cuda::from_float<T>(0.0f);
#endif
}

} // namespace yk_latent

#endif
