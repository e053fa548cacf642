/* When a waiter reports a request, step by step. */
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "engine/request.h"

enum { N_PROMPT = 3, CAPACITY = 20 };

static yk_waiter *waiter;

static int set_up(void **state)
{
  (void)state;
  return yk_waiter_create(&waiter, NULL);
}

static int tear_down(void **state)
{
  (void)state;
  yk_waiter_free(waiter);
  return 0;
}

static yk_request *create(atomic_uint *n_cancels, void *user)
{
  const int32_t prompt[N_PROMPT] = {1, 2, 3};
  const yk_sampling sampling = {.max_tokens = CAPACITY - N_PROMPT, .n_logprobs = -1, .n_prompt_logprobs = 0};
  yk_request *request;
  assert_int_equal(
      yk_request_create(NULL, prompt, N_PROMPT, CAPACITY, &sampling, NULL, 0, NULL, n_cancels, &request, NULL), YK_OK);
  yk_request_set_waiter(request, waiter, user);
  return request;
}

/* Whether the waiter's descriptor is readable. */
static bool is_readable(void)
{
  return poll(&(struct pollfd){.fd = yk_waiter_fd(waiter), .events = POLLIN}, 1, 0) == 1;
}

/* The number of reports so far; each must belong to this request. */
static int n_reports(const yk_request *expected, const void *expected_user)
{
  yk_request *request;
  void *user;
  int n = 0;
  for (; yk_waiter_wait(waiter, 0, &request, &user, NULL) == YK_OK; n++) {
    assert_ptr_equal(request, expected);
    assert_ptr_equal(user, expected_user);
  }
  assert_null(request);
  assert_false(is_readable());
  return n;
}

static yk_status read_one(yk_request *request)
{
  const yk_output *output;
  return yk_request_next(request, 0, &output, NULL);
}

static void reported_from_nothing_to_something(void **state)
{
  (void)state;
  atomic_uint n_cancels = 0;
  int word;
  const yk_sampled token = {.token_id = 5};
  yk_request *request = create(&n_cancels, &word);
  assert_int_equal(n_reports(NULL, NULL), 0);
  yk_request_push_token(request, &token, false);
  assert_true(is_readable());
  assert_int_equal(n_reports(request, &word), 1);
  for (int i = 0; i < 2; i++) { /* after something unread */
    yk_request_push_token(request, &token, false);
    assert_int_equal(n_reports(NULL, NULL), 0);
  }
  for (int i = 0; i < 3; i++) assert_int_equal(read_one(request), YK_OK);
  yk_request_push_token(request, &token, false); /* all has been read, though the reader has not checked for more */
  assert_int_equal(n_reports(request, &word), 1);
  assert_int_equal(read_one(request), YK_OK);
  assert_int_equal(read_one(request), YK_E_AGAIN);
  yk_request_push_token(request, &token, false);
  assert_int_equal(n_reports(request, &word), 1);
  assert_int_equal(read_one(request), YK_OK);
  yk_request_push_token(request, &token, true); /* reported by the end */
  assert_int_equal(n_reports(NULL, NULL), 0);
  yk_request_finish(request, YK_FINISH_LENGTH, NULL);
  assert_int_equal(n_reports(request, &word), 1);
  assert_int_equal(read_one(request), YK_OK);
  assert_int_equal(read_one(request), YK_OK);
  yk_request_free(request);
  assert_int_equal(n_reports(NULL, NULL), 0);
}

/* The end is reported also after something unread, once, and never for a freed request. */
static void reported_at_the_end(void **state)
{
  (void)state;
  atomic_uint n_cancels = 0;
  const yk_sampled token = {.token_id = 5};
  yk_request *request = create(&n_cancels, NULL);
  yk_request_push_token(request, &token, false);
  assert_int_equal(n_reports(request, NULL), 1);
  yk_request_finish(request, YK_FINISH_CANCELLED, NULL);
  assert_int_equal(n_reports(request, NULL), 1);
  yk_request_free(request);
  for (int is_listed = 0; is_listed < 2; is_listed++) {
    request = create(&n_cancels, NULL);
    if (is_listed) yk_request_push_token(request, &token, false);
    yk_request_free(request);
    yk_request_push_token(request, &token, false);
    yk_request_finish(request, YK_FINISH_LENGTH, NULL);
    assert_int_equal(yk_waiter_wait(waiter, 0, NULL, NULL, NULL), YK_E_AGAIN);
  }
  assert_int_equal(n_cancels, 2);
}

/* The oldest news first; a request with more news keeps its position. */
static void reported_in_order(void **state)
{
  (void)state;
  enum { N = 3 };
  atomic_uint n_cancels = 0;
  const yk_sampled token = {.token_id = 5};
  yk_request *requests[N], *found;
  for (int i = 0; i < N; i++) requests[i] = create(&n_cancels, NULL);
  for (int i = N; i-- > 0;) yk_request_push_token(requests[i], &token, false);
  yk_request_finish(requests[N - 1], YK_FINISH_LENGTH, NULL);
  for (int i = N; i-- > 0;) {
    assert_int_equal(yk_waiter_wait(waiter, -1, &found, NULL, NULL), YK_OK);
    assert_ptr_equal(found, requests[i]);
  }
  assert_int_equal(yk_waiter_wait(waiter, 0.001, &found, NULL, NULL), YK_E_AGAIN);
  for (int i = 0; i < N - 1; i++) yk_request_finish(requests[i], YK_FINISH_LENGTH, NULL);
  for (int i = 0; i < N; i++) yk_request_free(requests[i]);
}

