/* format_fp8.c - weights kept as 8-bit floats: each becomes scale * f8 when it is multiplied. */
#include "kernels/cpu/linear/bytes.h"

static void multiply_panel(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i, float *acc)
{
  yk_cpu_bytes_multiply(rows, part, weights, i, rows->simd->fp8_row, rows->simd->fp8_unpack, acc);
}

const yk_cpu_format yk_cpu_format_fp8 = {
    .name = "fp8",
    .weight_format = YK_WEIGHT_FP8,
    .check = yk_linear_check_bytes,
    .takes = yk_cpu_bytes_takes,
    .lay_out = yk_cpu_bytes_lay_out,
    .load = yk_cpu_bytes_load,
    .multiply_panel = multiply_panel,
};
