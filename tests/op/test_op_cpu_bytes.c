/* test_op_cpu_bytes.c - weights of 8-bit integers and of 8-bit and 4-bit floats on the CPU device, every instruction
 * set against float64. */
#include "each_case.h"
#include "op/op_cases_linear.h"
#include "op/op_cpu_target.h"

/* Cuts, groups and sizes that the inner loops distinguish. k and n of the weight; group; (dtype); slices; local group;
 * bias; whether there are zeros, last. */
static const linear_case cases[] = {
    {.parts = {{256, 64, 128, YK_F32, {0, 256}, {0, 64}, 128, false, true, false}}, .n_parts = 1},
    {.parts = {{256, 64, 128, YK_F32, {0, 256}, {0, 64}, 128, true, true, true}}, .n_parts = 1},
    {.parts = {{320, 40, 64, YK_F32, {64, 320}, {3, 29}, 64, true, true, true}}, .n_parts = 1},
    {.parts = {{256, 48, 128, YK_F32, {96, 224}, {0, 48}, 32, false, true, true}}, .n_parts = 1},
    {.parts = {{256, 48, 128, YK_F32, {48, 256}, {0, 48}, 16, false, true, false}}, .n_parts = 1},
    {.parts = {{256, 48, 128, YK_F32, {24, 168}, {8, 48}, 8, false, true, true}}, .n_parts = 1}, /* inside vectors */
    {.parts = {{60, 24, 12, YK_F32, {12, 60}, {0, 24}, 12, false, true, false}}, .n_parts = 1},  /* likewise */
    {.parts = {{100, 17, 100, YK_F32, {0, 100}, {0, 17}, 100, true, true, true}}, .n_parts = 1}, /* channel */
    {.parts = {{100, 17, 100, YK_F32, {9, 77}, {0, 17}, 68, false, true, false}}, .n_parts = 1},
    {.parts = {{200, 24, 128, YK_F32, {0, 200}, {0, 24}, 128, true, true, true}}, .n_parts = 1}, /* a short group */
    {.parts = {{64, 32, 32, YK_F32, {32, 32}, {0, 32}, 32, true, true, true}}, .n_parts = 1},    /* empty k */
    {.parts = {{64, 32, 32, YK_F32, {0, 64}, {5, 5}, 32, false, true, false}}, .n_parts = 1},    /* empty n */
    {.parts = {{64, 1003, 64, YK_F32, {0, 64}, {501, 1003}, 64, false, true, true}},
     .n_parts = 1,
     .f32_output = true,
     .y_pad = 5},
    {.parts = {{96, 48, 32, YK_F16, {0, 96}, {0, 48}, 32, true}, /* q, k, v: 4 bits, 8 bits and floats */
               {96, 16, 48, YK_F32, {0, 96}, {0, 16}, 48, true, true, true},
               {96, 16, 0, YK_F16, {0, 96}, {8, 16}, 0, true}},
     .n_parts = 3},
    {.parts = {{128, 88, 64, YK_F32, {0, 128}, {8, 52}, 64, true, true, true},
               {128, 88, 128, YK_F32, {0, 128}, {8, 52}, 128, true, true, false}},
     .n_parts = 2,
     .activation = YK_GATED_SILU,
     .y_pad = 1},
};
enum { N_CASES = sizeof cases / sizeof *cases };

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

static double tolerance_of(const linear_case *shape, yk_dtype dtype)
{
  return linear_tolerance(shape->f32_output ? YK_F32 : dtype, yk_range_size(shape->parts[0].k_slice));
}

static void check_case(const op_target *target, yk_dtype dtype, const linear_case *shape, int c)
{
  static const int32_t token_counts[] = {1, 2, 7, 40};
  for (size_t t = 0; t < 4; t++) {
    double error = linear_error(target, dtype, shape, token_counts[t], 100 + (uint32_t)c, OP_RIGHT);
    if (error > tolerance_of(shape, dtype))
      fail_msg("%s %s case %d, %d tokens: error %.3g", target->name, yk_dtype_name(dtype), c, token_counts[t], error);
  }
}

