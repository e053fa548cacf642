/* router_params.cuh - parameters of the router's kernel, the words that its thread blocks exchange, and their shared
 * memory. */
#ifndef YK_KERNELS_CUDA_MOE_ROUTER_PARAMS_CUH
#define YK_KERNELS_CUDA_MOE_ROUTER_PARAMS_CUH

#include "kernels/cuda/common/few_outputs_tile.cuh"
#include "kernels/cuda/moe/route_assign.cuh"

namespace yk_moe::router_kernels {

using namespace yk_ptx;

constexpr int MOST_ROWS = 256, MOST_EXPERTS = 256, MOST_WORDS = MOST_EXPERTS / WARP, ROW_WORDS = MOST_ROWS / WARP;
constexpr uint32_t EMPTY = 0xFFFFFFFFu; /* no row chooses 32 experts */

constexpr int BLOCKS = few_outputs_tile<__half, 8>::WARPS; /* thread blocks per cluster */
constexpr int OWN = 2;                                     /* rows of a block that chooses */
constexpr int COLUMNS = few_outputs_tile<__half, 8>::COLUMNS;

/* The experts that rows chose, in device memory: every block that chooses writes its rows' words and reads all
 * words. */
struct choices_mailbox {
  uint32_t chosen[2][MOST_ROWS][MOST_WORDS]; /* bit e % 32 of word e / 32: expert e */
  int32_t half;                              /* half that the next call uses */
};

/* The norm whose y is x: yk_add_norm_args with one partial result, `part`. w NULL: x is already normalised. */
struct router_norm {
  void *y, *residual;
  const void *part, *w;
  float alpha, eps, per_element; /* per_element: 1 / k */
};

struct router_params {
  route_params route;
  const void *x, *w;
  const float *bias; /* [n_logits] or NULL */
  float *logits;
  int n_logits, n_tiles, k; /* n_tiles: of COLUMNS logits */
  int n_pieces;             /* number of pieces of 32 inputs of a block, a multiple of KEPT; zeros after k */
  choices_mailbox *mailbox;
  router_norm norm;
};

/* Warps of a block: one for each COLUMNS experts. */
template <int PER_LANE> constexpr int WARPS = PER_LANE *WARP / COLUMNS;

/* Dynamic shared memory.
 *   sums     of two columns, lane / 4 of a tile and that + 8, by two rows, in the order of an accumulator of
 *            few_outputs_tile
 *   rows_of  one bit for each row that chose an expert; in a single cluster instead [rows, PER_LANE], one bit for each
 *            expert that a row chose */
struct router_memory {
  uint4 *x;          /* [n_pieces, rows, 4] */
  float4 *sums;      /* [BLOCKS, n_tiles, 8] */
  uint32_t *rows_of; /* [ROW_WORDS, PER_LANE * 32] */
  float *logits;     /* [OWN, n_tiles * COLUMNS] */
  float *bias;       /* [PER_LANE * 32] */
  int *of_experts;   /* [OWN, PER_LANE * 32]: keys of groups, then slots */
  int *chosen;       /* [OWN, 32] */
};

template <int PER_LANE> constexpr int SHARED_WORDS = ((ROW_WORDS + 1 + OWN) * PER_LANE + OWN) * WARP;

/* shared: shared_bytes, 16-byte aligned. */
template <int PER_LANE, int ROWS> __device__ router_memory memory_of(const router_params &p, uint4 *shared)
{
  constexpr int EXPERTS = PER_LANE * WARP;
  float4 *sums = reinterpret_cast<float4 *>(shared + p.n_pieces * ROWS * 4);
  uint32_t *rows_of = reinterpret_cast<uint32_t *>(sums + BLOCKS * p.n_tiles * 8);
  float *logits = reinterpret_cast<float *>(rows_of + ROW_WORDS * EXPERTS), *bias = logits + OWN * p.n_tiles * COLUMNS;
  int *of_experts = reinterpret_cast<int *>(bias + EXPERTS);
  return {shared, sums, rows_of, logits, bias, of_experts, of_experts + OWN * EXPERTS};
}

/* rows: of a cluster. */
inline size_t shared_bytes(const router_params &p, int per_lane, int rows)
{
  const int pieces = p.n_pieces * rows * 4 + BLOCKS * p.n_tiles * 8;
  const int words = OWN * p.n_tiles * COLUMNS + (per_lane == 4 ? SHARED_WORDS<4> : SHARED_WORDS<MOST_WORDS>);
  return static_cast<size_t>(pieces) * sizeof(uint4) + static_cast<size_t>(words) * sizeof(uint32_t);
}

} // namespace yk_moe::router_kernels

#endif
