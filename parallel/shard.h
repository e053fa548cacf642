/* shard.h - the part of the model that each rank owns. Pure arithmetic: no memory, no threads, no files.
 *
 * Any number of ranks works. Query heads, FFN columns and vocabulary are cut into contiguous ranges, in rank order,
 * that cover everything once; sizes differ by at most one unit, the larger ranges first. A rank may own nothing. */
#ifndef YK_PARALLEL_SHARD_H
#define YK_PARALLEL_SHARD_H

#include "base/status.h"
#include "kernels/linear.h"

/* yk_shard_range - rank's share of n_units * unit elements, cut at whole units: the range in elements. */
yk_range yk_shard_range(int64_t n_elements, int64_t unit, int rank, int n_ranks);

/* The heads of one rank: query heads q, and all KV heads that these read. */
typedef struct yk_shard_heads {
  yk_range q, kv;
} yk_shard_heads;

/* yk_shard_heads_of - n_heads must be a multiple of n_kv_heads. A rank with no query head has no KV head. */
yk_shard_heads yk_shard_heads_of(int64_t n_heads, int64_t n_kv_heads, int rank, int n_ranks);

/* yk_shard_ffn_of - columns of gate and up, rows of down_proj's K. Cut at whole quantisation groups of down_proj if
 *   there are at least as many groups as ranks, and at multiples of 32 too if there are enough of these, since a GPU's
 *   GEMM of quantised weights takes no other K; else at the largest of 64, 32, 16, 8 with which no rank is empty, or at
 *   8 if there is none. group: of down_proj, 0 if not quantised (cut at multiples of 8). ffn_size need not be a
 *   multiple of any of these: the last unit may be short. */
yk_range yk_shard_ffn_of(int64_t ffn_size, int64_t group, int rank, int n_ranks);

/* yk_shard_group - the group size with which slice k of a quantised weight can be stored as a separate weight, by
 *   repeating scale and zero rows: the slice's length if it lies within one group, else gcd(group, offset of k.begin
 *   into its group), which is the whole group if k.begin is a group boundary. The last local group may be short. */
int64_t yk_shard_group(yk_range k, int64_t group);

#endif
