/* Timed steps with a fault: a rank that is slower than the others, which then wait for it; timestamps that fail; no
 * memory for a trace. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "fault/counted_alloc.h"
#include "kernels/device.h"
#include "trace/trace.h"
#include "yoke/yoke.h"

enum { N_RANKS = 3, N_TOKENS = 20, N_LAYERS = 2, GEMMS_A_LAYER = 4, PAUSE_NS = 10000000 };

/* Every CPU device gets a table whose linear layers are wrapped here. */
static atomic_int n_devices, slow_rank, fail_at_stamp, pause_at_stamp, n_stamps; /* slow_rank -1: none */
static atomic_bool download_fails;
static yk_device *devices[YK_MAX_RANKS];
static yk_device_ops slow_ops;
static const yk_device_ops *real_ops;

yk_status __real_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err);
yk_status __wrap_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err);

static yk_status slow_linear(yk_device *dev, const yk_linear *linear, const yk_linear_args *args, yk_err *err)
{
  int slow = atomic_load(&slow_rank);
  if (slow >= 0 && dev == devices[slow]) nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
  return real_ops->linear_forward(dev, linear, args, err);
}

/* Timestamps of rank 1: one of them fails, or its thread is descheduled before one. */
static yk_status failing_timestamp(yk_device *dev, int64_t *at, yk_err *err)
{
  int n = dev == devices[1] ? atomic_fetch_add(&n_stamps, 1) + 1 : -1;
  if (n == atomic_load(&fail_at_stamp)) return yk_err_set(err, YK_E_DEVICE, "made to fail");
  if (n == atomic_load(&pause_at_stamp)) nanosleep(&(struct timespec){0, 10 * PAUSE_NS}, NULL);
  return real_ops->timestamp(dev, at, err);
}

static yk_status failing_download(yk_device *dev, void *dst, const void *src, size_t n_bytes, yk_err *err)
{
  if (dev == devices[1] && atomic_load(&download_fails)) return yk_err_set(err, YK_E_DEVICE, "made to fail");
  return real_ops->download(dev, dst, src, n_bytes, err);
}

yk_status __wrap_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err)
{
  YK_TRY(__real_yk_cpu_device_create(dtype, n_threads, limits, out, err));
  real_ops = (*out)->ops;
  slow_ops = *real_ops;
  slow_ops.linear_forward = slow_linear;
  slow_ops.timestamp = failing_timestamp;
  slow_ops.download = failing_download;
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
  options.log.level = YK_LOG_ERROR;
  atomic_store(&n_devices, 0);
  atomic_store(&fail_at_stamp, 0);
  atomic_store(&n_stamps, 0);
  atomic_store(&download_fails, false);
  assert_int_equal(yk_engine_create(&options, &engine, NULL), YK_OK);
  return engine;
}

static yk_finish_reason run_request(yk_engine *engine, yk_err *err)
{
  static const int32_t ids[] = {1, 2, 3, 4, 5};
  yk_request_options options;
  yk_request *request;
  yk_request_options_init(engine, &options);
  options.ids = ids;
  options.n_ids = 5;
  options.sampling.max_tokens = N_TOKENS;
  options.sampling.ignore_eos = true;
  assert_int_equal(yk_engine_submit(engine, &options, &request, NULL), YK_OK);
  yk_finish_reason reason = YK_FINISH_NONE;
  while (reason == YK_FINISH_NONE) {
    const yk_output *output;
    yk_status status = yk_request_next(request, 60, &output, err);
    assert_int_not_equal(status, YK_E_AGAIN);
    reason = status == YK_OK ? output->finish : YK_FINISH_ERROR;
  }
  yk_request_free(request);
  return reason;
}

