/* few_outputs_tile.cuh - 8 or 16 columns of a GEMM of few rows and few columns of 16-bit weights, by one thread block
 * on tensor cores. Its warps divide K; each reads its operands from global memory straight into registers, weights
 * before the rows of x are there.
 *
 * An instruction takes 16 inputs, a lane two pairs of each operand. Which inputs these are is the same to the sum as
 * long as both operands agree: so a lane reads 8 neighbouring inputs of a row, four lanes 32, and those are two
 * instructions. */
#ifndef YK_KERNELS_CUDA_COMMON_FEW_OUTPUTS_TILE_CUH
#define YK_KERNELS_CUDA_COMMON_FEW_OUTPUTS_TILE_CUH

#include <cstdint>

#include "kernels/cuda/ptx/mma.cuh"

namespace yk_cuda {

/* ROWS: of x, a multiple of 8. COLUMNS: 16, or 8 for fewer registers; a result has the same bits from either. k is a
 * multiple of 8, and rows are 16-byte aligned. */
template <typename T, int ROWS, int COLUMNS_ = 16> struct few_outputs_tile {
  static constexpr int COLUMNS = COLUMNS_, COLUMNS8 = COLUMNS / 8, WARPS = 8, THREADS = 32 * WARPS;
  static constexpr int KEPT = 8; /* pieces of 32 inputs of a warp whose weights are read ahead */
  static constexpr int N8 = ROWS / 8;
  static constexpr int PITCH = ROWS + 1; /* of sums, against bank conflicts */

  /* Partial sums of each warp, in shared memory. */
  struct sums {
    float of_warp[WARPS][COLUMNS][PITCH];
  };

  uint4 kept[KEPT][COLUMNS8]; /* columns lane / 4 and lane / 4 + 8 */

  /* 8 inputs of a row, zeros where the row or the inputs are missing. */
  __device__ __forceinline__ static uint4 load(const void *rows, int row, int n_rows, int k, int at)
  {
    if (row >= n_rows || at >= k) return make_uint4(0, 0, 0, 0);
    return *reinterpret_cast<const uint4 *>(static_cast<const uint16_t *>(rows) + static_cast<int64_t>(row) * k + at);
  }

  /* Where the lane's inputs of the warp's piece i begin. */
  __device__ __forceinline__ static int input_of(int i)
  {
    return (i * WARPS + static_cast<int>(threadIdx.x) / 32) * 32 + threadIdx.x % 4 * 8;
  }

  __device__ __forceinline__ static void load_columns(const void *w, int n, int k, int column, int i,
                                                      uint4 (&to)[COLUMNS8])
  {
#pragma unroll
    for (int c = 0; c < COLUMNS8; c++) to[c] = load(w, column + threadIdx.x % 32 / 4 + c * 8, n, k, input_of(i));
  }

  __device__ __forceinline__ void read_ahead(const void *w, int n, int k, int column)
  {
#pragma unroll
    for (int i = 0; i < KEPT; i++) load_columns(w, n, k, column, i, kept[i]);
  }

  __device__ __forceinline__ static void multiply_piece(const uint4 (&w)[COLUMNS8], const uint4 &x, float (&acc)[4])
  {
    const uint4 lower = w[0], upper = COLUMNS8 == 2 ? w[COLUMNS8 - 1] : make_uint4(0, 0, 0, 0);
    yk_ptx::mma_m16n8k16<T>(acc, lower.x, upper.x, lower.y, upper.y, x.x, x.y);
    yk_ptx::mma_m16n8k16<T>(acc, lower.z, upper.z, lower.w, upper.w, x.z, x.w);
  }

  /* The partial sums of columns `column` and up of W [n, k] by ROWS rows of x [m, k], from `row` on. The thread block
   * then meets, and adds up what the warps have. */
  __device__ __forceinline__ void multiply(const void *w, int n, const void *x, int m, int k, int column, int row,
                                           sums &to) const
  {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float acc[N8][4] = {};
    uint4 x_kept[KEPT][N8];
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
#pragma unroll
      for (int r = 0; r < N8; r++) x_kept[i][r] = load(x, row + r * 8 + lane / 4, m, k, input_of(i));
    }
#pragma unroll
    for (int i = 0; i < KEPT; i++) {
#pragma unroll
      for (int r = 0; r < N8; r++) multiply_piece(kept[i], x_kept[i][r], acc[r]);
    }
#pragma unroll 2
    for (int i = KEPT; (i * WARPS + warp) * 32 < k; i++) {
      uint4 of_w[COLUMNS8];
      load_columns(w, n, k, column, i, of_w);
#pragma unroll
      for (int r = 0; r < N8; r++) multiply_piece(of_w, load(x, row + r * 8 + lane / 4, m, k, input_of(i)), acc[r]);
    }
#pragma unroll
    for (int r = 0; r < N8; r++) {
#pragma unroll
      for (int i = 0; i < 2 * COLUMNS8; i++)
        to.of_warp[warp][lane / 4 + i / 2 * 8][r * 8 + lane % 4 * 2 + i % 2] = acc[r][i];
    }
  }

  __device__ __forceinline__ static float sum_of(const sums &from, int column, int row)
  {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < WARPS; i++) sum += from.of_warp[i][column][row];
    return sum;
  }
};

} // namespace yk_cuda

#endif
