/* Adapters that are loaded, replaced and unloaded while threads send requests and hold sequences. Every adapter has the
 * same weights, so that each answer with an adapter is known, also of a request whose adapter is replaced meanwhile. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "e2e/engine_fixture.h"
#include "yoke/process.h"

enum { N_CALLERS = 6, N_ROUNDS = 20, N_PROMPT = 24, OUTPUT = 12 };

typedef struct shared {
  yk_engine *engine;
  char path[512];
  int32_t ids[N_PROMPT];
  answer plain, adapted;
  atomic_int n_callers;                                 /* still running */
  atomic_int submitted, mismatches, failures, answered; /* cmocka may only fail on the main thread */
} shared;

typedef struct caller {
  shared *shared;
  uint32_t index;
} caller;

static uint32_t draw(const caller *c, uint32_t round, uint32_t what, uint32_t below)
{
  return (uint32_t)(yk_rng_uniform(c->index, what, round) * (float)below);
}

/* Reads up to n_read tokens and compares them up to the first that differs, which must be a near tie. */
static void read_some(shared *s, yk_request *request, const answer *expected, int n_read)
{
  const yk_output *output;
  bool parted = false;
  int n = 0;
  for (; n < n_read; n++) {
    yk_status status = yk_request_next(request, 60, &output, NULL);
    if (status != YK_OK || !output->has_token) {
      atomic_fetch_add(&s->failures, 1);
      return;
    }
    if (!parted && output->token_id != expected->ids[n]) {
      parted = true;
      if (!fixture_near_tie(expected, n)) atomic_fetch_add(&s->mismatches, 1);
    }
  }
  atomic_fetch_add(&s->answered, n == OUTPUT);
}

/* "b" may be unloaded at any time, "a" is always there. */
static bool is_refused(shared *s, yk_status status, const yk_err *err, const char *adapter)
{
  if (status == YK_OK) return false;
  bool is_expected = status == YK_E_INVAL && adapter[0] == 'b' && strstr(err->message, "\"b\"");
  if (!is_expected) atomic_fetch_add(&s->failures, 1);
  return true;
}

static void use_request(const caller *c, uint32_t round, const char *adapter)
{
  shared *s = c->shared;
  uint32_t way = draw(c, round, 1, 4);
  yk_err err = YK_ERR_INIT;
  yk_request_options options = fixture_request(s->engine, s->ids, N_PROMPT, OUTPUT);
  yk_request *request;
  options.adapter = adapter;
  if (is_refused(s, yk_engine_submit(s->engine, &options, &request, &err), &err, adapter)) return;
  atomic_fetch_add(&s->submitted, 1);
  if (way == 0) yk_request_cancel(request);
  if (way > 0) read_some(s, request, adapter[0] ? &s->adapted : &s->plain, way == 1 ? 3 : OUTPUT);
  yk_request_free(request);
}

static void use_sequence(const caller *c, const char *adapter)
{
  shared *s = c->shared;
  yk_held_sequence *sequence, *fork;
  yk_err err = YK_ERR_INIT;
  if (is_refused(s, yk_held_sequence_create_adapted(s->engine, adapter, &sequence, &err), &err, adapter)) return;
  bool has_failed = yk_held_sequence_append(sequence, s->ids, N_PROMPT, YK_LOGITS_NONE, NULL, &err) != YK_OK ||
                    yk_held_sequence_fork(sequence, &fork, &err) != YK_OK;
  yk_held_sequence_free(sequence);
  if (!has_failed) {
    has_failed = yk_held_sequence_append(fork, s->ids, 1, YK_LOGITS_NONE, NULL, &err) != YK_OK;
    yk_held_sequence_free(fork);
  }
  if (has_failed) atomic_fetch_add(&s->failures, 1);
}

