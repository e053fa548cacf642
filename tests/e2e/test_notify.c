/* Functions for servers in addition to yk_request_next: waiting for any of many requests, and texts with special
 * tokens. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/wait.h"
#include "e2e/engine_fixture.h"
#include "yoke/process.h"

enum { VOCAB = 200, CLIENTS = 48, ROUNDS = 4, OUTPUT = 24, PROMPT = 9 };

static int open_engine(void **state)
{
  yk_engine_options options = fixture_options("qwen3", 2);
  *state = fixture_open(&options);
  return 0;
}

static int close_engine(void **state)
{
  fixture_close(*state);
  return 0;
}

/* ---- One reader of many requests --------------------------------------------------------------------------------- */

typedef struct client {
  yk_request *request; /* NULL once its end was read */
  int n_reports;
  answer found;
} client;

static yk_waiter *open_waiter(void)
{
  yk_waiter *waiter;
  assert_int_equal(yk_waiter_create(&waiter, NULL), YK_OK);
  return waiter;
}

/* The next client to read; half a minute without a report means that a report was lost. */
static client *take_ready(yk_waiter *waiter)
{
  void *user;
  yk_request *request;
  if (yk_waiter_wait(waiter, 30, &request, &user, NULL) != YK_OK) return NULL;
  client *c = user;
  c->n_reports++;
  assert_true(!c->request || c->request == request);
  return c;
}

/* Reads everything available. Returns whether it includes the end. */
static bool read_news(client *c)
{
  const yk_output *output;
  yk_status status;
  if (!c->request) return false;
  while ((status = yk_request_next(c->request, 0, &output, &c->found.error)) == YK_OK) {
    fixture_take(&c->found, output);
    if (output->finish != YK_FINISH_NONE) break;
  }
  if (status == YK_E_AGAIN) return false;
  if (status != YK_OK) c->found.finish = YK_FINISH_ERROR;
  yk_request_free(c->request);
  c->request = NULL;
  return true;
}

static void prompt_of(int i, int32_t *ids)
{
  fixture_prompt((uint32_t)i, VOCAB, ids, PROMPT);
}

static yk_request_options request_of(yk_engine *engine, int i, const int32_t *ids)
{
  yk_request_options options = fixture_request(engine, ids, PROMPT, 1 + i % OUTPUT);
  if (i % 3 == 0) options.sampling.n_prompt_logprobs = 0;
  return options;
}

static void a_reader_that_waits_for_any_misses_nothing(void **state)
{
  static client clients[CLIENTS];
  static answer expected[CLIENTS];
  int32_t ids[PROMPT];
  yk_waiter *waiter = open_waiter();
  for (int i = 0; i < CLIENTS; i++) {
    prompt_of(i, ids);
    yk_request_options options = request_of(*state, i, ids);
    fixture_answer(*state, &options, &expected[i]);
  }
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < CLIENTS; i++) {
      clients[i] = (client){.found = {.error = YK_ERR_INIT}};
      prompt_of(i, ids);
      yk_request_options options = request_of(*state, i, ids);
      options.waiter = waiter;
      options.user = &clients[i];
      clients[i].request = fixture_submit(*state, &options);
    }
    for (int n_left = CLIENTS; n_left > 0;) {
      client *c = take_ready(waiter);
      if (!c) fail_msg("%d requests have output that was not reported", n_left);
      n_left -= read_news(c);
    }
    for (int i = 0; i < CLIENTS; i++) {
      assert_same_answer(&clients[i].found, &expected[i]);
      assert_int_equal(clients[i].found.n, 1 + i % OUTPUT);
      assert_int_equal(clients[i].found.n_prompt, i % 3 == 0 ? PROMPT - 1 : 0);
    }
  }
  yk_waiter_free(waiter);
}

/* The last token is reported with the end, so that both can be read then. */
static void the_last_token_comes_with_the_end(void **state)
{
  int32_t ids[PROMPT];
  yk_waiter *waiter = open_waiter();
  prompt_of(1, ids);
  for (int i = 0; i < 200; i++) {
    static client c;
    c = (client){.found = {.error = YK_ERR_INIT}};
    yk_request_options options = fixture_request(*state, ids, PROMPT, 1);
    options.waiter = waiter;
    options.user = &c;
    c.request = fixture_submit(*state, &options);
    assert_ptr_equal(take_ready(waiter), &c);
    assert_true(read_news(&c));
    assert_int_equal(c.found.n, 1);
    assert_int_equal(c.n_reports, 1);
  }
  yk_waiter_free(waiter);
}

/* ---- Freed and refused requests ---------------------------------------------------------------------------------- */

static void pause_ns(long ns)
{
  nanosleep(&(struct timespec){0, ns}, NULL);
}

static void a_freed_request_is_not_reported(void **state)
{
  int32_t ids[PROMPT];
  yk_waiter *waiter = open_waiter();
  prompt_of(2, ids);
  for (int i = 0; i < 400; i++) {
    yk_request_options options = fixture_request(*state, ids, PROMPT, 100);
    options.waiter = waiter;
    yk_request *request = fixture_submit(*state, &options);
    if (i % 4) pause_ns(i % 16 * 20000L);
    if (i % 8 == 0) yk_request_cancel(request);
    yk_request_free(request);
    assert_int_equal(yk_waiter_wait(waiter, 0, NULL, NULL, NULL), YK_E_AGAIN);
  }
  yk_waiter_free(waiter);
}

