/* expanded_work.cuh - which rows of a step are attended to with keys and values of each head.
 *
 * Keys and values of a head cost kv_rank (nope_dim + value_dim) multiplications a token, once, and save 768 of 1088 for
 * every row that sees the token: sequences with more than YK_CUDA_LATENT_EXPANDED_ROWS rows in the step take them.
 * The host knows neither the sequences' lengths nor which these are, so a thread block lists them in device memory, and
 * beside them the rows of all other sequences, which the kernels that absorb take for a step of its own. */
#ifndef YK_KERNELS_CUDA_LATENT_EXPANDED_WORK_CUH
#define YK_KERNELS_CUDA_LATENT_EXPANDED_WORK_CUH

#include "kernels/cuda/latent/params.cuh"

namespace yk_latent {

/* Sizes of a head that the kernels are made for. */
constexpr int NOPE_DIM = 128, VALUE_DIM = 128, MADE_DIM = NOPE_DIM + VALUE_DIM;

constexpr int EXPANDED_TILE = 128; /* tokens of a tile of keys, rows of a tile of queries */

/* A sequence that takes keys and values of each head. */
struct expanded_seq {
  int32_t seq, first_row, n_rows, n_tokens;
  int32_t first_key_tile, first_row_tile; /* of all such sequences' */
};

/* In the scratch. */
struct expanded_work {
  int32_t n_seqs, n_key_tiles, n_row_tiles, n_other_rows;
  int32_t next_tile[YK_CUDA_LATENT_HEAD_GROUPS]; /* tiles of rows handed out, for each group of heads */
  expanded_seq seqs[YK_CUDA_LATENT_EXPANDED_SEQS];
};

} // namespace yk_latent

#endif
