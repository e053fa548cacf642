/* row_reduce.cuh - the shared memory of a thread block that samples, and maxima and sums over a row.
 *
 * Every thread of the cluster calls the functions over a row, and every thread gets the same result. */
#ifndef YK_KERNELS_CUDA_SAMPLING_ROW_REDUCE_CUH
#define YK_KERNELS_CUDA_SAMPLING_ROW_REDUCE_CUH

#include "kernels/cuda/sampling/row_cluster.cuh"
#include "kernels/cuda/sampling/row_view.cuh"

namespace yk_sample {

constexpr int DIGIT_BITS = 11, N_BINS = 1 << DIGIT_BITS;
constexpr int N_LIMBS = 3, LIMB_BITS = 13;
constexpr int MAX_SEGMENTS = 128;
constexpr int MAX_CANDIDATES = THREADS;                           /* one candidate per thread */
constexpr int N_GROUPS = 256, GROUP_THREADS = THREADS / N_GROUPS; /* groups of threads: see find_maximum */

/* The larger logit is better; among equal ones, that of the lower id. */
struct best {
  float value;
  int32_t id;
};

/* Message about its slice that a thread block sends to the others of its cluster. Each all_gather uses some of the
 * members. */
struct message {
  best highest;
  int32_t is_bad, bin, id, n_candidates;
  unsigned long long bin_sum, sum_before; /* see radix_select.cuh */
  double sum;
};

/* Ids that may be drawn: see candidates.cuh. */
struct candidate_list {
  int32_t n;
  best candidates[MAX_CANDIDATES]; /* scaled logits */
  unsigned long long weights[MAX_CANDIDATES];
};

template <int CLUSTER> struct shared_state {
  static constexpr bool HAS_CLUSTER = CLUSTER > 1;
  static constexpr int BLOCK_BINS = N_BINS / CLUSTER; /* bins of a thread block's share: see scan_bins */
  /* The histogram of this thread block's slice, by rising key. Lists are used only while histograms are not, and words
   * of a mask before either. */
  union {
    alignas(16) uint32_t bins[N_LIMBS][N_BINS];
    candidate_list lists[2];
  };
  /* The bins of the share, summed over the cluster. Without a cluster, `bins` is used instead. */
  alignas(16) uint32_t cluster_bins[HAS_CLUSTER ? N_LIMBS : 1][HAS_CLUSTER ? BLOCK_BINS : 1];
  unsigned long long prefix_sums[BLOCK_BINS]; /* over the bins of the share, by falling key */
  unsigned long long warp_bin_sums[WARPS];
  double segments[MAX_SEGMENTS]; /* see prefix_search.cuh */
  double warp_sums[WARPS];
  alignas(16) uint32_t group_keys[N_GROUPS]; /* see find_maximum */
  float threshold;
  int32_t drawn;
  yk_cuda_sample_row params; /* parameters of the row */
  yk_sampled sampled;        /* in the cluster's first thread block */
  best warp_bests[WARPS];
  gather_buffers<CLUSTER, message> gather;
};

__device__ inline best better(best a, best b)
{
  return b.value > a.value || (b.value == a.value && b.id < a.id) ? b : a;
}

__device__ inline best warp_best(best b)
{
  for (int offset = WARP / 2; offset > 0; offset /= 2)
    b = better(b, {__shfl_xor_sync(ALL_LANES, b.value, offset), __shfl_xor_sync(ALL_LANES, b.id, offset)});
  return b;
}

/* The best of all threads of the thread block. */
template <int CLUSTER> __device__ best block_best(shared_state<CLUSTER> &shared, best b)
{
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  b = warp_best(b);
  __syncthreads(); /* all threads have read the previous result */
  if (lane == 0) shared.warp_bests[warp] = b;
  __syncthreads();
  return warp_best(lane < WARPS ? shared.warp_bests[lane] : best{-INFINITY, NO_ID});
}

/* The best of all thread blocks; id NO_ID if is_bad is set in any of them. */
template <int CLUSTER> __device__ best cluster_best(shared_state<CLUSTER> &shared, row_view &v, best b, int is_bad)
{
  const message *all = all_gather(shared.gather, v.parity, {.highest = b, .is_bad = is_bad});
  for (int r = 0; r < CLUSTER; r++) {
    b = better(b, all[r].highest);
    is_bad |= all[r].is_bad;
  }
  if (is_bad) b.id = NO_ID;
  return b;
}

/* The best logit of the row. Its id is NO_ID if the row holds a NaN or +infinity, or nothing finite. The largest logit
 * of each group of threads goes to group_keys as its key, with the group's number as low bits, so that no two keys are
 * equal. */
template <int CLUSTER> __device__ best find_maximum(shared_state<CLUSTER> &shared, row_view &v)
{
  best mine = {-INFINITY, NO_ID};
  bool has_bad = false;
  for_each_logit(v, [&](int32_t id, float logit) {
    has_bad |= !(logit < INFINITY);
    if (logit > mine.value) mine = {logit, id}; /* among equal ones the first stays: a thread's ids rise */
  });
  float largest = mine.value;
  for (int offset = GROUP_THREADS / 2; offset > 0; offset /= 2)
    largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, offset));
  const uint32_t group = threadIdx.x / GROUP_THREADS;
  if (threadIdx.x % GROUP_THREADS == 0) shared.group_keys[group] = (key_of(largest) & ~(N_GROUPS - 1u)) | group;
  const int is_bad = __syncthreads_or(has_bad);
  best b = cluster_best(shared, v, block_best(shared, mine), is_bad);
  if (!(b.value > -INFINITY)) b.id = NO_ID;
  return b;
}

/* The reason why find_maximum found no id among the raw logits. */
template <int CLUSTER> __device__ yk_row_state fault_of(shared_state<CLUSTER> &shared, row_view &v)
{
  int has_nan = 0;
  for_each_logit(v, [&](int32_t, float logit) { has_nan |= logit != logit; });
  const message *all = all_gather(shared.gather, v.parity, {.is_bad = __syncthreads_or(has_nan)});
  has_nan = 0;
  for (int r = 0; r < CLUSTER; r++) has_nan |= all[r].is_bad;
  return has_nan ? YK_ROW_NAN : YK_ROW_INFINITE;
}

/* The best logit among those that are worse than `last`. */
template <int CLUSTER> __device__ best find_next(shared_state<CLUSTER> &shared, row_view &v, best last)
{
  best mine = {-INFINITY, NO_ID};
  for_each_logit(v, [&](int32_t id, float logit) {
    if (logit < last.value || (logit == last.value && id > last.id)) mine = better(mine, {logit, id});
  });
  return cluster_best(shared, v, block_best(shared, mine), 0);
}

/* log(sum of exp(logit)) over the row; maximum: the largest logit. */
template <int CLUSTER> __device__ double log_sum_exp(shared_state<CLUSTER> &shared, row_view &v, float maximum)
{
  double sum = 0.0;
  for_each_logit(v, [&](int32_t, float logit) { sum += static_cast<double>(expf(logit - maximum)); });
  sum = warp_sum(sum);
  if (threadIdx.x % WARP == 0) shared.warp_sums[threadIdx.x / WARP] = sum;
  __syncthreads();
  const int lane = threadIdx.x % WARP;
  const message *all =
      all_gather(shared.gather, v.parity, {.sum = warp_sum(lane < WARPS ? shared.warp_sums[lane] : 0.0)});
  sum = 0.0;
  for (int r = 0; r < CLUSTER; r++) sum += all[r].sum;
  return static_cast<double>(maximum) + log(sum);
}

} // namespace yk_sample

#endif
