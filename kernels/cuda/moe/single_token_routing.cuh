/* single_token_routing.cuh - the routing of a single token, by one warp of every thread block. The choice comes first
 * because weight copies wait for it; the weights of the slots are computed once the copies have been issued. */
#ifndef YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_ROUTING_CUH
#define YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_ROUTING_CUH

#include "kernels/cuda/moe/single_token_params.cuh"

namespace yk_moe {

/* Called by one warp: reads the logits of each lane's experts and of the shared expert's gate, once they have
 * arrived. */
template <int PER_LANE>
__device__ __forceinline__ void gather_row(const single_token_params &p, const logits_words &from,
                                           single_token_memory &row, float (&logits)[PER_LANE])
{
  const bool has_gate = p.sum.shared_gate != nullptr;
  uint32_t gate_logit;
  gather_logits(from, p.route.spec.n_experts, logits, [&] {
    gate_logit = load_relaxed_gpu(&from.gate_logit);
    return has_gate && gate_logit == EMPTY_WORD;
  });
  if (threadIdx.x % WARP > 0) return;
  row.weight[YK_MAX_TOP_K] = has_gate ? 1.0f / (1.0f + expf(-__uint_as_float(gate_logit))) : 1.0f;
}

/* Called by one warp, on shared memory: writes the top_k experts with the largest keys. Each lane first sorts its keys,
 * so a round is one maximum over the warp. Two lanes rarely hold equal keys; then take_largest repeats the choice. */
template <int PER_LANE>
__device__ __forceinline__ void choose_by_keys(int top_k, uint32_t (&keys)[PER_LANE], int *chosen)
{
  const int lane = threadIdx.x % WARP;
  uint32_t sorted[PER_LANE];
  int expert[PER_LANE];
  bool has_equal = false;
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    sorted[i] = keys[i];
    expert[i] = i * WARP + lane;
  }
#pragma unroll
  for (int end = PER_LANE - 1; end > 0; end--) {
#pragma unroll
    for (int i = 0; i < end; i++) {
      const bool swap = sorted[i + 1] > sorted[i];
      const uint32_t key = sorted[i];
      const int e = expert[i];
      sorted[i] = swap ? sorted[i + 1] : key;
      expert[i] = swap ? expert[i + 1] : e;
      sorted[i + 1] = swap ? key : sorted[i + 1];
      expert[i + 1] = swap ? e : expert[i + 1];
    }
  }
#pragma unroll 2
  for (int j = 0; j < top_k; j++) {
    const bool is_mine = sorted[0] == __reduce_max_sync(ALL_LANES, sorted[0]);
    const unsigned lanes = __ballot_sync(ALL_LANES, is_mine);
    has_equal |= (lanes & (lanes - 1)) != 0;
    if (is_mine) chosen[j] = expert[0];
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
      sorted[i] = !is_mine ? sorted[i] : i + 1 < PER_LANE ? sorted[i + 1] : 0;
      expert[i] = is_mine && i + 1 < PER_LANE ? expert[i + 1] : expert[i];
    }
  }
  if (has_equal) {
#pragma unroll 1
    for (int j = 0; j < top_k; j++) {
      const int e = take_largest(keys, lane);
      if (lane == 0) chosen[j] = e;
    }
  }
  __syncwarp();
}

/* Called by one warp, on shared memory: computes scores, choices and slots. */
template <int PER_LANE>
__device__ __forceinline__ void route_single_token(const single_token_params &p, const logits_words &from,
                                                   single_token_memory &row)
{
  const yk_route_spec &spec = p.route.spec;
  const int lane = threadIdx.x % WARP;
  const bool is_padding = p.route.kv_slots && p.route.kv_slots[0] < 0;
  float scores[PER_LANE], biases[PER_LANE];
  uint32_t keys[PER_LANE];
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    const int e = i * WARP + lane;
    biases[i] = p.route.bias && e < spec.n_experts ? p.route.bias[e] : 0.0f;
  }
  gather_row(p, from, row, scores);
  const bool is_finite = score(spec, scores);
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    const int e = i * WARP + lane;
    keys[i] = e < spec.n_experts ? key_of(scores[i] + biases[i]) : 0;
    row.scores[e] = scores[i];
  }
  if (is_finite) {
    if (spec.n_groups > 1) keep_groups(spec, keys, row.keys, lane);
    choose_by_keys(spec.top_k, keys, row.chosen);
  }
  const int expert = lane >= spec.top_k || is_padding ? -1 : is_finite ? row.chosen[lane] : lane;
  const int matrix = expert - spec.first_local;
  const bool is_local = expert >= 0 && static_cast<unsigned>(matrix) < static_cast<unsigned>(spec.n_local);
  const unsigned local = __ballot_sync(ALL_LANES, is_local);
  if (is_local) row.matrix[__popc(local & ((1u << lane) - 1))] = matrix;
  row.chosen[lane] = expert;
  if (lane > 0) return;
  row.is_finite = is_finite;
  row.n_slots = __popc(local);
}

/* Number of slots of the rank's experts below number e. choices: of the row, [top_k]. */
__device__ __forceinline__ int slots_below(const yk_route_spec &spec, const int *choices, int e)
{
  int slots = 0;
#pragma unroll 1
  for (int i = 0; i < spec.top_k; i++)
    slots += static_cast<unsigned>(choices[i] - spec.first_local) < static_cast<unsigned>(e);
  return slots;
}

/* Called by one warp: computes the weights of the slots; if `writes`, also writes the outputs of a route except the
 * starts. */
__device__ __forceinline__ void weigh_slots(const single_token_params &p, single_token_memory &row, bool writes)
{
  const yk_route_spec &spec = p.route.spec;
  const int lane = threadIdx.x % WARP, expert = row.chosen[lane], matrix = expert - spec.first_local;
  const bool is_local = expert >= 0 && static_cast<unsigned>(matrix) < static_cast<unsigned>(spec.n_local);
  const unsigned local = __ballot_sync(ALL_LANES, is_local);
  float weight = expert >= 0 ? row.scores[expert] : 0.0f;
  if (spec.normalise) {
    float sum = 0.0f; /* in the order of the choices */
#pragma unroll 1
    for (int j = 0; j < spec.top_k; j++) sum += __shfl_sync(ALL_LANES, weight, j);
    weight /= sum + 1e-20f;
  }
  weight *= spec.scale;
  if (!row.is_finite) weight = __uint_as_float(0x7FC00000u);
  if (is_local) row.weight[__popc(local & ((1u << lane) - 1))] = weight;
  if (!writes || lane >= spec.top_k) return;
  const int slot = is_local ? slots_below(spec, row.chosen, matrix) : -1;
  p.route.choices[lane] = expert;
  p.route.weights[lane] = expert >= 0 ? weight : 0.0f;
  p.route.slot_of_choice[lane] = slot;
  if (is_local) p.route.row_of_slot[slot] = 0;
  if (p.route.counts && expert >= 0) atomicAdd(reinterpret_cast<unsigned long long *>(p.route.counts) + expert, 1ull);
}

/* Called by all threads of a block. */
__device__ __forceinline__ void write_starts(const single_token_params &p, const single_token_memory &row)
{
  static_assert(SINGLE_TOKEN_THREADS > ROUTED_EXPERTS, "a thread for each start");
  const int e = threadIdx.x;
  if (e <= p.route.spec.n_local) p.route.starts[e] = slots_below(p.route.spec, row.chosen, e);
}

} // namespace yk_moe

#endif
