/* radix_select.cuh - the key at which a sum over falling keys passes a test: top_k counts logits, top_p adds weights.
 *
 * A key is a scaled logit as an integer of the same order. Each pass builds a histogram of the remaining keys, and
 * finds the bin in which the running sum over falling keys passes the test:
 *
 *   first pass    bins by distance from the largest scaled logit, fine enough that few logits share the bin found
 *   later passes  only logits of that bin, at most 11 bits of their keys per pass, from the highest bits to the lowest
 *
 * A pass, with clusters:
 *
 *   each thread block, from its slice       --(atomics)--> bins: a histogram of all N_BINS bins in its shared memory
 *   cluster barrier
 *   thread block r reads share r of all histograms   --> cluster_bins --> prefix_sums: running sums over its share
 *   all_gather of the shares' totals                 --> the share, and so the thread block, that holds the bin
 *   all_gather: that thread block sends the bin to the others
 *
 * Share r of the bins is the r-th of CLUSTER equal parts by falling key. Counts and weights are integers, so sums do
 * not depend on the order of atomics. A weight is a fixed-point number with 38 fraction bits, cut into three limbs of
 * 13 bits: a 32-bit bin then holds the sum of a limb over every id of a vocabulary (YK_CUDA_MAX_VOCAB). */
#ifndef YK_KERNELS_CUDA_SAMPLING_RADIX_SELECT_CUH
#define YK_KERNELS_CUDA_SAMPLING_RADIX_SELECT_CUH

#include "kernels/cuda/common/limits.h"
#include "kernels/cuda/sampling/row_reduce.cuh"

