/* When a request tells its reader that there is something to read, step by step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/request.h"

enum { N_PROMPT = 3, CAPACITY = 20 };

static void count(void *user)
{
  ++*(int *)user;
}

static yk_request *create(atomic_uint *n_cancels, int *n_calls)
{
  const int32_t prompt[N_PROMPT] = {1, 2, 3};
  const yk_sampling sampling = {.max_tokens = CAPACITY - N_PROMPT, .n_logprobs = -1, .n_prompt_logprobs = 0};
  yk_request *request;
  assert_int_equal(
      yk_request_create(NULL, prompt, N_PROMPT, CAPACITY, &sampling, NULL, 0, NULL, n_cancels, &request, NULL), YK_OK);
  request->notify = count;
  request->notify_user = n_calls;
  return request;
}

static yk_status read_one(yk_request *request)
{
  yk_output output;
  return yk_request_next(request, 0, &output, NULL);
}

static void told_from_nothing_to_something(void **state)
{
  (void)state;
  atomic_uint n_cancels = 0;
  int n_calls = 0;
  const yk_sampled token = {.token_id = 5};
  yk_request *request = create(&n_cancels, &n_calls);
  yk_request_push_prompt_token(request, &token);
  assert_int_equal(n_calls, 1);
  yk_request_push_prompt_token(request, &token); /* behind something unread */
  yk_request_push_token(request, &token, false);
  assert_int_equal(n_calls, 1);
  assert_int_equal(read_one(request), YK_OK);
  yk_request_push_token(request, &token, false); /* two are still unread */
  assert_int_equal(n_calls, 1);
  for (int i = 0; i < 3; i++) assert_int_equal(read_one(request), YK_OK);
  yk_request_push_token(request, &token, false); /* all has been read, though the reader has not looked for more */
  assert_int_equal(n_calls, 2);
  assert_int_equal(read_one(request), YK_OK);
  assert_int_equal(read_one(request), YK_E_TIMEOUT);
  yk_request_push_token(request, &token, false);
  assert_int_equal(n_calls, 3);
  assert_int_equal(read_one(request), YK_OK);
  yk_request_push_token(request, &token, true); /* the end tells of it */
  assert_int_equal(n_calls, 3);
  yk_request_finish(request, YK_FINISH_LENGTH, NULL);
  assert_int_equal(n_calls, 4);
  assert_int_equal(read_one(request), YK_OK);
  assert_int_equal(read_one(request), YK_OK);
  yk_request_free(request);
  assert_int_equal(n_calls, 4);
}

/* The end is told beside something unread too, once, and to nobody who has let go. */
static void told_of_the_end(void **state)
{
  (void)state;
  atomic_uint n_cancels = 0;
  int n_calls = 0;
  const yk_sampled token = {.token_id = 5};
  yk_request *request = create(&n_cancels, &n_calls);
  yk_request_push_token(request, &token, false);
  yk_request_finish(request, YK_FINISH_CANCELLED, NULL);
  assert_int_equal(n_calls, 2);
  yk_request_free(request);
  request = create(&n_cancels, &n_calls);
  n_calls = 0;
  yk_request_free(request);
  yk_request_push_token(request, &token, false);
  yk_request_finish(request, YK_FINISH_LENGTH, NULL);
  assert_int_equal(n_calls, 0);
  assert_int_equal(n_cancels, 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(told_from_nothing_to_something),
                                     cmocka_unit_test(told_of_the_end)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
