/* cuda_sample_edge.cuh - the logit at which a sum over falling logits passes a test.
 *
 * A histogram over the distance from the largest logit finds the bin in which that is, and then, among those of its
 * bin, digits of an order-preserving integer key do, 11 bits at a time over those that share the digits before. Counts
 * and weights are integers (weights in units of 2^-41, as three limbs of 14 bits, so that 32-bit atomics suffice),
 * hence the same whatever the order of arrival. */
#ifndef YK_KERNELS_CUDA_CUDA_SAMPLE_EDGE_CUH
#define YK_KERNELS_CUDA_CUDA_SAMPLE_EDGE_CUH

#include "kernels/cuda/cuda_sample_sums.cuh"

namespace yk_sample {

constexpr float BINS_PER_NAT = 64.0f;            /* the last bin takes all beyond 32 nats, weights below 1e-13 */
constexpr float WEIGHT_UNITS = 2199023255552.0f; /* 2^41 */

/* Keys order as their floats do; both zeros share one. */
__device__ inline uint32_t key_of(float x)
{
  const uint32_t bits = __float_as_uint(x + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ inline float value_of(uint32_t key)
{
  return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

__device__ inline float weight_of(const row_view &v, float s)
{
  return expf(s - v.maximum);
}

__device__ inline unsigned long long units_of(float weight)
{
  return static_cast<unsigned long long>(weight * WEIGHT_UNITS);
}

template <int TEAM> __device__ void clear_bins(shared_state<TEAM> &shared)
{
  __syncthreads();
  uint32_t *bins = &shared.bins[0][0];
  for (int i = threadIdx.x; i < N_LIMBS * N_BINS; i += THREADS) bins[i] = 0;
  __syncthreads();
}

/* What all blocks hold of bin i of this block's range, by falling key. */
template <int TEAM> __device__ unsigned long long bin_total(const shared_state<TEAM> &shared, int32_t i)
{
  unsigned long long total = 0;
  for (int limb = 0; limb < N_LIMBS; limb++) {
    const uint32_t *bins = TEAM == 1 ? shared.bins[limb] : shared.team_bins[limb];
    total += static_cast<unsigned long long>(bins[shared.RANGE - 1 - i]) << limb * LIMB_BITS;
  }
  return total;
}

/* The range's bins of all blocks, which sums of 32 bits have room for: MAX_VOCAB of cuda_sample.c. */
template <int TEAM> __device__ void add_up_blocks(shared_state<TEAM> &shared)
{
  constexpr int FOURS = shared_state<TEAM>::RANGE / 4;
  const int first = N_BINS - (team_rank<TEAM>() + 1) * shared.RANGE;
  for (int i = threadIdx.x; i < N_LIMBS * FOURS; i += THREADS) {
    const int limb = i / FOURS, at = i % FOURS * 4;
    uint4 sum = {};
#pragma unroll
    for (int r = 0; r < TEAM; r++) {
      const uint4 bins = *reinterpret_cast<const uint4 *>(&of_rank<TEAM>(&shared, r)->bins[limb][first + at]);
      sum = {sum.x + bins.x, sum.y + bins.y, sum.z + bins.z, sum.w + bins.w};
    }
    *reinterpret_cast<uint4 *>(&shared.team_bins[limb][at]) = sum;
  }
  __syncthreads();
}

/* Running sums of this block's range of bins over the team, once all have filled theirs. */
template <int TEAM> __device__ void add_up_range(shared_state<TEAM> &shared)
{
  using sums = unsigned long long;
  constexpr int RANGE = shared_state<TEAM>::RANGE, PER_THREAD = (RANGE + THREADS - 1) / THREADS;
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  team_sync<TEAM>();
  if constexpr (TEAM > 1) add_up_blocks(shared);
  sums own[PER_THREAD], sum = 0;
  for (int i = 0; i < PER_THREAD; i++) {
    const int at = threadIdx.x * PER_THREAD + i;
    own[i] = at < RANGE ? bin_total(shared, at) : 0;
    sum += own[i];
  }
  sums before = warp_running_sum(sum);
  if (lane == WARP - 1) shared.warp_units[warp] = before;
  __syncthreads();
  before -= sum;
  for (int w = 0; w < warp; w++) before += shared.warp_units[w];
  for (int i = 0; i < PER_THREAD; i++) {
    const int at = threadIdx.x * PER_THREAD + i;
    if (at < RANGE) shared.sums[at] = before += own[i];
  }
  __syncthreads();
}

/* Where a sum over falling keys passes a test. */
struct crossing {
  int32_t bin;
  unsigned long long units; /* in that bin */
};

/* The bin at which the sum over falling keys, starting from *above, passes `test`; *above then is the sum before it.
 * Bins are filled. after(total) learns the sum of all of them first. */
template <int TEAM, typename After, typename Test>
__device__ crossing find_bin(shared_state<TEAM> &shared, row_view &v, unsigned long long *above, After after, Test test)
{
  constexpr int RANGE = shared_state<TEAM>::RANGE;
  add_up_range(shared);
  message mine = {.units = shared.sums[RANGE - 1]};
  const message *all = exchange(shared.inbox, v.turn, mine);
  unsigned long long total = 0;
  for (int r = 0; r < TEAM; r++) total += all[r].units;
  after(total);
  int rank = 0;
  while (rank < TEAM - 1 && !test(*above + all[rank].units)) *above += all[rank++].units;
  if (rank == team_rank<TEAM>()) {
    int at = 0;
    for (int i = threadIdx.x; i < (RANGE + THREADS - 1) / THREADS * THREADS; i += THREADS)
      at += __syncthreads_count(i < RANGE - 1 && !test(*above + shared.sums[i]));
    mine.at = at;
    mine.before = at > 0 ? shared.sums[at - 1] : 0;
    mine.units = shared.sums[at] - mine.before;
  }
  all = exchange(shared.inbox, v.turn, mine);
  *above += all[rank].before;
  return {N_BINS - 1 - (rank * RANGE + all[rank].at), all[rank].units};
}

/* Bins by distance from the largest, in the order of keys. */
__device__ inline float distance_in_bins(const row_view &v, float s)
{
  return fminf((v.maximum - s) * BINS_PER_NAT, N_BINS - 1);
}

__device__ inline uint32_t distance_bin(const row_view &v, float s)
{
  return N_BINS - 1 - static_cast<uint32_t>(distance_in_bins(v, s));
}

/* All scaled logits of so many bins' distance, and some more, for rounding's sake. */
__device__ inline bounds distance_bounds(const row_view &v, int32_t n_bins)
{
  const float distance = static_cast<float>(n_bins) / BINS_PER_NAT;
  const float margin = (fabsf(v.maximum) + distance) * 0x1p-20f;
  bounds b = {v.maximum - distance - 1.0f / BINS_PER_NAT - margin, v.maximum - distance + margin};
  if (n_bins == N_BINS - 1) b.lower = -INFINITY;
  return b;
}

/* The key at which a sum over falling keys passes `test`: the sums over greater keys and of this one. */
struct edge {
  uint32_t key;
  unsigned long long above, units;
};

/* add(s, key, bin) puts a value within `among` into the bins, or not; after(total) learns the sum of everything once it
 * is known. */
template <int TEAM, typename Add, typename After, typename Test>
__device__ edge find_edge(shared_state<TEAM> &shared, row_view &v, bounds among, Add add, After after, Test test)
{
  edge e = {};
  clear_bins(shared);
  for_each_scaled(v, among, [&](int32_t, float s) { add(s, key_of(s), distance_bin(v, s)); });
  const int32_t nearest = N_BINS - 1 - find_bin(shared, v, &e.above, after, test).bin;
  const bounds near = distance_bounds(v, nearest);
  const uint32_t first = key_of(near.lower);
  uint32_t prefix = 0;
  int shift = 32 - __clz(static_cast<int>(key_of(near.upper) - first)); /* of keys less the first */
  while (shift > 0) {
    const int bits = min(shift, DIGIT_BITS);
    shift -= bits;
    clear_bins(shared);
    for_each_scaled(v, near, [&](int32_t, float s) {
      const uint32_t digits = (key_of(s) - first) >> shift;
      if (static_cast<int32_t>(distance_in_bins(v, s)) == nearest && digits >> bits == prefix)
        add(s, key_of(s), digits & ((1u << bits) - 1));
    });
    const crossing found = find_bin(
        shared, v, &e.above, [](unsigned long long) {}, test);
    prefix = prefix << bits | static_cast<uint32_t>(found.bin);
    e.units = found.units;
  }
  e.key = first + prefix;
  return e;
}

} // namespace yk_sample

#endif
