/* test_op_cuda_bytes.c - weights of 8-bit integers and of 8-bit and 4-bit floats on a GPU against float64, and layers
 * whose parts have separate orders of inputs. */
#include "each_case.h"
#include "op/op_cases_order.h"
#include "op/op_cuda_paths.h"

/* Cuts, groups and sizes that kernels and packing distinguish. k and n of the weight; group; (dtype); slices; local
 * group; bias; whether there are zeros, last. */
static const linear_case cases[] = {
    {.parts = {{256, 64, 128, YK_F32, {0, 256}, {0, 64}, 128, false, true, false}}, .n_parts = 1},
    {.parts = {{256, 64, 128, YK_F32, {0, 256}, {0, 64}, 128, true, true, true}}, .n_parts = 1},
    {.parts = {{320, 40, 64, YK_F32, {64, 320}, {8, 40}, 64, true, true, true}}, .n_parts = 1},
    {.parts = {{256, 48, 128, YK_F32, {96, 224}, {0, 48}, 32, false, true, true}}, .n_parts = 1}, /* inside a group */
    {.parts = {{96, 40, 96, YK_F32, {0, 96}, {0, 40}, 96, true, true, true}}, .n_parts = 1},      /* channel */
    {.parts = {{224, 24, 128, YK_F32, {0, 224}, {0, 24}, 128, true, true, true}}, .n_parts = 1},  /* a short group */
    {.parts = {{1152, 2056, 128, YK_F32, {128, 1152}, {0, 2056}, 128, false, true, false}}, .n_parts = 1, .y_pad = 3},
    {.parts = {{512, 256, 128, YK_F32, {0, 512}, {64, 192}, 128, true, true, true}, /* q, k, v in one GEMM */
               {512, 128, 128, YK_F32, {0, 512}, {0, 64}, 128, false, true, false},
               {512, 128, 128, YK_F32, {0, 512}, {64, 128}, 128, true, true, true}},
     .n_parts = 3},
    {.parts = {{96, 48, 32, YK_F16, {0, 96}, {0, 48}, 32, true}, /* 4 bits, 8 bits and floats */
               {96, 16, 32, YK_F32, {0, 96}, {0, 16}, 32, true, true, true},
               {96, 16, 0, YK_F16, {0, 96}, {8, 16}, 0, true}},
     .n_parts = 3},
    {.parts = {{256, 88, 128, YK_F32, {0, 256}, {8, 72}, 128, true, true, true},
               {256, 88, 128, YK_F32, {0, 256}, {8, 72}, 128, true, true, false}},
     .n_parts = 2,
     .activation = YK_GATED_SILU,
     .y_pad = 8},
};
enum { N_CASES = sizeof cases / sizeof *cases, SILU_CASE = N_CASES - 1 };

/* Groups of 16 and of 32, the group sizes of 4-bit floats: with tails of K, gate and up, q, k and v, and enough columns
 * for every tile. */
