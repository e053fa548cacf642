/* Many callers at once: 32 threads submit, read, cancel, hold sequences and read statistics on one engine. Mainly for
 * ThreadSanitizer; in any build every answer must equal that of the same prompt alone. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/rng.h"
#include "e2e/engine_fixture.h"
#include "yoke/process.h"

enum { N_THREADS = 32, N_ROUNDS = 12, N_PROMPTS = 6, VOCAB = 200, OUTPUT = 12 };

typedef struct shared {
  yk_engine *engine;
  int32_t prompts[N_PROMPTS][40];
  answer expected[N_PROMPTS];
  atomic_int mismatches, failures, answered; /* cmocka may only fail on the main thread */
} shared;

typedef struct caller {
  shared *shared;
  uint32_t index;
} caller;

static int32_t draw(const caller *c, uint32_t round, uint32_t what, int32_t below)
{
  return (int32_t)(yk_rng_uniform(c->index, what, round) * (float)below);
}

/* Whether a token differs from the expected one, which must be a near tie; nothing can be expected after it. */
static bool parts(shared *s, int prompt, int step, int32_t token)
{
  const answer *expected = &s->expected[prompt];
  if (token == expected->ids[step]) return false;
  if (!fixture_near_tie(expected, step)) atomic_fetch_add(&s->mismatches, 1);
  return true;
}

/* Reads up to n_read tokens (negative: all) and compares them. */
static void read_some(shared *s, yk_request *request, int prompt, int n_read)
{
  const yk_output *output;
  int n = 0;
  bool parted = false;
  while (n != n_read) {
    yk_status status = yk_request_next(request, 60, &output, NULL);
    if (status != YK_OK) atomic_fetch_add(&s->failures, 1);
    if (status != YK_OK || !output->has_token) break;
    if (!parted) parted = parts(s, prompt, n, output->token_id);
    n++;
  }
  if (n == OUTPUT) atomic_fetch_add(&s->answered, 1);
}

static void use_request(const caller *c, uint32_t round)
{
  shared *s = c->shared;
  int prompt = draw(c, round, 1, N_PROMPTS), way = draw(c, round, 2, 4);
  yk_request_options options = fixture_request(s->engine, s->prompts[prompt], 40, OUTPUT);
  yk_request *request;
  if (yk_engine_submit(s->engine, &options, &request, NULL) != YK_OK) {
    atomic_fetch_add(&s->failures, 1);
    return;
  }
  if (way == 0) yk_request_cancel(request);
  read_some(s, request, prompt, way == 1 ? 3 : -1); /* way 1 leaves in the middle */
  yk_request_free(request);
}

static void use_sequence(const caller *c, uint32_t round)
{
  shared *s = c->shared;
  float logits[VOCAB];
  yk_held_sequence *sequence, *branch = NULL;
  int prompt = draw(c, round, 3, N_PROMPTS);
  if (yk_held_sequence_create(s->engine, &sequence, NULL) != YK_OK) {
    atomic_fetch_add(&s->failures, 1);
    return;
  }
  yk_status status = yk_held_sequence_append(sequence, s->prompts[prompt], 20, YK_LOGITS_NONE, NULL, NULL);
  if (status == YK_OK) status = yk_held_sequence_fork(sequence, &branch, NULL);
  if (status == YK_OK)
    status = yk_held_sequence_append(branch, s->prompts[prompt] + 20, 20, YK_LOGITS_LAST, logits, NULL);
  int32_t best = 0;
  for (int32_t i = 1; status == YK_OK && i < VOCAB; i++)
    if (logits[i] > logits[best]) best = i;
  if (status != YK_OK)
    atomic_fetch_add(&s->failures, 1);
  else
    parts(s, prompt, 0, best);
  yk_held_sequence_free(branch);
  yk_held_sequence_free(sequence);
}

static void *run_caller(void *argument)
{
  const caller *c = argument;
  for (uint32_t round = 0; round < N_ROUNDS; round++) {
    yk_engine_stats stats;
    yk_engine_get_stats(c->shared->engine, &stats);
    if (c->index % 4 == 0)
      use_sequence(c, round);
    else
      use_request(c, round);
  }
  return NULL;
}

