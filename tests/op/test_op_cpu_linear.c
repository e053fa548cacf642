/* test_op_cpu_linear.c - linear layers on the CPU device, every instruction set against float64. */
#include "each_case.h"
#include "op/op_cases_linear.h"
#include "op/op_cases_linear_fused.h"
#include "op/op_cpu_target.h"

static void check_random(const op_target *target)
{
  check_linear_random(target, TEST_IS_SANITIZED ? 20 : 90);
}

static void test_table(void **state)
{
  (void)state;
  for_each_cpu_target(check_linear_table);
}

static void test_random_shapes(void **state)
{
  (void)state;
  for_each_cpu_target(check_random);
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  for_each_cpu_target(check_linear_faults);
}

static void test_rows_do_not_depend_on_their_batch(void **state)
{
  (void)state;
  for_each_cpu_target(check_linear_batch_invariance);
}

static void check_slices(const op_target *target)
{
  for (size_t c = 0; each_case(c, c < sizeof sliced_cases / sizeof *sliced_cases); c++) {
    const linear_case *shape = &sliced_cases[c];
    for (size_t d = 0; d < 3; d++) {
      const yk_dtype dtype = op_dtypes[d];
      double tolerance = linear_tolerance(shape->f32_output ? YK_F32 : dtype, yk_range_size(shape->parts[0].k_slice));
      double error = linear_error(target, dtype, shape, 7, 400 + (uint32_t)c, OP_RIGHT);
      if (!(error <= tolerance)) fail_msg("%s: error %.3g, tolerance %.3g", target->name, error, tolerance);
      check_linear_batches(target, dtype, shape);
      if (shape->f32_output && shape->k_slices > 1) check_linear_halves(target, dtype, shape);
    }
  }
}

static void test_slices_of_inputs(void **state)
{
  (void)state;
  for_each_cpu_target(check_slices);
}

/* More inputs than a strip of weights has: groups that divide its ends and groups that do not, floats whose last vector
 * is short, both kinds of 8 bits, and rows so long that fewer are multiplied at a time. */
static void check_long_rows(const op_target *target)
{
  static const linear_case cases[] = {
      {.parts = {{2432, 16, 128, YK_F16, {0, 2432}, {0, 12}, 128, true}}, .n_parts = 1},
      {.parts = {{2432, 16, 128, YK_F16, {24, 2424}, {0, 12}, 8, false}}, .n_parts = 1},
      {.parts = {{2100, 12, 0, YK_F16, {9, 2100}, {0, 12}, 0, false}}, .n_parts = 1},
      {.parts = {{2432, 12, 128, YK_F32, {0, 2432}, {0, 12}, 128, false, true, true}}, .n_parts = 1},
      {.parts = {{2432, 12, 128, YK_F32, {24, 2424}, {0, 12}, 8, false, true, true}}, .n_parts = 1},
      {.parts = {{2432, 12, 128, YK_F32, {0, 2432}, {0, 12}, 128, false, true, .is_fp8 = true}}, .n_parts = 1},
      {.parts = {{16512, 8, 128, YK_F16, {0, 16512}, {0, 8}, 128, false}}, .n_parts = 1},
  };
  for (size_t c = 0; each_case(c, c < sizeof cases / sizeof *cases); c++) {
    double tolerance = linear_tolerance(YK_F32, yk_range_size(cases[c].parts[0].k_slice));
    for (int32_t n_tokens = 1; n_tokens <= 7; n_tokens += 6) {
      double error = linear_error(target, YK_F32, &cases[c], n_tokens, 300 + (uint32_t)c, OP_RIGHT);
      if (error > tolerance)
        fail_msg("%s case %zu, %d tokens: error %.3g, tolerance %.3g", target->name, c, n_tokens, error, tolerance);
    }
    check_linear_batches(target, YK_F32, &cases[c]);
  }
}

static void test_long_rows(void **state)
{
  (void)state;
  for_each_cpu_target(check_long_rows);
}

static void check_matrices(const op_target *target)
{
  static const int shapes[] = {2, 4, 9, 11, 15, 17, 18};
  for (size_t s = 0; each_case(s, s < sizeof shapes / sizeof *shapes); s++)
    check_linear_matrices(target, op_dtypes[s % 3], &linear_cases[shapes[s]], 7);
}

static void test_matrices_side_by_side(void **state)
{
  (void)state;
  for_each_cpu_target(check_matrices);
}

static void check_as_16_bits(const op_target *target)
{
  for (int d = 0; d < 3; d++)
    for (int c = 0; c < N_LINEAR_CASES; c++)
      for (int32_t n_tokens = 1; n_tokens <= 9; n_tokens += 8)
        check_linear_as_16_bits(target, op_dtypes[d], &linear_cases[c], n_tokens);
}

static void test_as_16_bits(void **state)
{
  (void)state;
  for_each_cpu_target(check_as_16_bits);
}

static void test_contradictions_are_refused(void **state)
{
  (void)state;
  for_each_cpu_target(check_linear_refusals);
}

static void check_fused(const op_target *target)
{
  const fused_count count = check_fused_linears(target, LARGE_INT4, TEST_IS_SANITIZED ? 1 << 14 : 1 << 20);
  assert_int_equal(count.norms + count.sums, 0);
}

static void test_norms_and_sums_apart(void **state)
{
  (void)state;
  for_each_cpu_target(check_fused);
}

/* Layers share large pieces of memory: each keeps its weights when its neighbours are freed in any order, and all
 * memory is freed (the sanitizer's leak check). */
static void check_shared_memory(const op_target *target)
{
  static const linear_case large = {.parts = {{1024, 640, 128, YK_F16, {0, 1024}, {0, 640}, 128, false}}, .n_parts = 1};
  enum { N_LAYERS = 5 };
  static const int order[N_LAYERS] = {1, 4, 0, 2, 3};
  yk_device *dev = op_device_new(target, YK_F16, 2, 16);
  linear_run runs[N_LAYERS];
  op_array before[N_LAYERS];
  for (int i = 0; i < N_LAYERS; i++) {
    runs[i] = linear_run_new(dev, &large, 1, 40 + (uint32_t)i);
    before[i] = linear_run_forward(dev, &runs[i], 0, 1);
  }
  for (int i = 0; i < N_LAYERS; i++) {
    op_array after = linear_run_forward(dev, &runs[order[i]], 0, 1);
    assert_memory_equal(after.bytes, before[order[i]].bytes, after.n * yk_dtype_bytes(after.dtype));
    op_array_free(dev, &after);
    op_array_free(dev, &before[order[i]]);
    linear_run_free(dev, &runs[order[i]]);
  }
  dev->ops->destroy(dev);
}

static void test_layers_share_memory(void **state)
{
  (void)state;
  for_each_cpu_target(check_shared_memory);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_random_shapes),
      cmocka_unit_test(test_planted_faults_are_seen),
      cmocka_unit_test(test_rows_do_not_depend_on_their_batch),
      cmocka_unit_test(test_slices_of_inputs),
      cmocka_unit_test(test_long_rows),
      cmocka_unit_test(test_matrices_side_by_side),
      cmocka_unit_test(test_as_16_bits),
      cmocka_unit_test(test_contradictions_are_refused),
      cmocka_unit_test(test_norms_and_sums_apart),
      cmocka_unit_test(test_layers_share_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