static void the_others_wait_for(int slow)
{
  yk_profile profile;
  atomic_store(&slow_rank, slow);
  yk_engine *engine = open_engine();
  assert_int_equal(yk_engine_set_profile(engine, 1, NULL), YK_OK);
  assert_int_equal(run_request(engine, NULL), YK_FINISH_LENGTH);
  yk_engine_get_profile(engine, &profile);
  const yk_step_times *decode = &profile.decode;
  const double least_wait_s = 0.5 * N_LAYERS * GEMMS_A_LAYER * PAUSE_NS * 1e-9 * (double)decode->n_steps;
  assert_true(decode->n_steps >= N_TOKENS - 3);
  assert_int_equal(decode->n_all_reduces, (2 * N_LAYERS + 1) * decode->n_steps);
  assert_true(decode->slowest[slow] > decode->n_all_reduces / 2);
  for (int rank = 0; rank < N_RANKS; rank++) {
    const double *part_s = decode->part_s[rank];
    double sum_s = 0;
    for (int part = 0; part < YK_TIME_PARTS; part++) sum_s += part_s[part];
    assert_true(sum_s > 0.98 * decode->step_s && sum_s < 1.02 * decode->step_s);
    if (rank == slow) {
      assert_true(part_s[YK_TIME_GEMM_QKV] > least_wait_s / GEMMS_A_LAYER);
    } else {
      assert_true(part_s[YK_TIME_ALL_REDUCE_WAIT] > least_wait_s);
      assert_true(part_s[YK_TIME_ALL_REDUCE_WAIT] > 2 * decode->part_s[slow][YK_TIME_ALL_REDUCE_WAIT]);
    }
  }
  yk_engine_destroy(engine);
}

/* Also if a thread is descheduled while the device measures the cost of a timestamp, before the first step. */
static void every_rank_may_be_slow(void **state)
{
  (void)state;
  for (int slow = 0; slow < N_RANKS; slow++) {
    atomic_store(&pause_at_stamp, slow ? 10 : 0);
    the_others_wait_for(slow);
  }
  atomic_store(&pause_at_stamp, 0);
}

/* Every timestamp of the first two steps, numbered from the start of the first, and their readout. */
static void timestamps_may_fail(void **state)
{
  (void)state;
  enum { STAMPS_A_STEP = 2 + 1 + 7 * N_LAYERS + 5, READING = 0 };
  atomic_store(&slow_rank, -1);
  for (int fail_at = READING; fail_at < 2 * STAMPS_A_STEP; fail_at += fail_at < STAMPS_A_STEP ? 1 : 5) {
    yk_err err = YK_ERR_INIT;
    yk_engine *engine = open_engine();
    atomic_store(&n_stamps, 0);
    atomic_store(&fail_at_stamp, fail_at);
    atomic_store(&download_fails, fail_at == READING);
    assert_int_equal(yk_engine_set_profile(engine, 1, NULL), YK_OK);
    assert_int_equal(run_request(engine, &err), YK_FINISH_ERROR);
    assert_int_equal(err.code, YK_E_DEVICE);
    assert_non_null(strstr(err.message, fail_at == READING ? "rank 1, timestamps: made to fail" : "rank 1, "));
    assert_non_null(strstr(err.message, "made to fail"));
    yk_engine_destroy(engine);
  }
}

static yk_status write_a_trace(yk_err *err)
{
  yk_trace *trace;
  const yk_trace_slice slice = {.name = "slice", .layer = -1, .n_rows = -1};
  YK_TRY(yk_trace_create("/dev/null", 1, &trace, err));
  for (int i = 0; i < 10000; i++) yk_trace_add(trace, &slice);
  return yk_trace_finish(trace, err);
}

static void no_memory_for_a_trace(void **state)
{
  (void)state;
  counted_alloc_reset(0);
  assert_int_equal(write_a_trace(NULL), YK_OK);
  int64_t n_allocations = counted_alloc_count();
  assert_true(n_allocations > 3);
  for (int64_t fail_at = 1; fail_at <= n_allocations; fail_at++) {
    yk_err err = YK_ERR_INIT;
    counted_alloc_reset(fail_at);
    assert_int_equal(write_a_trace(&err), YK_E_NOMEM);
    assert_non_null(strstr(err.message, "no memory for"));
  }
  counted_alloc_reset(0);
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_rank_may_be_slow), cmocka_unit_test(timestamps_may_fail),
                                     cmocka_unit_test(no_memory_for_a_trace)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
