/* Step times reported by the engine: the parts sum to the step, and timed steps give the same tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "e2e/engine_fixture.h"
#include "yoke/process.h"

enum { N_REQUESTS = 4, N_PROMPT = 20, N_TOKENS = 32 };

static yk_engine *open_engine(int n_ranks)
{
  yk_engine_options options = fixture_options("qwen3", n_ranks);
  return fixture_open(&options);
}

static void set_profile(yk_engine *engine, int32_t every)
{
  assert_int_equal(yk_engine_set_profile(engine, every, NULL), YK_OK);
}

static void run_requests(yk_engine *engine, answer answers[N_REQUESTS])
{
  int32_t ids[N_PROMPT];
  yk_request *requests[N_REQUESTS];
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  for (uint32_t i = 0; i < N_REQUESTS; i++) {
    fixture_prompt(i, info.vocab_size, ids, N_PROMPT);
    yk_request_options options = fixture_request(engine, ids, N_PROMPT, N_TOKENS);
    requests[i] = fixture_submit(engine, &options);
  }
  for (int i = 0; i < N_REQUESTS; i++) fixture_read(requests[i], &answers[i]);
}

static double parts_of(const yk_step_times *times, int rank)
{
  double sum = 0;
  for (int part = 0; part < YK_TIME_PARTS; part++) {
    assert_true(times->part_s[rank][part] >= 0);
    sum += times->part_s[rank][part];
  }
  return sum;
}

static void print_times(const char *name, const yk_profile *profile, const yk_step_times *times)
{
  double us = times->n_steps ? 1e6 / (double)times->n_steps : 0;
  printf("%s: %llu steps of %.1f us, timestamps cost %.1f us (clock in steps of %.0f ns)\n", name,
         (unsigned long long)times->n_steps, times->step_s * us, times->timestamp_cost_s * us,
         profile->clock_resolution_s * 1e9);
  for (int part = 0; part < YK_TIME_PARTS; part++) {
    printf("  %-20s", yk_time_part_name((yk_time_part)part));
    for (int rank = 0; rank < profile->n_ranks; rank++) printf(" %9.1f", times->part_s[rank][part] * us);
    printf("\n");
  }
}

static void check_times(const yk_profile *profile, const yk_step_times *times)
{
  uint64_t slowest = 0;
  assert_true(times->n_steps > 0 && times->step_s > 0);
  for (int rank = 0; rank < profile->n_ranks; rank++) {
    double sum = parts_of(times, rank);
    if (!(sum > 0.98 * times->step_s && sum < 1.02 * times->step_s))
      fail_msg("rank %d: steps took %g s, their parts %g s", rank, times->step_s, sum);
    assert_true(times->part_s[rank][YK_TIME_GEMM_QKV] > 0 && times->part_s[rank][YK_TIME_ATTENTION] > 0);
    slowest += times->slowest[rank];
  }
  assert_true(times->part_s[0][YK_TIME_SAMPLING] > 0);
  bool is_split = profile->n_ranks > 1;
  assert_int_equal(slowest, times->n_all_reduces);
  assert_int_equal(times->n_all_reduces > 0, is_split);
  assert_int_equal(times->part_s[0][YK_TIME_ALL_REDUCE_TRANSFER] > 0, is_split);
  assert_int_equal(times->part_s[0][YK_TIME_LOGITS_GATHER] > 0, is_split);
}

/* One in 16 is not timed if every step is to be timed; the last may not have ended; GPUs record. */
static void check_number(int64_t n_timed, int64_t n_steps, int32_t every)
{
  int64_t expected = every == 1 ? n_steps - n_steps / 16 : n_steps / every;
  assert_true(n_timed <= expected);
  assert_true(n_timed >= (test_backend_chosen().kind == YK_DEVICE_CPU ? expected - 1 : expected / 2));
}

