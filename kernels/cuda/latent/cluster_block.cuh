/* cluster_block.cuh - latent attention of few decode rows in one launch: with few rows, launch boundaries take most of
 * the time, not bytes or products.
 *
 * A cluster of CLUSTER_BLOCKS thread blocks computes one row and HEADS of its heads. SHARES thread blocks share a head,
 * each with COLUMNS of its KV_RANK columns. For all heads of the cluster, every thread block attends to its part of the
 * row's tokens, in whole pages:
 *
 *   before the preceding kernel has ended: weights and latent vectors of earlier steps --> shared memory
 *   own columns of K[h]^T q_nope                                  --> all thread blocks of the cluster
 *   latent vectors of this step's tokens, normed and rotated      --> own pages; one cluster of a row: also to the
 *                                                                 cache
 *   softmax over own tokens, their part of the weighted sums      --> the thread block of each head and column range
 *   sum of the parts in the order of the thread blocks; V[h] times own columns of the sum
 *                                                                 --> the thread block of each head and range of y
 *   sum of the parts of y, again in order
 *
 * Latent vectors of earlier steps may be read before the wait: a step's first kernel is not a dependent launch, so the
 * kernels that wrote them have ended. No thread block reads tokens of this step that another has written: every thread
 * block computes the tokens in its pages itself: the token of its own row and, since sequences share pages, tokens of
 * other rows. Warp i computes the token of row i.
 *
 * All products use mma.sync: A holds weights or latent vectors; B holds one row of q, or sums, or the cluster's
 * queries. TMA loads the source of A in blocks of 64 columns, [rows][128 bytes] with the 128-byte swizzle.
 *
 * The parts of the kernel are in cluster_tokens.cuh, cluster_ends.cuh (the products with K[h] and V[h]) and
 * cluster_attend.cuh; cluster_kernel.cuh defines their order. */
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

constexpr int CLUSTER_HEAD_DIM = 128; /* nope_dim and value_dim of DeepSeek */
constexpr int CLUSTER_WARPS = CLUSTER_ROWS, CLUSTER_THREADS = 32 * CLUSTER_WARPS;
constexpr int TILE_PAGES = 4, CLUSTER_TOKENS = TILE_PAGES * YK_KV_BLOCK_TOKENS; /* pages and tokens per tile */
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
    /* Overwrites the sums: columns 16 (2 j + i) + g + 8 e of each 64 at [j][g][2 i + e]. */
    float part[CLUSTER_BLOCKS][COLUMNS / 64][2][8][4];
  };
  alignas(1024) char v[COLUMNS / 64][WEIGHT_BLOCK_BYTES];
  alignas(1024) char page[RING][PAGE_BYTES];
  alignas(16) uint16_t q[HEADS][WIDTH + 8]; /* padded against bank conflicts of ldmatrix */
  alignas(16) uint16_t p[HEADS][CLUSTER_TOKENS + 8];
  float score[2][8][CLUSTER_TOKENS + 4]; /* for even and for odd steps along the columns */
  float rescale[8];
  float4 stats[CLUSTER_BLOCKS]; /* for each part: maximum, as a power of two, and sum */
  alignas(16) uint16_t sums[COLUMNS];
  alignas(16) uint16_t norm_w[KV_RANK];
  alignas(16) float rope[CLUSTER_WARPS][ROPE_DIM]; /* cosines and sines of each row's position */
  alignas(16) float y[SHARES][ROWS];               /* one part per share's columns */
  uint64_t k_full, v_full, q_full, part_full, y_full, page_full[RING];
};

#if defined(YK_HAVE_SM90A)

/* State of one thread of the kernel. The methods are the kernel's parts, each in the file that the section title
 * names. */
