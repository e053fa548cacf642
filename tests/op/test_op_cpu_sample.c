/* test_op_cpu_sample.c - sampling on the CPU device. The sampler has no code specific to an instruction set. */
#include "op/op_cases_sample.h"
#include "op/op_cpu_target.h"

int main(void)
{
  op_target target = {.name = "cpu", .create = cpu_target_create, .variant = yk_cpu_simd_best()};
  const struct CMUnitTest tests[] = {SAMPLE_TESTS(&target)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
