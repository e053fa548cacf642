/* cuda_sample_draw.cuh - the id at which a sum over rising ids exceeds a target: sums of segments of neighbouring ids
 * in float64, in a fixed order. */
#ifndef YK_KERNELS_CUDA_CUDA_SAMPLE_DRAW_CUH
#define YK_KERNELS_CUDA_CUDA_SAMPLE_DRAW_CUH

#include "kernels/cuda/cuda_sample_sums.cuh"

namespace yk_sample {

/* Where a scan stopped: the sum before it, and the index; -1 where it never did. */
struct stop {
  double before;
  int32_t at;
};

/* By one warp: the first of n values whose running sum passes `test`. */
template <typename Test> __device__ stop scan(const double *values, int32_t n, Test test)
{
  const int lane = threadIdx.x % WARP;
  double before = 0.0;
  for (int32_t i = 0; i < n; i += WARP) {
    const double sum = warp_running_sum(i + lane < n ? values[i + lane] : 0.0);
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

/* Ids of a segment: whole warps, few enough segments for their array. */
__device__ inline int32_t segment_ids(const row_view &v)
{
  return (v.end - v.begin + MAX_SEGMENTS * WARP - 1) / (MAX_SEGMENTS * WARP) * WARP;
}

/* segments[i] = sum of f(id, s) over segment i of the slice. Returns the number of segments. */
template <int TEAM, typename F> __device__ int32_t sum_segments(shared_state<TEAM> &shared, const row_view &v, F f)
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

/* By one warp: the first id at which the running sum of f over rising ids exceeds target; before is the sum of the
 * segments ahead. Where rounding lets none exceed it, the last that adds something. */
template <typename F>
__device__ int32_t walk_segment(const row_view &v, int32_t segment, double before, double target, F f)
{
  const int lane = threadIdx.x % WARP, size = segment_ids(v), end = min(v.end, v.begin + (segment + 1) * size);
  int32_t last = NO_ID;
  for (int32_t first = v.begin + segment * size; first < end; first += WARP) {
    const int32_t id = first + lane;
    const double value = id < end ? f(id, scaled_of(v, id)) : 0.0;
    const double sum = warp_running_sum(value);
    const unsigned adds = __ballot_sync(ALL_LANES, value > 0.0);
    const unsigned exceeds = __ballot_sync(ALL_LANES, value > 0.0 && before + sum > target);
    if (exceeds) return first + __ffs(static_cast<int>(exceeds)) - 1;
    if (adds) last = first + 31 - __clz(static_cast<int>(adds));
    before += __shfl_sync(ALL_LANES, sum, WARP - 1);
  }
  return last;
}

/* The id at which the running sum over rising ids exceeds target_of(total); NO_ID where nothing adds to it. */
template <int TEAM, typename F, typename Target>
__device__ int32_t find_id(shared_state<TEAM> &shared, row_view &v, F f, Target target_of)
{
  const int32_t n_segments = sum_segments(shared, v, f);
  message mine = {.id = NO_ID};
  if (threadIdx.x < WARP) mine.sum = scan(shared.segments, n_segments, [](double) { return false; }).before;
  const message *all = exchange(shared.inbox, v.turn, mine);
  double total = 0.0, before = 0.0;
  for (int r = 0; r < TEAM; r++) total += all[r].sum;
  const double target = target_of(total);
  int rank = 0;
  while (rank < TEAM - 1 && !(before + all[rank].sum > target)) before += all[rank++].sum;
  if (rank == team_rank<TEAM>() && threadIdx.x < WARP) {
    const stop found = scan(shared.segments, n_segments, [&](double sum) { return before + sum > target; });
    if (found.at >= 0) mine.id = walk_segment(v, found.at, before + found.before, target, f);
  }
  return exchange(shared.inbox, v.turn, mine)[rank].id;
}

} // namespace yk_sample

#endif
