/* combine_rows.cuh - device code: what the experts of a row give, weighted and added, for vectors of the row. A thread
 * asks for the slots of all choices of a vector before it adds the first. */
#ifndef YK_KERNELS_CUDA_EXPERTS_COMBINE_ROWS_CUH
#define YK_KERNELS_CUDA_EXPERTS_COMBINE_ROWS_CUH

#include "kernels/cuda/common/elements.cuh"
#include "kernels/experts.h"

namespace yk_experts {

constexpr int CHOICES_AHEAD = 8; /* choices whose slots are asked for together */

/* Vector i, of N elements, of what yk_combine_args defines for a row. */
template <typename T, int N>
__device__ __forceinline__ yk_cuda::vec<T, N> combine_vector(const yk_combine_args &p, int64_t row, int i)
{
  using V = yk_cuda::vec<T, N>;
  const int n = p.hidden / N;
  const V *slots = static_cast<const V *>(p.slots);
  float sum[N] = {};
  for (int first = 0; first < p.top_k; first += CHOICES_AHEAD) {
    int slot[CHOICES_AHEAD];
    float weight[CHOICES_AHEAD];
    V v[CHOICES_AHEAD];
#pragma unroll
    for (int j = 0; j < CHOICES_AHEAD; j++) {
      const bool is_there = first + j < p.top_k;
      slot[j] = is_there ? p.slot_of_choice[row * p.top_k + first + j] : -1;
      weight[j] = is_there ? p.weights[row * p.top_k + first + j] : 0.0f;
    }
#pragma unroll
    for (int j = 0; j < CHOICES_AHEAD; j++)
      if (slot[j] >= 0) v[j] = slots[static_cast<int64_t>(slot[j]) * n + i];
#pragma unroll
    for (int j = 0; j < CHOICES_AHEAD; j++) {
      if (slot[j] < 0) continue;
#pragma unroll
      for (int e = 0; e < N; e++) sum[e] += weight[j] * yk_cuda::to_float(v[j].at[e]);
    }
  }
  if (p.shared) {
    const V v = static_cast<const V *>(p.shared)[row * n + i];
    const float factor = p.shared_gate ? 1.0f / (1.0f + expf(-p.shared_gate[row * p.shared_gate_stride])) : 1.0f;
#pragma unroll
    for (int e = 0; e < N; e++) sum[e] += yk_cuda::to_float(v.at[e]) * factor;
  }
  V out;
#pragma unroll
  for (int e = 0; e < N; e++) out.at[e] = yk_cuda::from_float<T>(sum[e]);
  return out;
}

} // namespace yk_experts

#endif
