/* cuda_sample_rows.cu - choosing one token per row. The definition is that of kernels/cpu/cpu_sample.c.
 *
 * A team of blocks takes a row, each a slice of its ids. What top_k and top_p keep ends at one logit, found by a histogram over
 * the distance from the largest and then, among those of its bin, digit by digit in an order-preserving integer key, 11 bits
 * over those that share the digits before. Counts and weights are integers there (weights in units of 2^-41, as three
 * limbs of 14 bits, so that 32-bit atomics suffice), hence the same whatever the order of arrival. The draw runs over sums of
 * segments of neighbouring ids in float64, in a fixed order.                                                          */
#include "base/rng.h"
#include "kernels/cuda/cuda_kernels.cuh"
#include "kernels/cuda/cuda_sample_team.cuh"

using namespace yk_cuda;

namespace {

constexpr int THREADS = 512;
constexpr int WARPS = THREADS / WARP;
constexpr int LOADS = 4;   /* logits that a thread asks for at once */
constexpr int CLUSTER = 8; /* blocks of a team on GPUs that have clusters: their shared memory takes any vocabulary */
constexpr int DIGIT_BITS = 11, N_BINS = 1 << DIGIT_BITS;
constexpr float BINS_PER_NAT = 64.0f; /* the last bin takes all beyond 32 nats, weights below 1e-13 */
constexpr int N_LIMBS = 3, LIMB_BITS = 14;
constexpr float WEIGHT_UNITS = 2199023255552.0f; /* 2^41 */
constexpr int MAX_SEGMENTS = 128;
constexpr int NO_ID = 0x7fffffff;

struct best {
  float value;
  int32_t id;
};

/* Where a scan stopped: the sum before it, and the index; -1 where it never did. */
struct stop {
  double before;
  int32_t at;
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

/* A row, and what has been decided of it so far. */
struct row_view {
  const yk_cuda_sample_launch *a;
  const yk_cuda_sample_row *params;
  const uint32_t *counts; /* of the row's slot while penalties apply, else NULL */
  int64_t row;
  int32_t n;          /* ids */
  int32_t begin, end; /* this block's slice of them */
  float *slice;       /* [end - begin] scaled logits in shared memory; a block alone has no room and works them out */
  int turn;           /* of the team's messages */
  float temperature, maximum; /* maximum: of the scaled logits */
  uint32_t lowest_key;        /* top_k keeps keys from here */
  uint32_t last_key;          /* top_p keeps greater keys, and of this key the ids up to last_id */
  int32_t last_id;
  float lowest; /* scaled logits below are dropped by one of the two */
};

__device__ float *shard_row(const row_view &v, int32_t shard)
{
  return v.a->logits + (static_cast<int64_t>(shard) * v.a->n_rows + v.row) * v.a->shard_stride;
}

__device__ float *logit_of(const row_view &v, int32_t id)
{
  int32_t s = 0;
  while (id >= v.a->shard_first[s + 1]) s++;
  return shard_row(v, s) + (id - v.a->shard_first[s]);
}

/* Repetition, frequency and presence penalties, each operation rounded as it stands. */
__device__ float penalised(const row_view &v, int32_t id, float logit)
{
  if (!v.counts) return logit;
  const uint32_t count = v.counts[id], n_output = count / YK_CUDA_COUNT_OUTPUT;
  const yk_sample_row &p = v.params->row;
  if (count == 0) return logit;
  logit = logit > 0.0f ? __fdiv_rn(logit, p.repetition_penalty) : __fmul_rn(logit, p.repetition_penalty);
  if (n_output == 0) return logit;
  logit = __fsub_rn(logit, __fmul_rn(p.frequency_penalty, static_cast<float>(n_output)));
  return __fsub_rn(logit, p.presence_penalty);
}

/* f(id, logit) for every id of the slice, each by one thread, penalties applied where they are on. */
template <typename F> __device__ void for_each_logit(const row_view &v, F f)
{
  for (int32_t s = 0; s < v.a->n_shards; s++) {
    const float *logits = shard_row(v, s) - v.a->shard_first[s];
    const int32_t end = min(v.end, v.a->shard_first[s + 1]);
    for (int32_t id = max(v.begin, v.a->shard_first[s]) + threadIdx.x; id < end; id += THREADS * LOADS) {
      float loaded[LOADS];
      for (int j = 0; j < LOADS; j++) loaded[j] = id + j * THREADS < end ? logits[id + j * THREADS] : 0.0f;
      for (int j = 0; j < LOADS; j++)
        if (id + j * THREADS < end) f(id + j * THREADS, penalised(v, id + j * THREADS, loaded[j]));
    }
  }
}

__device__ float scaled(const row_view &v, float logit)
{
  return __fdiv_rn(logit, v.temperature);
}

__device__ float scaled_of(const row_view &v, int32_t id)
{
  return v.slice ? v.slice[id - v.begin] : scaled(v, penalised(v, id, *logit_of(v, id)));
}

/* An interval of scaled logits. */
struct bounds {
  float lower = -INFINITY, upper = INFINITY;
};

/* f(id, scaled logit) likewise for all within bounds, and perhaps for others. */
template <typename F> __device__ void for_each_scaled(const row_view &v, bounds b, F f)
{
  if (!v.slice) {
    for_each_logit(v, [&](int32_t id, float logit) { f(id, scaled(v, logit)); });
    return;
  }
#pragma unroll 1
  for (int32_t id = v.begin + threadIdx.x; id < v.end; id += THREADS) {
    const float s = v.slice[id - v.begin];
    if (s >= b.lower && s <= b.upper) f(id, s);
  }
}

/* ---- Maxima and sums over the row ----------------------------------------------------------------------------------- */

__device__ best better(best a, best b)
{
  return b.value > a.value || (b.value == a.value && b.id < a.id) ? b : a;
}

__device__ best warp_best(best b)
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

__device__ double warp_sum_f64(double x)
{
  for (int offset = WARP / 2; offset > 0; offset /= 2) x += __shfl_xor_sync(ALL_LANES, x, offset);
  return x;
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
  sum = warp_sum_f64(sum);
  if (threadIdx.x % WARP == 0) shared.warp_sums[threadIdx.x / WARP] = sum;
  __syncthreads();
  const int lane = threadIdx.x % WARP;
  const message *all =
      exchange(shared.inbox, v.turn, {.sum = warp_sum_f64(lane < WARPS ? shared.warp_sums[lane] : 0.0)});
  sum = 0.0;
  for (int r = 0; r < TEAM; r++) sum += all[r].sum;
  return static_cast<double>(maximum) + log(sum);
}

/* By one warp: the first of n values whose running sum passes `test`. */
template <typename Test> __device__ stop scan(const double *values, int32_t n, Test test)
{
  const int lane = threadIdx.x % WARP;
  double before = 0.0;
  for (int32_t i = 0; i < n; i += WARP) {
    double sum = i + lane < n ? values[i + lane] : 0.0;
    for (int offset = 1; offset < WARP; offset *= 2) {
      const double below = __shfl_up_sync(ALL_LANES, sum, offset);
      if (lane >= offset) sum += below;
    }
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

/* ---- Filters -------------------------------------------------------------------------------------------------------- */

/* Keys order as their floats do; both zeros share one. */
__device__ uint32_t key_of(float x)
{
  const uint32_t bits = __float_as_uint(x + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ float value_of(uint32_t key)
{
  return __uint_as_float(key & 0x80000000u ? key & 0x7fffffffu : ~key);
}

__device__ float weight_of(const row_view &v, float s)
{
  return expf(s - v.maximum);
}

__device__ unsigned long long units_of(float weight)
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
  sums before = sum;
  for (int offset = 1; offset < WARP; offset *= 2) {
    const sums below = __shfl_up_sync(ALL_LANES, before, offset);
    if (lane >= offset) before += below;
  }
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

/* The bin at which the sum over falling keys, starting from *above, passes `test`; *above then is the sum before it. Bins are
 * filled. after(total) learns the sum of all of them first. */
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
__device__ float distance_in_bins(const row_view &v, float s)
{
  return fminf((v.maximum - s) * BINS_PER_NAT, N_BINS - 1);
}

__device__ uint32_t distance_bin(const row_view &v, float s)
{
  return N_BINS - 1 - static_cast<uint32_t>(distance_in_bins(v, s));
}

/* All scaled logits of so many bins' distance, and some more, for rounding's sake. */
__device__ bounds distance_bounds(const row_view &v, int32_t n_bins)
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

/* add(s, key, bin) puts a value within `among` into the bins, or not; after(total) learns the sum of everything once it is
 * known. */
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

template <int TEAM> __device__ void keep_top_k(shared_state<TEAM> &shared, row_view &v, int32_t k)
{
  const edge e = find_edge(
      shared, v, {}, [&](float, uint32_t, uint32_t bin) { atomicAdd(&shared.bins[0][bin], 1u); },
      [](unsigned long long) {}, [&](unsigned long long sum) { return sum >= static_cast<unsigned long long>(k); });
  v.lowest_key = e.key;
  v.lowest = value_of(e.key);
}

/* Whether min_p and top_k keep a value. */
__device__ bool passes_thresholds(const row_view &v, uint32_t key, float weight)
{
  return key >= v.lowest_key && weight >= v.params->row.min_p;
}

__device__ bool is_kept(const row_view &v, int32_t id, float s, float weight)
{
  const uint32_t key = key_of(s);
  return passes_thresholds(v, key, weight) && (key > v.last_key || (key == v.last_key && id <= v.last_id));
}

/* ---- In the order of ids -------------------------------------------------------------------------------------------- */

/* Ids of a segment: whole warps, few enough segments for their array. */
__device__ int32_t segment_ids(const row_view &v)
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
    sum = warp_sum_f64(sum);
    if (threadIdx.x % WARP == 0) shared.segments[segment] = sum;
  }
  __syncthreads();
  return n_segments;
}

/* By one warp: the first id at which the running sum of f over rising ids exceeds target; before is the sum of the segments
 * ahead. Where rounding lets none exceed it, the last that adds something.                                            */
template <typename F>
__device__ int32_t walk_segment(const row_view &v, int32_t segment, double before, double target, F f)
{
  const int lane = threadIdx.x % WARP, size = segment_ids(v), end = min(v.end, v.begin + (segment + 1) * size);
  int32_t last = NO_ID;
  for (int32_t first = v.begin + segment * size; first < end; first += WARP) {
    const int32_t id = first + lane;
    const double value = id < end ? f(id, scaled_of(v, id)) : 0.0;
    double sum = value;
    for (int offset = 1; offset < WARP; offset *= 2) {
      const double below = __shfl_up_sync(ALL_LANES, sum, offset);
      if (lane >= offset) sum += below;
    }
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

/* The shortest prefix that weighs at least top_p of what min_p and top_k keep. Ties at its end go by id. */
template <int TEAM> __device__ void keep_top_p(shared_state<TEAM> &shared, row_view &v, float top_p)
{
  double target = 0.0; /* in units */
  const edge e = find_edge(
      shared, v, {.lower = v.lowest},
      [&](float s, uint32_t value_key, uint32_t bin) {
        if (s < v.lowest) return;
        const float weight = weight_of(v, s);
        if (!passes_thresholds(v, value_key, weight)) return;
        unsigned long long units = units_of(weight);
        for (int limb = 0; units; limb++, units >>= LIMB_BITS)
          if (units & ((1u << LIMB_BITS) - 1))
            atomicAdd(&shared.bins[limb][bin], static_cast<uint32_t>(units & ((1u << LIMB_BITS) - 1)));
      },
      [&](unsigned long long total) { target = static_cast<double>(top_p) * static_cast<double>(total); },
      [&](unsigned long long sum) { return static_cast<double>(sum) >= target; });
  const double units = static_cast<double>(units_of(weight_of(v, value_of(e.key))));
  const double n_kept = fmax(1.0, ceil((target - static_cast<double>(e.above)) / units));
  v.last_key = e.key;
  v.lowest = value_of(e.key);
  if (n_kept * units >= static_cast<double>(e.units)) return; /* all that tie */
  v.last_id = find_id(
      shared, v, [&](int32_t, float s) { return key_of(s) == e.key ? 1.0 : 0.0; },
      [&](double) { return n_kept - 0.5; });
}

/* Scaled logits of the slice, once for all passes over them. */
__device__ void fill_slice(const row_view &v)
{
  for_each_logit(v, [&](int32_t id, float logit) { v.slice[id - v.begin] = scaled(v, logit); });
  __syncthreads();
}

template <int TEAM> __device__ int32_t sample_filtered(shared_state<TEAM> &shared, row_view &v, float *slice)
{
  const yk_sample_row &p = v.params->row;
  v.slice = slice;
  if (slice) fill_slice(v);
  if (p.top_k > 0 && p.top_k < v.n) keep_top_k(shared, v, p.top_k);
  if (p.top_p < 1.0f) keep_top_p(shared, v, p.top_p);
  const double uniform = static_cast<double>(yk_rng_uniform(p.seed, p.stream, p.position));
  return find_id(
      shared, v,
      [&](int32_t id, float s) {
        if (s < v.lowest) return 0.0;
        const float weight = weight_of(v, s);
        return is_kept(v, id, s, weight) ? static_cast<double>(weight) : 0.0;
      },
      [&](double total) { return uniform * total; });
}

/* Ids of a block's slice, but for the last block's. */
__host__ __device__ constexpr int32_t slice_ids(int32_t n, int team)
{
  return (n + team - 1) / team;
}

/* ---- A row ---------------------------------------------------------------------------------------------------------- */

/* The biased logits take their biases for as long as the row is worked on: nothing else then has to know of them. */
__device__ void apply_biases(const row_view &v)
{
  for (int32_t i = threadIdx.x; i < v.params->row.n_biases; i += THREADS) {
    const int32_t id = v.params->biases[i].token_id;
    if (id < v.begin || id >= v.end) continue; /* another block's */
    float *logit = logit_of(v, id);
    v.params->raw_at_biases[i] = *logit;
    *logit = __fadd_rn(*logit, v.params->biases[i].bias);
  }
  __syncthreads();
}

template <int TEAM> __device__ void restore_biases(const row_view &v)
{
  __syncthreads();
  for (int32_t i = threadIdx.x; i < v.params->row.n_biases; i += THREADS) {
    const int32_t id = v.params->biases[i].token_id;
    if (id >= v.begin && id < v.end) *logit_of(v, id) = v.params->raw_at_biases[i];
  }
  team_sync<TEAM>();
}

/* The best logits of the raw row and their log-probabilities. */
template <int TEAM> __device__ void report_top(shared_state<TEAM> &shared, row_view &v, double log_sum, yk_sampled *out)
{
  best last = {INFINITY, NO_ID};
  const int32_t n_wanted = min(v.params->row.n_top_logprobs, static_cast<int32_t>(YK_MAX_TOP_LOGPROBS));
  for (int32_t i = 0; i < n_wanted; i++) {
    last = find_next(shared, v, last);
    if (last.id == NO_ID) return;
    if (threadIdx.x != 0 || team_rank<TEAM>() != 0) continue;
    out->n_top = i + 1;
    out->top_ids[i] = last.id;
    out->top_logprobs[i] = static_cast<float>(static_cast<double>(last.value) - log_sum);
  }
}

/* Token of a row that is drawn, biases and penalties included; NO_ID where nothing is finite. */
template <int TEAM>
__device__ int32_t choose(shared_state<TEAM> &shared, row_view &v, best highest, uint32_t *counts, float *slice)
{
  const yk_sample_row &p = v.params->row;
  if (p.n_biases > 0) apply_biases(v);
  if (p.has_penalties) v.counts = counts;
  if (p.n_biases > 0 || p.has_penalties) highest = find_maximum(shared, v);
  int32_t id = highest.id;
  if (id != NO_ID) {
    v.temperature = p.temperature;
    v.maximum = scaled(v, highest.value);
    /* A temperature so low that the largest logit overflows leaves only that logit. */
    if (p.temperature >= 1e-5f && isfinite(v.maximum)) id = sample_filtered(shared, v, slice);
  }
  v.counts = nullptr;
  if (p.n_biases > 0) restore_biases<TEAM>(v);
  if (p.has_penalties && id != NO_ID && threadIdx.x == 0 && team_rank<TEAM>() == 0) counts[id] += YK_CUDA_COUNT_OUTPUT;
  return id;
}

template <int TEAM>
__global__ void __launch_bounds__(THREADS, 2) sample_kernel(const __grid_constant__ yk_cuda_sample_launch a)
{
  __shared__ shared_state<TEAM> shared;
  extern __shared__ float slice[];
  const int32_t index = blockIdx.x / TEAM;
  row_view v = {};
  v.a = &a;
  v.params = &a.rows[index];
  v.row = a.first_row + static_cast<int64_t>(index);
  v.n = a.shard_first[a.n_shards];
  v.begin = min(v.n, team_rank<TEAM>() * slice_ids(v.n, TEAM));
  v.end = min(v.n, v.begin + slice_ids(v.n, TEAM));
  v.last_id = NO_ID;
  v.lowest = -INFINITY;
  wait_for_previous_kernel();
  team_sync<TEAM>(); /* all have begun: only then may others write to their shared memory */
  const yk_sample_row &p = v.params->row;
  const bool writes = threadIdx.x == 0 && team_rank<TEAM>() == 0;
  yk_sampled *out = &a.out[index];
  if (writes) *out = yk_sampled{};
  const best highest = find_maximum(shared, v);
  int32_t id = NO_ID;
  double log_sum = 0.0;
  if (highest.id != NO_ID) {
    if (p.want_logprob || p.n_top_logprobs > 0) log_sum = log_sum_exp(shared, v, highest.value);
    if (p.n_top_logprobs > 0) report_top(shared, v, log_sum, out);
    uint32_t *counts = a.counts + static_cast<int64_t>(p.penalty_slot) * a.vocab;
    id = p.is_forced ? p.forced_id : choose(shared, v, highest, counts, TEAM > 1 ? slice : nullptr);
  }
  if (writes) {
    out->token_id = id == NO_ID ? -1 : id;
    if (id != NO_ID && p.want_logprob)
      out->logprob = static_cast<float>(static_cast<double>(*logit_of(v, id)) - log_sum);
  }
  team_sync<TEAM>(); /* nobody leaves whose shared memory another still reads or writes */
}

__global__ void count_kernel(uint32_t *counts, const int32_t *tokens, int32_t n_tokens, int32_t n_prompt)
{
  for (int32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n_tokens; i += gridDim.x * blockDim.x) {
    if (i < n_prompt)
      atomicOr(&counts[tokens[i]], static_cast<uint32_t>(YK_CUDA_COUNT_PROMPT));
    else
      atomicAdd(&counts[tokens[i]], static_cast<uint32_t>(YK_CUDA_COUNT_OUTPUT));
  }
}

} // namespace

extern "C" cudaError_t yk_cuda_launch_sample(const yk_cuda_sample_launch *launch, cudaStream_t stream)
{
  if (launch->n_launched == 0) return cudaSuccess;
  cudaFuncAttributes code;
  cudaError_t error = cudaFuncGetAttributes(&code, sample_kernel<CLUSTER>);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(launch->n_launched));
  if (code.ptxVersion < 90) return launch_overlapped(sample_kernel<1>, {grid, THREADS, 0, 1}, stream, *launch);
  const size_t slice_bytes = slice_ids(launch->shard_first[launch->n_shards], CLUSTER) * sizeof(float);
  error = cudaFuncSetAttribute(sample_kernel<CLUSTER>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(slice_bytes));
  if (error != cudaSuccess) return error;
  return launch_overlapped(sample_kernel<CLUSTER>, {dim3(grid.x * CLUSTER), THREADS, slice_bytes, CLUSTER}, stream,
                           *launch);
}

extern "C" cudaError_t yk_cuda_launch_count(uint32_t *counts, const int32_t *tokens, int32_t n_tokens, int32_t n_prompt,
                                            cudaStream_t stream)
{
  if (n_tokens == 0) return cudaSuccess;
  count_kernel<<<(n_tokens + 255) / 256, 256, 0, stream>>>(counts, tokens, n_tokens, n_prompt);
  return cudaGetLastError();
}
