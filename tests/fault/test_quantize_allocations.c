/* Memory that runs out while a checkpoint is quantised: an error, no memory left, and the next call continues. */
#include "unit/quantize_fixture.h"

#include "fault/counted_alloc.h"
#include "yoke/process.h"

/* One allocation fails in each call: number first, then first + stride, and so on, until a call makes fewer allocations
 * than that and succeeds. Each call keeps the shards that earlier calls have finished. */
static void fail_allocations(const yk_quantize_options *options, int64_t first, int64_t stride)
{
  yk_quantize_report report;
  int n_failed = 0;
  for (int64_t i = first;; i += stride) {
    yk_err err = YK_ERR_INIT;
    counted_alloc_reset(i);
    yk_status status = yk_quantize(options, &report, &err);
    bool has_failed = counted_alloc_count() >= i;
    counted_alloc_reset(0);
    if (status == YK_OK && !has_failed) break;
    if (status == YK_OK) fail_msg("allocation %lld failed, without an error", (long long)i);
    if (status != YK_E_NOMEM && status != YK_E_CAPACITY)
      fail_msg("allocation %lld: %s: %s", (long long)i, yk_status_name(status), err.message);
    n_failed++;
  }
  assert_true(n_failed > 10);
}

static void rounding(void **state)
{
  (void)state;
  model m = model_make(24000);
  recorder r = {.n_left = -1};
  yk_quantize_options options = options_for(&m, &r);
  fail_allocations(&options, 1, 1);
  model_remove(&m);
}

static void scaling(void **state)
{
  (void)state;
  model m = qwen2_make();
  recorder r = {.n_left = -1};
  yk_quantize_options options = awq_options_for(&m, &r);
  fail_allocations(&options, 2, 19);
  model_remove(&m);
}

static void scaling_experts(void **state)
{
  (void)state;
  model m = deepseek_make();
  recorder r = {.n_left = -1};
  yk_quantize_options options = awq_options_for(&m, &r);
  fail_allocations(&options, 3, 31);
  model_remove(&m);
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(rounding), cmocka_unit_test(scaling),
                                     cmocka_unit_test(scaling_experts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
