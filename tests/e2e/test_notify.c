/* What a server needs beside yk_request_next: being told when there is something to read, and texts that bring their
 * own special tokens. */
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

/* ---- Requests that have news, for one reader --------------------------------------------------------------------- */

typedef struct ready_list {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct client *first;
} ready_list;

typedef struct client {
  ready_list *list;
  struct client *next_ready; /* under the list's mutex, like is_ready and n_calls */
  bool is_ready;
  int n_calls;
  yk_request *request; /* NULL once its end was read: who reads fast may be told of what he has read */
  answer found;
} client;

/* Called from the engine's thread. */
static void put_on_list(void *user)
{
  client *c = user;
  pthread_mutex_lock(&c->list->mutex);
  c->n_calls++;
  if (!c->is_ready) {
    c->is_ready = true;
    c->next_ready = c->list->first;
    c->list->first = c;
    pthread_cond_signal(&c->list->changed);
  }
  pthread_mutex_unlock(&c->list->mutex);
}

/* NULL: nobody was told of for half a minute, so that a call was lost. */
static client *take_ready(ready_list *list)
{
  struct timespec deadline = yk_wait_deadline(30);
  pthread_mutex_lock(&list->mutex);
  int failed = 0;
  while (!list->first && !failed) failed = pthread_cond_timedwait(&list->changed, &list->mutex, &deadline);
  client *c = list->first;
  if (c) {
    list->first = c->next_ready;
    c->is_ready = false;
  }
  pthread_mutex_unlock(&list->mutex);
  return c;
}

static void init_list(ready_list *list)
{
  *list = (ready_list){0};
  pthread_mutex_init(&list->mutex, NULL);
  yk_cond_init(&list->changed);
}

/* Everything that is there. Returns whether the end was. */
static bool read_news(client *c)
{
  yk_output output;
  yk_status status;
  if (!c->request) return false;
  while ((status = yk_request_next(c->request, 0, &output, &c->found.error)) == YK_OK) {
    fixture_take(&c->found, &output);
    if (output.finish == YK_FINISH_NONE) continue;
    yk_request_free(c->request);
    c->request = NULL;
    return true;
  }
  assert_int_equal(status, YK_E_TIMEOUT);
  return false;
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

static void a_reader_that_is_told_misses_nothing(void **state)
{
  static client clients[CLIENTS];
  static answer expected[CLIENTS];
  int32_t ids[PROMPT];
  ready_list list;
  init_list(&list);
  for (int i = 0; i < CLIENTS; i++) {
    prompt_of(i, ids);
    yk_request_options options = request_of(*state, i, ids);
    fixture_answer(*state, &options, &expected[i]);
  }
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < CLIENTS; i++) {
      clients[i] = (client){.list = &list, .found = {.error = YK_ERR_INIT}};
      prompt_of(i, ids);
      yk_request_options options = request_of(*state, i, ids);
      options.notify = put_on_list;
      options.notify_user = &clients[i];
      clients[i].request = fixture_submit(*state, &options);
    }
    for (int n_left = CLIENTS; n_left > 0;) {
      client *c = take_ready(&list);
      if (!c) fail_msg("%d requests have news that nobody told", n_left);
      n_left -= read_news(c);
    }
    list.first = NULL; /* nobody is told any more */
    for (int i = 0; i < CLIENTS; i++) {
      assert_same_answer(&clients[i].found, &expected[i]);
      assert_int_equal(clients[i].found.n, 1 + i % OUTPUT);
      assert_int_equal(clients[i].found.n_prompt, i % 3 == 0 ? PROMPT - 1 : 0);
    }
  }
}

