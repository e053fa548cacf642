/* prefix_search.cuh - the id at which the sum over rising ids exceeds a target: inverse transform sampling, and the
 * last of equal logits that top_p keeps.
 *
 * The slice of a thread block is cut into segments, each of equally many neighbouring ids. Sums are float64 and in a
 * fixed order:
 *
 *   warps, a segment at a time --> segments[]
 *   warp 0 adds them           --(all_gather)--> total, hence the target, and the thread block that holds the id
 *   warp 0 of that thread block: running sum over segments, then over the ids of one --(all_gather)--> the id */
#ifndef YK_KERNELS_CUDA_SAMPLING_PREFIX_SEARCH_CUH
#define YK_KERNELS_CUDA_SAMPLING_PREFIX_SEARCH_CUH

#include "kernels/cuda/sampling/row_reduce.cuh"

namespace yk_sample {

/* The index at which a scan stopped, or -1, and the sum of the values before that index. */
struct scan_result {
  double before;
  int32_t index;
};

/* One warp searches for the first of n values at which the running sum passes `test`. */
template <typename Test> __device__ scan_result scan(const double *values, int32_t n, Test test)
{
  const int lane = threadIdx.x % WARP;
  double before = 0.0;
  for (int32_t i = 0; i < n; i += WARP) {
    const double sum = warp_prefix_sum(i + lane < n ? values[i + lane] : 0.0);
    const double preceding = __shfl_up_sync(ALL_LANES, sum, 1);
    const unsigned passed = __ballot_sync(ALL_LANES, i + lane < n && test(before + sum));
    if (passed) {
      const int first = __ffs(static_cast<int>(passed)) - 1;
      const double up_to = __shfl_sync(ALL_LANES, lane > 0 ? preceding : 0.0, first);
      return {before + up_to, i + first};
    }
    before += __shfl_sync(ALL_LANES, sum, WARP - 1);
  }
  return {before, -1};
}

/* Ids of a segment: the smallest multiple of a warp with which MAX_SEGMENTS segments cover the slice. */
__device__ inline int32_t segment_ids(const row_view &v)
{
  return (v.end - v.begin + MAX_SEGMENTS * WARP - 1) / (MAX_SEGMENTS * WARP) * WARP;
}

/* segments[i] = the sum of f(id, scaled logit) over segment i of the slice. Returns the number of segments. */
template <int CLUSTER, typename F>
__device__ int32_t sum_segments(shared_state<CLUSTER> &shared, const row_view &v, F f)
{
  const int32_t size = segment_ids(v), n_segments = v.begin < v.end ? (v.end - v.begin + size - 1) / size : 0;
  __syncthreads();
  for (int32_t segment = threadIdx.x / WARP; segment < n_segments; segment += WARPS) {
    const int32_t first = v.begin + segment * size, end = min(v.end, first + size);
    double sum = 0.0;
    for (int32_t id = first + threadIdx.x % WARP; id < end; id += WARP) sum += f(id, scaled_of(v, id));
    sum = warp_sum(sum);
    if (threadIdx.x % WARP == 0) shared.segments[segment] = sum;
  }
  __syncthreads();
  return n_segments;
}

/* One warp searches for the first id of a segment at which the running sum of f exceeds target. before: the sum over
 * all ids below the segment. If no sum exceeds the target because of rounding, the result is the last id for which f is
 * positive, or NO_ID. */
template <typename F>
__device__ int32_t walk_segment(const row_view &v, int32_t segment, double before, double target, F f)
{
  const int lane = threadIdx.x % WARP, size = segment_ids(v), end = min(v.end, v.begin + (segment + 1) * size);
  int32_t last = NO_ID;
  for (int32_t first = v.begin + segment * size; first < end; first += WARP) {
    const int32_t id = first + lane;
    const double value = id < end ? f(id, scaled_of(v, id)) : 0.0;
    const double sum = warp_prefix_sum(value);
    const unsigned adds = __ballot_sync(ALL_LANES, value > 0.0);
    const unsigned exceeds = __ballot_sync(ALL_LANES, value > 0.0 && before + sum > target);
    if (exceeds) return first + __ffs(static_cast<int>(exceeds)) - 1;
    if (adds) last = first + 31 - __clz(static_cast<int>(adds));
    before += __shfl_sync(ALL_LANES, sum, WARP - 1);
  }
  return last;
}

/* The first id at which the sum of f over rising ids exceeds target_of(total); NO_ID if f is positive for none. */
template <int CLUSTER, typename F, typename Target>
__device__ int32_t find_id(shared_state<CLUSTER> &shared, row_view &v, F f, Target target_of)
{
  const int32_t n_segments = sum_segments(shared, v, f);
  message mine = {.id = NO_ID};
  if (threadIdx.x < WARP) mine.sum = scan(shared.segments, n_segments, [](double) { return false; }).before;
  const message *all = all_gather(shared.gather, v.parity, mine);
  double total = 0.0, before = 0.0;
  for (int r = 0; r < CLUSTER; r++) total += all[r].sum;
  const double target = target_of(total);
  int rank = 0;
  while (rank < CLUSTER - 1 && !(before + all[rank].sum > target)) before += all[rank++].sum;
  if (rank == rank_in_cluster<CLUSTER>() && threadIdx.x < WARP) {
    const scan_result found = scan(shared.segments, n_segments, [&](double sum) { return before + sum > target; });
    if (found.index >= 0) mine.id = walk_segment(v, found.index, before + found.before, target, f);
  }
  return all_gather(shared.gather, v.parity, mine)[rank].id;
}

} // namespace yk_sample

#endif