static void expect_answers(shared *s)
{
  for (uint32_t i = 0; i < N_PROMPTS; i++) {
    fixture_prompt(i, VOCAB, s->prompts[i], 40);
    yk_request_options options = fixture_request(s->engine, s->prompts[i], 40, OUTPUT);
    fixture_answer(s->engine, &options, &s->expected[i]);
  }
}

static void many_callers_get_their_own_answers(void **state)
{
  (void)state;
  static shared s;
  pthread_t threads[N_THREADS];
  caller callers[N_THREADS];
  yk_engine_options options = fixture_options("qwen3", 2);
  s.engine = fixture_open(&options);
  expect_answers(&s);
  for (uint32_t i = 0; i < N_THREADS; i++) {
    callers[i] = (caller){&s, i};
    assert_int_equal(pthread_create(&threads[i], NULL, run_caller, &callers[i]), 0);
  }
  for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&s.failures), 0);
  assert_int_equal(atomic_load(&s.mismatches), 0);
  assert_true(atomic_load(&s.answered) > N_THREADS);
  /* The engine drops abandoned requests some time later. */
  yk_engine_stats stats;
  do yk_engine_get_stats(s.engine, &stats);
  while (stats.running + stats.waiting > 0);
  fixture_close(s.engine);
}

/* A request that is cancelled right after its submission, while the engine is busy with another, must not be missed:
 * each would otherwise run for 200 tokens. */
static void a_cancellation_right_after_submit_is_seen(void **state)
{
  (void)state;
  int32_t ids[4] = {1, 2, 3, 4};
  yk_engine_options options = fixture_options("qwen3", 1);
  yk_engine *engine = fixture_open(&options);
  yk_request_options request_options = fixture_request(engine, ids, 4, 200);
  yk_request *busy = fixture_submit(engine, &request_options);
  for (int i = 0; i < 2000; i++) {
    static answer out;
    yk_request_usage usage;
    yk_request_get_usage(busy, &usage);
    if (usage.output_tokens > 150) {
      yk_request_free(busy);
      busy = fixture_submit(engine, &request_options);
    }
    yk_request *request = fixture_submit(engine, &request_options);
    yk_request_cancel(request);
    fixture_read(request, &out);
    assert_int_equal(out.finish, YK_FINISH_CANCELLED);
  }
  yk_request_free(busy);
  yk_engine_stats stats;
  do yk_engine_get_stats(engine, &stats);
  while (stats.running + stats.waiting > 0);
  fixture_close(engine);
}

/* The engine is destroyed while readers wait: all return. */
static void destroying_releases_every_reader(void **state)
{
  (void)state;
  for (int round = 0; round < 5; round += fixture_opens_slowly() ? 4 : 1) {
    int32_t ids[4] = {1, 2, 3, 4};
    yk_engine_options options = fixture_options("qwen3", 3);
    yk_engine *engine = fixture_open(&options);
    yk_request_options request = fixture_request(engine, ids, 4, 200);
    yk_request *requests[8];
    for (int i = 0; i < 8; i++) requests[i] = fixture_submit(engine, &request);
    const yk_output *output;
    for (int i = 0; i < round; i++) assert_int_equal(yk_request_next(requests[0], 60, &output, NULL), YK_OK);
    yk_engine_destroy(engine);
    for (int i = 0; i < 8; i++) {
      yk_status status;
      do status = yk_request_next(requests[i], 60, &output, NULL);
      while (status == YK_OK && output->finish == YK_FINISH_NONE);
      assert_true(status == YK_OK || status == YK_E_CANCELLED);
      yk_request_free(requests[i]);
    }
  }
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(many_callers_get_their_own_answers),
                                     cmocka_unit_test(a_cancellation_right_after_submit_is_seen),
                                     cmocka_unit_test(destroying_releases_every_reader)};
  int status = fixture_gate();
  return status ? status : cmocka_run_group_tests(tests, NULL, NULL);
}
