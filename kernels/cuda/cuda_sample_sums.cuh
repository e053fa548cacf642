/* cuda_sample_sums.cuh - what a team keeps in shared memory, and maxima and sums over a row. */
#ifndef YK_KERNELS_CUDA_CUDA_SAMPLE_SUMS_CUH
#define YK_KERNELS_CUDA_CUDA_SAMPLE_SUMS_CUH

#include "kernels/cuda/cuda_sample_team.cuh"
#include "kernels/cuda/cuda_sample_view.cuh"

namespace yk_sample {

constexpr int DIGIT_BITS = 11, N_BINS = 1 << DIGIT_BITS;
constexpr int N_LIMBS = 3, LIMB_BITS = 14;
constexpr int MAX_SEGMENTS = 128;

struct best {
  float value;
  int32_t id;
};

/* What a block tells the others of its slice; each exchange uses some of it. */
struct message {
  best highest;
  int32_t is_bad, at, id;
  unsigned long long units, before;
  double sum;
};

template <int TEAM> struct shared_state {
  static constexpr bool IS_TEAM = TEAM > 1;
  static constexpr int RANGE = N_BINS / TEAM; /* bins whose sums over the team a block works out, by falling key */
  alignas(16) uint32_t bins[N_LIMBS][N_BINS]; /* by rising key */
  /* The range, added up; a block alone has it in bins. */
  alignas(16) uint32_t team_bins[IS_TEAM ? N_LIMBS : 1][IS_TEAM ? RANGE : 1];
  unsigned long long sums[RANGE]; /* of these bins and those before them in the range */
  unsigned long long warp_units[WARPS];
  double segments[MAX_SEGMENTS];
  double warp_sums[WARPS];
  best warp_bests[WARPS];
  team_inbox<TEAM, message> inbox;
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

template <int TEAM> __device__ best block_best(shared_state<TEAM> &shared, best b)
{
  const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
  b = warp_best(b);
  __syncthreads(); /* whoever still reads the last result */
  if (lane == 0) shared.warp_bests[warp] = b;
  __syncthreads();
  return warp_best(lane < WARPS ? shared.warp_bests[lane] : best{-INFINITY, NO_ID});
}

template <int TEAM> __device__ best team_best(shared_state<TEAM> &shared, row_view &v, best b, int is_bad)
{
  const message *all = exchange(shared.inbox, v.turn, {.highest = b, .is_bad = is_bad});
  for (int r = 0; r < TEAM; r++) {
    b = better(b, all[r].highest);
    is_bad |= all[r].is_bad;
  }
  if (is_bad) b.id = NO_ID;
  return b;
}

/* The largest logit, lower id first; id NO_ID where there is a NaN or +infinity, or nothing finite. */
template <int TEAM> __device__ best find_maximum(shared_state<TEAM> &shared, row_view &v)
{
  best mine = {-INFINITY, NO_ID};
  int is_bad = 0;
  for_each_logit(v, [&](int32_t id, float logit) {
    is_bad |= !(logit < INFINITY);
    mine = better(mine, {logit, id});
  });
  is_bad = __syncthreads_or(is_bad);
  best b = team_best(shared, v, block_best(shared, mine), is_bad);
  if (!(b.value > -INFINITY)) b.id = NO_ID;
  return b;
}

/* Why find_maximum found none among raw logits. The same on every block of the team. */
template <int TEAM> __device__ yk_row_state fault_of(shared_state<TEAM> &shared, row_view &v)
{
  int has_nan = 0;
  for_each_logit(v, [&](int32_t, float logit) { has_nan |= logit != logit; });
  const message *all = exchange(shared.inbox, v.turn, {.is_bad = __syncthreads_or(has_nan)});
  has_nan = 0;
  for (int r = 0; r < TEAM; r++) has_nan |= all[r].is_bad;
  return has_nan ? YK_ROW_NAN : YK_ROW_INFINITE;
}

/* The best of those that come after `last` in falling order. */
template <int TEAM> __device__ best find_next(shared_state<TEAM> &shared, row_view &v, best last)
{
  best mine = {-INFINITY, NO_ID};
  for_each_logit(v, [&](int32_t id, float logit) {
    if (logit < last.value || (logit == last.value && id > last.id)) mine = better(mine, {logit, id});
  });
  return team_best(shared, v, block_best(shared, mine), 0);
}

template <int TEAM> __device__ double log_sum_exp(shared_state<TEAM> &shared, row_view &v, float maximum)
{
  double sum = 0.0;
  for_each_logit(v, [&](int32_t, float logit) { sum += static_cast<double>(expf(logit - maximum)); });
  sum = warp_sum(sum);
  if (threadIdx.x % WARP == 0) shared.warp_sums[threadIdx.x / WARP] = sum;
  __syncthreads();
  const int lane = threadIdx.x % WARP;
  const message *all = exchange(shared.inbox, v.turn, {.sum = warp_sum(lane < WARPS ? shared.warp_sums[lane] : 0.0)});
  sum = 0.0;
  for (int r = 0; r < TEAM; r++) sum += all[r].sum;
  return static_cast<double>(maximum) + log(sum);
}

} // namespace yk_sample

#endif
