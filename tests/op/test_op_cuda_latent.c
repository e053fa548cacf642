/* test_op_cuda_latent.c - latent attention on a GPU. */
#include "op/op_cases_latent.h"
#include "op/op_cuda_target.h"

static void test_table(void **state)
{
  (void)state;
  check_latent_table(&cuda_target, N_GPU_DTYPES, false);
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  check_latent_faults(&cuda_target, YK_BF16);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_planted_faults_are_seen)};
  int gate = gpu_gate(1);
  return gate ? gate : cmocka_run_group_tests(tests, NULL, NULL);
}