namespace yk_sample {

/* the last bin includes all logits beyond 32 nats, with weights below 1e-13 */
constexpr float BINS_PER_NAT = 64.0f;
constexpr float FIXED_POINT_ONE = 274877906944.0f; /* 2^38: the weight 1 */
static_assert(static_cast<uint64_t>(YK_CUDA_MAX_VOCAB) * ((1u << LIMB_BITS) - 1) <= UINT32_MAX, "sums of limbs fit");

/* The probability of a scaled logit relative to that of the largest. */
__device__ inline float weight_of(const row_view &v, float s)
{
  return expf(s - v.maximum);
}

__device__ inline unsigned long long to_fixed_point(float weight)
{
  return __float2ull_rn(weight * FIXED_POINT_ONE); /* truncated weights of many ids would sum to too little */
}

/* Clear this thread block's histogram for the next pass. The other thread blocks have read the previous one before the
 * all_gather in find_bin. */
template <int CLUSTER> __device__ void clear_bins(shared_state<CLUSTER> &shared)
{
  __syncthreads();
  uint32_t *bins = &shared.bins[0][0];
  for (int i = threadIdx.x; i < N_LIMBS * N_BINS; i += THREADS) bins[i] = 0;
  __syncthreads();
}

/* The sum over the cluster of bin i of this thread block's share, counted by falling key. */
template <int CLUSTER> __device__ unsigned long long bin_total(const shared_state<CLUSTER> &shared, int32_t i)
{
  unsigned long long total = 0;
  for (int limb = 0; limb < N_LIMBS; limb++) {
    const uint32_t *bins = CLUSTER == 1 ? shared.bins[limb] : shared.cluster_bins[limb];
    total += static_cast<unsigned long long>(bins[shared.BLOCK_BINS - 1 - i]) << limb * LIMB_BITS;
  }
  return total;
}

/* cluster_bins = this thread block's share of the bins, summed over the histograms of all thread blocks. */
template <int CLUSTER> __device__ void reduce_scatter_bins(shared_state<CLUSTER> &shared)
{
  constexpr int FOURS = shared_state<CLUSTER>::BLOCK_BINS / 4;
  const int first = N_BINS - (rank_in_cluster<CLUSTER>() + 1) * shared.BLOCK_BINS;
  for (int i = threadIdx.x; i < N_LIMBS * FOURS; i += THREADS) {
    const int limb = i / FOURS, at = i % FOURS * 4;
    uint4 sum = {};
#pragma unroll
    for (int r = 0; r < CLUSTER; r++) {
      const uint4 bins = *reinterpret_cast<const uint4 *>(&shared_of_rank<CLUSTER>(&shared, r)->bins[limb][first + at]);
      sum = {sum.x + bins.x, sum.y + bins.y, sum.z + bins.z, sum.w + bins.w};
    }
    *reinterpret_cast<uint4 *>(&shared.cluster_bins[limb][at]) = sum;
  }
  __syncthreads();
}

/* prefix_sums of this thread block's share. The barrier at the beginning waits until every histogram is complete. */
template <int CLUSTER> __device__ void scan_bins(shared_state<CLUSTER> &shared)
{
  using sums = unsigned long long;
  constexpr int BLOCK_BINS = shared_state<CLUSTER>::BLOCK_BINS, PER_THREAD = (BLOCK_BINS + THREADS - 1) / THREADS;
  const int lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
  sync_cluster<CLUSTER>();
  if constexpr (CLUSTER > 1) reduce_scatter_bins(shared);
  sums own[PER_THREAD], sum = 0;
  for (int i = 0; i < PER_THREAD; i++) {
    const int at = threadIdx.x * PER_THREAD + i;
    own[i] = at < BLOCK_BINS ? bin_total(shared, at) : 0;
    sum += own[i];
  }
  sums before = warp_prefix_sum(sum);
  if (lane == WARP - 1) shared.warp_bin_sums[warp] = before;
  __syncthreads();
  before -= sum;
  for (int w = 0; w < warp; w++) before += shared.warp_bin_sums[w];
  for (int i = 0; i < PER_THREAD; i++) {
    const int at = threadIdx.x * PER_THREAD + i;
    if (at < BLOCK_BINS) shared.prefix_sums[at] = before += own[i];
  }
  __syncthreads();
}

struct selected_bin {
  int32_t bin;
  unsigned long long sum; /* sum of that bin */
};

/* The bin in which the sum over falling keys passes `test`, given histograms of all thread blocks. *above: the sum over
 * keys greater than those of the histogram; on return, over keys greater than those of the bin. after(total) is called
 * with the sum of all bins before `test` is called. */
template <int CLUSTER, typename After, typename Test>
__device__ selected_bin find_bin(shared_state<CLUSTER> &shared, row_view &v, unsigned long long *above, After after,
                                 Test test)
{
  constexpr int BLOCK_BINS = shared_state<CLUSTER>::BLOCK_BINS;
  scan_bins(shared);
  message mine = {.bin_sum = shared.prefix_sums[BLOCK_BINS - 1]};
  const message *all = all_gather(shared.gather, v.parity, mine);
  unsigned long long total = 0;
  for (int r = 0; r < CLUSTER; r++) total += all[r].bin_sum;
  after(total);
  int rank = 0;
  while (rank < CLUSTER - 1 && !test(*above + all[rank].bin_sum)) *above += all[rank++].bin_sum;
  if (rank == rank_in_cluster<CLUSTER>()) {
    int at = 0;
    for (int i = threadIdx.x; i < (BLOCK_BINS + THREADS - 1) / THREADS * THREADS; i += THREADS)
      at += __syncthreads_count(i < BLOCK_BINS - 1 && !test(*above + shared.prefix_sums[i]));
    mine.bin = at;
    mine.sum_before = at > 0 ? shared.prefix_sums[at - 1] : 0;
    mine.bin_sum = shared.prefix_sums[at] - mine.sum_before;
  }
  all = all_gather(shared.gather, v.parity, mine);
  *above += all[rank].sum_before;
  return {N_BINS - 1 - (rank * BLOCK_BINS + all[rank].bin), all[rank].bin_sum};
}

/* The distance of a scaled logit from the largest one, in bins of the first pass. */
__device__ inline float distance_in_bins(const row_view &v, float s)
{
  return fminf((v.maximum - s) * BINS_PER_NAT, N_BINS - 1);
}

/* Its bin in the first pass: bins have the order of keys. */
__device__ inline uint32_t distance_bin(const row_view &v, float s)
{
  return N_BINS - 1 - static_cast<uint32_t>(distance_in_bins(v, s));
}

/* Bounds that contain every scaled logit whose distance rounds down to n_bins. They are wider by a margin, because the
 * distance was rounded when the bin was chosen. */
__device__ inline bounds distance_bounds(const row_view &v, int32_t n_bins)
{
  const float distance = static_cast<float>(n_bins) / BINS_PER_NAT;
  const float margin = (fabsf(v.maximum) + distance) * 0x1p-20f;
  bounds b = {v.maximum - distance - 1.0f / BINS_PER_NAT - margin, v.maximum - distance + margin};
  if (n_bins == N_BINS - 1) b.lower = -INFINITY;
  return b;
}

/* A key, the sum over all greater keys, and the sum over all scaled logits of this key. */
struct selection {
  uint32_t key;
  unsigned long long above, sum;
};

/* Result of the first pass: the distance in bins of the key that is searched, and the sum over keys greater than those
 * of its bin. */
struct nearest_bin {
  int32_t distance;
  unsigned long long above;
};

/* The first pass of the search for the key at which the sum over falling keys passes `test`. add(s, key, bin) adds a
 * scaled logit s to a bin, or omits it; it is called for each s within `among`, and perhaps for others. after(total) is
 * called once, with the sum of everything added, before `test` is called. */
template <int CLUSTER, typename Add, typename After, typename Test>
__device__ nearest_bin find_nearest_bin(shared_state<CLUSTER> &shared, row_view &v, bounds among, Add add, After after,
                                        Test test)
{
  nearest_bin found = {};
  clear_bins(shared);
  for_each_scaled(v, among, [&](int32_t, float s) { add(s, key_of(s), distance_bin(v, s)); });
  found.distance = N_BINS - 1 - find_bin(shared, v, &found.above, after, test).bin;
  return found;
}

/* The later passes: the key itself. */
template <int CLUSTER, typename Add, typename Test>
__device__ selection radix_select(shared_state<CLUSTER> &shared, row_view &v, nearest_bin found, Add add, Test test)
{
  const int32_t nearest = found.distance;
  selection e = {.above = found.above};
  const bounds near = distance_bounds(v, nearest);
  const uint32_t first = key_of(near.lower);
  uint32_t prefix = 0;
  int shift = 32 - __clz(static_cast<int>(key_of(near.upper) - first)); /* bits in which keys within `near` differ */
  while (shift > 0) {
    const int bits = min(shift, DIGIT_BITS);
    shift -= bits;
    clear_bins(shared);
    for_each_scaled(v, near, [&](int32_t, float s) {
      const uint32_t digits = (key_of(s) - first) >> shift;
      if (static_cast<int32_t>(distance_in_bins(v, s)) == nearest && digits >> bits == prefix)
        add(s, key_of(s), digits & ((1u << bits) - 1));
    });
    const selected_bin bin = find_bin(
        shared, v, &e.above, [](unsigned long long) {}, test);
    prefix = prefix << bits | static_cast<uint32_t>(bin.bin);
    e.sum = bin.sum;
  }
  e.key = first + prefix;
  return e;
}

} // namespace yk_sample

#endif