/* A failed request: first earlier output, then the error on every call, without output. */
static void a_failure_comes_as_a_status(void **state)
{
  (void)state;
  atomic_uint n_cancels = 0;
  const yk_sampled token = {.token_id = 5};
  yk_request *request = create(&n_cancels, NULL);
  const yk_output *output;
  yk_err failure = {YK_E_TIMEOUT, 1, "a rank hangs"};
  yk_request_push_token(request, &token, false);
  yk_request_finish(request, YK_FINISH_ERROR, &failure);
  assert_int_equal(yk_request_next(request, 0, &output, NULL), YK_OK);
  assert_int_equal(output->token_id, 5);
  for (int i = 0; i < 2; i++) {
    yk_err err = YK_ERR_INIT;
    assert_int_equal(yk_request_next(request, 0, &output, &err), YK_E_TIMEOUT);
    assert_null(output);
    assert_string_equal(err.message, "a rank hangs");
    assert_int_equal(err.rank, 1);
  }
  yk_request_free(request);
}

/* ---- Several writers, like several engines ----------------------------------------------------------------------- */

enum { WRITERS = 2, REQUESTS = 4, TOKENS = CAPACITY - N_PROMPT, ROUNDS = 200 };

typedef struct written {
  yk_request *request;
  int n_tokens; /* that were read */
} written;

/* All tokens and ends of one writer's requests. */
static void *write_all(void *first)
{
  written *all = first;
  const yk_sampled token = {.token_id = 5};
  for (int n = 0; n < TOKENS; n++)
    for (int i = 0; i < REQUESTS; i++) yk_request_push_token(all[i].request, &token, n == TOKENS - 1);
  for (int i = 0; i < REQUESTS; i++) yk_request_finish(all[i].request, YK_FINISH_LENGTH, NULL);
  return NULL;
}

/* Returns whether the end was among the output. */
static bool read_news(yk_request *request, written *w)
{
  const yk_output *output;
  while (yk_request_next(request, 0, &output, NULL) == YK_OK) {
    if (output->finish != YK_FINISH_NONE) return true;
    w->n_tokens++;
  }
  return false;
}

static void writers_and_a_reader_that_waits_for_any(void **state)
{
  (void)state;
  atomic_uint n_cancels = 0;
  for (int round = 0; round < ROUNDS; round++) {
    written all[WRITERS][REQUESTS] = {0};
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++)
      for (int k = 0; k < REQUESTS; k++) all[i][k].request = create(&n_cancels, &all[i][k]);
    for (int i = 0; i < WRITERS; i++) assert_int_equal(pthread_create(&threads[i], NULL, write_all, all[i]), 0);
    for (int n_left = WRITERS * REQUESTS; n_left > 0;) {
      yk_request *request;
      void *user;
      assert_int_equal(yk_waiter_wait(waiter, 30, &request, &user, NULL), YK_OK);
      if (!read_news(request, user)) continue;
      assert_int_equal(((written *)user)->n_tokens, TOKENS);
      yk_request_free(request);
      n_left--;
    }
    for (int i = 0; i < WRITERS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(yk_waiter_wait(waiter, 0, NULL, NULL, NULL), YK_E_AGAIN);
  }
}

/* A waiter that was freed before its requests. */
static void a_waiter_goes_with_its_last_request(void **state)
{
  (void)state;
  atomic_uint n_cancels = 0;
  const yk_sampled token = {.token_id = 5};
  yk_request *request = create(&n_cancels, NULL);
  yk_waiter_free(waiter);
  waiter = NULL;
  yk_request_push_token(request, &token, false);
  assert_int_equal(read_one(request), YK_OK);
  yk_request_finish(request, YK_FINISH_LENGTH, NULL);
  yk_request_free(request);
}

/* A wait without a number, and a waiter where no descriptor is left. */
static void refusals_name_the_reason(void **state)
{
  (void)state;
  yk_err err = YK_ERR_INIT;
  yk_request *request = NULL;
  void *user = NULL;
  assert_int_equal(yk_waiter_wait(waiter, NAN, &request, &user, &err), YK_E_INVAL);
  assert_string_equal(err.message, "timeout_s: expected a number, found nan");
  struct rlimit before;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  const struct rlimit none = {0, before.rlim_max};
  yk_waiter *refused = waiter;
  yk_err no_descriptor = YK_ERR_INIT;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  yk_status status = yk_waiter_create(&refused, &no_descriptor);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
  assert_int_equal(status, YK_E_IO);
  assert_null(refused);
  assert_non_null(strstr(no_descriptor.message, "no descriptor for a waiter: "));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(reported_from_nothing_to_something, set_up, tear_down),
      cmocka_unit_test_setup_teardown(reported_at_the_end, set_up, tear_down),
      cmocka_unit_test_setup_teardown(reported_in_order, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_failure_comes_as_a_status, set_up, tear_down),
      cmocka_unit_test_setup_teardown(writers_and_a_reader_that_waits_for_any, set_up, tear_down),
      cmocka_unit_test_setup_teardown(refusals_name_the_reason, set_up, tear_down),
      cmocka_unit_test_setup_teardown(a_waiter_goes_with_its_last_request, set_up, tear_down)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
