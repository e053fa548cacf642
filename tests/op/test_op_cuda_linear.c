/* test_op_cuda_linear.c - linear layers on a GPU against float64. */
#include "each_case.h"
#include "op/op_cases_linear.h"
#include "op/op_cuda_paths.h"

enum { MIN_OUTPUTS = 32 }; /* an error is relative to the rms of all outputs, which may be near zero if they are few */

/* Weights are rounded to the activation type, which gives a long sum an error of about half a rounding and rarely two;
 * then the result is rounded. SiLU*up multiplies two such sums. A float32 result of weights that need no rounding is
 * exact except for the order of its sums. */
static double tolerance_of(yk_dtype dtype, const linear_case *shape)
{
  const linear_part_case *part = &shape->parts[0];
  double sums = linear_tolerance(YK_F32, yk_range_size(part->k_slice));
  if (shape->f32_output && !part->group && part->dtype == dtype) return sums;
  return (shape->activation.is_gated ? 7.0 : 3.5) * op_unit_roundoff(dtype) + sums;
}

static void check_case_on(const op_target *target, yk_dtype dtype, const linear_case *shape, int32_t n_tokens,
                          uint32_t seed)
{
  if (n_tokens * yk_range_size(shape->parts[0].n_slice) < MIN_OUTPUTS && yk_range_size(shape->parts[0].n_slice) > 0)
    return;
  double error = linear_error(target, dtype, shape, n_tokens, seed, OP_RIGHT);
  if (!(error <= tolerance_of(dtype, shape)))
    fail_msg("%s %s, %d parts of k %lld, n %lld, group %lld, seed %u, %d tokens: error %.3g, tolerance %.3g",
             target->name, yk_dtype_name(dtype), shape->n_parts, (long long)yk_range_size(shape->parts[0].k_slice),
             (long long)yk_range_size(shape->parts[0].n_slice), (long long)shape->parts[0].group, seed, n_tokens, error,
             tolerance_of(dtype, shape));
}

static void check_case(yk_dtype dtype, const linear_case *shape, int32_t n_tokens, uint32_t seed)
{
  check_case_on(&cuda_target, dtype, shape, n_tokens, seed);
}

static void test_table(void **state)
{
  (void)state;
  static const int32_t token_counts[] = {1, 7, 40};
  for (int d = 0; d < N_GPU_DTYPES; d++)
    for (int c = 0; c < N_LINEAR_CASES; c++)
      for (int t = 0; t < 3; t++) check_case(gpu_dtypes[d], &linear_cases[c], token_counts[t], 100 + (uint32_t)c);
}

/* Shapes for the packed kernels: several parts in one GEMM, GEMMs side by side, more rows than the scratch holds. */
static const linear_case packed_cases[] = {
    {.parts = {{512, 256, 128, YK_F16, {0, 512}, {64, 192}, 128, true},
               {512, 128, 128, YK_F16, {0, 512}, {0, 64}, 128, false},
               {512, 128, 128, YK_F16, {0, 512}, {64, 128}, 128, true}},
     .n_parts = 3},
    {.parts = {{256, 128, 64, YK_BF16, {0, 256}, {8, 72}, 64, false},
               {256, 128, 64, YK_F16, {0, 256}, {8, 72}, 64, true}},
     .n_parts = 2,
     .activation = YK_GATED_SILU},
    {.parts = {{512, 96, 128, YK_F16, {192, 448}, {0, 96}, 64, false}}, .n_parts = 1}, /* cut inside a group */
    {.parts = {{512, 96, 128, YK_F16, {128, 256}, {0, 96}, 128, true}}, .n_parts = 1, .y_pad = 5},
    {.parts = {{160, 64, 32, YK_F16, {0, 160}, {0, 64}, 32, false}, /* different groups: two GEMMs, and a plain one */
               {160, 64, 160, YK_F16, {0, 160}, {0, 64}, 160, true},
               {160, 64, 0, YK_BF16, {0, 160}, {0, 64}, 0, true}},
     .n_parts = 3,
     .y_pad = 2},
    {.parts = {{64, 40, 32, YK_F16, {0, 64}, {0, 40}, 32, true}}, .n_parts = 1, .f32_output = true, .y_pad = 3},
};

