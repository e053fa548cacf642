/* split.h - which share of a model's products and attention each rank computes, from the functions that cut the model
 * (parallel/shard.h). Where heads or groups of FFN columns do not divide evenly, ranks have unequal shares; where a KV
 * head is read by query heads of two ranks both have all of it, so that shares may add up to more than 1.
 *   gemm_qkv            query and KV heads
 *   gemm_o              query heads
 *   attention           KV heads: decode steps take as long as reading their K and V
 *   gemm_gate_up, _down columns of the FFN; experts, where ranks hold whole ones
 *   lm_head             1 / ranks: the vocabulary is cut finely */
#ifndef YK_STUDY_SPLIT_H
#define YK_STUDY_SPLIT_H

#include "base/json_tree.h"
#include "yoke/yoke.h"

/* The parts of a step that are split: the first of yk_time_part. */
enum { YK_SPLIT_PARTS = YK_TIME_ATTENTION + 1 };

typedef struct yk_split {
  int64_t n_heads, n_kv_heads, ffn_size; /* 0: not known, all shares are 1 / ranks */
  int64_t group;                         /* of quantised FFN weights; 0: not quantised */
  int64_t n_whole_experts;               /* of a layer, dealt to ranks; 0: every rank has a share of each FFN */
} yk_split;

/* yk_split_read - from the object "model" of a study: n_heads, n_kv_heads, intermediate_size and group_size; where
 *   ranks hold whole experts, n_experts too. Sizes that are missing, or no model could have, are not known. */
yk_split yk_split_read(const json_t *model, bool expert_parallel);

/* yk_split_shares - shares of the whole, of one rank of n_ranks. Thread: any. */
void yk_split_shares(const yk_split *split, int rank, int n_ranks, double shares[YK_SPLIT_PARTS]);

/* yk_split_mean - the mean of all ranks' shares of each part. */
void yk_split_mean(const yk_split *split, int n_ranks, double shares[YK_SPLIT_PARTS]);

/* yk_split_slowest - the time of the ranks that all others wait for: with whole_s [part] for all of a part, the largest
 *   time of any rank of a layer's attention with its products, plus the largest of its FFN, plus the largest of
 *   lm_head. */
double yk_split_slowest(const yk_split *split, int n_ranks, const double whole_s[YK_SPLIT_PARTS]);

#endif
