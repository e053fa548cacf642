/* pending_sums.cuh - the binary tree in which a thread adds the sums of slices of K: see sliced.cuh. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_PENDING_SUMS_CUH
#define YK_KERNELS_CUDA_GEMM_DENSE_PENDING_SUMS_CUH

#include "kernels/cuda/gemm/types.h"

namespace yk_gemm {

/* The pending sums of a thread in the tree over slices: level i holds the sum of 2^i slices that are the left side of
 * an addition. Levels are in local memory, because their index is a variable; with HOLDS level 0 is in registers. */
template <int N8, bool HOLDS> struct pending_sums {
  static constexpr int LEVELS = 3;
  static_assert(1 << LEVELS == YK_GEMM_MOST_SLICES, "a level for each addition");
  float4 at[LEVELS][N8];
  float first[HOLDS ? N8 : 1][4]; /* level 0 */

  /* Adds acc, the sum of slice number `slice` of a range of a power of two of slices: after the last slice, acc is the
   * sum of the range. */
  __device__ __forceinline__ void add(int slice, bool is_last, float (&acc)[N8][4])
  {
    int level = 0;
    if constexpr (HOLDS) {
      if (slice % 2 == 0) {
        if (is_last) return;
#pragma unroll
        for (int i = 0; i < N8 * 4; i++) first[i / 4][i % 4] = acc[i / 4][i % 4];
        return;
      }
#pragma unroll
      for (int i = 0; i < N8 * 4; i++) acc[i / 4][i % 4] += first[i / 4][i % 4];
      level = 1;
    }
#pragma unroll 1
    for (; slice >> level & 1; level++) {
#pragma unroll
      for (int i = 0; i < N8; i++) {
        const float4 left = at[level][i];
        acc[i][0] += left.x;
        acc[i][1] += left.y;
        acc[i][2] += left.z;
        acc[i][3] += left.w;
      }
    }
    if (is_last) return;
#pragma unroll
    for (int i = 0; i < N8; i++) at[level][i] = make_float4(acc[i][0], acc[i][1], acc[i][2], acc[i][3]);
  }
};

} // namespace yk_gemm

#endif
