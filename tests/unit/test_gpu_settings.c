/* test_gpu_settings.c - settings that depend on the GPUs of the machine are refused by a plan, before weights are read.
 * Stand-ins take the place of the functions that look at GPUs. */
#include "engine/machine/gpus.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "unit/loader_fixture.h"
#include "yoke/yoke.h"

enum { N_GPUS = 2 };

bool __wrap_yk_gpus_are_built(void);
int __wrap_yk_gpus_count(void);
yk_status __wrap_yk_gpus_budget(const yk_settings *settings, double utilization, int64_t *n_bytes, yk_err *err);
yk_status __wrap_yk_gpus_check_hopper(const yk_settings *settings, const char *option, const char *supported,
                                      yk_err *err);

bool __wrap_yk_gpus_are_built(void)
{
  return true;
}

int __wrap_yk_gpus_count(void)
{
  return N_GPUS;
}

yk_status __wrap_yk_gpus_budget(const yk_settings *settings, double utilization, int64_t *n_bytes, yk_err *err)
{
  (void)settings, (void)utilization, (void)err;
  *n_bytes = INT64_C(8) << 30;
  return YK_OK;
}

/* GPUs of 8.0. */
yk_status __wrap_yk_gpus_check_hopper(const yk_settings *settings, const char *option, const char *supported,
                                      yk_err *err)
{
  assert_int_equal(settings->device, YK_DEVICE_CUDA);
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: found 8.0; supported: %s", option, supported);
}

static yk_engine_options options_of(const char *model_dir)
{
  yk_engine_options options;
  yk_engine_options_init(&options);
  options.model_dir = model_dir;
  options.device = YK_DEVICE_CUDA;
  options.max_model_tokens = 64;
  return options;
}

static void invariance_of_4_bit_weights(void **state)
{
  (void)state;
  yk_engine_options options = options_of(YOKE_TESTS_DIR "/models/demo");
  yk_plan plan;
  yk_err err = YK_ERR_INIT;
  expect_ok("without the option", yk_plan_make(&options, 0, &plan, &err), &err);
  options.batch_invariant = true;
  expect_error("4-bit weights", YK_E_UNSUPPORTED, "batch_invariant: 4-bit weights: found 8.0; supported: weights f16",
               yk_plan_make(&options, 0, &plan, &err), &err);
  expect_ok("GPUs of another machine", yk_plan_make(&options, INT64_C(8) << 30, &plan, &err), &err);
  options.weights = YK_WEIGHTS_F16;
  expect_ok("weights f16", yk_plan_make(&options, 0, &plan, &err), &err);
  options.weights = YK_WEIGHTS_AUTO;
  options.device = YK_DEVICE_CPU;
  expect_ok("CPU ranks", yk_plan_make(&options, 0, &plan, &err), &err);
}

static void activations_of_8_bits(void **state)
{
  (void)state;
  yk_engine_options options = options_of(YOKE_TESTS_DIR "/models/demo");
  yk_plan plan;
  yk_err err = YK_ERR_INIT;
  options.activations = YK_ACTIVATIONS_INT8;
  expect_error("int8", YK_E_UNSUPPORTED, "activations int8: found 8.0; supported: auto",
               yk_plan_make(&options, 0, &plan, &err), &err);
  options = options_of(YOKE_TESTS_DIR "/golden/families/format_compressed_w4a8");
  options.log.level = YK_LOG_ERROR;
  expect_ok("a request of the checkpoint", yk_plan_make(&options, 0, &plan, &err), &err);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(invariance_of_4_bit_weights),
                                     cmocka_unit_test(activations_of_8_bits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