/* The last token is told by the end alone, so that both can be read then. */
static void the_last_token_comes_with_the_end(void **state)
{
  int32_t ids[PROMPT];
  ready_list list;
  init_list(&list);
  prompt_of(1, ids);
  for (int i = 0; i < 200; i++) {
    static client c;
    c = (client){.list = &list, .found = {.error = YK_ERR_INIT}};
    yk_request_options options = fixture_request(*state, ids, PROMPT, 1);
    options.notify = put_on_list;
    options.notify_user = &c;
    c.request = fixture_submit(*state, &options);
    assert_ptr_equal(take_ready(&list), &c);
    assert_true(read_news(&c));
    assert_int_equal(c.found.n, 1);
    assert_int_equal(c.n_calls, 1);
  }
}

/* ---- Never behind the owner's back ------------------------------------------------------------------------------- */

enum { ALIVE = 0x51 };

typedef struct mark {
  int state; /* ALIVE until yk_request_free has returned; not synchronised: the request's lock is what orders it */
} mark;

static void look_at_mark(void *user)
{
  mark *m = user;
  if (m->state != ALIVE) abort();
}

static void pause_ns(long ns)
{
  nanosleep(&(struct timespec){0, ns}, NULL);
}

static void nobody_is_told_after_free(void **state)
{
  int32_t ids[PROMPT];
  prompt_of(2, ids);
  for (int i = 0; i < 400; i++) {
    mark *m = malloc(sizeof *m);
    m->state = ALIVE;
    yk_request_options options = fixture_request(*state, ids, PROMPT, 100);
    options.notify = look_at_mark;
    options.notify_user = m;
    yk_request *request = fixture_submit(*state, &options);
    if (i % 4) pause_ns(i % 16 * 20000L);
    if (i % 8 == 0) yk_request_cancel(request);
    yk_request_free(request);
    m->state = 0;
    free(m);
  }
}

static void fail_if_told(void *user)
{
  (void)user;
  abort();
}

static void a_refused_request_tells_nothing(void **state)
{
  int32_t ids[PROMPT];
  prompt_of(2, ids);
  yk_request *request;
  yk_request_options options = fixture_request(*state, ids, PROMPT, 5);
  options.notify = fail_if_told;
  options.sampling.top_p = 7;
  assert_int_equal(yk_engine_submit(*state, &options, &request, NULL), YK_E_INVAL);
  assert_null(request);
}

/* However a request ends, the end is told. */
static void cancelled_requests_and_stopped_engines_tell_the_end(void **state)
{
  (void)state;
  static client clients[2];
  int32_t ids[PROMPT];
  ready_list list;
  init_list(&list);
  prompt_of(3, ids);
  yk_engine_options engine_options = fixture_options("qwen3", 1);
  yk_engine *engine = fixture_open(&engine_options);
  for (int i = 0; i < 2; i++) {
    clients[i] = (client){.list = &list, .found = {.error = YK_ERR_INIT}};
    yk_request_options options = fixture_request(engine, ids, PROMPT, i ? 200 : 240);
    options.notify = put_on_list;
    options.notify_user = &clients[i];
    clients[i].request = fixture_submit(engine, &options);
  }
  yk_request_cancel(clients[0].request);
  yk_engine_destroy(engine);
  for (int n_left = 2; n_left > 0;) {
    client *c = take_ready(&list);
    if (!c) fail_msg("%d ends were told to nobody", n_left);
    n_left -= read_news(c);
  }
  assert_int_not_equal(clients[0].found.finish, YK_FINISH_NONE);
  assert_int_not_equal(clients[1].found.finish, YK_FINISH_NONE);
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
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_reader_that_is_told_misses_nothing),
                                     cmocka_unit_test(the_last_token_comes_with_the_end),
                                     cmocka_unit_test(nobody_is_told_after_free),
                                     cmocka_unit_test(a_refused_request_tells_nothing),
                                     cmocka_unit_test(cancelled_requests_and_stopped_engines_tell_the_end),
                                     cmocka_unit_test(special_tokens_are_added_where_wanted)};
  int status = fixture_gate();
  return status ? status : cmocka_run_group_tests(tests, open_engine, close_engine);
}
