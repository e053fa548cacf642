/* split.h - the share of a model's products and attention that each rank computes, from the functions that shard the
 * model (parallel/shard.h). If heads or groups of FFN columns do not divide evenly, ranks have unequal shares; if query
 * heads of two ranks read the same KV head, both ranks have the whole head, so that shares may add up to more than 1.
 *   gemm_qkv            query and KV heads; in recurrent layers their heads, by the numbers of layers of both kinds
 *   gemm_o              query heads; likewise
 *   attention           KV heads: a decode step takes as long as reading their K and V
 *   states              heads of recurrent layers that ranks share out: key heads of gated delta nets, groups of Mamba2
 *   gemm_gate_up, _down columns of the FFN; experts, if ranks hold whole ones
 *   lm_head             1 / ranks: the vocabulary is split finely */
#ifndef YK_STUDY_SPLIT_H
#define YK_STUDY_SPLIT_H

#include "base/json_tree.h"
#include "yoke/yoke.h"

/* The split parts of a step: the first of yk_time_part, and that of recurrent layers. */
enum { YK_SPLIT_STATES = YK_TIME_ATTENTION + 1, YK_SPLIT_PARTS };

/* yk_split_part_of - the split part of a yk_time_part; -1: ranks do not share it out. */
int yk_split_part_of(yk_time_part part);

typedef struct yk_split {
  int64_t n_heads, n_kv_heads, ffn_size; /* 0: unknown, all shares are 1 / ranks */
  int64_t group;                         /* of quantised FFN weights; 0: not quantised */
  int64_t n_state_heads;                 /* of recurrent layers; 0: there are none */
  double states_share;                   /* of the layers that have attention or replace it: recurrent ones */
  int64_t n_whole_experts;               /* of a layer, distributed over ranks; 0: every rank has a share of each FFN */
} yk_split;

/* yk_split_read - read the object "model" of a study: n_heads, n_kv_heads, intermediate_size and group_size; if ranks
 *   hold whole experts, n_experts too; of recurrent layers n_state_heads and states_share. If others than these two are
 *   missing or impossible, the split is unknown. */
yk_split yk_split_read(const json_t *model, bool expert_parallel);

/* yk_split_shares - shares of one rank of n_ranks. Thread: any. */
void yk_split_shares(const yk_split *split, int rank, int n_ranks, double shares[YK_SPLIT_PARTS]);

/* yk_split_mean - the mean of all ranks' shares of each part. */
void yk_split_mean(const yk_split *split, int n_ranks, double shares[YK_SPLIT_PARTS]);

/* yk_split_slowest - the time of the ranks for which all others wait: with whole_s [part] as the time of a whole part,
 *   the sum of the maxima over ranks of a layer's attention with its products, of its FFN, and of lm_head. */
double yk_split_slowest(const yk_split *split, int n_ranks, const double whole_s[YK_SPLIT_PARTS]);

#endif
