/* sample_rows.cu - the sampling kernel: sampler.h describes the data flow, kernels/cpu/cpu_sample.c defines each
 * step. */
#include "kernels/cuda/sampling/sample_rows.h"

#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/sampling/candidates.cuh"
#include "kernels/cuda/sampling/prefix_search.cuh"

using namespace yk_cuda;
using namespace yk_ptx;
using namespace yk_sample;

namespace {

/* Thread blocks of a cluster, on GPUs that have clusters. The shared memory of eight holds a row of YK_CUDA_MAX_VOCAB
 * scaled logits. */
constexpr int SAMPLE_CLUSTER_BLOCKS = 8;
static_assert(sizeof(shared_state<SAMPLE_CLUSTER_BLOCKS>) + YK_CUDA_MAX_VOCAB / SAMPLE_CLUSTER_BLOCKS * sizeof(float) <
                  227 * 1024,
              "a slice fits");

/* ---- Filters ----------------------------------------------------------------------------------------------------- */

/* Keep the k largest logits, and every logit equal to the k-th. */
template <int CLUSTER> __device__ void keep_top_k(shared_state<CLUSTER> &shared, row_view &v, int32_t k)
{
  const auto add = [&](float, uint32_t, uint32_t bin) { atomicAdd(&shared.bins[0][bin], 1u); };
  const auto test = [&](unsigned long long sum) { return sum >= static_cast<unsigned long long>(k); };
  const nearest_bin nearest = find_nearest_bin(
      shared, v, {}, add, [](unsigned long long) {}, test);
  const selection e = radix_select(shared, v, nearest, add, test);
  v.lowest_key = e.key;
  v.lowest = value_of(e.key);
}

/* Whether min_p and top_k keep a scaled logit. */
__device__ bool passes_thresholds(const row_view &v, uint32_t key, float weight)
{
  return key >= v.lowest_key && weight >= v.params->row.min_p;
}

/* Whether min_p, top_k and top_p keep an id. */
__device__ bool is_kept(const row_view &v, int32_t id, float s, float weight)
{
  const uint32_t key = key_of(s);
  return passes_thresholds(v, key, weight) && (key > v.last_key || (key == v.last_key && id <= v.last_id));
}

/* Among the ids that min_p and top_k keep, keep the shortest prefix, by falling logit and then rising id, whose weight
 * is at least top_p of their total weight, *total. If top_k is off and few logits may be among them, returns true with
 * these collected instead. */
template <int CLUSTER>
__device__ bool keep_top_p(shared_state<CLUSTER> &shared, row_view &v, float top_p, unsigned long long *total)
{
  double target = 0.0; /* fixed-point, as are all weights here */
  const auto add = [&](float s, uint32_t value_key, uint32_t bin) {
    if (s < v.lowest) return;
    const float weight = weight_of(v, s);
    if (!passes_thresholds(v, value_key, weight)) return;
    unsigned long long fixed = to_fixed_point(weight);
    for (int limb = 0; fixed; limb++, fixed >>= LIMB_BITS)
      if (fixed & ((1u << LIMB_BITS) - 1))
        atomicAdd(&shared.bins[limb][bin], static_cast<uint32_t>(fixed & ((1u << LIMB_BITS) - 1)));
  };
  const auto after = [&](unsigned long long sum) {
    *total = sum;
    target = static_cast<double>(top_p) * static_cast<double>(sum);
  };
  const auto test = [&](unsigned long long sum) { return static_cast<double>(sum) >= target; };
  const nearest_bin nearest = find_nearest_bin(shared, v, {.lower = v.lowest}, add, after, test);
  const float lower = distance_bounds(v, nearest.distance).lower;
  if (!v.has_top_k && collect(shared, v, [&](auto append) {
        for_each_scaled(v, {.lower = lower}, [&](int32_t id, float s) {
          if (s >= lower) append(id, s);
        });
      }))
    return true;
  const selection e = radix_select(shared, v, nearest, add, test);
  const double weight = static_cast<double>(to_fixed_point(weight_of(v, value_of(e.key))));
  const double n_kept =
      /* number of logits equal to e.key's that are kept */
      fmax(1.0, ceil((target - static_cast<double>(e.above)) / weight));
  v.last_key = e.key;
  v.lowest = value_of(e.key);
  if (n_kept * weight >= static_cast<double>(e.sum)) return false; /* all of them */
  /* The n_kept-th id of this key: the target is half a count below n_kept, so this id is the first above the target. */
  v.last_id = find_id(
      shared, v, [&](int32_t, float s) { return key_of(s) == e.key ? 1.0 : 0.0; },
      [&](double) { return n_kept - 0.5; });
  return false;
}

/* Scale the logits of the slice once, for all passes that follow. */
__device__ void scale_slice(const row_view &v)
{
  for_each_logit(v, [&](int32_t id, float logit) { v.slice[id - v.begin] = scaled(v, logit); });
  __syncthreads();
}

/* Filter and draw. The cluster's first thread block returns the id. */
template <int CLUSTER> __device__ int32_t sample_filtered(shared_state<CLUSTER> &shared, row_view &v)
{
  const yk_sample_row &p = v.params->row;
  unsigned long long total = 0;
  v.has_top_k = p.top_k > 0 && p.top_k < v.n;
  if (v.has_top_k && collect_top_k(shared, v, p.top_k)) return draw_candidate(shared, v, 0);
  if (v.slice) scale_slice(v);
  if (v.has_top_k) keep_top_k(shared, v, p.top_k);
  if (p.top_p < 1.0f && keep_top_p(shared, v, p.top_p, &total)) return draw_candidate(shared, v, total);
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

/* ---- A row ------------------------------------------------------------------------------------------------------- */

/* Add the biases to the logits that the passes read, until restore_biases. The functions that read logits then need no
 * case for biases. A thread block changes only ids of its own slice. */
__device__ void apply_biases(const row_view &v)
{
  for (int32_t i = threadIdx.x; i < v.params->row.n_biases; i += THREADS) {
    const int32_t id = v.params->biases[i].token_id;
    if (id < v.begin || id >= v.end) continue;
    float *logit = logit_in_slice(v, id);
    v.params->raw_at_biases[i] = *logit;
    *logit = __fadd_rn(*logit, v.params->biases[i].bias);
  }
  __syncthreads();
}

/* The words that load_mask copies, in place of histograms, which follow. */
template <int CLUSTER> __device__ uint32_t *mask_words(shared_state<CLUSTER> &shared)
{
  static_assert(CLUSTER == 1 || YK_CUDA_MAX_VOCAB / CLUSTER / 32 + 1 < N_LIMBS * N_BINS, "the words of a slice fit");
  return shared.bins[0];
}

/* Exclude the ids outside the mask from the passes. A slice in shared memory is changed; logits in global memory are
 * not, and the functions that read them apply the mask. */
template <int CLUSTER> __device__ void apply_mask(shared_state<CLUSTER> &shared, row_view &v)
{
  if (!v.slice) {
    v.mask = v.params->mask;
    return;
  }
  const uint32_t *words = mask_words(shared);
#pragma unroll 4
  for (int32_t id = v.begin + threadIdx.x; id < v.end; id += THREADS)
    if (!(words[id / 32 - v.begin / 32] >> (id % 32) & 1)) v.slice[id - v.begin] = -INFINITY;
  __syncthreads();
}

/* Restore the raw logits, if the biases were added in global memory. */
__device__ void restore_biases(const row_view &v)
{
  if (v.slice) return;
  __syncthreads();
  for (int32_t i = threadIdx.x; i < v.params->row.n_biases; i += THREADS) {
    const int32_t id = v.params->biases[i].token_id;
    if (id >= v.begin && id < v.end) *logit_of(v, id) = v.params->raw_at_biases[i];
  }
  __syncthreads();
}

/* The n_top_logprobs best raw logits and their log-probabilities: one pass over the row for each. */
template <int CLUSTER>
__device__ void report_top(shared_state<CLUSTER> &shared, row_view &v, double log_sum, yk_sampled *out)
{
  best last = {INFINITY, NO_ID};
  const int32_t n_wanted = min(v.params->row.n_top_logprobs, static_cast<int32_t>(YK_MAX_TOP_LOGPROBS));
  for (int32_t i = 0; i < n_wanted; i++) {
    last = find_next(shared, v, last);
    if (last.id == NO_ID) return;
    if (threadIdx.x != 0) continue;
    out->n_top = i + 1;
    out->top_ids[i] = last.id;
    out->top_logprobs[i] = static_cast<float>(static_cast<double>(last.value) - log_sum);
  }
}

/* Choose a row's token, with mask, biases and penalties, and count it in the penalty slot. highest: the best raw logit.
 * Returns NO_ID if mask and biases ban every id. */
template <int CLUSTER>
__device__ int32_t choose(shared_state<CLUSTER> &shared, row_view &v, best highest, uint32_t *counts)
{
  const yk_sample_row &p = v.params->row;
  if (p.has_mask) apply_mask(shared, v);
  if (p.n_biases > 0) apply_biases(v);
  if (p.has_penalties) v.counts = counts;
  if (p.has_mask || p.n_biases > 0 || p.has_penalties) highest = find_maximum(shared, v);
  int32_t id = highest.id;
  if (id != NO_ID) {
    v.temperature = p.temperature;
    v.maximum = scaled(v, highest.value);
    /* A temperature so low that the largest logit overflows leaves only that logit. */
    if (p.temperature >= 1e-5f && isfinite(v.maximum)) id = sample_filtered(shared, v);
  }
  v.counts = nullptr;
  v.mask = nullptr;
  if (p.n_biases > 0) restore_biases(v);
  if (p.has_penalties && id != NO_ID && threadIdx.x == 0 && rank_in_cluster<CLUSTER>() == 0)
    counts[id] += YK_CUDA_COUNT_OUTPUT;
  return id;
}

/* Views an object of T as words that threads copy one by one. */
template <typename T> constexpr int WORDS = sizeof(T) / sizeof(uint32_t);

template <typename T> __device__ uint32_t *words_of(T *object)
{
  return reinterpret_cast<uint32_t *>(object);
}

template <typename T> __device__ const uint32_t *words_of(const T *object)
{
  return reinterpret_cast<const uint32_t *>(object);
}

template <int CLUSTER>
__global__ void __launch_bounds__(THREADS, 2) sample_kernel(const __grid_constant__ yk_cuda_sample_launch a)
{
  __shared__ shared_state<CLUSTER> shared;
  extern __shared__ __align__(16) float slice[];
  const int32_t index = blockIdx.x / CLUSTER;
  const int word = threadIdx.x;
  static_assert(WORDS<yk_cuda_sample_row> <= THREADS && WORDS<yk_sampled> <= THREADS);
  const uint32_t params = word < WORDS<yk_cuda_sample_row> ? words_of(&a.rows[index])[word] : 0;
  row_view v = {};
  v.a = &a;
  v.params = &shared.params;
  v.slice = CLUSTER > 1 ? slice : nullptr;
  v.row = a.first_row + static_cast<int64_t>(index);
  v.n = a.shard_first[a.n_shards];
  v.begin = min(v.n, rank_in_cluster<CLUSTER>() * slice_ids(v.n, CLUSTER));
  v.end = min(v.n, v.begin + slice_ids(v.n, CLUSTER));
  v.last_id = NO_ID;
  v.lowest = -INFINITY;
  wait_for_previous_kernel();
  if (v.slice) load_slice(v);
  if (word < WORDS<yk_cuda_sample_row>) words_of(&shared.params)[word] = params;
  if (word < WORDS<yk_sampled>) words_of(&shared.sampled)[word] = 0;
  sync_cluster<CLUSTER>(); /* other thread blocks may write to this one's shared memory once all have started */
  const yk_sample_row &p = v.params->row;
  if (v.slice && p.has_mask) load_mask(v, mask_words(shared));
  if (v.slice) wait_for_slice();
  yk_sampled *out = &shared.sampled; /* only that of the cluster's first thread block is used */
  const best highest = find_maximum(shared, v);
  int32_t id = NO_ID;
  double log_sum = 0.0;
  yk_row_state state = YK_ROW_SAMPLED;
  if (highest.id == NO_ID) {
    state = fault_of(shared, v);
  } else {
    if (p.want_logprob || p.n_top_logprobs > 0) log_sum = log_sum_exp(shared, v, highest.value);
    if (p.n_top_logprobs > 0) report_top(shared, v, log_sum, out);
    uint32_t *counts = a.counts + static_cast<int64_t>(p.penalty_slot) * a.vocab;
    id = p.is_forced ? p.forced_id : choose(shared, v, highest, counts);
    if (id == NO_ID) state = YK_ROW_BANNED;
  }
  if (threadIdx.x == 0) {
    out->state = state;
    out->token_id = id == NO_ID ? -1 : id;
    if (id != NO_ID && p.want_logprob)
      out->logprob = static_cast<float>(static_cast<double>(*logit_of(v, id)) - log_sum);
  }
  __syncthreads();
  if (rank_in_cluster<CLUSTER>() == 0 && word < WORDS<yk_sampled>) words_of(&a.out[index])[word] = words_of(out)[word];
  /* A thread block may end: all accesses of others to its shared memory happen before the last all_gather. */
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
  bool has_clusters;
  cudaError_t error =
      has_code_for_90(reinterpret_cast<const void *>(sample_kernel<SAMPLE_CLUSTER_BLOCKS>), &has_clusters);
  if (error != cudaSuccess) return error;
  const dim3 grid(static_cast<unsigned>(launch->n_launched));
  if (!has_clusters) return launch_dependent(sample_kernel<1>, {grid, THREADS, 0, 1}, stream, *launch);
  const size_t slice_bytes = slice_ids(launch->shard_first[launch->n_shards], SAMPLE_CLUSTER_BLOCKS) * sizeof(float);
  error = cudaFuncSetAttribute(sample_kernel<SAMPLE_CLUSTER_BLOCKS>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(slice_bytes));
  if (error != cudaSuccess) return error;
  return launch_dependent(sample_kernel<SAMPLE_CLUSTER_BLOCKS>,
                          {dim3(grid.x * SAMPLE_CLUSTER_BLOCKS), THREADS, slice_bytes, SAMPLE_CLUSTER_BLOCKS}, stream,
                          *launch);
}

extern "C" cudaError_t yk_cuda_launch_count(uint32_t *counts, const int32_t *tokens, int32_t n_tokens, int32_t n_prompt,
                                            cudaStream_t stream)
{
  if (n_tokens == 0) return cudaSuccess;
  count_kernel<<<(n_tokens + 255) / 256, 256, 0, stream>>>(counts, tokens, n_tokens, n_prompt);
  return cudaGetLastError();
}
