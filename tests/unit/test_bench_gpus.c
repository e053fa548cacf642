/* test_bench_gpus.c - the state of GPUs through a stand-in for libnvidia-ml.so.1: correct, misbehaving, without some
 * functions (argument "poor"), and absent ("none"). */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "bench/gpus.h"

typedef struct messages {
  int n;
  char text[32][512];
} messages;

static void keep(void *user, yk_log_level level, const char *message)
{
  messages *all = user;
  assert_int_equal(level, YK_LOG_WARN);
  if (all->n < 32) strncpy(all->text[all->n++], message, 511);
}

static int count(const messages *all, const char *part)
{
  int n = 0;
  for (int i = 0; i < all->n; i++) n += strstr(all->text[i], part) != NULL;
  return n;
}

/* Two runs, so that double counting shows. Returns the number of GPUs. */
static int run(messages *all, const char *mode, yk_bench_gpu_run *runs, yk_bench_warnings *others)
{
  static const int ids[] = {0, 1};
  *all = (messages){0};
  yk_log log = {YK_LOG_INFO, keep, all};
  yk_bench_gpus *gpus;
  int n = 0;
  if (mode)
    setenv("FAKE_NVML", mode, 1);
  else
    unsetenv("FAKE_NVML");
  assert_int_equal(yk_bench_gpus_open(ids, 2, &log, &gpus, NULL), YK_OK);
  if (others) yk_bench_gpus_find_others(gpus, others);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(yk_bench_gpus_start(gpus, NULL), YK_OK);
    nanosleep(&(struct timespec){0, 150000000}, NULL);
    n = yk_bench_gpus_stop(gpus, runs);
  }
  yk_bench_gpus_close(gpus);
  return n;
}

static void test_whole(void **state)
{
  (void)state;
  static messages all;
  yk_bench_gpu_run runs[YK_BENCH_MAX_GPUS];
  yk_bench_warnings warnings = {0};
  assert_int_equal(run(&all, NULL, runs, &warnings), 2);
  assert_int_equal(all.n, 0);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(runs[i].id, i);
    assert_true(runs[i].before.sm_clock_mhz == 1980 && runs[i].after.memory_clock_mhz == 3201);
    assert_true(runs[i].after.temperature_c == 41 && fabs(runs[i].after.power_w - 250.5) < 1e-9);
    assert_true(runs[i].before.power_cap_w == 700 && runs[i].after.throttle_reasons == 4);
    assert_true(fabs(runs[i].energy_j - 2) < 1e-9); /* the other GPU's query is between */
  }
  assert_int_equal(warnings.n, 2);
  assert_string_equal(warnings.text[0], "GPU 0: other processes use it: 1000001");
  yk_bench_gpus_compare(runs, 2, &warnings);
  assert_string_equal(warnings.text[2], "GPU 0 was slowed down: power cap");
}

static void test_misbehaving(void **state)
{
  (void)state;
  static messages all;
  yk_bench_gpu_run runs[YK_BENCH_MAX_GPUS];
  yk_bench_warnings warnings = {0};
  assert_int_equal(run(&all, "init", runs, NULL), 0);
  assert_true(all.n == 1 && count(&all, "nvmlInit_v2 failed with code 9") == 1);
  assert_int_equal(run(&all, "handle", runs, NULL), 0);
  assert_true(all.n == 1 && count(&all, "of GPU 0 are not measured: NVML does not find 0000:02:00.0 (code 6)") == 1);

  assert_int_equal(run(&all, "refuse", runs, &warnings), 2);
  assert_int_equal(all.n, 8); /* each figure once, for two GPUs in two runs */
  assert_int_equal(count(&all, "NVML failed with code 3"), 8);
  assert_true(isnan(runs[0].energy_j) && isnan(runs[1].after.sm_clock_mhz) && runs[0].after.throttle_reasons == 0);
  assert_int_equal(warnings.n, 0);

  assert_int_equal(run(&all, "nonsense", runs, &warnings), 2);
  assert_int_equal(count(&all, "NVML reports 4e+09"), 4); /* both clocks, temperature, processes */
  assert_int_equal(count(&all, "NVML reports 4e+06"), 2); /* W */
  assert_true(isnan(runs[0].energy_j) && isnan(runs[0].before.temperature_c) && isnan(runs[1].after.power_w));
  assert_int_equal(warnings.n, 0);

  run(&all, "crowd", runs, &warnings);
  assert_string_equal(warnings.text[0], "GPU 0: more than 64 processes use it");
  warnings.n = 0;
  run(&all, "many", runs, &warnings);
  assert_string_equal(warnings.text[1], "GPU 1: other processes use it: 1000001, 1000002, 1000003, 1000004, 1000005, "
                                        "1000006, 1000007, 1000008, ...");
}

static void test_arguments(void **state)
{
  (void)state;
  static const yk_log quiet = {0};
  static const int ids[] = {0, 7};
  yk_bench_gpus *gpus;
  unsetenv("FAKE_NVML");
  assert_int_equal(yk_bench_gpus_open(ids, 0, &quiet, &gpus, NULL), YK_E_INVAL);
  assert_int_equal(yk_bench_gpus_open(ids, YK_BENCH_MAX_GPUS + 1, &quiet, &gpus, NULL), YK_OK); /* too many: none */
  assert_null(gpus);
  assert_int_equal(yk_bench_gpus_open(ids, 2, &quiet, &gpus, NULL), YK_OK); /* there is no GPU 7: all or none */
  assert_null(gpus);
  yk_bench_gpus_close(NULL);
  assert_int_equal(yk_bench_gpus_start(NULL, NULL), YK_OK);
  assert_int_equal(yk_bench_gpus_stop(NULL, NULL), 0);
}

static void test_poor(void **state)
{
  (void)state;
  static messages all;
  yk_bench_gpu_run runs[YK_BENCH_MAX_GPUS];
  yk_bench_warnings warnings = {0};
  assert_int_equal(run(&all, NULL, runs, &warnings), 2);
  assert_int_equal(all.n, 3);
  assert_int_equal(count(&all, "GPUs: temperature will not be measured: "), 1);
  assert_int_equal(count(&all, "GPUs: energy will not be measured: "), 1);
  assert_int_equal(count(&all, "nvmlDeviceGetComputeRunningProcesses_v3"), 1);
  assert_true(isnan(runs[0].energy_j) && isnan(runs[0].after.temperature_c) && runs[0].after.sm_clock_mhz == 1980);
  assert_int_equal(warnings.n, 0);
}

static void test_none(void **state)
{
  (void)state;
  static messages all;
  yk_bench_gpu_run runs[YK_BENCH_MAX_GPUS];
  assert_int_equal(run(&all, NULL, runs, NULL), 0);
  assert_int_equal(all.n, 1);
  assert_int_equal(count(&all, "are not measured: libnvidia-ml.so.1"), 1);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest whole[] = {cmocka_unit_test(test_whole), cmocka_unit_test(test_misbehaving),
                                     cmocka_unit_test(test_arguments)};
  const struct CMUnitTest poor[] = {cmocka_unit_test(test_poor)}, none[] = {cmocka_unit_test(test_none)};
  if (argc > 1 && strcmp(argv[1], "poor") == 0) return cmocka_run_group_tests(poor, NULL, NULL);
  if (argc > 1 && strcmp(argv[1], "none") == 0) return cmocka_run_group_tests(none, NULL, NULL);
  return cmocka_run_group_tests(whole, NULL, NULL);
}
