/* format_w4a8.c - AWQ weights whose inputs are rounded to 8-bit floats or integers (yk_linear_rounds_inputs has the
 * definitions): kept and multiplied as by format_awq.c, with a second copy of each row that holds the rounded inputs,
 * as floats. */
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/float8.h"
#include "kernels/cpu/linear/format_awq.h"

static bool takes_fp8(const yk_linear_spec *spec, int i)
{
  return spec->parts[i].rounding == YK_INPUTS_FP8 && yk_linear_rounds_inputs(spec, i);
}

static bool takes_int8(const yk_linear_spec *spec, int i)
{
  return spec->parts[i].rounding == YK_INPUTS_INT8 && yk_linear_rounds_inputs(spec, i);
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

/* The scale of a row whose largest code is given, and its reciprocal; clears the row. Returns whether codes other than
 * zeros follow. */
static bool begin_row(const yk_cpu_part *part, void *to, const float *x, const int32_t *largest, float largest_code,
                      float *scale, float *reciprocal)
{
  const float size = yk_f32_from_bits((uint32_t)(largest ? *largest : yk_cpu_largest(x, part->k)));
  memset(to, 0, (size_t)quantised_row_bytes(part->k));
  if (size < YK_LEAST_ROUNDED_INPUT) return false;
  *scale = isfinite(size) ? size / largest_code : NAN;
  *reciprocal = largest_code / size;
  return true;
}

static void round_to_fp8(const yk_cpu_part *part, void *to, const float *x, const int32_t *largest)
{
  float *rounded = to, scale, reciprocal;
  if (!begin_row(part, to, x, largest, 448.0f, &scale, &reciprocal)) return;
  for (int64_t k = 0; k < part->k; k++) rounded[k] = scale * yk_e4m3_to_f32(yk_e4m3_from_f32(x[k] * reciprocal));
}

/* Adding 1.5 * 2^23 rounds to an integer, ties to even. */
static void round_to_int8(const yk_cpu_part *part, void *to, const float *x, const int32_t *largest)
{
  const float shift = 12582912.0f;
  float *rounded = to, scale, reciprocal;
  if (!begin_row(part, to, x, largest, 127.0f, &scale, &reciprocal)) return;
  for (int64_t k = 0; k < part->k; k++) rounded[k] = scale * ((x[k] * reciprocal + shift) - shift);
}

static void multiply_panel(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i, float *acc)
{
  yk_cpu_rows rounded = *rows;
  rounded.x = (const float *)(const void *)rows->quantised;
  rounded.x_stride = rows->quantised_stride / (int64_t)sizeof(float);
  yk_cpu_awq_multiply_panel(&rounded, part, weights, i, acc);
}

const yk_cpu_format yk_cpu_format_awq_fp8_inputs = {
    .name = "awq, fp8 inputs",
    .weight_format = YK_WEIGHT_AWQ,
    .takes = takes_fp8,
    .lay_out = yk_cpu_awq_lay_out,
    .load = yk_cpu_awq_load,
    .quantised_row_bytes = quantised_row_bytes,
    .quantise_row = round_to_fp8,
    .multiply_panel = multiply_panel,
};

const yk_cpu_format yk_cpu_format_awq_int8_inputs = {
    .name = "awq, int8 inputs",
    .weight_format = YK_WEIGHT_AWQ,
    .takes = takes_int8,
    .lay_out = yk_cpu_awq_lay_out,
    .load = yk_cpu_awq_load,
    .quantised_row_bytes = quantised_row_bytes,
    .quantise_row = round_to_int8,
    .multiply_panel = multiply_panel,
};
