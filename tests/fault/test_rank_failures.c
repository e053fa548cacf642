/* A rank that fails or stalls, at any operation of any layer: the error names the rank, the others return, every
 * request ends, and a new engine in the same process works. */
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "each_case.h"
#include "kernels/device.h"
#include "yoke/yoke.h"

/* Every CPU device gets a table whose linear layers and attention are wrapped here. */
static atomic_int n_devices, n_calls, fail_at_call, failing_device;
static atomic_int n_first_calls;         /* of rank 0 */
static atomic_int stall_ms;              /* of the failing call; 0: it returns an error */
static atomic_int n_permitted = INT_MAX; /* further calls of the failing rank wait until this grows */
static yk_device *devices[YK_MAX_RANKS];
static yk_device_ops faulty_ops;
static const yk_device_ops *real_ops;

yk_status __real_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err);
yk_status __wrap_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err);

static void sleep_ms(int64_t ms)
{
  nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

static yk_status maybe_fail(const yk_device *dev, yk_err *err)
{
  int failing = atomic_load(&failing_device);
  if (dev == devices[0]) atomic_fetch_add(&n_first_calls, 1);
  if (failing < 0 || dev != devices[failing]) return YK_OK;
  const int call = atomic_fetch_add(&n_calls, 1) + 1;
  while (call > atomic_load(&n_permitted)) sleep_ms(1);
  if (call != atomic_load(&fail_at_call)) return YK_OK;
  if (atomic_load(&stall_ms) == 0) return yk_err_set(err, YK_E_DEVICE, "made to fail");
  sleep_ms(atomic_load(&stall_ms));
  return YK_OK;
}

static yk_status faulty_linear(yk_device *dev, const yk_linear *linear, const yk_linear_args *args, yk_err *err)
{
  YK_TRY(maybe_fail(dev, err));
  return real_ops->linear_forward(dev, linear, args, err);
}

static yk_status faulty_maxima(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err)
{
  YK_TRY(maybe_fail(dev, err));
  return real_ops->linear_maxima(dev, linear, args, err);
}

static yk_status faulty_sums(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err)
{
  YK_TRY(maybe_fail(dev, err));
  return real_ops->linear_sums(dev, linear, args, err);
}

static yk_status faulty_scale(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err)
{
  YK_TRY(maybe_fail(dev, err));
  return real_ops->linear_scale(dev, linear, args, err);
}

static yk_status faulty_attention(yk_device *dev, const yk_attention_args *args, yk_err *err)
{
  YK_TRY(maybe_fail(dev, err));
  return real_ops->attention(dev, args, err);
}

/* After a mixture's forward: the host of the model itself, and a rank that may fail at the start of a phase. */
typedef struct faulty_host {
  yk_device *dev;
  const yk_mixture_host *real;
} faulty_host;

static yk_status faulty_begin(void *user, yk_mixture_phase phase, yk_err *err)
{
  const faulty_host *host = user;
  const bool is_exchange = phase == YK_MIXTURE_MAXIMA_EXCHANGE || phase == YK_MIXTURE_SHARED_MAXIMA_EXCHANGE ||
                           phase == YK_MIXTURE_SHARED_SUMS_EXCHANGE;
  YK_TRY(host->real->begin(host->real->user, phase, err));
  return is_exchange ? YK_OK : maybe_fail(host->dev, err);
}

static yk_status faulty_reduce(void *user, int32_t *data, int64_t count, yk_reduction reduction, yk_err *err)
{
  const faulty_host *host = user;
  return host->real->all_reduce(host->real->user, data, count, reduction, err);
}

static yk_status faulty_mixture(yk_device *dev, const yk_mixture *mixture, const yk_mixture_args *args, yk_err *err)
{
  faulty_host host = {dev, args->host};
  const yk_mixture_host between = {.user = &host, .begin = faulty_begin, .all_reduce = faulty_reduce};
  yk_mixture_args own = *args;
  own.host = &between;
  return real_ops->mixture_forward(dev, mixture, &own, err);
}

static yk_status faulty_latent_attention(yk_device *dev, const yk_latent_attention_args *args, yk_err *err)
{
  YK_TRY(maybe_fail(dev, err));
  return real_ops->latent_attention(dev, args, err);
}

static yk_status faulty_sample(yk_device *dev, const yk_sample_args *args, yk_err *err)
{
  YK_TRY(maybe_fail(dev, err));
  return real_ops->sample(dev, args, err);
}

static yk_status faulty_best_logits(yk_device *dev, const yk_best_logits_args *args, yk_err *err)
{
  YK_TRY(maybe_fail(dev, err));
  return real_ops->best_logits(dev, args, err);
}

yk_status __wrap_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err)
{
  YK_TRY(__real_yk_cpu_device_create(dtype, n_threads, limits, out, err));
  real_ops = (*out)->ops;
  faulty_ops = *real_ops;
  faulty_ops.linear_forward = faulty_linear;
  faulty_ops.linear_maxima = faulty_maxima;
  faulty_ops.linear_sums = faulty_sums;
  faulty_ops.linear_scale = faulty_scale;
  faulty_ops.attention = faulty_attention;
  faulty_ops.mixture_forward = faulty_mixture;
  faulty_ops.latent_attention = faulty_latent_attention;
  faulty_ops.sample = faulty_sample;
  faulty_ops.best_logits = faulty_best_logits;
  (*out)->ops = &faulty_ops;
  devices[atomic_fetch_add(&n_devices, 1)] = *out;
  return YK_OK;
}

