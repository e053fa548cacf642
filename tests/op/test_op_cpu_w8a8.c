/* test_op_cpu_w8a8.c - the cases of op_cases_w8a8.h and op_cases_w8a8_grouped.h on the CPU device, with every
 * instruction set. */
#include "op/op_cases_w8a8_grouped.h"
#include "op/op_cpu_target.h"

/* The instruction sets of other tests, and the one with integer kernels only. */
static void for_each_target(void (*check)(const op_target *target))
{
  const yk_cpu_simd *vnni = yk_cpu_simd_find("avx512vnni");
  op_target target = {.name = "avx512vnni", .create = cpu_target_create, .variant = vnni};
  for_each_cpu_target(check);
  if (vnni) check(&target);
}

static void check_cases(const op_target *target)
{
  check_w8a8_cases(target, op_dtypes, 3, w8a8_cases, N_W8A8_CASES);
}

static void test_cases(void **state)
{
  (void)state;
  for_each_target(check_cases);
}

static void check_faults(const op_target *target)
{
  check_w8a8_faults(target, YK_F32);
}

static void test_the_comparison_sees_faults(void **state)
{
  (void)state;
  for_each_cpu_target(check_faults);
}

static void check_batches(const op_target *target)
{
  check_w8a8_batches(target);
}

static void test_rows_do_not_depend_on_their_batch(void **state)
{
  (void)state;
  for_each_target(check_batches);
}

static void check_ranks(const op_target *target)
{
  static const yk_dtype f32_first[] = {YK_F32, YK_F16, YK_BF16};
  check_w8a8_ranks(target, f32_first, 3);
}

static void test_ranks_agree_with_one_rank(void **state)
{
  (void)state;
  for_each_target(check_ranks);
}

static void check_grouped_ranks(const op_target *target)
{
  static const yk_dtype f32_first[] = {YK_F32, YK_F16, YK_BF16};
  check_w8a8_grouped_ranks(target, f32_first, 3);
}

static void test_ranks_that_cut_experts(void **state)
{
  (void)state;
  for_each_target(check_grouped_ranks);
}

static void check_refusals(const op_target *target)
{
  check_w8a8_refusals(target, YK_F32);
}

static void test_refusals(void **state)
{
  (void)state;
  for_each_cpu_target(check_refusals);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_cases),
      cmocka_unit_test(test_the_comparison_sees_faults),
      cmocka_unit_test(test_rows_do_not_depend_on_their_batch),
      cmocka_unit_test(test_ranks_agree_with_one_rank),
      cmocka_unit_test(test_ranks_that_cut_experts),
      cmocka_unit_test(test_refusals),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
