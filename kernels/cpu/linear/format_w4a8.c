/* format_w4a8.c - AWQ weights whose inputs become 8-bit floats (yk_linear_rounds_inputs has the definition): kept and
 * multiplied as by format_awq.c, with a second copy of each row that holds the rounded inputs, as floats. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/float8.h"
#include "kernels/cpu/linear/format_awq.h"

static const float largest_e4m3 = 448.0f;

static bool takes(const yk_linear_spec *spec, int i)
{
  return yk_linear_rounds_inputs(spec, i);
}

/* Floats of a row, in whole chunks. Their number is not a power of two, like x_stride of yk_cpu_rows. */
static int64_t row_floats(int64_t k)
{
  return yk_round_up_i64(k, YK_CPU_CHUNK_K) + YK_CPU_LANES;
}

static int64_t quantised_row_bytes(int64_t k)
{
  return row_floats(k) * (int64_t)sizeof(float);
}

static void quantise_row(const yk_cpu_part *part, void *to, const float *x, const int32_t *largest)
{
  float *rounded = to, size = yk_f32_from_bits((uint32_t)(largest ? *largest : yk_cpu_largest(x, part->k)));
  memset(to, 0, (size_t)quantised_row_bytes(part->k));
  if (size < YK_LEAST_FP8_INPUT) return;
  const float scale = isfinite(size) ? size / largest_e4m3 : NAN, reciprocal = largest_e4m3 / size;
  for (int64_t k = 0; k < part->k; k++) rounded[k] = scale * yk_e4m3_to_f32(yk_e4m3_from_f32(x[k] * reciprocal));
}

static void multiply_panel(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i, float *acc)
{
  yk_cpu_rows rounded = *rows;
  rounded.x = (const float *)(const void *)rows->quantised;
  rounded.x_stride = rows->quantised_stride / (int64_t)sizeof(float);
  yk_cpu_awq_multiply_panel(&rounded, part, weights, i, acc);
}

const yk_cpu_format yk_cpu_format_awq_fp8_inputs = {
    .name = "awq, 8-bit inputs",
    .weight_format = YK_WEIGHT_AWQ,
    .takes = takes,
    .lay_out = yk_cpu_awq_lay_out,
    .load = yk_cpu_awq_load,
    .quantised_row_bytes = quantised_row_bytes,
    .quantise_row = quantise_row,
    .multiply_panel = multiply_panel,
};
