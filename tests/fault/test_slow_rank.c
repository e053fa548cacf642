/* One rank that is slower than the others, at every GEMM: the others' time is spent waiting for it, and it is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "kernels/device.h"
#include "yoke.h"

enum { N_RANKS = 3, N_TOKENS = 20, N_LAYERS = 2, GEMMS_A_LAYER = 4, PAUSE_NS = 2000000 };

/* Every CPU device gets a table whose linear layers go through here. */
static atomic_int n_devices, slow_rank;
static yk_device *devices[YK_MAX_RANKS];
static yk_device_ops slow_ops;
static const yk_device_ops *real_ops;

yk_status __real_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err);
yk_status __wrap_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err);

static yk_status slow_linear(yk_device *dev, const yk_linear *linear, const yk_linear_args *args, yk_err *err)
{
  if (dev == devices[atomic_load(&slow_rank)]) nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
  return real_ops->linear_forward(dev, linear, args, err);
}

yk_status __wrap_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err)
{
  YK_TRY(__real_yk_cpu_device_create(dtype, n_threads, limits, out, err));
  real_ops = (*out)->ops;
  slow_ops = *real_ops;
  slow_ops.linear_forward = slow_linear;
  (*out)->ops = &slow_ops;
  devices[atomic_fetch_add(&n_devices, 1)] = *out;
  return YK_OK;
}

static yk_engine *open_engine(void)
{
  yk_engine_options options;
  yk_engine *engine;
  yk_engine_options_init(&options);
  options.model_dir = YOKE_TESTS_DIR "/golden/families/qwen3";
  options.device = YK_DEVICE_CPU;
  options.n_ranks = N_RANKS;
  options.n_cpu_threads = 1;
  options.max_model_tokens = 64;
  atomic_store(&n_devices, 0);
  assert_int_equal(yk_engine_create(&options, &engine, NULL), YK_OK);
  return engine;
}

static void run_request(yk_engine *engine)
{
  static const int32_t ids[] = {1, 2, 3, 4, 5};
  yk_request_options options;
  yk_request *request;
  yk_output output;
  yk_request_options_init(engine, &options);
  options.ids = ids;
  options.n_ids = 5;
  options.sampling.max_tokens = N_TOKENS;
  options.sampling.ignore_eos = true;
  assert_int_equal(yk_engine_submit(engine, &options, &request, NULL), YK_OK);
  do assert_int_equal(yk_request_next(request, 60, &output, NULL), YK_OK);
  while (output.finish == YK_FINISH_NONE);
  yk_request_free(request);
}

static void the_others_wait_for(int slow)
{
  yk_profile profile;
  atomic_store(&slow_rank, slow);
  yk_engine *engine = open_engine();
  assert_int_equal(yk_engine_set_profile(engine, 1, NULL), YK_OK);
  run_request(engine);
  yk_engine_get_profile(engine, &profile);
  const yk_step_times *decode = &profile.decode;
  const double least_wait_s = 0.5 * N_LAYERS * GEMMS_A_LAYER * PAUSE_NS * 1e-9 * (double)decode->n_steps;
  assert_true(decode->n_steps >= N_TOKENS - 2);
  assert_int_equal(decode->n_all_reduces, (2 * N_LAYERS + 1) * decode->n_steps);
  assert_true(decode->slowest[slow] >= 2 * N_LAYERS * decode->n_steps * 9 / 10);
  for (int rank = 0; rank < N_RANKS; rank++) {
    const double *part_s = decode->part_s[rank];
    double sum_s = 0;
    for (int part = 0; part < YK_TIME_PARTS; part++) sum_s += part_s[part];
    assert_true(sum_s > 0.98 * decode->step_s && sum_s < 1.02 * decode->step_s);
    if (rank == slow) {
      assert_true(part_s[YK_TIME_ALL_REDUCE_WAIT] < 0.2 * least_wait_s);
      assert_true(part_s[YK_TIME_GEMM_QKV] > least_wait_s / GEMMS_A_LAYER);
    } else {
      assert_true(part_s[YK_TIME_ALL_REDUCE_WAIT] > least_wait_s);
    }
  }
  yk_engine_destroy(engine);
}

static void every_rank_may_be_slow(void **state)
{
  (void)state;
  for (int slow = 0; slow < N_RANKS; slow++) the_others_wait_for(slow);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_rank_may_be_slow)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
