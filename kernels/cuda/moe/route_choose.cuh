/* route_choose.cuh - one warp chooses the experts of one row. Lane l keeps experts l, l + 32, ... in registers. */
#ifndef YK_KERNELS_CUDA_MOE_ROUTE_CHOOSE_CUH
#define YK_KERNELS_CUDA_MOE_ROUTE_CHOOSE_CUH

#include <cuda_runtime.h>

#include <cfloat>
#include <cstdint>

#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"
#include "kernels/experts.h"

namespace yk_moe {

using namespace yk_cuda;

struct route_params {
  yk_route_spec spec;
  const float *logits;
  int64_t logits_stride;
  const float *bias;
  const int32_t *kv_slots;
  int32_t n_tokens;
  int32_t block_rows; /* rows per thread block, at most 32 */
  int32_t *choices;
  float *weights;
  int32_t *starts, *row_of_slot, *slot_of_choice;
  int64_t *counts;
  int32_t *scratch; /* [blocks, n_local] */
  const float *expert_scales;
};

/* Integers in the order of the floats, all above 0. A key of 0 marks an expert that may not be chosen. -0 counts as
 * 0. */
__device__ __forceinline__ uint32_t key_of(float x)
{
  const uint32_t bits = __float_as_uint(x + 0.0f);
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float value_of(uint32_t key)
{
  return __uint_as_float(key & 0x80000000u ? key & 0x7FFFFFFFu : ~key);
}

/* Returns the index of the largest key, the lower index among equal keys: key i of lane l has index i * 32 + l. Sets
 * that key to 0. Two lanes rarely hold equal largest keys, so only then the function searches for the lower index. */
template <int PER_LANE> __device__ __forceinline__ int take_largest(uint32_t (&keys)[PER_LANE], int lane)
{
  uint32_t own = keys[0];
  int at = lane;
#pragma unroll
  for (int i = 1; i < PER_LANE; i++) {
    if (keys[i] > own) at = i * WARP + lane;
    own = max(own, keys[i]);
  }
  bool is_mine = own == __reduce_max_sync(ALL_LANES, own);
  unsigned lanes = __ballot_sync(ALL_LANES, is_mine);
  if ((lanes & (lanes - 1)) != 0) {
    is_mine = at == __reduce_min_sync(ALL_LANES, is_mine ? at : INT32_MAX);
    lanes = __ballot_sync(ALL_LANES, is_mine);
  }
#pragma unroll
  for (int i = 0; i < PER_LANE; i++)
    if (is_mine && at == i * WARP + lane) keys[i] = 0;
  return __shfl_sync(ALL_LANES, at, __ffs(static_cast<int>(lanes)) - 1);
}

/* Returns the warp's value at each lane's index. */
template <int PER_LANE> __device__ __forceinline__ float value_at(const float (&values)[PER_LANE], int index)
{
  float found = 0.0f;
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    const float value = __shfl_sync(ALL_LANES, values[i], index % WARP);
    if (index / WARP == i) found = value;
  }
  return found;
}

/* Clears the keys of all groups but the best. keys_of: memory of the warp, [n_experts]. */
template <int PER_LANE>
__device__ void keep_groups(const yk_route_spec &spec, uint32_t (&keys)[PER_LANE], uint32_t *keys_of, int lane)
{
  constexpr int GROUPS = YK_MAX_EXPERT_GROUPS / WARP;
  const int size = spec.n_experts / spec.n_groups;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < PER_LANE; i++)
    if (i * WARP + lane < spec.n_experts) keys_of[i * WARP + lane] = keys[i];
  __syncwarp();
  uint32_t of_group[GROUPS] = {};
  for (int i = 0; i < GROUPS; i++) {
    const int group = i * WARP + lane;
    if (group >= spec.n_groups) continue;
    uint32_t first = 0, second = 0;
    for (int e = 0; e < size; e++) {
      const uint32_t key = keys_of[group * size + e];
      second = max(second, min(first, key));
      first = max(first, key);
    }
    of_group[i] = spec.group_score == YK_GROUP_SCORE_MAXIMUM ? first : key_of(value_of(first) + value_of(second));
  }
  uint32_t kept[GROUPS] = {};
  for (int n = 0; n < spec.top_groups; n++) {
    const int group = take_largest(of_group, lane);
    for (int i = 0; i < GROUPS; i++) kept[i] |= group / WARP == i ? 1u << group % WARP : 0u;
  }
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    const int group = (i * WARP + lane) / size;
    uint32_t word = kept[0];
    for (int j = 1; j < GROUPS; j++) word = group / WARP == j ? kept[j] : word;
    if (!(word >> group % WARP & 1)) keys[i] = 0;
  }
}

/* Loads a row's logits, for existing experts. */
template <int PER_LANE>
__device__ __forceinline__ void load_logits(const float *logits, int n, int lane, float (&to)[PER_LANE])
{
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) to[i] = i * WARP + lane < n ? logits[i * WARP + lane] : -FLT_MAX;
}

