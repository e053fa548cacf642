/* layout.cuh - the position of a weight in the packed copy, for the kernels that pack and that read it.
 *
 * Columns of W are rows here: rows of the matrix instruction's A operand. They are ordered [K tile][row][128 bytes], so
 * that any run of rows of a K tile is one run of bytes and one bulk copy. The 16-byte pieces of a row are permuted as
 * in the 128-byte swizzle of tensor copies: piece i of row r is at i ^ (r % 8). With gates, panels of 16 rows are 8
 * gates and their 8 ups (column_of_row of gemm/packed_layout.cuh), so one thread of an epilogue has both. */
#ifndef YK_KERNELS_CUDA_W8A8_LAYOUT_CUH
#define YK_KERNELS_CUDA_W8A8_LAYOUT_CUH

#include "kernels/cuda/gemm/packed_layout.cuh"
#include "kernels/cuda/w8a8/sizes.h"

namespace yk_w8a8 {

constexpr int TILE_K = YK_W8A8_TILE_K;
constexpr int PANEL_ROWS = YK_W8A8_PANEL_ROWS;

/* Offset of byte k of a row among the packed bytes of n_rows rows. */
__host__ __device__ inline int64_t byte_at(int64_t n_rows, int64_t row, int64_t k)
{
  return (k / TILE_K * n_rows + row) * TILE_K + ((k % TILE_K / 16) ^ (row % 8)) * 16 + k % 16;
}

/* The packed row that holds a column: the inverse of column_of_row. */
__host__ __device__ inline int64_t row_of_column(int64_t column, int64_t n, bool is_gated)
{
  if (!is_gated) return column;
  const bool is_up = column >= n / 2;
  const int64_t pair = is_up ? column - n / 2 : column;
  return pair / 8 * 16 + pair % 8 + (is_up ? 8 : 0);
}

} // namespace yk_w8a8

#endif
