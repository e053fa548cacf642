/* few_outputs_tile.cuh - 8 or 16 columns of a GEMM of few rows and few columns of 16-bit weights, on tensor cores.
 * Eight warps divide K: those of one thread block, or one warp of each of a cluster's eight thread blocks. Each reads
 * its weights from global memory directly into registers, before the rows of x have arrived.
 *
 * An mma.sync takes 16 inputs, four of each operand's row per lane. The order of the inputs does not matter as long as
 * both operands agree: so a lane reads 8 neighbouring inputs of a row, four lanes 32, and those make two mma.sync. */
#ifndef YK_KERNELS_CUDA_COMMON_FEW_OUTPUTS_TILE_CUH
#define YK_KERNELS_CUDA_COMMON_FEW_OUTPUTS_TILE_CUH

#include <cstdint>

#include "kernels/cuda/ptx/global_memory.cuh"
#include "kernels/cuda/ptx/mma.cuh"

namespace yk_cuda {

/* ROWS: of x, a multiple of 8. COLUMNS: 16, or 8 for fewer registers. IN_BATCHES: after the pieces of weights that are
 * read ahead, pieces are loaded in batches of the same size, for few thread blocks that read a wide W; otherwise one or
 * two pieces at a time, for many thread blocks, or a kernel that lacks the registers. A result has the same bits for
 * all parameters. k is a multiple of 8, and rows are 16-byte aligned. */
template <typename T, int ROWS, int COLUMNS_ = 16, bool IN_BATCHES = true> struct few_outputs_tile {
  static constexpr int COLUMNS = COLUMNS_, COLUMNS8 = COLUMNS / 8, WARPS = 8, THREADS = 32 * WARPS;
  static constexpr int KEPT = 8; /* pieces of 32 inputs of a warp whose weights are read ahead */
  static constexpr int N8 = ROWS / 8;
  static constexpr int PITCH = ROWS + 1; /* floats between columns of sums, against bank conflicts */

  /* Partial sums of each warp, in shared memory. */
  struct sums {
    float of_warp[WARPS][COLUMNS][PITCH];
  };

  int part = static_cast<int>(threadIdx.x) / 32; /* the warp's part of K, of WARPS parts */
  uint4 kept[KEPT][COLUMNS8];                    /* weights of columns lane / 4 and lane / 4 + 8 */

  /* Inputs at .. at + 7 of a row of a matrix [n_rows, k]; zeros past its edges. */
  __device__ __forceinline__ static uint4 load(const void *rows, int row, int n_rows, int k, int at)
  {
    if (row >= n_rows || at >= k) return make_uint4(0, 0, 0, 0);
    return *reinterpret_cast<const uint4 *>(static_cast<const uint16_t *>(rows) + static_cast<int64_t>(row) * k + at);
  }

  /* First input of the lane in the warp's piece i. */
  __device__ __forceinline__ int input_of(int i) const
  {
    return (i * WARPS + part) * 32 + threadIdx.x % 4 * 8;
  }

  /* The lane's weights of the warp's piece i: rows of W from `column` on. */
  __device__ __forceinline__ void load_columns(const void *w, int n, int k, int column, int i,
                                               uint4 (&to)[COLUMNS8]) const
  {
#pragma unroll
    for (int c = 0; c < COLUMNS8; c++) to[c] = load(w, column + threadIdx.x % 32 / 4 + c * 8, n, k, input_of(i));
  }

  /* Reads the warp's first KEPT pieces of weights into registers; columns `column` and up of W [n, k]. */
  __device__ __forceinline__ void read_ahead(const void *w, int n, int k, int column)
  {
#pragma unroll
    for (int i = 0; i < KEPT; i++) load_columns(w, n, k, column, i, kept[i]);
  }

  /* Prefetches the weights past those of read_ahead into the L2 cache. */
  __device__ __forceinline__ void prefetch_rest(const void *w, int n, int k, int column) const
  {
    for (int i = KEPT; (i * WARPS + part) * 32 < k; i++) {
#pragma unroll
      for (int c = 0; c < COLUMNS8; c++) {
        const int row = column + threadIdx.x % 32 / 4 + c * 8, at = input_of(i);
        if (row < n && at < k)
          yk_ptx::prefetch_l2(static_cast<const uint16_t *>(w) + static_cast<int64_t>(row) * k + at);
      }
    }
  }

  /* acc += the lane's part of one piece: two mma.sync. */
  __device__ __forceinline__ static void multiply_piece(const uint4 (&w)[COLUMNS8], const uint4 &x, float (&acc)[4])
  {
    const uint4 lower = w[0], upper = COLUMNS8 == 2 ? w[COLUMNS8 - 1] : make_uint4(0, 0, 0, 0);
    yk_ptx::mma_m16n8k16<T>(acc, lower.x, upper.x, lower.y, upper.y, x.x, x.y);
    yk_ptx::mma_m16n8k16<T>(acc, lower.z, upper.z, lower.w, upper.w, x.z, x.w);
  }

  /* acc += the lane's part of N pieces of the warp, `first` and up, whose weights are w. */
  template <int N, typename F>
  __device__ __forceinline__ static void multiply_pieces(const uint4 (&w)[N][COLUMNS8], int first, const F &x_of,
                                                         float (&acc)[N8][4])
  {
    uint4 x[N][N8];
#pragma unroll
    for (int i = 0; i < N; i++) {
#pragma unroll
      for (int r = 0; r < N8; r++) x[i][r] = x_of(first + i, r);
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
#pragma unroll
      for (int r = 0; r < N8; r++) multiply_piece(w[i], x[i][r], acc[r]);
    }
  }

  /* acc += the warp's partial sums of columns `column` and up of W [n, k], whose first KEPT pieces read_ahead has read,
   * times ROWS rows of x. x_of(i, r) returns inputs input_of(i) .. + 7 of row r * 8 + lane / 4, zeros after k.
   * acc[r][i] is of column lane / 4 + i / 2 * 8 and row r * 8 + lane % 4 * 2 + i % 2. */
  template <typename F>
  __device__ __forceinline__ void accumulate(const void *w, int n, int k, int column, const F &x_of,
                                             float (&acc)[N8][4])
  {
    multiply_pieces(kept, 0, x_of, acc);
    if constexpr (IN_BATCHES) {
#pragma unroll 1
      for (int first = KEPT; (first * WARPS + part) * 32 < k; first += KEPT) {
#pragma unroll
        for (int i = 0; i < KEPT; i++) load_columns(w, n, k, column, first + i, kept[i]);
        multiply_pieces(kept, first, x_of, acc);
      }
    } else {
#pragma unroll 2
      for (int i = KEPT; (i * WARPS + part) * 32 < k; i++) {
        uint4 piece[1][COLUMNS8];
        load_columns(w, n, k, column, i, piece[0]);
        multiply_pieces(piece, i, x_of, acc);
      }
    }
  }

  /* Writes each warp's partial sums of ROWS rows of x [m, k] from `row` on to shared memory. After a __syncthreads of
   * the caller, sum_of adds them. */
  __device__ __forceinline__ void multiply(const void *w, int n, const void *x, int m, int k, int column, int row,
                                           sums &to)
  {
    const int lane = threadIdx.x % 32;
    float acc[N8][4] = {};
    const auto x_of = [&](int i, int r) { return load(x, row + r * 8 + lane / 4, m, k, input_of(i)); };
    accumulate(w, n, k, column, x_of, acc);
#pragma unroll
    for (int r = 0; r < N8; r++) {
#pragma unroll
      for (int i = 0; i < 2 * COLUMNS8; i++)
        to.of_warp[part][lane / 4 + i / 2 * 8][r * 8 + lane % 4 * 2 + i % 2] = acc[r][i];
    }
  }

  /* The result of a column and row of the tile: the warps' sums, added in order. */
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
