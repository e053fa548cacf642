/* Memory that runs out while a machine is measured: an error in a row or of the whole call, and no memory or file
 * left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fault/counted_alloc.h"
#include "yoke/tools.h"
#include "yoke/yoke.h"

/* Rows with an error; -1: the call returned an error. */
static int measure(void)
{
  yk_machine_options options;
  yk_machine_report report;
  yk_err err = YK_ERR_INIT;
  int n_failed = 0;
  yk_machine_options_init(&options);
  options.device = YK_DEVICE_CPU;
  options.n_cpu_threads = 2;
  options.memory_bytes = 1 << 20;
  options.gemm_m = 1;
  options.gemm_k = options.gemm_n = 128;
  options.all_reduce_max_bytes = 1024;
  options.n_repeats = 3;
  yk_status status = yk_machine_measure(&options, &report, &err);
  for (size_t i = 0; i < report.n_rows; i++) n_failed += report.rows[i].error[0] != '\0';
  if (status != YK_OK) {
    assert_int_equal(status, YK_E_NOMEM);
    assert_true(err.message[0] != '\0');
    n_failed = -1;
  }
  yk_machine_report_free(&report);
  return n_failed;
}

static void any_allocation_may_fail(void **state)
{
  (void)state;
  counted_alloc_reset(0);
  assert_int_equal(measure(), 0);
  int64_t n = counted_alloc_count();
  int n_whole = 0;
  assert_true(n > 20);
  for (int64_t i = 1; i <= n; i++) {
    counted_alloc_reset(i);
    int n_failed = measure();
    if (n_failed == 0) fail_msg("allocation %lld of %lld failed, without an error", (long long)i, (long long)n);
    n_whole += n_failed < 0;
  }
  counted_alloc_reset(0);
  assert_int_equal(measure(), 0);
  assert_true(n_whole > 0); /* the rows themselves */
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(any_allocation_may_fail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
