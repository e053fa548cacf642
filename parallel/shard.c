#include "parallel/shard.h"

#include "base/checked.h"

yk_range yk_shard_range(int64_t n_elements, int64_t unit, int rank, int n_ranks)
{
  int64_t n_units = yk_ceil_div_i64(n_elements, unit);
  int64_t share = n_units / n_ranks, extra = n_units % n_ranks;
  int64_t first = rank * share + yk_min_i64(rank, extra);
  int64_t count = share + (rank < extra);
  return (yk_range){yk_min_i64(first * unit, n_elements), yk_min_i64((first + count) * unit, n_elements)};
}

yk_shard_heads yk_shard_heads_of(int64_t n_heads, int64_t n_kv_heads, int rank, int n_ranks)
{
  int64_t q_per_kv = n_heads / n_kv_heads;
  yk_range q = yk_shard_range(n_heads, 1, rank, n_ranks);
  yk_range kv = {q.begin / q_per_kv, yk_ceil_div_i64(q.end, q_per_kv)};
  if (yk_range_size(q) == 0) kv = (yk_range){0, 0};
  return (yk_shard_heads){q, kv};
}

yk_range yk_shard_ffn_of(int64_t ffn_size, int64_t group, int rank, int n_ranks)
{
  enum { GPU_INPUTS = 32 }; /* GEMMs of quantised weights take multiples */
  int64_t unit = group > 0 ? group : 8, whole = unit / yk_gcd_i64(unit, GPU_INPUTS) * GPU_INPUTS;
  if (group > 0 && yk_ceil_div_i64(ffn_size, whole) >= n_ranks) unit = whole;
  /* Fewer groups than ranks: cut inside a group, at the largest unit that leaves no rank without work. */
  for (int64_t grain = 64; yk_ceil_div_i64(ffn_size, unit) < n_ranks && grain >= 8; grain /= 2)
    if (grain < unit) unit = grain;
  return yk_shard_range(ffn_size, unit, rank, n_ranks);
}

int64_t yk_shard_group(yk_range k, int64_t group)
{
  int64_t offset = k.begin % group;
  if (offset + yk_range_size(k) <= group) return yk_range_size(k);
  return yk_gcd_i64(group, offset);
}