template <typename T, int HEADS> struct cluster_block {
  using shared = cluster_shared<HEADS>;
  static constexpr int SHARES = shared::SHARES, COLUMNS = shared::COLUMNS, ROWS = shared::ROWS, RING = shared::RING;
  static constexpr int PAGE = YK_KV_BLOCK_TOKENS, PIECES = TOKEN_PIECES;
  static constexpr int K_TILES = COLUMNS / 16 / CLUSTER_WARPS; /* tiles of 16 columns per warp */
  static constexpr bool LOADS_EARLY = K_TILES == 1; /* the first tile, as long as K[h] leaves enough registers */
  static constexpr int K_STEPS = CLUSTER_HEAD_DIM / 16, SCORE_STEPS = WIDTH / 16 / 2, V_STEPS = COLUMNS / 16;

  shared &s;
  const params &p;
  const new_rows &rows;
  const CUtensorMap &weights, &cache;
  const int lane, warp, rank;
  const int32_t row, first_head, n_heads;               /* n_heads: of the cluster */
  const int32_t head, share;                            /* head and share of this thread block */
  const int32_t position, begin_page, n_pages, n_parts; /* n_pages: own pages; n_parts: thread blocks that have pages */
  const int32_t *const table;

  /* Whether the thread block has a head: the last cluster may have fewer than HEADS. */
  __device__ bool has_head() const
  {
    return rank / SHARES < n_heads;
  }

  /* ---- Pages and new tokens: cluster_tokens.cuh ------------------------------------------------------------------ */

  /* Loads own page i, counted from begin_page. Called by the whole warp. */
  __device__ void load_page(int32_t i) const;

  /* Called by all warps. */
  __device__ void load_first_pages() const;

  /* Called by any thread: waits until own page i, whose copy has been issued, has arrived. */
  __device__ void wait_for_page(int32_t i) const;

  /* 16 bytes of a token in page i. */
  __device__ uint32_t piece_address(int32_t i, int token, int piece) const;

  /* This step's tokens: the own pages that contain any, as bits; and the page with the token of this warp's row, or
   * -1. */
  struct new_tokens {
    uint32_t pages;
    int32_t of_warp;
  };

  /* Called by whole warps. Reads only the description of the step. */
  __device__ new_tokens find_new_tokens() const;

  /* Loads the other inputs of make_token. Each warp that has a row copies the norm's weights, the same data to the same
   * address, so each waits only for its own copy. */
  __device__ void load_norm_and_rope() const;

  /* Called by the row's warp after load_norm_and_rope: norms and rotates the loaded token. */
  __device__ void make_token(new_token<T> &t) const;

  /* Writes the token of this warp's row to own page i; the row's first cluster also writes it to the cache. */
  __device__ void put_token(const new_token<T> &t, int32_t i) const;

  /* Writes zeros after the row's own token, in own page i: the cache may have any content there, and a NaN among the
   * values would survive a probability of 0. Called by all warps. */
  __device__ void clear_behind(int32_t i) const;

  /* ---- Products with K[h] and V[h]: cluster_ends.cuh ------------------------------------------------------------- */

  /* Called by one lane: loads this thread block's columns of K[h] or of V[h]. */
  __device__ void load_weights(char (&to)[COLUMNS / 64][WEIGHT_BLOCK_BYTES], int32_t first_row, uint64_t *full) const;

  /* K[h]^T as fragments of A: columns from 16 (K_TILES warp + i) on, and 16 values of nope_dim per step; lane t has 4
   * consecutive ones, for which it reads 8 bytes of q_nope. */
  __device__ void load_k_fragments(uint32_t (&a)[K_TILES][K_STEPS][4]) const;

  /* Sends own columns of the head's query to all thread blocks that have tokens. b: q_nope, in lanes 0 to 3. */
  __device__ void absorb(const uint32_t (&a)[K_TILES][K_STEPS][4], const uint2 (&b)[K_STEPS]) const;

  /* V[h] as fragments of A: 16 rows per warp. */
  __device__ void load_v_fragments(uint32_t (&a)[V_STEPS][4]) const;

  /* Adds own columns of the head's sums over all parts, in their order, and stores the result as operands of B: the
   * columns of lane t, of each 32, are contiguous. */
  __device__ void combine() const;

  /* Multiplies V[h] with own columns of the sums, and sends the result to the thread block that has the rows of y. */
  __device__ void multiply_v(const uint32_t (&a)[V_STEPS][4]) const;

  /* This thread block's rows of y. */
  __device__ T *y() const;

  /* ---- Own tokens: cluster_attend.cuh ---------------------------------------------------------------------------- */

  /* Tokens of one page as fragments of A, for the even or the odd steps along their columns. */
  __device__ void load_keys(uint32_t (&a)[SCORE_STEPS][4], int32_t page, int odd) const;

  /* Writes to s.score the scores of a page's tokens for all of the cluster's queries, over the even or the odd
   * steps. */
  __device__ void scores(const uint32_t (&a)[SCORE_STEPS][4], int32_t page, int odd) const;

  /* Called by one warp for each head. m: maximum, as a power of two; l: this lane's sum. */
  __device__ void softmax(int32_t n_visible, float &m, float &l) const;

  /* The warp's 64 columns of a tile's values, transposed, as fragments of A: 16 columns and one page each, for the
   * pages of the tile whose bits are set. */
  __device__ void load_values(uint32_t (&a)[TILE_PAGES][4][4], int32_t first_page, uint32_t pages) const;

  /* o [64 columns of the warp, 8 heads] += values times probabilities. */
  __device__ void add_values(float (&o)[4][4], const uint32_t (&a)[TILE_PAGES][4][4], int32_t n) const;

  /* Sends the warp's 64 columns of this thread block's part to the thread block that combines them, for each head. */
  __device__ void send_part(const float (&o)[4][4], float m, float l) const;

  /* This warp's registers of a tile. */
  struct tile {
    uint32_t keys[SCORE_STEPS][4], values[TILE_PAGES][4][4];
  };

  /* The existing own pages of a tile that begins at page `at`, as bits. */
  __device__ uint32_t pages_of_tile(int32_t at) const;

  /* Called by whole warps: waits for the pages whose bits are set, of the tile that begins at own page `at`, and loads
   * them. */
  __device__ void load_tile(tile &t, int32_t at, uint32_t pages) const;

  /* Attends to own tokens. t: the first tile, with this step's tokens, if LOADS_EARLY. last: own page with the row's
   * own token, or -1; of_warp: this warp's token. */
  __device__ void attend(tile &t, const new_tokens &added, int32_t last, const new_token<T> &of_warp) const;

  /* ---- The order of the parts: cluster_kernel.cuh ---------------------------------------------------------------- */

  /* Called by all threads: the thread block's work for a row with tokens. */
  __device__ void run() const;

  /* Called by all threads. Issues all loads that are allowed before the preceding kernel has ended. */
  __device__ new_tokens start() const;

  /* Called by all threads of a thread block with a head, after its attention: computes the head's sums and its rows of
   * y. */
  __device__ void make_outputs() const;

  /* Called by one thread, before a barrier of the thread block. Sets the byte counts that other thread blocks will
   * send. */
  __device__ void init_barriers() const;
};

#endif

} // namespace yk_latent

#endif
