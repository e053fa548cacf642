/* cluster_block.cuh - latent attention of few decode rows in one launch: what a step of so few rows waits for are the
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
 * What A comes from is loaded by TMA in blocks of 64 columns, [rows][128 bytes] with the 128-byte swizzle.
 *
 * The thread block's parts are in files of their own: cluster_tokens.cuh, cluster_ends.cuh (the products with K[h] and
 * V[h]), cluster_attend.cuh; cluster_kernel.cuh has their order. */
#ifndef YK_KERNELS_CUDA_LATENT_CLUSTER_BLOCK_CUH
#define YK_KERNELS_CUDA_LATENT_CLUSTER_BLOCK_CUH

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

/* What a thread of the kernel knows. Its methods are the kernel's parts, each in the file that its section names. */
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

  /* Whether the thread block has a head: a cluster behind the last ones may have fewer than HEADS. */
  __device__ bool has_head() const
  {
    return rank / SHARES < n_heads;
  }

  /* ---- Pages and new tokens: cluster_tokens.cuh ------------------------------------------------------------------ */

  /* Own page i, counted from begin_page; by the whole warp. */
  __device__ void load_page(int32_t i) const;

  /* By all warps. */
  __device__ void load_first_pages() const;

  /* By any thread: until own page i, of those under way or there, has come. */
  __device__ void wait_for_page(int32_t i) const;

  /* 16 bytes of a token in page i. */
  __device__ uint32_t piece_address(int32_t i, int token, int piece) const;

  /* Where this step's tokens are: own pages that have any, as bits, and that of the row of this warp, or -1. */
  struct new_tokens {
    uint32_t pages;
    int32_t of_warp;
  };

  /* By whole warps. Reads the step's description alone. */
  __device__ new_tokens find_new_tokens() const;

  /* What make_token needs beside the token. Each warp that has a row copies the norm's weights, the same ones to the
   * same place, and so waits for its own copy alone. */
  __device__ void load_norm_and_rope() const;

  /* By the warp of the row: the token, which has been loaded, normed and rotated. Behind load_norm_and_rope. */
  __device__ void make_token(new_token<T> &t) const;

  /* The token of the row of this warp into own page i, and to the cache by the row's first cluster. */
  __device__ void put_token(const new_token<T> &t, int32_t i) const;

  /* Zeros behind the row's own token, which is in own page i: the cache may hold anything there, and a NaN among the
   * values would survive a probability of 0. By all warps. */
  __device__ void clear_behind(int32_t i) const;

  /* ---- Products with K[h] and V[h]: cluster_ends.cuh ------------------------------------------------------------- */

  /* By one lane: this thread block's columns of K[h] or of V[h]. */
  __device__ void load_weights(char (&to)[COLUMNS / 64][WEIGHT_BLOCK_BYTES], int32_t first_row, uint64_t *full) const;

  /* K[h]^T as fragments of A: columns 16 (K_TILES warp + i) .., and 16 of nope_dim a step, of which lane t has 4
   * consecutive ones, so that it reads 8 bytes of q_nope for them. */
  __device__ void load_k_fragments(uint32_t (&a)[K_TILES][K_STEPS][4]) const;

  /* Own columns of the head's query, to all thread blocks that have tokens. b: q_nope, of lanes 0 to 3. */
  __device__ void absorb(const uint32_t (&a)[K_TILES][K_STEPS][4], const uint2 (&b)[K_STEPS]) const;

  /* V[h] as fragments of A: 16 rows a warp. */
  __device__ void load_v_fragments(uint32_t (&a)[V_STEPS][4]) const;

  /* Own columns of the head's sums from all parts, in their order, as operands of B: of 32 columns those of lane t lie
   * side by side. */
  __device__ void combine() const;

  /* V[h] times own columns of the sums, to the thread block that has the rows. */
  __device__ void multiply_v(const uint32_t (&a)[V_STEPS][4]) const;

  /* Where this thread block's rows of y are. */
  __device__ T *y() const;

  /* ---- Own tokens: cluster_attend.cuh ---------------------------------------------------------------------------- */

  /* Tokens of one page as fragments of A, for the even or the odd ones of the steps along their columns. */
  __device__ void load_keys(uint32_t (&a)[SCORE_STEPS][4], int32_t page, int odd) const;

  /* Scores of a page's tokens for all of the cluster's queries, of the even or the odd steps, into s.score. */
  __device__ void scores(const uint32_t (&a)[SCORE_STEPS][4], int32_t page, int odd) const;

  /* By one warp for each head. m and l: maximum in powers of two, and this lane's sum. */
  __device__ void softmax(int32_t n_visible, float &m, float &l) const;

  /* The warp's 64 columns of a tile's values, transposed, as fragments of A: 16 columns and a page each, for those of
   * the tile's pages whose bits are set. */
  __device__ void load_values(uint32_t (&a)[TILE_PAGES][4][4], int32_t first_page, uint32_t pages) const;

  /* o [64 columns of the warp, 8 heads] += values times probabilities. */
  __device__ void add_values(float (&o)[4][4], const uint32_t (&a)[TILE_PAGES][4][4], int32_t n) const;

  /* The warp's 64 columns of this thread block's part, to the thread block of each head that has them. */
  __device__ void send_part(const float (&o)[4][4], float m, float l) const;

  /* What this warp needs of a tile. */
  struct tile {
    uint32_t keys[SCORE_STEPS][4], values[TILE_PAGES][4][4];
  };

  /* Own pages that there are from page `at` on, of a tile, as bits. */
  __device__ uint32_t pages_of_tile(int32_t at) const;

  /* By whole warps: of the tile from own page `at` on those pages whose bits are set, once they have come. */
  __device__ void load_tile(tile &t, int32_t at, uint32_t pages) const;

  /* Own tokens. t: the first tile, where LOADS_EARLY; this step's tokens are in it. last: own page with the row's own
   * token, or -1; of_warp: this warp's token. */
  __device__ void attend(tile &t, const new_tokens &added, int32_t last, const new_token<T> &of_warp) const;

  /* ---- The order of everything: cluster_kernel.cuh --------------------------------------------------------------- */

  /* By all threads: all of the thread block's work, of a row with tokens. */
  __device__ void run() const;

  /* By all threads. Asks for everything that may be read before the kernel in front has ended. */
  __device__ new_tokens start() const;

  /* By all threads of a thread block with a head, once they have attended: the head's sums, and its rows of y. */
  __device__ void make_outputs() const;

  /* By one thread, ahead of a barrier of the thread block. What other thread blocks are to send is announced here. */
  __device__ void init_barriers() const;
};

#endif

} // namespace yk_latent

#endif