static void a_refused_request_is_not_reported(void **state)
{
  int32_t ids[PROMPT];
  yk_waiter *waiter = open_waiter();
  prompt_of(2, ids);
  yk_request *request;
  yk_request_options options = fixture_request(*state, ids, PROMPT, 5);
  options.waiter = waiter;
  options.sampling.top_p = 7;
  assert_int_equal(yk_engine_submit(*state, &options, &request, NULL), YK_E_INVAL);
  assert_null(request);
  assert_int_equal(yk_waiter_wait(waiter, 0, NULL, NULL, NULL), YK_E_AGAIN);
  yk_waiter_free(waiter);
}

/* However a request ends, the end is reported. */
static void cancelled_requests_and_stopped_engines_report_the_end(void **state)
{
  (void)state;
  static client clients[2];
  int32_t ids[PROMPT];
  yk_waiter *waiter = open_waiter();
  prompt_of(3, ids);
  yk_engine_options engine_options = fixture_options("qwen3", 1);
  yk_engine *engine = fixture_open(&engine_options);
  for (int i = 0; i < 2; i++) {
    clients[i] = (client){.found = {.error = YK_ERR_INIT}};
    yk_request_options options = fixture_request(engine, ids, PROMPT, i ? 200 : 240);
    options.waiter = waiter;
    options.user = &clients[i];
    clients[i].request = fixture_submit(engine, &options);
  }
  yk_request_cancel(clients[0].request);
  yk_engine_destroy(engine);
  for (int n_left = 2; n_left > 0;) {
    client *c = take_ready(waiter);
    if (!c) fail_msg("%d ends were not reported", n_left);
    n_left -= read_news(c);
  }
  assert_int_not_equal(clients[0].found.finish, YK_FINISH_NONE);
  assert_int_not_equal(clients[1].found.finish, YK_FINISH_NONE);
  yk_waiter_free(waiter);
}

/* ---- Special tokens ---------------------------------------------------------------------------------------------- */

static void write_tokenizer(const char *dir)
{
  char path[512];
  snprintf(path, sizeof path, "%s/tokenizer.json", dir);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs("{\"added_tokens\":[{\"id\":1,\"content\":\"<s>\",\"special\":true}],\"post_processor\":{\"type\":"
        "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"<s>\"}},{\"Sequence\":{\"id\":\"A\"}}],"
        "\"special_tokens\":{\"<s>\":{\"ids\":[1]}}},\"model\":{\"type\":\"BPE\",\"vocab\":{\"<s>\":1,\"a\":5,"
        "\"b\":6},\"merges\":[]}}",
        file);
  fclose(file);
}

/* The tiny model with a tokenizer whose texts begin with "<s>". */
static void make_model(const char *model, const char *dir)
{
  static const char *const names[] = {"config.json", "model.safetensors"};
  for (size_t i = 0; i < 2; i++) {
    char from[512], to[512];
    snprintf(from, sizeof from, "%s/%s", model, names[i]);
    snprintf(to, sizeof to, "%s/%s", dir, names[i]);
    assert_int_equal(symlink(from, to), 0);
  }
  write_tokenizer(dir);
}

static void remove_model(const char *dir)
{
  static const char *const names[] = {"config.json", "model.safetensors", "tokenizer.json"};
  for (size_t i = 0; i < 3; i++) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, names[i]);
    unlink(path);
  }
  rmdir(dir);
}

static void special_tokens_are_added_where_wanted(void **state)
{
  (void)state;
  char dir[] = "/tmp/yoke_notify_XXXXXX";
  assert_non_null(mkdtemp(dir));
  yk_engine_options engine_options = fixture_options("qwen3", 1);
  make_model(engine_options.model_dir, dir);
  engine_options.model_dir = dir;
  yk_engine *engine = fixture_open(&engine_options);
  for (int adds = 0; adds < 2; adds++) {
    static answer found;
    int32_t *ids;
    size_t n;
    assert_int_equal(yk_engine_tokenize(engine, "ab", 2, adds, &ids, &n, NULL), YK_OK);
    assert_int_equal(n, 2 + adds);
    assert_memory_equal(ids, ((int32_t[]){1, 5, 6}) + !adds, n * sizeof *ids);
    free(ids);
    yk_request_options options = fixture_request(engine, NULL, 0, 2);
    assert_true(options.add_special_tokens);
    options.text = "ab";
    options.add_special_tokens = adds;
    fixture_answer(engine, &options, &found);
    assert_int_equal(found.usage.prompt_tokens, 2 + adds);
  }
  fixture_close(engine);
  remove_model(dir);
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_reader_that_waits_for_any_misses_nothing),
                                     cmocka_unit_test(the_last_token_comes_with_the_end),
                                     cmocka_unit_test(a_freed_request_is_not_reported),
                                     cmocka_unit_test(a_refused_request_is_not_reported),
                                     cmocka_unit_test(cancelled_requests_and_stopped_engines_report_the_end),
                                     cmocka_unit_test(special_tokens_are_added_where_wanted)};
  int status = fixture_gate();
  return status ? status : cmocka_run_group_tests(tests, open_engine, close_engine);
}