static const linear_case fp4_cases[] = {
    /* one panel */
    {.parts = {{128, 16, 32, YK_F32, {0, 128}, {0, 16}, 32, false, true, .is_fp4 = true}}, .n_parts = 1},
    {.parts = {{128, 16, 16, YK_F32, {0, 128}, {0, 16}, 16, false, true, .is_fp4 = true}}, .n_parts = 1},
    {.parts = {{416, 80, 32, YK_F32, {32, 416}, {8, 80}, 32, true, true, .is_fp4 = true}}, .n_parts = 1},
    {.parts = {{416, 80, 16, YK_F32, {16, 400}, {8, 80}, 16, true, true, .is_fp4 = true}}, .n_parts = 1},
    {.parts = {{2880, 264, 32, YK_F32, {0, 2880}, {0, 264}, 32, true, true, .is_fp4 = true}}, .n_parts = 1},
    {.parts = {{1440, 2056, 16, YK_F32, {0, 1440}, {0, 2056}, 16, false, true, .is_fp4 = true}}, .n_parts = 1},
    {.parts = {{256, 88, 16, YK_F32, {0, 256}, {8, 72}, 16, true, true, .is_fp4 = true},
               {256, 88, 16, YK_F32, {0, 256}, {16, 80}, 16, true, true, .is_fp4 = true}},
     .n_parts = 2,
     .activation = YK_GATED_SILU},
    {.parts = {{288, 88, 32, YK_F32, {0, 288}, {8, 72}, 32, true, true, .is_fp4 = true},
               {288, 88, 32, YK_F32, {0, 288}, {16, 80}, 32, true, true, .is_fp4 = true}},
     .n_parts = 2,
     .activation = {YK_ACTIVATION_CLAMPED_SWIGLU, true, 1.702f, 0.7f}},
    {.parts = {{512, 256, 16, YK_F32, {0, 512}, {64, 192}, 16, true, true, .is_fp4 = true},
               {512, 128, 16, YK_F32, {0, 512}, {0, 72}, 16, false, true, .is_fp4 = true},
               {512, 128, 32, YK_F32, {0, 512}, {64, 128}, 32, true, true, .is_fp4 = true}},
     .n_parts = 3},
};
enum { N_FP4_CASES = sizeof fp4_cases / sizeof *fp4_cases };

/* Integers with float32 results: one group and groups of 128, with a bias (not in place), strides, and sizes that fill
 * whole tiles and parts of them. */
static const linear_case f32_cases[] = {
    {.parts = {{96, 40, 96, YK_F32, {0, 96}, {0, 40}, 96, false, true, false}}, .n_parts = 1, .f32_output = true},
    {.parts = {{256, 1003, 256, YK_F32, {0, 256}, {3, 987}, 256, false, true, false}},
     .n_parts = 1,
     .f32_output = true,
     .y_pad = 5},
    {.parts = {{1024, 4104, 1024, YK_F32, {0, 1024}, {0, 4104}, 1024, false, true, false}},
     .n_parts = 1,
     .f32_output = true,
     .y_pad = 1},
    {.parts = {{512, 264, 128, YK_F32, {128, 512}, {0, 264}, 128, true, true, true}},
     .n_parts = 1,
     .f32_output = true,
     .y_pad = 3},
};
enum { N_F32_CASES = sizeof f32_cases / sizeof *f32_cases };

/* The case with its bytes as floats of 8 or 4 bits. */
static linear_case with_floats(const linear_case *shape, int bits)
{
  linear_case of_floats = *shape;
  for (int i = 0; i < shape->n_parts; i++) {
    of_floats.parts[i].is_fp8 = shape->parts[i].is_bytes && bits == 8;
    of_floats.parts[i].is_fp4 = shape->parts[i].is_bytes && bits == 4;
    of_floats.parts[i].has_zeros = false;
  }
  return of_floats;
}

/* A weight is rounded once, and so is the ratio of its group's scale to the row's scale: as in
 * test_op_cuda_linear.c. With one group and no zeros weights are exact, and float32 results are not rounded. */
static double tolerance_of(yk_dtype dtype, const linear_case *shape)
{
  const linear_part_case *part = &shape->parts[0];
  if (shape->f32_output && part->group == part->k && !part->has_zeros)
    return linear_tolerance(YK_F32, yk_range_size(part->k_slice));
  return (shape->activation.is_gated ? 7.0 : 3.5) * op_unit_roundoff(dtype) +
         linear_tolerance(YK_F32, yk_range_size(shape->parts[0].k_slice));
}

static void check_case(yk_device *dev, const linear_case *shape, int c, int32_t n_tokens)
{
  double error = linear_error_on(dev, shape, n_tokens, 100 + (uint32_t)c, OP_RIGHT);
  if (!(error <= tolerance_of(dev->dtype, shape)))
    fail_msg("%s case %d%s, %d tokens: error %.3g", yk_dtype_name(dev->dtype), c,
             shape->parts[0].is_fp8   ? " of 8-bit floats"
             : shape->parts[0].is_fp4 ? " of 4-bit floats"
                                      : "",
             n_tokens, error);
}

