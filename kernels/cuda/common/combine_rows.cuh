/* combine_rows.cuh - device code: the weighted sum of the experts' outputs of a row, for vectors of the row. A thread
 * issues the loads of several slots of a vector before it adds the first. */
#ifndef YK_KERNELS_CUDA_COMMON_COMBINE_ROWS_CUH
#define YK_KERNELS_CUDA_COMMON_COMBINE_ROWS_CUH

#include <type_traits>

#include "kernels/cuda/common/elements.cuh"
#include "kernels/experts.h"

namespace yk_cuda {

constexpr int CHOICES_AHEAD = 8; /* choices whose slots are loaded together */

/* Slots and weights of a few choices of a row. */
struct few_choices {
  int slots[CHOICES_AHEAD]; /* -1: adds nothing */
  float weights[CHOICES_AHEAD];
};

/* A row's choices in device memory. AHEAD: the choices are read before the wait for the preceding kernel, and therefore
 * past the L1 cache, which may hold an older row. After the wait that would take longer. */
template <bool AHEAD> struct choices_in_memory {
  const yk_combine_args &p;
  int64_t row;

  __device__ __forceinline__ few_choices from(int first) const
  {
    few_choices few;
#pragma unroll
    for (int j = 0; j < CHOICES_AHEAD; j++) {
      const bool is_there = first + j < p.top_k;
      if constexpr (AHEAD) {
        few.slots[j] = is_there ? __ldcg(p.slot_of_choice + row * p.top_k + first + j) : -1;
        few.weights[j] = is_there ? __ldcg(p.weights + row * p.top_k + first + j) : 0.0f;
      } else {
        few.slots[j] = is_there ? p.slot_of_choice[row * p.top_k + first + j] : -1;
        few.weights[j] = is_there ? p.weights[row * p.top_k + first + j] : 0.0f;
      }
    }
    return few;
  }
};

/* The same in shared memory, read by the block after a barrier. */
struct choices_in_block {
  few_choices all[(YK_MAX_TOP_K + CHOICES_AHEAD - 1) / CHOICES_AHEAD];

  /* Called by the block, one thread per choice. Reads past the L1 cache, which may hold older values. */
  __device__ __forceinline__ void load(const yk_combine_args &p, int64_t row)
  {
    for (int j = threadIdx.x; j < YK_MAX_TOP_K; j += blockDim.x) {
      const bool is_there = j < p.top_k;
      few_choices &few = all[j / CHOICES_AHEAD];
      few.slots[j % CHOICES_AHEAD] = is_there ? __ldcg(p.slot_of_choice + row * p.top_k + j) : -1;
      few.weights[j % CHOICES_AHEAD] = is_there ? __ldcg(p.weights + row * p.top_k + j) : 0.0f;
    }
  }

  __device__ __forceinline__ const few_choices &from(int first) const
  {
    return all[first / CHOICES_AHEAD];
  }
};

/* Vector i, of N elements, of the result that yk_combine_args defines for a row of these choices. */
template <typename T, int N, typename CHOICES>
__device__ __forceinline__ vec<T, N> combine_vector(const yk_combine_args &p, int64_t row, int i,
                                                    const CHOICES &choices)
{
  using V = vec<T, N>;
  const int n = p.hidden / N;
  /* single elements would occupy a register each */
  using words = std::conditional_t<sizeof(V) == sizeof(uint4), uint4, V>;
  const words *slots = static_cast<const words *>(p.slots);
  float sum[N] = {};
  for (int first = 0; first < p.top_k; first += CHOICES_AHEAD) {
    const few_choices &few = choices.from(first);
    words v[CHOICES_AHEAD];
#pragma unroll
    for (int j = 0; j < CHOICES_AHEAD; j++)
      if (few.slots[j] >= 0) v[j] = slots[static_cast<int64_t>(few.slots[j]) * n + i];
#pragma unroll
    for (int j = 0; j < CHOICES_AHEAD; j++) {
      if (few.slots[j] < 0) continue;
      const V of_slot = *reinterpret_cast<const V *>(v + j);
#pragma unroll
      for (int e = 0; e < N; e++) sum[e] += few.weights[j] * to_float(of_slot.at[e]);
    }
  }
  if (p.shared) {
    const V v = static_cast<const V *>(p.shared)[row * n + i];
    const float factor = p.shared_gate ? 1.0f / (1.0f + expf(-p.shared_gate[row * p.shared_gate_stride])) : 1.0f;
#pragma unroll
    for (int e = 0; e < N; e++) sum[e] += to_float(v.at[e]) * factor;
  }
  V out;
#pragma unroll
  for (int e = 0; e < N; e++) out.at[e] = from_float<T>(sum[e]);
  return out;
}

template <typename T, int N>
__device__ __forceinline__ vec<T, N> combine_vector(const yk_combine_args &p, int64_t row, int i)
{
  return combine_vector<T, N>(p, row, i, choices_in_memory<false>{p, row});
}

} // namespace yk_cuda

#endif