enum { N_RANKS = 3, N_LAYERS = 2 };

static yk_engine *open_engine_in(const char *model_dir, int n_ranks, int n_stages, double step_timeout_s,
                                 int32_t max_adapters)
{
  yk_engine_options options;
  yk_engine_options_init(&options);
  options.model_dir = model_dir;
  options.device = YK_DEVICE_CPU;
  options.n_ranks = n_ranks;
  options.n_stages = n_stages;
  options.n_cpu_threads = 1;
  options.max_model_tokens = 64;
  options.step_timeout_s = step_timeout_s;
  options.max_adapters = max_adapters;
  options.log.level = YK_LOG_ERROR;
  atomic_store(&failing_device, -1);
  atomic_store(&n_calls, 0);
  atomic_store(&n_first_calls, 0);
  atomic_store(&n_permitted, INT_MAX);
  yk_engine *engine;
  atomic_store(&n_devices, 0);
  assert_int_equal(yk_engine_create(&options, &engine, NULL), YK_OK);
  return engine;
}

static yk_engine *open_engine_of(const char *model_dir, double step_timeout_s)
{
  return open_engine_in(model_dir, N_RANKS, 1, step_timeout_s, 0);
}

static yk_engine *open_engine(double step_timeout_s)
{
  return open_engine_of(YOKE_TESTS_DIR "/golden/families/qwen3", step_timeout_s);
}

static yk_request *submit_at(yk_engine *engine, float temperature)
{
  static const int32_t ids[] = {1, 2, 3, 4, 5};
  yk_request_options options;
  yk_request *request;
  yk_request_options_init(engine, &options);
  options.ids = ids;
  options.n_ids = 5;
  options.sampling.max_tokens = 10;
  options.sampling.ignore_eos = true;
  options.sampling.temperature = temperature;
  assert_int_equal(yk_engine_submit(engine, &options, &request, NULL), YK_OK);
  return request;
}

static yk_request *submit(yk_engine *engine)
{
  return submit_at(engine, 1);
}