/* Turns logits, -FLT_MAX for missing experts, into scores; returns false if one is a NaN or an infinity. */
template <int PER_LANE> __device__ bool score(const yk_route_spec &spec, float (&scores)[PER_LANE])
{
  bool finite = true;
  float most = -FLT_MAX;
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    finite = finite && fabsf(scores[i]) <= FLT_MAX;
    most = fmaxf(most, scores[i]);
  }
  if (!__all_sync(ALL_LANES, finite)) return false;
  if (spec.scoring == YK_SCORE_SIGMOID) {
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) scores[i] = 1.0f / (1.0f + expf(-scores[i]));
    return true;
  }
  most = value_of(__reduce_max_sync(ALL_LANES, key_of(most)));
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    scores[i] = expf(scores[i] - most); /* 0 for missing experts */
    sum += scores[i];
  }
  const float share = 1.0f / warp_sum(sum);
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) scores[i] *= share;
  return true;
}

/* Selects the top_k largest keys in the order of repeated take_largest calls: writes their indices to chosen, memory of
 * the warp. Returns the lane's own selected keys, one bit each. Only the maximum over the warp depends on the preceding
 * round. If keys are equal, a round takes several of them: the total then differs from top_k, and the selection is
 * repeated by take_largest. */
template <int PER_LANE>
__device__ __forceinline__ uint32_t take_largest(int n, const uint32_t (&keys)[PER_LANE], int lane, int *chosen)
{
  uint32_t rest[PER_LANE], taken = 0;
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) rest[i] = keys[i];
#pragma unroll 2
  for (int choice = 0; choice < n; choice++) {
    uint32_t most = rest[0];
#pragma unroll
    for (int i = 1; i < PER_LANE; i++) most = max(most, rest[i]);
    most = __reduce_max_sync(ALL_LANES, most);
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) {
      if (rest[i] != most) continue;
      chosen[choice] = i * WARP + lane;
      taken |= 1u << i;
      rest[i] = 0;
    }
  }
  if (__reduce_add_sync(ALL_LANES, __popc(taken)) != n) {
    taken = 0;
#pragma unroll
    for (int i = 0; i < PER_LANE; i++) rest[i] = keys[i];
#pragma unroll 1
    for (int choice = 0; choice < n; choice++) {
      const int index = take_largest(rest, lane);
      if (index % WARP == lane) taken |= 1u << index / WARP;
      if (lane == 0) chosen[choice] = index;
    }
  }
  __syncwarp();
  return taken;
}

/* Chooses the experts of a row from its scores: writes the choices to chosen, memory of the warp. Returns the lane's
 * own chosen experts: bit i is expert i * 32 + lane. */
template <int PER_LANE>
__device__ __forceinline__ uint32_t choose_experts(const route_params &p, const float (&scores)[PER_LANE],
                                                   uint32_t *keys_of, int lane, int *chosen)
{
  uint32_t keys[PER_LANE];
#pragma unroll
  for (int i = 0; i < PER_LANE; i++) {
    const int e = i * WARP + lane;
    const float bias = p.bias && e < p.spec.n_experts ? p.bias[e] : 0.0f;
    keys[i] = e < p.spec.n_experts ? key_of(scores[i] + bias) : 0;
  }
  if (p.spec.n_groups > 1) keep_groups(p.spec, keys, keys_of, lane);
  return take_largest(p.spec.top_k, keys, lane, chosen);
}

/* The weight of the lane's expert for the row. */
template <int PER_LANE>
__device__ __forceinline__ float weight_of_lane(const yk_route_spec &spec, const float (&scores)[PER_LANE], int expert)
{
  float weight = value_at(scores, expert);
  if (spec.normalise) {
    float sum = 0.0f; /* in the order of the choices */
#pragma unroll 8
    for (int j = 0; j < spec.top_k; j++) sum += __shfl_sync(ALL_LANES, weight, j);
    weight /= sum + 1e-20f;
  }
  return weight * spec.scale;
}

/* The same with the expert's own factor. */
template <int PER_LANE>
__device__ __forceinline__ float scaled_weight_of_lane(const route_params &p, const float (&scores)[PER_LANE],
                                                       int expert)
{
  const float weight = weight_of_lane(p.spec, scores, expert);
  return p.expert_scales ? weight * p.expert_scales[expert] : weight;
}

/* Called by one warp: writes choices and weights of a row, number `bit` of its block, and sets its bit in the word of
 * each chosen expert. choices: of the row, in shared memory. */
template <int PER_LANE>
__device__ void choose(const route_params &p, int row, int bit, uint32_t *chosen, int *choices, uint32_t *keys_of)
{
  const yk_route_spec &spec = p.spec;
  const int lane = threadIdx.x % WARP, top_k = spec.top_k, at = row * top_k + lane;
  if (p.kv_slots && p.kv_slots[row] < 0) {
    if (lane < top_k) {
      p.choices[at] = choices[lane] = -1;
      p.weights[at] = 0.0f;
    }
    return;
  }
  float scores[PER_LANE];
  int expert = lane; /* choice number `lane` of the row */
  float weight = __uint_as_float(0x7FC00000u);
  load_logits(p.logits + row * p.logits_stride, spec.n_experts, lane, scores);
  if (score(spec, scores)) {
    choose_experts(p, scores, keys_of, lane, choices);
    expert = lane < top_k ? choices[lane] : 0;
    weight = scaled_weight_of_lane(p, scores, expert);
  }
  if (lane >= top_k) return;
  p.choices[at] = choices[lane] = expert;
  p.weights[at] = weight;
  atomicOr(chosen + expert, 1u << bit);
}

} // namespace yk_moe

#endif