static void test_packed(void **state)
{
  (void)state;
  static const int32_t token_counts[] = {1, 17, 130, 700};
  for (int d = 0; d < N_GPU_DTYPES; d++)
    for (size_t c = 0; each_case(c, c < sizeof packed_cases / sizeof *packed_cases); c++)
      for (int t = 0; t < 4; t++) check_case(gpu_dtypes[d], &packed_cases[c], token_counts[t], 300 + (uint32_t)c);
}

static void check_slices(const op_target *target, const linear_case *cases, size_t n_cases, const int32_t *token_counts,
                         int n_counts)
{
  for (int d = 0; each_case(d, d < N_GPU_DTYPES); d++)
    for (size_t c = 0; each_case(c, c < n_cases); c++) {
      for (int t = 0; t < n_counts; t++)
        check_case_on(target, gpu_dtypes[d], &cases[c], token_counts[t], 400 + (uint32_t)c);
      check_linear_batches(target, gpu_dtypes[d], &cases[c]);
      if (cases[c].f32_output && cases[c].k_slices > 1) check_linear_halves(target, gpu_dtypes[d], &cases[c]);
    }
}

/* With ten thread blocks at a time, each has several tiles. */
static const linear_case sliced_cases_of_many_tiles[] = {
    {.parts = {{4096, 2048, 128, YK_F16, {0, 4096}, {0, 2048}, 128, false}},
     .n_parts = 1,
     .k_slices = 8,
     .f32_output = true},
    {.parts = {{512, 9216, 128, YK_F16, {0, 512}, {0, 9216}, 128, true},
               {512, 9216, 128, YK_F16, {0, 512}, {0, 9216}, 128, true}},
     .n_parts = 2,
     .activation = YK_GATED_SILU,
     .k_slices = 1},
    {.parts = {{512, 20000, 0, YK_F16, {0, 512}, {0, 20000}, 0, true}}, .n_parts = 1, .k_slices = 1},
};

/* Rows have the same bits in any batch, and halves of the slices add up to the whole. Kernels for 9.0. */
static void test_slices_of_inputs(void **state)
{
  yk_cuda_device_info info;
  (void)state;
  op_ok(yk_cuda_device_query(0, &info, &err));
  if (info.compute_major != 9) skip();
  static const int32_t token_counts[] = {1, 20, 150, 300};
  static const op_target restricted = CUDA_RESTRICTED(few_multiprocessors);
  check_slices(&cuda_target, sliced_cases, sizeof sliced_cases / sizeof *sliced_cases, token_counts, 4);
  check_slices(&restricted, sliced_cases_of_many_tiles,
               sizeof sliced_cases_of_many_tiles / sizeof *sliced_cases_of_many_tiles, token_counts, 3);
}

static void test_few_shapes(void **state)
{
  (void)state;
  static const int32_t token_counts[] = {1, 12, 24, 60, 130, 300}; /* tiles of every size */
  for (int c = 0; c < N_LINEAR_CASES; c++) check_case(gpu_dtypes[c % 2], &linear_cases[c], 7, 100 + (uint32_t)c);
  for (size_t c = 0; each_case(c, c < sizeof packed_cases / sizeof *packed_cases); c++)
    for (size_t t = 0; each_case(t, t < sizeof token_counts / sizeof *token_counts); t++)
      check_case(gpu_dtypes[(c + t) % 2], &packed_cases[c], token_counts[t], 300 + (uint32_t)c);
}

