/* format_fp4.c - weights kept as 4-bit floats: each becomes scale * f4 when it is multiplied. */
#include "kernels/cpu/linear/bytes.h"

static void multiply_panel(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i, float *acc)
{
  yk_cpu_bytes_multiply(rows, part, weights, i, rows->simd->fp4_row, rows->simd->fp4_unpack, acc);
}

const yk_cpu_format yk_cpu_format_fp4 = {
    .name = "fp4",
    .weight_format = YK_WEIGHT_FP4,
    .check = yk_linear_check_bytes,
    .takes = yk_cpu_bytes_takes,
    .lay_out = yk_cpu_bytes_lay_out,
    .load = yk_cpu_bytes_load,
    .multiply_panel = multiply_panel,
};
