/* test_op_cpu_order.c - layers whose parts have separate orders of inputs, on the CPU device. */
#include "op/op_cases_order.h"
#include "op/op_cpu_target.h"

static void check_cases(const op_target *target)
{
  static const int32_t rows[] = {1, 5, 50};
  for (int c = 0; c < N_ORDER_CASES; c++) /* bit for bit; the expected epilogue is that of float32 results */
    for (int i = 0; i < 3; i++) {
      bool has_epilogue = order_cases[c].activation.is_gated;
      check_order_case(target, &order_cases[c], has_epilogue ? YK_F32 : op_dtypes[(c + i) % 3], rows[i], 1, true,
                       has_epilogue ? 1e-5 : 0.0);
    }
}

/* More columns of x than fit in any GPU's shared memory. */
static void check_long_rows(const op_target *target)
{
  check_order_case(target, &order_cases[1], YK_F16, 5, 800, true, 0.0);
}

static void test_orders_of_long_rows(void **state)
{
  (void)state;
  for_each_cpu_target(check_long_rows);
}

static void test_each_part_in_its_order(void **state)
{
  (void)state;
  for_each_cpu_target(check_cases);
}

static void check_refusals(const op_target *target)
{
  yk_device *dev = op_device_new(target, YK_F16, 1, 16);
  const linear_case shape = {.parts = {{32, 24, 32, YK_F16, {0, 32}, {0, 24}, 32, false, false, false}}, .n_parts = 1};
  linear_run run = linear_run_new(dev, &shape, 1, 1);
  for (int i = 0; i < 6; i++) {
    int32_t order[32] = {0};
    yk_linear *linear = NULL;
    yk_err err = YK_ERR_INIT;
    yk_linear_spec spec = run.spec;
    spec.parts[0].x_size = 40;
    spec.parts[0].x_order = order;
    if (i == 0) order[31] = 40;
    if (i == 1) order[3] = -2;
    if (i == 2) spec.parts[0].x_size = 0;
    if (i == 3) spec.parts[0].x_size = -1;
    if (i == 4) spec.parts[0].x_order = NULL;
    if (i == 5) spec.n_parts = 2, spec.parts[1] = run.spec.parts[0]; /* the case has 32 columns of x */
    assert_int_equal(dev->ops->linear_create(dev, &spec, &linear, &err), YK_E_INVAL);
    if (i == 0) assert_non_null(strstr(err.message, "input 31: expected a column of x from -1 to 39, found 40"));
    if (i == 5) assert_non_null(strstr(err.message, "expected 40 inputs as in part 0, found 32"));
    assert_null(linear);
  }
  linear_run_free(dev, &run);
  dev->ops->destroy(dev);
}

static void test_orders_that_are_none(void **state)
{
  (void)state;
  for_each_cpu_target(check_refusals);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_part_in_its_order),
                                     cmocka_unit_test(test_orders_of_long_rows),
                                     cmocka_unit_test(test_orders_that_are_none)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
