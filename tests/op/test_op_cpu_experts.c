/* test_op_cpu_experts.c - a mixture of experts' operations on the CPU device, every instruction set. */
#include "each_case.h"
#include "op/op_cases_mixture.h"
#include "op/op_cpu_target.h"

enum { N_DTYPES = TEST_IS_SANITIZED ? 1 : 3 }; /* float16 is the first */

static void test_routing(void **state)
{
  (void)state;
  for_each_cpu_target(check_routes);
}

static void check_all_routers(const op_target *target)
{
  check_routers(target, N_DTYPES);
}

static void test_routers(void **state)
{
  (void)state;
  for_each_cpu_target(check_all_routers);
}

static void check_all_combines(const op_target *target)
{
  check_combines(target, N_DTYPES);
}

static void test_combination(void **state)
{
  (void)state;
  for_each_cpu_target(check_all_combines);
}

/* Rows do not depend on other rows: bit for bit. */
static void check_grouped(const op_target *target)
{
  static const int shapes[] = {2, 4, 9, 11, 15, 17};
  for (size_t s = 0; each_case(s, s < sizeof shapes / sizeof *shapes); s++)
    check_linear_grouped(target, op_dtypes[s % 3], &linear_cases[shapes[s]], s % 2 == 0, 0.0);
  static const linear_case w8a8 = {
      .parts = {{136, 21, 136, YK_F32, {0, 136}, {0, 21}, 136, true, true, .inputs = YK_INPUTS_PER_TOKEN},
                {136, 21, 136, YK_F32, {0, 136}, {0, 21}, 136, true, true, .inputs = YK_INPUTS_PER_TOKEN}},
      .n_parts = 2,
      .activation = YK_GATED_SILU};
  check_linear_grouped(target, YK_F16, &w8a8, true, 0.0);
}

static void test_grouped_layers(void **state)
{
  (void)state;
  for_each_cpu_target(check_grouped);
}

static void check_orders(const op_target *target)
{
  static const int shapes[] = {2, 4, 11, 15, 17};
  for (size_t s = 0; each_case(s, s < sizeof shapes / sizeof *shapes); s++) {
    const linear_case *shape = &linear_cases[shapes[s]];
    int64_t k = yk_range_size(shape->parts[0].k_slice);
    check_grouped_order(target, op_dtypes[s % 3], shape, k + 5 * ((int64_t)s % 3 - 1), s % 2 == 0, 0.0);
  }
}

static void test_grouped_orders(void **state)
{
  (void)state;
  for_each_cpu_target(check_orders);
}

static void check_row(const op_target *target)
{
  check_grouped_row(target, YK_F32, &linear_cases[4], 0.0);
}

static void test_grouped_row(void **state)
{
  (void)state;
  for_each_cpu_target(check_row);
}

static void check_all_mixtures(const op_target *target)
{
  static const mixture_way ways[] = {mixture_whole, mixture_tapped};
  for (int c = 0; c < N_MIXTURE_CASES; c++) {
    /* More weights than the kernels of GPUs keep in shared memory: other sizes run the same code here. */
    const bool is_large = mixture_cases[c].hidden * mixture_cases[c].ffn > 1 << 19;
    if (is_large && strcmp(target->name, "portable") == 0) continue;
    check_mixture(target, op_dtypes[c % 3], &mixture_cases[c], ways, 2, 0.0);
  }
}

static void test_mixture(void **state)
{
  (void)state;
  for_each_cpu_target(check_all_mixtures);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_routing),        cmocka_unit_test(test_routers),     cmocka_unit_test(test_combination),
      cmocka_unit_test(test_grouped_layers), cmocka_unit_test(test_grouped_row), cmocka_unit_test(test_grouped_orders),
      cmocka_unit_test(test_mixture),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