static yk_finish_reason read_all(yk_request *request, yk_err *err)
{
  *err = YK_ERR_INIT;
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

/* The failing rank's calls of one step: per layer qkv, attention, o, gate_up, down; then lm_head, and on rank 0
 * sampling. */
static void every_operation_of_every_layer_may_fail(void **state)
{
  (void)state;
  static const char *const names[] = {"qkv_proj", "attention", "o_proj", "gate_up_proj", "down_proj"};
  for (int rank = 0; rank < N_RANKS; rank++)
    for (int call = 1; call <= 5 * N_LAYERS + 1 + (rank == 0); call++) {
      yk_engine *engine = open_engine(0);
      atomic_store(&fail_at_call, call);
      atomic_store(&stall_ms, 0);
      atomic_store(&failing_device, rank);
      yk_request *first = submit(engine);
      yk_err err;
      assert_int_equal(read_all(first, &err), YK_FINISH_ERROR);
      assert_int_equal(err.code, YK_E_DEVICE);
      assert_int_equal(err.rank, rank);
      char expected[96];
      int layer = (call - 1) / 5;
      if (layer < N_LAYERS)
        snprintf(expected, sizeof expected, "rank %d, layer %d, %s: made to fail", rank, layer, names[(call - 1) % 5]);
      else
        snprintf(expected, sizeof expected, "rank %d, %s: made to fail", rank,
                 call == 5 * N_LAYERS + 1 ? "lm_head" : "sampling");
      assert_string_equal(err.message, expected);
      yk_request_options options;
      yk_request *refused;
      yk_request_options_init(engine, &options);
      options.ids = (const int32_t[]){1};
      options.n_ids = 1;
      yk_err again = YK_ERR_INIT;
      assert_int_equal(yk_engine_submit(engine, &options, &refused, &again), YK_E_DEVICE);
      assert_int_equal(yk_engine_check(engine, &again), YK_E_DEVICE);
      assert_string_equal(again.message, expected);
      yk_engine_destroy(engine);
    }
}

/* Every rank's last call in a step of greedy rows. */
static void best_logits_may_fail(void **state)
{
  (void)state;
  for (int rank = 0; rank < N_RANKS; rank++) {
    yk_engine *engine = open_engine(0);
    atomic_store(&fail_at_call, 5 * N_LAYERS + 2);
    atomic_store(&stall_ms, 0);
    atomic_store(&failing_device, rank);
    yk_err err;
    assert_int_equal(read_all(submit_at(engine, 0), &err), YK_FINISH_ERROR);
    assert_int_equal(err.code, YK_E_DEVICE);
    char expected[64];
    snprintf(expected, sizeof expected, "rank %d, best logits: made to fail", rank);
    assert_string_equal(err.message, expected);
    yk_engine_destroy(engine);
  }
}

/* Layers that multiply integers are computed in phases, with an all-reduce of all ranks between them. */
static void every_step_of_integer_layers_may_fail(void **state)
{
  (void)state;
  static const char *const names[] = {"qkv_proj",       "attention",       "largest inputs",
                                      "o_proj",         "scaling of sums", "gate_up_proj",
                                      "largest inputs", "down_proj",       "scaling of sums"};
  enum { N_NAMES = sizeof names / sizeof *names };
  for (int call = 1; call <= N_NAMES; call++) {
    char expected[96];
    int rank = call % N_RANKS;
    yk_engine *engine = open_engine_of(YOKE_TESTS_DIR "/golden/families/format_w8a8", 0);
    atomic_store(&fail_at_call, call);
    atomic_store(&stall_ms, 0);
    atomic_store(&failing_device, rank);
    yk_err err;
    assert_int_equal(read_all(submit(engine), &err), YK_FINISH_ERROR);
    snprintf(expected, sizeof expected, "rank %d, layer 0, %s: made to fail", rank, names[call - 1]);
    assert_string_equal(err.message, expected);
    yk_engine_destroy(engine);
  }
}

/* Records the calls of a step in order, of any kind, to the end of the layers; the named calls must be among them. */
static void check_every_operation(const char *model_dir, const char *const *names, size_t n_names)
{
  bool is_seen[8] = {false}, is_over = false;
  assert_true(n_names <= sizeof is_seen / sizeof *is_seen);
  for (int call = 1; !is_over; call++) {
    int rank = call % N_RANKS;
    char begin[32];
    yk_engine *engine = open_engine_of(model_dir, 0);
    atomic_store(&fail_at_call, call);
    atomic_store(&stall_ms, 0);
    atomic_store(&failing_device, rank);
    yk_err err;
    assert_int_equal(read_all(submit(engine), &err), YK_FINISH_ERROR);
    assert_int_equal(err.rank, rank);
    snprintf(begin, sizeof begin, "rank %d, ", rank);
    assert_memory_equal(err.message, begin, strlen(begin));
    assert_non_null(strstr(err.message, ": made to fail"));
    for (size_t i = 0; i < n_names; i++) is_seen[i] |= strstr(err.message, names[i]) != NULL;
    is_over = strstr(err.message, "lm_head") != NULL;
    yk_engine_destroy(engine);
  }
  for (size_t i = 0; i < n_names; i++)
    if (!is_seen[i]) fail_msg("%s never failed", names[i]);
}

static void every_operation_of_experts_and_latent_attention_may_fail(void **state)
{
  (void)state;
  static const char *const names[] = {"latent attention", "o_proj", "routing", "experts' gate_up_proj",
                                      "experts' down_proj"};
  static const char *const of_integers[] = {"experts' gate_up_proj", "largest inputs of experts", "experts' down_proj"};
  check_every_operation(YOKE_TESTS_DIR "/golden/families/deepseek_v3", names, sizeof names / sizeof *names);
  check_every_operation(YOKE_TESTS_DIR "/golden/families/format_w8a8_experts", of_integers,
                        sizeof of_integers / sizeof *of_integers);
}

static void a_stalled_rank_is_named_within_the_time_limit(void **state)
{
  (void)state;
  for (int rank = 0; rank < N_RANKS; rank++) {
    yk_engine *engine = open_engine(0.1);
    atomic_store(&fail_at_call, 7);
    atomic_store(&stall_ms, 400);
    atomic_store(&failing_device, rank);
    yk_err err;
    assert_int_equal(read_all(submit(engine), &err), YK_FINISH_ERROR);
    assert_int_equal(err.code, YK_E_TIMEOUT);
    assert_non_null(strstr(err.message, "did not finish a step within 0.1 s"));
    yk_engine_destroy(engine);
  }
}

enum { STAGE_RANKS = 4, N_AT_ONCE = 6 };

/* A rank of either stage fails or stalls in one of the first steps, with two steps in flight: every request ends with
 * the same error. Two ranks for each of two stages, a layer each. */
static void every_rank_of_a_stage_may_fail(void **state)
{
  (void)state;
  for (int rank = 0; rank < STAGE_RANKS; rank++)
    for (int call = 1; each_case(call, call <= 16); call += 3) {
      yk_engine *engine = open_engine_in(YOKE_TESTS_DIR "/golden/families/qwen3", STAGE_RANKS, 2, 0, 0);
      yk_request *requests[N_AT_ONCE];
      char begin[48];
      atomic_store(&fail_at_call, call);
      atomic_store(&stall_ms, 0);
      atomic_store(&failing_device, rank);
      snprintf(begin, sizeof begin, "rank %d of stage %d, ", rank, rank / 2);
      for (int i = 0; i < N_AT_ONCE; i++) requests[i] = submit(engine);
      for (int i = 0; i < N_AT_ONCE; i++) {
        yk_err err;
        assert_int_equal(read_all(requests[i], &err), YK_FINISH_ERROR);
        assert_int_equal(err.code, YK_E_DEVICE);
        assert_int_equal(err.rank, rank);
        assert_memory_equal(err.message, begin, strlen(begin));
      }
      assert_true(yk_engine_destroy(engine));
    }
}

static void a_stalled_stage_is_named(void **state)
{
  (void)state;
  for (int rank = 0; rank < STAGE_RANKS; rank++) {
    yk_engine *engine = open_engine_in(YOKE_TESTS_DIR "/golden/families/qwen3", STAGE_RANKS, 2, 1, 0);
    atomic_store(&fail_at_call, -1);
    atomic_store(&n_permitted, 3);
    atomic_store(&failing_device, rank);
    yk_request *first = submit(engine), *second = submit(engine);
    yk_err err;
    char place[48];
    assert_int_equal(read_all(first, &err), YK_FINISH_ERROR);
    atomic_store(&n_permitted, INT_MAX);
    assert_int_equal(err.code, YK_E_TIMEOUT);
    assert_int_equal(err.rank, rank);
    snprintf(place, sizeof place, "rank %d is at layer %d, ", rank, rank / 2);
    assert_non_null(strstr(err.message, place));
    snprintf(place, sizeof place, " in stage %d", rank / 2);
    assert_non_null(strstr(err.message, place));
    assert_int_equal(read_all(second, &err), YK_FINISH_ERROR);
    yk_engine_destroy(engine);
  }
}

enum { FIRST_CALLS = 5, LAST_CALLS = 7 }; /* in a step, of the first and of the last of two stages */

static void *permit_second_step_soon(void *unused)
{
  (void)unused;
  sleep_ms(50);
  atomic_store(&n_permitted, 2 * LAST_CALLS);
  return NULL;
}

/* The adapter's load is queued while the second and the third step are in flight, of which the third stalls until the
 * load has returned. All requests are submitted before the first step ends, so that all three steps have requests. A
 * load that is queued late finds the third step alone in flight. */
static void an_adapter_does_not_wait_for_a_stalled_stage(void **state)
{
  (void)state;
  const yk_adapter_path adapter = {"a", YOKE_TESTS_DIR "/golden/adapters/all_linear"};
  yk_engine *engine = open_engine_in(YOKE_TESTS_DIR "/golden/families/qwen3_f32", 2, 2, 2, 1);
  yk_request *requests[3];
  pthread_t permitter;
  yk_err err = YK_ERR_INIT;
  atomic_store(&n_permitted, 0);
  atomic_store(&fail_at_call, -1);
  atomic_store(&failing_device, 1);
  for (int i = 0; i < 3; i++) requests[i] = submit(engine);
  atomic_store(&n_permitted, LAST_CALLS);
  while (atomic_load(&n_calls) <= LAST_CALLS || atomic_load(&n_first_calls) <= 2 * FIRST_CALLS) sleep_ms(1);
  assert_int_equal(pthread_create(&permitter, NULL, permit_second_step_soon, NULL), 0);
  assert_int_equal(yk_engine_load_adapter(engine, &adapter, &err), YK_E_TIMEOUT);
  assert_int_equal(err.rank, 1);
  pthread_join(permitter, NULL);
  atomic_store(&n_permitted, INT_MAX);
  for (int i = 0; i < 3; i++) assert_int_equal(read_all(requests[i], &err), YK_FINISH_ERROR);
  yk_engine_destroy(engine);
}

static void a_new_engine_works_after_a_failed_one(void **state)
{
  (void)state;
  yk_err err;
  yk_engine *engine = open_engine(0);
  assert_int_equal(read_all(submit(engine), &err), YK_FINISH_LENGTH);
  yk_engine_destroy(engine);
}

static void a_failed_engine_lets_go_of_held_sequences(void **state)
{
  (void)state;
  static const int32_t ids[] = {1, 2, 3};
  yk_engine *engine = open_engine(0);
  yk_held_sequence *idle, *busy;
  assert_int_equal(yk_held_sequence_create(engine, &idle, NULL), YK_OK);
  assert_int_equal(yk_held_sequence_create(engine, &busy, NULL), YK_OK);
  assert_int_equal(yk_held_sequence_append(idle, ids, 3, YK_LOGITS_NONE, NULL, NULL), YK_OK);
  atomic_store(&n_calls, 0);
  atomic_store(&fail_at_call, 3);
  atomic_store(&stall_ms, 0);
  atomic_store(&failing_device, 1);
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_held_sequence_append(busy, ids, 3, YK_LOGITS_NONE, NULL, &err), YK_E_DEVICE);
  assert_int_equal(yk_held_sequence_append(idle, ids, 3, YK_LOGITS_NONE, NULL, NULL), YK_E_DEVICE);
  yk_held_sequence_free(busy);
  yk_held_sequence_free(idle);
  yk_engine_destroy(engine);
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_operation_of_every_layer_may_fail),
                                     cmocka_unit_test(best_logits_may_fail),
                                     cmocka_unit_test(every_step_of_integer_layers_may_fail),
                                     cmocka_unit_test(every_operation_of_experts_and_latent_attention_may_fail),
                                     cmocka_unit_test(every_rank_of_a_stage_may_fail),
                                     cmocka_unit_test(a_stalled_stage_is_named),
                                     cmocka_unit_test(an_adapter_does_not_wait_for_a_stalled_stage),
                                     cmocka_unit_test(a_stalled_rank_is_named_within_the_time_limit),
                                     cmocka_unit_test(a_new_engine_works_after_a_failed_one),
                                     cmocka_unit_test(a_failed_engine_lets_go_of_held_sequences)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