/* All layers run on one device and reuse its workspace and scratch. */
static void test_table(void **state)
{
  (void)state;
  static const int32_t token_counts[] = {1, 7, 12, 20, 40, 130, 600}; /* tiles of every size */
  const int n_counts = sizeof token_counts / sizeof *token_counts;
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    yk_device *dev = op_device_new(&cuda_target, gpu_dtypes[d], 2, 16);
    for (int c = 0; c < N_CASES; c++) {
      const linear_case of_8_bits = with_floats(&cases[c], 8), of_4_bits = with_floats(&cases[c], 4);
      for (int t = 0; t < n_counts; t++) {
        if (gpu_is_small() && (c + t) % 3) continue;
        check_case(dev, &cases[c], c, token_counts[t]);
        check_case(dev, &of_8_bits, c, token_counts[t]);
        check_case(dev, &of_4_bits, c, token_counts[t]);
      }
    }
    dev->ops->destroy(dev);
  }
}

/* 4-bit floats in groups of 16 and 32, by the kernels for 9.0 and by those for 8.0. */
static void test_fp4(void **state)
{
  (void)state;
  static const int32_t token_counts[] = {1, 7, 12, 20, 31, 40, 130, 600};
  for (int i = 0; i < N_GPU_DTYPES * N_CUDA_PATHS; i++) {
    yk_device *dev = op_device_new(cuda_paths[i / N_GPU_DTYPES], gpu_dtypes[i % N_GPU_DTYPES], 2, 16);
    for (int c = 0; c < N_FP4_CASES; c++)
      for (size_t t = 0; t < sizeof token_counts / sizeof *token_counts; t++)
        if (!gpu_is_small() || (c + (int)t) % 3 == 0) check_case(dev, &fp4_cases[c], c, token_counts[t]);
    dev->ops->destroy(dev);
  }
}

/* A row's scales from the largest there is in MXFP4 to the smallest: groups of less than 2^-28 of the largest are 0. */
static void test_fp4_scales_far_apart(void **state)
{
  (void)state;
  yk_device *dev = op_device_new(&cuda_target, YK_BF16, 1, 16);
  for (int c = 0; c < 2; c++) {
    linear_run run = linear_run_new(dev, &fp4_cases[c], 20, 3);
    const linear_part_case *part = &fp4_cases[c].parts[0];
    const size_t n_groups = (size_t)(part->k / part->group);
    for (size_t i = 0; i < n_groups * (size_t)part->n; i++) {
      const int exponent = i / n_groups % 2 ? -120 : 90; /* of the row */
      const float scale = ldexpf(1.0f, exponent - 9 * (int)(i % n_groups % 6));
      run.weights[0].scales[i] = i % n_groups % 6 < 4 ? (double)scale : 0.0;
      memcpy((char *)run.weights[0].buffers[2] + 1 + i * sizeof scale, &scale, sizeof scale);
    }
    dev->ops->linear_destroy(dev, run.linear);
    op_ok(dev->ops->linear_create(dev, &run.spec, &run.linear, &err));
    op_array y = linear_run_forward(dev, &run, 0, 20);
    double *magnitudes = calloc(y.n + 1, sizeof *magnitudes);
    double *expected = linear_run_expect(&run, OP_RIGHT, magnitudes);
    for (size_t i = 0; i < y.n; i++)
      if (!(fabs(y.values[i] - expected[i]) <= 0x1p-8 * fabs(expected[i]) + 0x1p-18 * magnitudes[i] + 0x1p-133))
        fail_msg("case %d, result %zu: expected %g, found %g", c, i, expected[i], y.values[i]);
    free(expected);
    free(magnitudes);
    op_array_free(dev, &y);
    linear_run_free(dev, &run);
  }
  dev->ops->destroy(dev);
}

