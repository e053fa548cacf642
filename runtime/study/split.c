#include "study/split.h"

#include <math.h>

#include "parallel/shard.h"

_Static_assert(YK_SPLIT_STATES == 6, "the parts that are split come first");

int yk_split_part_of(yk_time_part part)
{
  if (part == YK_TIME_STATES) return YK_SPLIT_STATES;
  return part < (yk_time_part)YK_SPLIT_STATES ? (int)part : -1;
}

yk_split yk_split_read(const json_t *model, bool expert_parallel)
{
  yk_split split = {.n_heads = json_integer_value(json_object_get(model, "n_heads")),
                    .n_kv_heads = json_integer_value(json_object_get(model, "n_kv_heads")),
                    .ffn_size = json_integer_value(json_object_get(model, "intermediate_size")),
                    .group = json_integer_value(json_object_get(model, "group_size"))};
  split.n_state_heads = json_integer_value(json_object_get(model, "n_state_heads"));
  split.states_share = json_number_value(json_object_get(model, "states_share"));
  if (split.n_state_heads < 1 || split.n_state_heads > INT32_MAX ||
      !(split.states_share > 0 && split.states_share <= 1)) {
    split.n_state_heads = 0;
    split.states_share = 0;
  }
  if (expert_parallel) split.n_whole_experts = json_integer_value(json_object_get(model, "n_experts"));
  const int64_t sizes[] = {split.n_heads, split.n_kv_heads, split.ffn_size, split.group + 1, split.n_whole_experts + 1};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i] < 1 || sizes[i] > INT32_MAX) return (yk_split){0};
  return split.n_heads % split.n_kv_heads == 0 ? split : (yk_split){0};
}

static double share_of(yk_range range, int64_t whole)
{
  return (double)yk_range_size(range) / (double)whole;
}

void yk_split_shares(const yk_split *split, int rank, int n_ranks, double shares[YK_SPLIT_PARTS])
{
  for (int part = 0; part < YK_SPLIT_PARTS; part++) shares[part] = 1.0 / n_ranks;
  if (split->n_heads == 0) return;
  const yk_shard_heads heads = yk_shard_heads_of(split->n_heads, split->n_kv_heads, rank, n_ranks);
  double n_own = (double)(yk_range_size(heads.q) + 2 * yk_range_size(heads.kv));
  double of_states = 0, weight = split->states_share;
  if (split->n_state_heads > 0)
    of_states = share_of(yk_shard_range(split->n_state_heads, 1, rank, n_ranks), split->n_state_heads);
  shares[YK_SPLIT_STATES] = of_states;
  shares[YK_TIME_GEMM_QKV] =
      weight * of_states + (1 - weight) * n_own / (double)(split->n_heads + 2 * split->n_kv_heads);
  shares[YK_TIME_GEMM_O] = weight * of_states + (1 - weight) * share_of(heads.q, split->n_heads);
  shares[YK_TIME_ATTENTION] = share_of(heads.kv, split->n_kv_heads);
  shares[YK_TIME_GEMM_GATE_UP] = shares[YK_TIME_GEMM_DOWN] =
      split->n_whole_experts > 0
          ? share_of(yk_shard_range(split->n_whole_experts, 1, rank, n_ranks), split->n_whole_experts)
          : share_of(yk_shard_ffn_of(split->ffn_size, split->group, rank, n_ranks), split->ffn_size);
}

void yk_split_mean(const yk_split *split, int n_ranks, double shares[YK_SPLIT_PARTS])
{
  double own[YK_SPLIT_PARTS];
  for (int part = 0; part < YK_SPLIT_PARTS; part++) shares[part] = 0;
  for (int rank = 0; rank < n_ranks; rank++) {
    yk_split_shares(split, rank, n_ranks, own);
    for (int part = 0; part < YK_SPLIT_PARTS; part++) shares[part] += own[part] / n_ranks;
  }
}

double yk_split_slowest(const yk_split *split, int n_ranks, const double whole_s[YK_SPLIT_PARTS])
{
  /* Segments of a step between synchronisation points of all ranks. */
  enum { IN_ATTENTION, IN_FFN, IN_LM_HEAD, N_SEGMENTS };
  static const int segment_of[YK_SPLIT_PARTS] = {
      [YK_TIME_GEMM_QKV] = IN_ATTENTION, [YK_TIME_ATTENTION] = IN_ATTENTION, [YK_TIME_GEMM_O] = IN_ATTENTION,
      [YK_TIME_GEMM_GATE_UP] = IN_FFN,   [YK_TIME_GEMM_DOWN] = IN_FFN,       [YK_TIME_LM_HEAD] = IN_LM_HEAD,
      [YK_SPLIT_STATES] = IN_ATTENTION};
  double slowest_s[N_SEGMENTS] = {0}, shares[YK_SPLIT_PARTS];
  for (int rank = 0; rank < n_ranks; rank++) {
    double rank_s[N_SEGMENTS] = {0};
    yk_split_shares(split, rank, n_ranks, shares);
    for (int part = 0; part < YK_SPLIT_PARTS; part++) rank_s[segment_of[part]] += whole_s[part] * shares[part];
    for (int i = 0; i < N_SEGMENTS; i++) slowest_s[i] = fmax(slowest_s[i], rank_s[i]);
  }
  return slowest_s[IN_ATTENTION] + slowest_s[IN_FFN] + slowest_s[IN_LM_HEAD];
}
