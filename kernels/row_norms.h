/* row_norms.h - RMSNorm of the queries of all heads of a row as one vector, and of all keys, over the heads of several
 * ranks (MiniMax-M2). Each rank computes the squares of its heads; the ranks exchange them, so that all have the sums
 * of all heads, in rank order and with the same bits. */
#ifndef YK_KERNELS_ROW_NORMS_H
#define YK_KERNELS_ROW_NORMS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct yk_head_layout;

typedef struct yk_row_norms_args {
  void *qkv; /* act [n_tokens, yk_head_layout_width]: q and k are normalised in place */
  const struct yk_head_layout *heads;
  /* KV heads that row_squares counts, from first_counted on: those that no lower rank holds */
  int32_t first_counted, n_counted;
  int32_t n_tokens, rank, n_ranks;
  /* device [n_ranks, n_tokens, 2] bits of float32, never negative: for each rank, the sums of squares of q and of k.
   * row_squares writes the sums of this rank and zeros for the others, so that an all-reduce by maximum gives every
   * rank all sums. */
  int32_t *squares;
  const void *q_w, *k_w;  /* act [n_q_heads * head_dim], [n_kv_heads * head_dim]: of the rank's heads */
  int64_t q_size, k_size; /* elements of the whole rows of q and k */
  float eps;
} yk_row_norms_args;

#ifdef __cplusplus
}
#endif
#endif