static void test_f32_results(void **state)
{
  (void)state;
  static const int32_t token_counts[] = {1, 2, 9, 17, 30, 33, 64, 100, 200, 520};
  const int n_counts = sizeof token_counts / sizeof *token_counts;
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    yk_device *dev = op_device_new(&cuda_target, gpu_dtypes[d], 2, 16);
    for (int c = 0; c < N_F32_CASES; c++)
      for (int t = 0; t < n_counts; t++)
        if (!gpu_is_small() || (c + t) % 3 == 0) check_case(dev, &f32_cases[c], c, token_counts[t]);
    dev->ops->destroy(dev);
  }
  assert_true(linear_error(&cuda_target, YK_F16, &f32_cases[1], 3, 9, OP_NO_SCALE) >
              3.0 * tolerance_of(YK_F16, &f32_cases[1]));
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  static const struct {
    op_fault fault;
    int shape;
  } faults[] = {{OP_NO_SCALE, 0},    {OP_ZERO_PLUS_ONE, 1}, {OP_GROUP_SHIFT, 3},
                {OP_GROUP_SHIFT, 2}, {OP_NO_BIAS, 2},       {OP_GATE_UP_SWAPPED, SILU_CASE}};
  for (size_t i = 0; each_case(i, i < sizeof faults / sizeof *faults); i++) {
    const linear_case kinds[] = {cases[faults[i].shape], with_floats(&cases[faults[i].shape], 8),
                                 with_floats(&cases[faults[i].shape], 4)};
    for (int kind = 0; kind < (faults[i].fault == OP_ZERO_PLUS_ONE ? 1 : 3); kind++) {
      double error = linear_error(&cuda_target, YK_F16, &kinds[kind], 3, 9, faults[i].fault);
      if (error < 3.0 * tolerance_of(YK_F16, &kinds[kind]))
        fail_msg("fault %d in case %d passes: error %.3g", (int)faults[i].fault, faults[i].shape, error);
    }
  }
}

static void test_matrices_side_by_side(void **state)
{
  (void)state;
  for (int c = 0; c < N_CASES; c++) {
    const linear_case of_floats = with_floats(&cases[c], 8);
    check_linear_matrices(&cuda_target, gpu_dtypes[c % 2], c % 4 < 2 ? &of_floats : &cases[c], 40);
  }
  for (int c = 0; c < N_FP4_CASES; c++) check_linear_matrices(&cuda_target, gpu_dtypes[c % 2], &fp4_cases[c], 40);
}

/* Scales of a row from 1e-30 to 1e-24, which no 16-bit float represents: the largest ones decide. */
static void test_tiny_scales(void **state)
{
  (void)state;
  yk_device *dev = op_device_new(&cuda_target, YK_BF16, 1, 16);
  for (int kind = 0; kind < 2; kind++) {
    const linear_case of_floats = with_floats(&cases[0], 8), *shape = kind ? &of_floats : &cases[0];
    linear_run run = linear_run_new(dev, shape, 20, 3);
    for (size_t i = 0; i < 2 * 64; i++) {
      float scale = (float)(run.weights[0].scales[i] *= i % 2 ? 1e-24 : 1e-30);
      run.weights[0].scales[i] = (double)scale;
      memcpy((char *)run.weights[0].buffers[2] + 1 + i * sizeof scale, &scale, sizeof scale);
    }
    dev->ops->linear_destroy(dev, run.linear);
    op_ok(dev->ops->linear_create(dev, &run.spec, &run.linear, &err));
    op_array y = linear_run_forward(dev, &run, 0, 20);
    double *magnitudes = calloc(y.n + 1, sizeof *magnitudes);
    double *expected = linear_run_expect(&run, OP_RIGHT, magnitudes);
    assert_true(linear_run_error(&y, expected, magnitudes, run.k_local) <= tolerance_of(YK_BF16, shape));
    free(expected);
    free(magnitudes);
    op_array_free(dev, &y);
    linear_run_free(dev, &run);
  }
  dev->ops->destroy(dev);
}