static void parts_add_up_on(int n_ranks)
{
  static answer plain[N_REQUESTS], timed[N_REQUESTS];
  yk_engine *engine = open_engine(n_ranks);
  yk_profile profile;
  yk_engine_stats before, after;
  run_requests(engine, plain);
  yk_engine_get_profile(engine, &profile);
  assert_true(profile.n_ranks >= 1 && profile.prefill.n_steps == 0 && profile.decode.n_steps == 0);
  for (int32_t every = 1; every <= 3; every++) {
    set_profile(engine, every);
    yk_engine_get_stats(engine, &before);
    int64_t begin_ns = yk_clock_now_ns();
    for (int i = 0; i < 3; i++) {
      run_requests(engine, timed);
      for (int j = 0; j < N_REQUESTS; j++) assert_same_answer(&timed[j], &plain[j]);
    }
    double wall_s = yk_clock_seconds_since(begin_ns);
    yk_engine_get_profile(engine, &profile);
    print_times("decode", &profile, &profile.decode);
    check_times(&profile, &profile.decode);
    yk_engine_get_stats(engine, &after);
    check_number((int64_t)(profile.prefill.n_steps + profile.decode.n_steps), (int64_t)(after.steps - before.steps),
                 every);
    assert_true(profile.prefill.step_s + profile.decode.step_s < wall_s);
    if (every == 1) check_times(&profile, &profile.prefill);
    /* Every step except the last, those that prepare, and the pauses between runs, which are long on a busy machine. */
    if (every == 1) assert_true(profile.prefill.step_s + profile.decode.step_s > 0.1 * wall_s);
  }
  fixture_close(engine);
}

static void parts_add_up(void **state)
{
  (void)state;
  int most = fixture_most_ranks() < 4 ? fixture_most_ranks() : 4;
  for (int n_ranks = 1; n_ranks <= most; n_ranks++) parts_add_up_on(n_ranks);
}

static void sums_begin_anew(void **state)
{
  (void)state;
  static answer answers[N_REQUESTS];
  yk_engine *engine = open_engine(2);
  yk_profile profile;
  set_profile(engine, 1);
  run_requests(engine, answers);
  yk_engine_get_profile(engine, &profile);
  assert_true(profile.decode.n_steps > 0 && profile.clock_resolution_s > 0);
  set_profile(engine, 0);
  run_requests(engine, answers);
  yk_engine_get_profile(engine, &profile);
  assert_true(profile.prefill.n_steps == 0 && profile.decode.n_steps == 0 && profile.decode.step_s == 0);
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_engine_set_profile(engine, -1, &err), YK_E_INVAL);
  assert_non_null(strstr(err.message, "every: expected 0"));
  fixture_close(engine);
}

/* Switched on, off and read while requests run. */
static void switched_while_requests_run(void **state)
{
  (void)state;
  static answer expected;
  bool is_same = true;
  int32_t ids[N_PROMPT];
  yk_engine *engine = open_engine(2);
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  fixture_prompt(7, info.vocab_size, ids, N_PROMPT);
  yk_request_options options = fixture_request(engine, ids, N_PROMPT, 200);
  fixture_answer(engine, &options, &expected);
  yk_request *request = fixture_submit(engine, &options);
  const yk_output *output;
  for (int32_t i = 0; i < 199; i++) {
    yk_profile profile;
    assert_int_equal(yk_request_next(request, 60, &output, NULL), YK_OK);
    if (is_same && output->token_id != expected.ids[i]) {
      assert_true(fixture_near_tie(&expected, i));
      is_same = false;
    }
    if (i % 3 == 0) set_profile(engine, i / 3 % 4);
    yk_engine_get_profile(engine, &profile);
    for (int rank = 0; rank < profile.n_ranks; rank++) parts_of(&profile.decode, rank);
  }
  while (yk_request_next(request, 60, &output, NULL) == YK_OK && output->finish == YK_FINISH_NONE) continue;
  yk_request_free(request);
  fixture_close(engine);
}

static void parts_have_names(void **state)
{
  (void)state;
  for (int part = 0; part < YK_TIME_PARTS; part++)
    for (int other = 0; other < part; other++)
      assert_string_not_equal(yk_time_part_name((yk_time_part)part), yk_time_part_name((yk_time_part)other));
  assert_string_equal(yk_time_part_name(YK_TIME_GEMM_QKV), "gemm_qkv");
  assert_string_equal(yk_time_part_name(YK_TIME_HOST), "host");
  assert_string_equal(yk_time_part_name(YK_TIME_PARTS), "unknown");
}

int main(void)
{
  yk_process_init();
  int gate = fixture_gate();
  if (gate) return gate;
  const struct CMUnitTest tests[] = {cmocka_unit_test(parts_have_names), cmocka_unit_test(parts_add_up),
                                     cmocka_unit_test(sums_begin_anew), cmocka_unit_test(switched_while_requests_run)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
