/* test_op_cpu_format.c - a weight format is a file and a row of the table: int8 weights on the CPU device. The first
 * half of this file stands for kernels/cpu/linear/format_int8.c, the table for format.c with its rows. */
#include "base/checked.h"
#include "kernels/cpu/linear/format.h"
#include "op/op_cases_int8.h"
#include "op/op_cpu_target.h"

/* ---- The format -------------------------------------------------------------------------------------------------- */

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

/* weights: int8 [n, k]; scales: f32 [n]. */
static void lay_out(const yk_linear_spec *spec, int i, yk_dtype dtype, yk_cpu_part *part)
{
  (void)spec, (void)i, (void)dtype;
  part->scales = yk_round_up_i64(part->n * part->k, YK_CPU_PART_ALIGNMENT_BYTES);
  part->n_bytes = part->scales + part->n * 4;
}

typedef struct load_context {
  const yk_linear_part *source;
  const yk_cpu_part *part;
  char *weights;
} load_context;

static const int8_t *source_row(const yk_linear_part *source, int64_t i)
{
  return (const int8_t *)source->weight.qweight + (source->n.begin + i) * source->weight.k + source->k.begin;
}

static void load_rows(void *context, int thread, int64_t begin, int64_t end)
{
  (void)thread;
  const load_context *c = context;
  const float *scales = c->source->weight.scales;
  for (int64_t i = begin; i < end; i++) {
    memcpy(c->weights + i * c->part->k, source_row(c->source, i), (size_t)c->part->k);
    ((float *)(void *)(c->weights + c->part->scales))[i] = scales[c->source->n.begin + i];
  }
}

static void load(yk_cpu_pool *pool, const yk_linear_part *source, const yk_cpu_part *part, char *weights)
{
  load_context context = {.source = source, .part = part};
  context.weights = weights;
  yk_cpu_pool_run(pool, part->n, 1, load_rows, &context);
}

/* A quantised row: its scale f32, then int8 [k]. */
static int64_t quantised_row_bytes(int64_t k)
{
  return (int64_t)sizeof(float) + k;
}

static void quantise_row(const yk_cpu_part *part, void *to, const float *x, const int32_t *whole_row)
{
  (void)whole_row;
  int64_t k = part->k;
  float largest = 0.0f;
  for (int64_t i = 0; i < k; i++) largest = fmaxf(largest, fabsf(x[i]));
  float scale = largest > 0.0f ? largest / 127.0f : 1.0f;
  int8_t *quants = (int8_t *)to + sizeof scale;
  memcpy(to, &scale, sizeof scale);
  for (int64_t i = 0; i < k; i++) quants[i] = (int8_t)nearbyintf(x[i] / scale);
}

static void multiply_panel(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i, float *acc)
{
  const float *scales = (const float *)(const void *)(weights + part->scales);
  for (int row = 0; row < rows->n_rows; row++) {
    const char *x = rows->quantised + row * rows->quantised_stride;
    float x_scale;
    memcpy(&x_scale, x, sizeof x_scale);
    const int8_t *x_quants = (const int8_t *)x + sizeof x_scale;
    for (int64_t j = 0; j < YK_CPU_PANEL; j++) {
      int64_t column = yk_min_i64(i * YK_CPU_PANEL + j, part->n - 1);
      const int8_t *w = (const int8_t *)weights + column * part->k;
      int32_t sum = 0;
      for (int64_t k = 0; k < part->k; k++) sum += x_quants[k] * w[k];
      acc[row * YK_CPU_BLOCK_COLUMNS + j] = (float)sum * x_scale * scales[column];
    }
  }
}

static const yk_cpu_format format_int8 = {
    .name = "int8",
    .weight_format = WEIGHT_INT8,
    .check = check,
    .takes = takes,
    .lay_out = lay_out,
    .load = load,
    .quantised_row_bytes = quantised_row_bytes,
    .quantise_row = quantise_row,
    .multiply_panel = multiply_panel,
};