static void check_table(const op_target *target)
{
  for (int c = 0; c < N_CASES; c++) {
    const linear_case of_8_bits = with_floats(&cases[c], 8), of_4_bits = with_floats(&cases[c], 4);
    for (size_t d = 0; d < 3; d++) check_case(target, op_dtypes[d], &cases[c], c);
    check_case(target, op_dtypes[c % 3], &of_8_bits, c);
    check_case(target, op_dtypes[(c + 1) % 3], &of_4_bits, c);
  }
}

static void test_table(void **state)
{
  (void)state;
  for_each_cpu_target(check_table);
}

/* The comparison must detect each planted fault, at ten times the tolerance. */
static void check_faults(const op_target *target)
{
  static const struct {
    op_fault fault;
    int shape;
  } faults[] = {{OP_NO_SCALE, 0},    {OP_ZERO_PLUS_ONE, 1}, {OP_GROUP_SHIFT, 3},
                {OP_GROUP_SHIFT, 5}, {OP_NO_BIAS, 2},       {OP_GATE_UP_SWAPPED, 14}};
  for (size_t i = 0; each_case(i, i < sizeof faults / sizeof *faults);
       i++) { /* bfloat16 is coarser than a step of 8 bits */
    const linear_case kinds[] = {cases[faults[i].shape], with_floats(&cases[faults[i].shape], 8),
                                 with_floats(&cases[faults[i].shape], 4)};
    for (int kind = 0; kind < (faults[i].fault == OP_ZERO_PLUS_ONE ? 1 : 3); kind++) {
      double error = linear_error(target, YK_F32, &kinds[kind], 3, 9, faults[i].fault);
      if (error < 10.0 * tolerance_of(&kinds[kind], YK_F32))
        fail_msg("fault %d in case %d passes: error %.3g", (int)faults[i].fault, faults[i].shape, error);
    }
  }
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  for_each_cpu_target(check_faults);
}

static void check_batches(const op_target *target)
{
  for (int c = 0; c < N_CASES; c++) {
    const linear_case kinds[] = {cases[c], with_floats(&cases[c], 8), with_floats(&cases[c], 4)};
    check_linear_batches(target, op_dtypes[c % 3], &kinds[c / 2 % 3]);
  }
}

static void test_rows_do_not_depend_on_their_batch(void **state)
{
  (void)state;
  for_each_cpu_target(check_batches);
}

static void check_matrices(const op_target *target)
{
  for (int c = 1; c < N_CASES; c += 4) {
    const linear_case kinds[] = {cases[c], with_floats(&cases[c], 8), with_floats(&cases[c], 4)};
    check_linear_matrices(target, op_dtypes[c % 3], &kinds[c / 4 % 3], 7);
  }
}

static void test_matrices_side_by_side(void **state)
{
  (void)state;
  for_each_cpu_target(check_matrices);
}

/* Weights that are not in the devices' form, or contradict themselves. */
static void check_refusals(const op_target *target)
{
  yk_device *dev = op_device_new(target, YK_F16, 1, 16);
  linear_run run = linear_run_new(dev, &cases[3], 2, 1);
  yk_linear *linear = NULL;
  for (int i = 0; i < 6; i++) {
    yk_linear_spec spec = run.spec;
    yk_linear_part *part = &spec.parts[0];
    yk_err err = YK_ERR_INIT;
    if (i == 0) part->weight.packing = YK_PACKING_GPTQ;
    if (i == 1) part->weight.dtype = YK_F16;
    if (i == 2) part->weight.qzeros = NULL;
    if (i == 3) part->weight.group = 0;
    if (i == 4) part->group_local = 64; /* crosses a group's end */
    if (i == 5) part->group_local = 0;
    assert_int_equal(dev->ops->linear_create(dev, &spec, &linear, &err), YK_E_INVAL);
    assert_non_null(strstr(err.message, "linear part 0"));
    assert_null(linear);
  }
  linear_run_free(dev, &run);
  dev->ops->destroy(dev);
}

static void test_contradictions_are_refused(void **state)
{
  (void)state;
  for_each_cpu_target(check_refusals);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_planted_faults_are_seen),
      cmocka_unit_test(test_rows_do_not_depend_on_their_batch),
      cmocka_unit_test(test_matrices_side_by_side),
      cmocka_unit_test(test_contradictions_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
