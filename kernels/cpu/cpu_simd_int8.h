/* cpu_simd_int8.h - products of 8-bit integers, summed in 32 bits, written once over vectors of sums.
 *
 * Included by a file of an instruction set, which has defined:
 *   int8_sums                       a vector of sums
 *   int8_sums_zero()
 *   INT8_VECTOR_K                   inputs of one product: divides YK_CPU_INT8_K
 *   int8_x, int8_load_x(p)          INT8_VECTOR_K inputs of a row, in the form that int8_dot takes
 *   int8_w, int8_load_w(p)          and of a column
 *   int8_dot(sums, x, w)            sums + x * w
 *   int8_total(sums)                the sum over the vector
 *   INT8_X_OFFSET                   the number that int8_load_x adds to every input
 *   INT8_TILE_ROWS                  rows that are multiplied with INT8_TILE_COLUMNS (divides YK_CPU_PANEL) together
 *
 * No product exceeds 16 bits and no sum exceeds 32 bits at any step, so that every instruction set gives the same
 * integers: sets whose product of unsigned and signed bytes saturates (pmaddubsw) use words instead. */
#include "kernels/cpu/cpu_simd.h"

/* n_rows rows by n_columns columns of a panel from first on; both are constants of the call. */
static inline __attribute__((always_inline)) void int8_tile(int32_t *y, int64_t y_stride, const int8_t *x,
                                                            int64_t x_stride, const yk_cpu_int8_panel *panel, int first,
                                                            const int n_rows, const int n_columns)
{
  int8_sums sums[INT8_TILE_ROWS][YK_CPU_PANEL];
#pragma GCC unroll 8
  for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 8
    for (int c = 0; c < n_columns; c++) sums[r][c] = int8_sums_zero();
  for (int64_t k = 0; k < panel->n_k; k += YK_CPU_INT8_K) {
    const int8_t *w = panel->w + k * YK_CPU_PANEL + first * YK_CPU_INT8_K;
#pragma GCC unroll 4
    for (int i = 0; i < YK_CPU_INT8_K; i += INT8_VECTOR_K) {
      int8_x inputs[INT8_TILE_ROWS];
#pragma GCC unroll 8
      for (int r = 0; r < n_rows; r++) inputs[r] = int8_load_x(x + r * x_stride + k + i);
#pragma GCC unroll 8
      for (int c = 0; c < n_columns; c++) {
        int8_w column = int8_load_w(w + c * YK_CPU_INT8_K + i);
#pragma GCC unroll 8
        for (int r = 0; r < n_rows; r++) sums[r][c] = int8_dot(sums[r][c], inputs[r], column);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < n_rows; r++)
#pragma GCC unroll 8
    for (int c = 0; c < n_columns; c++)
      y[r * y_stride + first + c] = int8_total(sums[r][c]) - INT8_X_OFFSET * panel->sums[first + c];
}

/* One row reads a panel from beginning to end; several rows read one part of its columns after the other. */
static void multiply_int8(int32_t *y, int64_t y_stride, const int8_t *x, int64_t x_stride, int n_rows,
                          const yk_cpu_int8_panel *panel)
{
  if (n_rows == 1) {
    int8_tile(y, y_stride, x, x_stride, panel, 0, 1, YK_CPU_PANEL);
    return;
  }
  for (int c = 0; c < YK_CPU_PANEL; c += INT8_TILE_COLUMNS) {
    int r = 0;
    for (; r + INT8_TILE_ROWS <= n_rows; r += INT8_TILE_ROWS)
      int8_tile(y + r * y_stride, y_stride, x + r * x_stride, x_stride, panel, c, INT8_TILE_ROWS, INT8_TILE_COLUMNS);
    for (; r < n_rows; r++)
      int8_tile(y + r * y_stride, y_stride, x + r * x_stride, x_stride, panel, c, 1, INT8_TILE_COLUMNS);
  }
}