/* ---- Parts that the first row does not support: kept as floats, multiplied like plain weights -------------------- */

static void lay_out_as_floats(const yk_linear_spec *spec, int i, yk_dtype dtype, yk_cpu_part *part)
{
  (void)spec, (void)i, (void)dtype;
  part->dtype = YK_F32;
  part->stride = part->k;
  part->n_bytes = part->n * part->k * 4;
}

static void load_as_floats(yk_cpu_pool *pool, const yk_linear_part *source, const yk_cpu_part *part, char *weights)
{
  (void)pool;
  float *to = (float *)(void *)weights;
  for (int64_t i = 0; i < part->n; i++)
    for (int64_t k = 0; k < part->k; k++)
      to[i * part->k + k] =
          (float)source_row(source, i)[k] * ((const float *)source->weight.scales)[source->n.begin + i];
}

static void multiply_floats(const yk_cpu_rows *rows, const yk_cpu_part *part, const char *weights, int64_t i,
                            float *acc)
{
  yk_cpu_format_plain.multiply_panel(rows, part, weights, i, acc);
}

static const yk_cpu_format format_int8_as_floats = {
    .name = "int8 as floats",
    .weight_format = WEIGHT_INT8,
    .check = check,
    .lay_out = lay_out_as_floats,
    .load = load_as_floats,
    .multiply_panel = multiply_floats,
};

/* ---- The table --------------------------------------------------------------------------------------------------- */

const yk_cpu_format *const yk_cpu_formats[] = {&yk_cpu_format_awq, &yk_cpu_format_plain, &format_int8,
                                               &format_int8_as_floats, NULL};

/* ---- The cases --------------------------------------------------------------------------------------------------- */

static void check_cases(const op_target *target)
{
  for (size_t d = 0; d < 3; d++) check_int8_cases(target, op_dtypes[d], 1e-5);
}

static void test_cases(void **state)
{
  (void)state;
  for_each_cpu_target(check_cases);
}

static void check_faults(const op_target *target)
{
  for (size_t d = 0; d < 3; d++) check_int8_faults(target, op_dtypes[d]);
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  for_each_cpu_target(check_faults);
}

static void check_int8_with_awq(const op_target *target)
{
  for (size_t d = 0; d < 3; d++) check_int8_layers_with_awq(target, op_dtypes[d]);
}

static void test_formats_side_by_side(void **state)
{
  (void)state;
  for_each_cpu_target(check_int8_with_awq);
}

static void check_refusals(const op_target *target)
{
  check_int8_refusals(target, YK_F16);
}

static void test_refusals(void **state)
{
  (void)state;
  for_each_cpu_target(check_refusals);
}

/* A row's separate scale makes its result independent of its batch. */
static void check_batch_invariance(const op_target *target)
{
  enum { N_TOKENS = 60 };
  yk_device *dev = op_device_new(target, YK_BF16, 3, 16);
  int8_run run = int8_run_new(dev, &int8_cases[2], N_TOKENS, 8);
  op_array batch = int8_run_forward(dev, &run, 1, 0, N_TOKENS);
  size_t row_bytes = (size_t)run.y_stride * yk_dtype_bytes(batch.dtype);
  for (int32_t row = 0; row < N_TOKENS; row++) {
    op_array alone = int8_run_forward(dev, &run, 1, row, 1);
    assert_memory_equal(alone.bytes, (char *)batch.bytes + (size_t)row * row_bytes, row_bytes);
    op_array_free(dev, &alone);
  }
  op_array_free(dev, &batch);
  int8_run_free(dev, &run);
  dev->ops->destroy(dev);
}

static void test_rows_do_not_depend_on_their_batch(void **state)
{
  (void)state;
  for_each_cpu_target(check_batch_invariance);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cases),
      cmocka_unit_test(test_planted_faults_are_seen),
      cmocka_unit_test(test_formats_side_by_side),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_rows_do_not_depend_on_their_batch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