static void test_orders(void **state)
{
  (void)state;
  static const int32_t rows[] = {1, 20, 50};
  for (int c = 0; c < N_ORDER_CASES; c++)
    for (int i = 0; i < 3; i++)
      check_order_case(&cuda_target, &order_cases[c], gpu_dtypes[(c + i) % 2], rows[i], 1, false,
                       16.0 * op_unit_roundoff(gpu_dtypes[(c + i) % 2]));
}

/* Rows of x of which no two fit in a GPU's shared memory; padding, and unused columns. */
static void test_orders_of_long_rows(void **state)
{
  (void)state;
  enum { SPREAD = 800 }; /* 76,800 columns */
  for (int c = 1; c <= 2; c++)
    check_order_case(&cuda_target, &order_cases[c], YK_F16, 40, SPREAD, false, 16.0 * op_unit_roundoff(YK_F16));
}

/* Groups that the packed form does not support, of a part that can no longer be loaded as floats. */
static void test_an_order_of_short_groups(void **state)
{
  (void)state;
  static const linear_case packed = {.parts = {{MAX_K, 40, 32, YK_F32, {0, MAX_K}, {0, 40}, 32, true, true, true}},
                                     .n_parts = 1};
  yk_device *dev = op_device_new(&cuda_target, YK_F16, 1, 16);
  linear_run run = linear_run_new(dev, &packed, 9, 5), ordered = run;
  int32_t order[MAX_K];
  for (int i = 0; i < MAX_K; i++) order[i] = i;
  ordered.spec.parts[0].group_local = 16;
  ordered.spec.parts[0].x_size = MAX_K;
  ordered.spec.parts[0].x_order = order;
  op_ok(dev->ops->linear_create(dev, &ordered.spec, &ordered.linear, &err));
  op_array y = linear_run_forward(dev, &run, 0, 9), z = linear_run_forward(dev, &ordered, 0, 9);
  check_columns(&z, 40, 0, &y, 8.0 * op_unit_roundoff(YK_F16));
  dev->ops->linear_destroy(dev, ordered.linear);
  op_array_free(dev, &y);
  op_array_free(dev, &z);
  linear_run_free(dev, &run);
  dev->ops->destroy(dev);
}

/* Contradictions, and zeros that the packed form does not support. */
static void test_refusals(void **state)
{
  (void)state;
  yk_device *dev = op_device_new(&cuda_target, YK_F16, 1, 16);
  linear_run run = linear_run_new(dev, &cases[3], 2, 1);
  static const float far_zero = 128.5f;
  for (int i = 0; i < 4; i++) {
    yk_linear *linear = NULL;
    yk_linear_spec spec = run.spec;
    yk_linear_part *part = &spec.parts[0];
    yk_err err = YK_ERR_INIT;
    if (i == 0) part->weight.packing = YK_PACKING_GPTQ;
    if (i == 1) part->weight.qzeros = NULL;
    if (i == 2) part->weight.group = 0;
    if (i == 3) memcpy(run.weights[0].buffers[1] + 1, &far_zero, sizeof far_zero);
    assert_int_equal(dev->ops->linear_create(dev, &spec, &linear, &err), i < 3 ? YK_E_INVAL : YK_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, i < 3 ? "linear part 0" : "output 0, group 0: expected a zero"));
    assert_null(linear);
  }
  linear_run_free(dev, &run);
  dev->ops->destroy(dev);
}

int main(void)
{
  int gate = gpu_gate(1);
  if (gate != GPU_GO) return gate;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_fp4),
      cmocka_unit_test(test_fp4_scales_far_apart),
      cmocka_unit_test(test_f32_results),
      cmocka_unit_test(test_planted_faults_are_seen),
      cmocka_unit_test(test_tiny_scales),
      cmocka_unit_test(test_matrices_side_by_side),
      cmocka_unit_test(test_orders),
      cmocka_unit_test(test_orders_of_long_rows),
      cmocka_unit_test(test_an_order_of_short_groups),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