static void *run_caller(void *context)
{
  static const char *const adapters[] = {"", "a", "b"};
  const caller *c = context;
  for (uint32_t round = 0; round < N_ROUNDS; round++) {
    const char *adapter = adapters[draw(c, round, 2, 3)];
    if (draw(c, round, 3, 4) == 0)
      use_sequence(c, adapter);
    else
      use_request(c, round, adapter);
  }
  atomic_fetch_sub(&c->shared->n_callers, 1);
  return NULL;
}

/* "b" cannot be loaded while requests still use the one before it. */
static void change_adapters(shared *s)
{
  const yk_adapter_path a = {"a", s->path}, b = {"b", s->path};
  yk_adapter_name names[2];
  while (atomic_load(&s->n_callers) > 0) {
    yk_err err = YK_ERR_INIT;
    yk_status status = yk_engine_load_adapter(s->engine, &b, &err);
    if (status != YK_OK && status != YK_E_CAPACITY) atomic_fetch_add(&s->failures, 1);
    if (yk_engine_replace_adapter(s->engine, &a, &err) != YK_OK) atomic_fetch_add(&s->failures, 1);
    if (yk_engine_list_adapters(s->engine, names, 2) != (status == YK_OK ? 2u : 1u)) atomic_fetch_add(&s->failures, 1);
    if (status != YK_OK) continue;
    if (yk_engine_replace_adapter(s->engine, &b, &err) != YK_OK) atomic_fetch_add(&s->failures, 1);
    if (yk_engine_unload_adapter(s->engine, "b", &err) != YK_OK) atomic_fetch_add(&s->failures, 1);
  }
}

/* Both places are free again. */
static void expect_free_places(shared *s)
{
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_engine_unload_adapter(s->engine, "a", &err), YK_OK);
  for (int i = 0; i < 2; i++) {
    const yk_adapter_path adapter = {i == 0 ? "c" : "d", s->path};
    if (yk_engine_load_adapter(s->engine, &adapter, &err) != YK_OK) fail_msg("%s", err.message);
  }
}

static void adapters_change_under_callers(void **state)
{
  (void)state;
  static shared s;
  pthread_t threads[N_CALLERS];
  caller callers[N_CALLERS];
  yk_err err = YK_ERR_INIT;
  yk_engine_options options = fixture_options("qwen3_f32", 2);
  options.max_adapters = 2;
  s.engine = fixture_open(&options);
  yk_engine_info info;
  yk_engine_get_info(s.engine, &info);
  snprintf(s.path, sizeof s.path, "%s/golden/adapters/all_linear", test_data_dir());
  const yk_adapter_path a = {"a", s.path};
  assert_int_equal(yk_engine_load_adapter(s.engine, &a, &err), YK_OK);
  fixture_prompt(3, info.vocab_size, s.ids, N_PROMPT);
  yk_request_options request = fixture_request(s.engine, s.ids, N_PROMPT, OUTPUT);
  fixture_answer(s.engine, &request, &s.plain);
  request.adapter = "a";
  fixture_answer(s.engine, &request, &s.adapted);
  assert_true(memcmp(s.plain.ids, s.adapted.ids, sizeof s.plain.ids) != 0);
  atomic_store(&s.n_callers, N_CALLERS);
  for (uint32_t i = 0; i < N_CALLERS; i++) {
    callers[i] = (caller){&s, i};
    assert_int_equal(pthread_create(&threads[i], NULL, run_caller, &callers[i]), 0);
  }
  change_adapters(&s);
  for (int i = 0; i < N_CALLERS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&s.failures), 0);
  assert_int_equal(atomic_load(&s.mismatches), 0);
  assert_true(atomic_load(&s.answered) > N_CALLERS);
  yk_engine_stats stats; /* the engine drops abandoned requests some time later */
  do yk_engine_get_stats(s.engine, &stats);
  while (stats.requests_finished + stats.requests_failed < 2 + (uint64_t)atomic_load(&s.submitted));
  expect_free_places(&s);
  fixture_close(s.engine);
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(adapters_change_under_callers)};
  int status = fixture_gate();
  return status ? status : cmocka_run_group_tests(tests, NULL, NULL);
}