static void test_random_shapes(void **state)
{
  (void)state;
  for (uint32_t i = 0; i < 90; i++) {
    op_random random = {.seed = 7000 + i};
    linear_case shape = {.n_parts = (int)op_between(&random, 1, 3), .y_pad = op_between(&random, 0, 3)};
    int64_t k = op_uniform(&random) < 0.2 ? op_between(&random, 9, 90) : 8 * op_between(&random, 1, 48);
    yk_range k_slice = {op_between(&random, 0, k / 8) * 4, 0};
    k_slice.end = op_between(&random, k_slice.begin + 1, k);
    if (op_uniform(&random) < 0.7) k_slice.end = k;
    for (int p = 0; p < shape.n_parts; p++) shape.parts[p] = random_part(&random, k, k_slice);
    check_case(gpu_dtypes[i % 2], &shape, (int32_t)op_between(&random, 1, 40), 500 + i);
  }
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  static const struct {
    op_fault fault;
    const linear_case *shape;
  } faults[] = {{OP_NIBBLE_ORDER, &packed_cases[0]},    {OP_NO_SCALE, &packed_cases[0]},
                {OP_ZERO_PLUS_ONE, &packed_cases[0]},   {OP_NO_BIAS, &packed_cases[0]},
                {OP_GATE_UP_SWAPPED, &packed_cases[1]}, {OP_GROUP_SHIFT, &packed_cases[2]},
                {OP_NIBBLE_ORDER, &linear_cases[2]},    {OP_GROUP_SHIFT, &linear_cases[4]},
                {OP_GATE_UP_SWAPPED, &linear_cases[18]}};
  for (int d = 0; d < N_GPU_DTYPES; d++)
    for (size_t i = 0; each_case(i, i < sizeof faults / sizeof *faults); i++) {
      double error = linear_error(&cuda_target, gpu_dtypes[d], faults[i].shape, 3, 9, faults[i].fault);
      double tolerance = tolerance_of(gpu_dtypes[d], faults[i].shape);
      if (error < 5.0 * tolerance)
        fail_msg("fault %d passes: error %.3g, tolerance %.3g", (int)faults[i].fault, error, tolerance);
    }
}

static void test_same_bits_again(void **state)
{
  (void)state;
  for (size_t c = 0; each_case(c, c < sizeof packed_cases / sizeof *packed_cases); c++) {
    yk_device *dev = op_device_new(&cuda_target, YK_F16, 1, 16);
    linear_run run = linear_run_new(dev, &packed_cases[c], 150, 77);
    op_array first = linear_run_forward(dev, &run, 0, 150);
    for (int i = 0; i < 5; i++) {
      op_array again = linear_run_forward(dev, &run, 0, 150);
      assert_memory_equal(again.bytes, first.bytes, first.n * yk_dtype_bytes(first.dtype));
      op_array_free(dev, &again);
    }
    op_array_free(dev, &first);
    linear_run_free(dev, &run);
    dev->ops->destroy(dev);
  }
}

static void test_matrices_side_by_side(void **state)
{
  (void)state;
  static const int shapes[] = {2, 4, 11, 15, 17, 18};
  for (size_t s = 0; each_case(s, s < sizeof shapes / sizeof *shapes); s++)
    check_linear_matrices(&cuda_target, gpu_dtypes[s % 2], &linear_cases[shapes[s]], 7);
  for (size_t c = 0; each_case(c, c < sizeof packed_cases / sizeof *packed_cases); c++)
    check_linear_matrices(&cuda_target, gpu_dtypes[c % 2], &packed_cases[c], 40);
}

static void test_as_16_bits(void **state)
{
  (void)state;
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    for (int c = 0; c < N_LINEAR_CASES; c++) check_linear_as_16_bits(&cuda_target, gpu_dtypes[d], &linear_cases[c], 9);
    for (size_t c = 0; each_case(c, c < sizeof packed_cases / sizeof *packed_cases); c++)
      check_linear_as_16_bits(&cuda_target, gpu_dtypes[d], &packed_cases[c], 40);
  }
}

static void test_contradictions_are_refused(void **state)
{
  (void)state;
  check_linear_refusals(&cuda_target);
}

int main(void)
{
  int gate = gpu_gate(1);
  if (gate != GPU_GO) return gate;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_packed),
      cmocka_unit_test(test_random_shapes),
      cmocka_unit_test(test_planted_faults_are_seen),
      cmocka_unit_test(test_same_bits_again),
      cmocka_unit_test(test_matrices_side_by_side),
      cmocka_unit_test(test_as_16_bits),
      cmocka_unit_test(test_contradictions_are_refused),
      cmocka_unit_test(test_slices_of_inputs),
  };
  const struct CMUnitTest small[] = {cmocka_unit_test(test_few_shapes)};
  return gpu_is_small() ? cmocka_run_group_tests(small, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
