/* candidates.cuh - filters and draw if few ids can be drawn: the cluster's first thread block has them as a list and
 * finishes the row alone, one candidate per thread.
 *
 *   each thread block: its candidates --> own list --(all_gather)--> total number of candidates
 *                                             |
 *                                             +--> list of the first thread block, if all fit there
 *
 * Weights are fixed-point numbers, so that their sums do not depend on the order of the list, which is arbitrary. */
#ifndef YK_KERNELS_CUDA_SAMPLING_CANDIDATES_CUH
#define YK_KERNELS_CUDA_SAMPLING_CANDIDATES_CUH

#include "base/rng.h"
#include "kernels/cuda/sampling/radix_select.cuh"

namespace yk_sample {

/* Add a candidate to a list that may be full: n counts it nevertheless. */
__device__ inline int32_t append(candidate_list &list, best candidate)
{
  const int32_t at = atomicAdd(&list.n, 1);
  if (at < MAX_CANDIDATES) list.candidates[at] = candidate;
  return at;
}

/* Collect in the first thread block's list the arguments of all calls f(id, scaled logit) that pass(f) makes. Returns
 * whether the list holds all; otherwise the list must not be used. */
template <int CLUSTER, typename Pass> __device__ bool collect(shared_state<CLUSTER> &shared, row_view &v, Pass pass)
{
  candidate_list &own = shared.lists[0], &first = shared_of_rank<CLUSTER>(&shared, 0)->lists[0];
  const int rank = rank_in_cluster<CLUSTER>();
  bool is_full = false;
  __syncthreads();
  if (threadIdx.x == 0) own.n = 0;
  __syncthreads();
  pass([&](int32_t id, float s) {
    if (!is_full) is_full = append(own, {s, id}) >= MAX_CANDIDATES;
  });
  __syncthreads();
  const int32_t n = own.n;
  const message *all = all_gather(shared.gather, v.parity, {.n_candidates = n});
  int32_t before = 0, total = 0;
  for (int r = 0; r < CLUSTER; r++) {
    if (r < rank) before += all[r].n_candidates;
    total += all[r].n_candidates;
  }
  if (total > MAX_CANDIDATES) return false;
  const int32_t i = threadIdx.x;
  if (rank > 0 && i < n) first.candidates[before + i] = own.candidates[i];
  if (rank == 0 && i == 0) own.n = total;
  sync_cluster<CLUSTER>();
  return true;
}

/* The k-th largest of the largest logits of this thread block's groups, or a little less: at least k logits are not
 * smaller. */
template <int CLUSTER> __device__ float find_threshold(shared_state<CLUSTER> &shared, int32_t k)
{
  if (threadIdx.x < N_GROUPS) {
    const uint32_t mine = shared.group_keys[threadIdx.x];
    int32_t n_greater = 0;
#pragma unroll 4
    for (int i = 0; i < N_GROUPS; i += 4) {
      const uint4 others = *reinterpret_cast<const uint4 *>(&shared.group_keys[i]);
      n_greater += (others.x > mine) + (others.y > mine) + (others.z > mine) + (others.w > mine);
    }
    /* If fewer than k groups have logits, the k-th key is that of a NaN, and fmaxf returns -infinity: all pass. */
    if (n_greater == k - 1) shared.threshold = fmaxf(value_of(mine & ~(N_GROUPS - 1u)), -INFINITY);
  }
  __syncthreads();
  return shared.threshold;
}

/* Collect every logit that may be among the k largest of the row, or equal to the k-th: those of each slice that may be
 * among the k largest there. Returns false if they are too many. */
template <int CLUSTER> __device__ bool collect_top_k(shared_state<CLUSTER> &shared, row_view &v, int32_t k)
{
  constexpr int MAX_K = MAX_CANDIDATES / 10; /* a slice has about k * 5 / 4, and a cluster eight slices */
  if (k > MAX_K) return false;
  const float threshold = find_threshold(shared, k);
  /* Smaller logits may become equal when they are scaled. */
  const float lower = threshold - fabsf(threshold) * 0x1p-20f - 1e-30f;
  return collect(shared, v, [&](auto append) {
    for_each_logit(v, [&](int32_t id, float logit) {
      if (logit >= lower) append(id, scaled(v, logit));
    });
  });
}

/* The sum of the weights of the candidates that f(candidate) selects, returned in every thread. */
template <typename F> __device__ unsigned long long sum_weights(const candidate_list &list, F f)
{
  const int32_t n = list.n;
  unsigned long long sum = 0;
#pragma unroll 4
  for (int32_t i = 0; i < n; i++) sum += f(list.candidates[i]) ? list.weights[i] : 0;
  return sum;
}

/* Copy to `kept`, with their weights, the candidates that min_p and top_k keep. */
__device__ inline void keep_candidates(const row_view &v, const candidate_list &list, candidate_list &kept)
{
  const yk_sample_row &p = v.params->row;
  if (threadIdx.x == 0) kept.n = 0;
  __syncthreads();
  if (threadIdx.x < list.n) {
    const best mine = list.candidates[threadIdx.x];
    const float weight = weight_of(v, mine.value);
    const int32_t n = v.has_top_k ? list.n : 0;
    int32_t n_greater = 0;
#pragma unroll 8
    for (int32_t i = 0; i < n; i++) n_greater += list.candidates[i].value > mine.value;
    if (weight >= p.min_p && (!v.has_top_k || n_greater < p.top_k)) {
      const int32_t at = append(kept, mine);
      kept.weights[at] = to_fixed_point(weight);
    }
  }
  __syncthreads();
}

/* Filter and draw among the collected candidates. They include every id that top_k keeps, or, without top_k, every id
 * that top_p keeps; total is then the weight of all ids that min_p keeps. The first thread block returns the id, the
 * others NO_ID. */
template <int CLUSTER>
__device__ int32_t draw_candidate(shared_state<CLUSTER> &shared, const row_view &v, unsigned long long total)
{
  if (rank_in_cluster<CLUSTER>() != 0) return NO_ID;
  const yk_sample_row &p = v.params->row;
  candidate_list &list = shared.lists[1];
  keep_candidates(v, shared.lists[0], list);
  const int32_t i = threadIdx.x;
  const best mine = i < list.n ? list.candidates[i] : best{-INFINITY, NO_ID};
  if (p.top_p < 1.0f) {
    if (v.has_top_k) total = sum_weights(list, [](best) { return true; });
    const unsigned long long before = sum_weights(list, [&](best other) { return better(mine, other).id != mine.id; });
    const bool is_kept = static_cast<double>(before) < static_cast<double>(p.top_p) * static_cast<double>(total);
    __syncthreads();
    if (i < list.n && !is_kept) list.weights[i] = 0;
    __syncthreads();
  }
  total = sum_weights(list, [](best) { return true; });
  const unsigned long long before = sum_weights(list, [&](best other) { return other.id < mine.id; });
  const double uniform = static_cast<double>(yk_rng_uniform(p.seed, p.stream, p.position));
  const auto target = min(static_cast<unsigned long long>(uniform * static_cast<double>(total)), total - 1);
  if (i < list.n && before <= target && target < before + list.weights[i]) shared.drawn = mine.id;
  __syncthreads();
  return shared.drawn;
}

} // namespace yk_sample

#endif
