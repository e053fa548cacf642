/* test_op_cuda_format.c - a weight format is a file and a row of the table: int8 weights on a GPU. The first half of
 * this file stands for kernels/cuda/linear/format_int8.c, the table for format.c with its rows. The test has no
 * kernels: its GEMM copies operands to the host and multiplies there, which a real GEMM must not do. */
#include "base/checked.h"
#include "kernels/cuda/device/staging.h"
#include "kernels/cuda/device/state.h"
#include "kernels/cuda/layout/format.h"
#include "kernels/cuda/layout/layout.h"
#include "op/op_cases_int8.h"
#include "op/op_cuda_target.h"

/* ---- The format: its GEMM ---------------------------------------------------------------------------------------- */

/* Weights: int8 [n, k]; scales: f32 [n]. */
static int64_t scales_at(const yk_cuda_gemm *gemm)
{
  return yk_round_up_i64(gemm->n * gemm->k, YK_DEVICE_ALIGNMENT_BYTES);
}

static int64_t weight_bytes(const yk_cuda_gemm *gemm)
{
  return scales_at(gemm) + gemm->n * (int64_t)sizeof(float);
}

/* Quantised rows: scales f32 [n_rows], then int8 [n_rows, k]. */
static int64_t quantised_bytes(const yk_cuda_gemm *gemm, int64_t n_rows)
{
  return n_rows * ((int64_t)sizeof(float) + gemm->k);
}

/* n_bytes of device memory in a block from malloc. */
static yk_status fetch(yk_cuda_device *cuda, const void *from, int64_t n_bytes, void **out, yk_err *err)
{
  *out = calloc((size_t)n_bytes + 1, 1);
  if (!*out) return yk_err_set(err, YK_E_NOMEM, "no memory for %lld bytes", (long long)n_bytes);
  return n_bytes ? cuda->base.ops->download(&cuda->base, *out, from, (size_t)n_bytes, err) : YK_OK;
}

static yk_status quantise(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void *to, const void *x,
                          const int32_t *maxima, int64_t n_rows, yk_err *err)
{
  (void)maxima;
  void *inputs = NULL, *rows = calloc((size_t)quantised_bytes(gemm, n_rows), 1);
  if (!rows) return yk_err_set(err, YK_E_NOMEM, "no memory for quantised rows");
  yk_status status = fetch(cuda, x, n_rows * gemm->k * 2, &inputs, err);
  float *scales = rows;
  int8_t *quants = (int8_t *)(scales + n_rows);
  for (int64_t row = 0; row < n_rows && status == YK_OK; row++) {
    float largest = 0.0f;
    for (int64_t i = row * gemm->k; i < (row + 1) * gemm->k; i++)
      largest = fmaxf(largest, fabsf(yk_dtype_load(gemm->dtype, inputs, (size_t)i)));
    scales[row] = largest > 0.0f ? largest / 127.0f : 1.0f;
    for (int64_t i = row * gemm->k; i < (row + 1) * gemm->k; i++)
      quants[i] = (int8_t)nearbyintf(yk_dtype_load(gemm->dtype, inputs, (size_t)i) / scales[row]);
  }
  if (status == YK_OK) status = yk_cuda_upload(&cuda->base, to, rows, (size_t)quantised_bytes(gemm, n_rows), err);
  free(inputs);
  free(rows);
  return status;
}

/* Any stride and either type of y, but no bias and no epilogue, like the 16-bit GEMM. */
static bool writes_in_place(const yk_cuda_gemm *gemm, const void *y, int64_t y_stride)
{
  (void)y, (void)y_stride;
  return !gemm->has_bias && gemm->activation.kind == YK_ACTIVATION_NONE;
}

/* One row of y [n], from its quantised inputs and all weights. */
static void multiply_row(const yk_cuda_gemm_call *call, const void *weights, const int8_t *x, float x_scale, void *y)
{
  const yk_cuda_gemm *gemm = call->gemm;
  const float *scales = (const float *)(const void *)((const char *)weights + scales_at(gemm));
  for (int64_t n = 0; n < gemm->n; n++) {
    const int8_t *w = (const int8_t *)weights + n * gemm->k;
    int32_t sum = 0;
    for (int64_t k = 0; k < gemm->k; k++) sum += x[k] * w[k];
    yk_dtype_store(call->y_dtype, y, (size_t)n, (float)sum * x_scale * scales[n]);
  }
}

static yk_status forward(yk_cuda_device *cuda, const yk_cuda_gemm_call *call, yk_err *err)
{
  const yk_cuda_gemm *gemm = call->gemm;
  size_t y_bytes = yk_dtype_bytes(call->y_dtype);
  void *rows = NULL, *weights = NULL, *y = calloc((size_t)gemm->n, y_bytes);
  yk_status status = y ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for a row");
  if (status == YK_OK) status = fetch(cuda, call->quantised, quantised_bytes(gemm, call->n_rows), &rows, err);
  if (status == YK_OK) status = fetch(cuda, call->weights, weight_bytes(gemm), &weights, err);
  const float *x_scales = rows;
  for (int64_t row = 0; row < call->n_rows && status == YK_OK; row++) {
    multiply_row(call, weights, (const int8_t *)(x_scales + call->n_rows) + row * gemm->k, x_scales[row], y);
    status = yk_cuda_upload(&cuda->base, (char *)call->y + (size_t)(row * call->y_stride) * y_bytes, y,
                            (size_t)gemm->n * y_bytes, err);
  }
  free(rows);
  free(weights);
  free(y);
  return status;
}

