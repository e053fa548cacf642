/* expanded_work.cuh - the rows of a step whose attention uses expanded keys and values.
 *
 * Keys and values of a head cost kv_rank (nope_dim + value_dim) multiplications per token, once, and save 768 of 1088
 * for every row that attends to the token: sequences with more than YK_CUDA_LATENT_EXPANDED_ROWS rows in the step use
 * them.
 * The host has neither the sequences' lengths nor the list of these sequences. A thread block therefore lists them in
 * device memory, and with them the rows of all other sequences, which the absorbed kernels process as a separate
 * step. */
#ifndef YK_KERNELS_CUDA_LATENT_EXPANDED_WORK_CUH
#define YK_KERNELS_CUDA_LATENT_EXPANDED_WORK_CUH

#include "kernels/cuda/latent/params.cuh"

namespace yk_latent {

/* Head sizes that the kernels are compiled for. */
constexpr int NOPE_DIM = 128, VALUE_DIM = 128, MADE_DIM = NOPE_DIM + VALUE_DIM;

constexpr int EXPANDED_TILE = 128; /* tokens of a tile of keys, rows of a tile of queries */

/* A sequence that uses expanded keys and values. */
struct expanded_seq {
  int32_t seq, first_row, n_rows, n_tokens;
  int32_t first_key_tile, first_row_tile; /* counted over all such sequences */
};

/* In the scratch. */
struct expanded_work {
  int32_t n_seqs, n_key_tiles, n_row_tiles, n_other_rows;
  int32_t next_tile[YK_CUDA_LATENT_HEAD_GROUPS]; /* number of assigned row tiles, for each group of heads */
  expanded_seq seqs[YK_CUDA_LATENT_EXPANDED_SEQS];
};

} // namespace yk_latent

#endif
