/* prefill_wgmma_splits.cuh - partial results of split work tiles of prefill on Hopper, and their combination.
 *
 * A consumer warp writes its 16 rows of a split to the workspace and counts them: the count of a warp's rows belongs to
 * the first split. The warp that completes the count combines the rows of all splits, in order, and resets the count
 * for the next launch. No thread block waits for another. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_SPLITS_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_SPLITS_CUH

#include "kernels/cuda/attention/prefill_wgmma_shared.cuh"
#include "kernels/cuda/common/accumulator_rows.cuh"
#include "kernels/cuda/ptx/arithmetic.cuh"
#include "kernels/cuda/ptx/global_memory.cuh"

namespace yk_attn {

/* In the workspace: each row's largest score and its sum of probabilities relative to that score; then the output, not
 * divided by the sums, as the lanes' accumulators: of each consumer warp and tile of 8 columns. */
template <int HD> struct split_result {
  float2 ml[WGMMA_TILE_M];
  float4 o[N_CONSUMER_WARPS][HD / 8][32];
};

/* The rows of a consumer warp. Lane (g, t) = (lane / 4, lane % 4) holds rows 16 warp + g and 16 warp + g + 8. */
template <int HD> struct split_rows {
  split_result<HD> *results; /* of the work tile's splits */
  int warp;
  int32_t n_splits;

  __device__ __forceinline__ int row(int e) const
  {
    return 16 * warp + static_cast<int>(threadIdx.x % 32) / 4 + 8 * e;
  }

  /* l: the lane's own sums. */
  __device__ __forceinline__ void store(int32_t split, const float (&o)[HD / 8][4], const float (&m)[2],
                                        const float (&l)[2]) const
  {
    split_result<HD> &to = results[split];
#pragma unroll
    for (int i = 0; i < HD / 8; i++)
      __stcg(&to.o[warp][i][threadIdx.x % 32], make_float4(o[i][0], o[i][1], o[i][2], o[i][3]));
#pragma unroll
    for (int e = 0; e < 2; e++) {
      const float sum = yk_cuda::quad_sum(l[e]);
      if (threadIdx.x % 4 == 0) __stcg(&to.ml[row(e)], make_float2(m[e], sum));
    }
  }

  /* Counts the warp's rows of a split; returns whether those of all splits have been written. The atomic addition both
   * releases this warp's writes and acquires the others' (made cumulative over the warp by __syncwarp). */
  __device__ __forceinline__ bool are_complete(int32_t *count) const
  {
    int32_t n_before = 0;
    __syncwarp();
    if (threadIdx.x % 32 == 0) n_before = increment_acq_rel_gpu(count);
    __syncwarp();
    const bool complete = __any_sync(~0u, n_before == n_splits - 1);
    if (complete && threadIdx.x % 32 == 0) *count = 0;
    return complete;
  }

  /* The whole rows. l: the sums in one lane of each quad, 0 in the others. */
  __device__ __forceinline__ void combine(const float (&scale_log2)[2], float (&o)[HD / 8][4], float (&m)[2],
                                          float (&l)[2]) const
  {
    m[0] = m[1] = -INFINITY;
    for (int32_t n = 0; n < n_splits; n++) {
#pragma unroll
      for (int e = 0; e < 2; e++) m[e] = fmaxf(m[e], __ldcg(&results[n].ml[row(e)]).x);
    }
    l[0] = l[1] = 0.0f;
#pragma unroll
    for (int i = 0; i < HD / 8; i++) o[i][0] = o[i][1] = o[i][2] = o[i][3] = 0.0f;
    for (int32_t n = 0; n < n_splits; n++) {
      float weight[2];
#pragma unroll
      for (int e = 0; e < 2; e++) {
        const float2 ml = __ldcg(&results[n].ml[row(e)]);
        weight[e] = exp2_approx(ml.x * scale_log2[e] - yk_cuda::softmax_shift(m[e], scale_log2[e]));
        if (threadIdx.x % 4 == 0) l[e] += weight[e] * ml.y;
      }
#pragma unroll
      for (int i = 0; i < HD / 8; i++) {
        const float4 part = __ldcg(&results[n].o[warp][i][threadIdx.x % 32]);
        o[i][0] += weight[0] * part.x;
        o[i][1] += weight[0] * part.y;
        o[i][2] += weight[1] * part.z;
        o[i][3] += weight[1] * part.w;
      }
    }
  }
};

} // namespace yk_attn

#endif
