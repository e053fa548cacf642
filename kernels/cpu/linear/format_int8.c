/* format_int8.c - weights in 8-bit integers, kept as such: each becomes scale * (q - zero) when it is multiplied. */
#include "kernels/cpu/linear/bytes.h"

/* One row is multiplied with the weights as they are, more share strips of floats: the same sums. */
static void multiply_panel(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i, float *acc)
{
  const yk_cpu_byte_panel panel = yk_cpu_bytes_panel(part, weights, i);
  if (rows->n_rows == 1 && rows->simd->int8_row(acc, rows->x, &panel)) return;
  for (int first = 0; first < YK_CPU_PANEL; first += YK_CPU_STRIP) {
    rows->simd->int8_unpack(rows->strip, &panel, first);
    rows->simd->multiply(acc + first, YK_CPU_BLOCK_COLUMNS, rows->x, rows->x_stride, rows->n_rows, rows->strip,
                         rows->n_k);
  }
}

const yk_cpu_format yk_cpu_format_int8 = {
    .name = "int8",
    .weight_format = YK_WEIGHT_INT8,
    .check = yk_linear_check_bytes,
    .lay_out = yk_cpu_bytes_lay_out,
    .load = yk_cpu_bytes_load,
    .multiply_panel = multiply_panel,
};