static const yk_cuda_gemm_kind w8a8 = {
    .name = "W8A8",
    .weight_bytes = weight_bytes,
    .quantised_bytes = quantised_bytes,
    .quantise = quantise,
    .writes_in_place = writes_in_place,
    .forward = forward,
};

/* ---- The format: its rows ---------------------------------------------------------------------------------------- */

static yk_status check(const yk_linear_part *part, int index, yk_err *err)
{
  if (part->weight.dtype == YK_F32) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "linear part %d: int8 scales: expected float32, found %s", index,
                    yk_dtype_name(part->weight.dtype));
}

/* A layer of float32 output is lm_head, whose activations stay floats. */
static bool takes(const yk_linear_spec *spec, int i)
{
  (void)i;
  return !spec->f32_output;
}

static const int8_t *source_row(const yk_linear_part *source, int64_t i)
{
  return (const int8_t *)source->weight.qweight + (source->n.begin + i) * source->weight.k + source->k.begin;
}

static yk_status load(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void *weights, const yk_linear_part *source,
                      int64_t first_column, yk_err *err)
{
  const float *scales = source->weight.scales;
  size_t n = (size_t)yk_range_size(source->n);
  YK_TRY(yk_cuda_upload_rows(cuda, (char *)weights + first_column * gemm->k, source_row(source, 0), (size_t)gemm->k,
                             (size_t)source->weight.k, n, err));
  return yk_cuda_upload(&cuda->base, (char *)weights + scales_at(gemm) + first_column * (int64_t)sizeof(float),
                        scales + source->n.begin, n * sizeof(float), err);
}

static yk_status load_as_16_bits(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void *weights,
                                 const yk_linear_part *source, int64_t first_column, yk_err *err)
{
  const float *scales = (const float *)source->weight.scales + source->n.begin;
  int64_t n = yk_range_size(source->n), k = gemm->k;
  void *values = calloc((size_t)(n * k), 2);
  if (!values) return yk_err_set(err, YK_E_NOMEM, "no memory for weights");
  for (int64_t row = 0; row < n; row++)
    for (int64_t i = 0; i < k; i++)
      yk_dtype_store(gemm->dtype, values, (size_t)(row * k + i), (float)source_row(source, row)[i] * scales[row]);
  yk_status status =
      yk_cuda_upload(&cuda->base, (char *)weights + first_column * k * 2, values, (size_t)(n * k) * 2, err);
  free(values);
  return status;
}

static const yk_cuda_format format_int8 = {
    .name = "int8", .weight_format = WEIGHT_INT8, .check = check, .takes = takes, .gemm = &w8a8, .load = load};

static const yk_cuda_format format_int8_as_16_bits = {.name = "int8 as 16 bits",
                                                      .weight_format = WEIGHT_INT8,
                                                      .check = check,
                                                      .gemm = &yk_cuda_gemm_16_bits,
                                                      .load = load_as_16_bits};

/* ---- The table --------------------------------------------------------------------------------------------------- */

const yk_cuda_format *const yk_cuda_formats[] = {&yk_cuda_format_awq,     &yk_cuda_format_awq_as_16_bits,
                                                 &yk_cuda_format_plain,   &format_int8,
                                                 &format_int8_as_16_bits, NULL};

/* ---- The cases --------------------------------------------------------------------------------------------------- */

static void test_cases(void **state)
{
  (void)state;
  for (int d = 0; d < N_GPU_DTYPES; d++)
    check_int8_cases(&cuda_target, gpu_dtypes[d], 3.5 * op_unit_roundoff(gpu_dtypes[d]));
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  for (int d = 0; d < N_GPU_DTYPES; d++) check_int8_faults(&cuda_target, gpu_dtypes[d]);
}

static void test_formats_side_by_side(void **state)
{
  (void)state;
  for (int d = 0; d < N_GPU_DTYPES; d++) check_int8_layers_with_awq(&cuda_target, gpu_dtypes[d]);
}

/* More rows than a block of the scratch holds: each block is quantised separately. */
static void test_many_rows(void **state)
{
  (void)state;
  for (int d = 0; d < N_GPU_DTYPES; d++)
    for (int c = 0; c < 2; c++) { /* in place, and through the scratch */
      double error = int8_error(&cuda_target, gpu_dtypes[d], &int8_cases[c], 700, 1, INT8_RIGHT);
      if (error > op_unit_roundoff(gpu_dtypes[d]) + 1e-5) fail_msg("case %d: error %.3g", c, error);
    }
}

static void test_refusals(void **state)
{
  (void)state;
  check_int8_refusals(&cuda_target, YK_F16);
}

int main(void)
{
  int gate = gpu_gate(1);
  if (gate != GPU_GO) return gate;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cases),     cmocka_unit_test(test_planted_faults_are_seen),
      cmocka_unit_test(test_many_rows), cmocka_unit_test(test_formats_side_by_side),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
