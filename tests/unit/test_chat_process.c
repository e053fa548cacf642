/* The helper process: limits of time and memory, restarts, many threads, the lock; a machine without Python or
 * jinja2. */
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/helper_process.h"
#include "chat/chat_renderer.h"
#include "each_case.h"
#include "unit/chat_fixture.h"

#define DEMO YOKE_TESTS_DIR "/models/demo"

/* The last user's text selects the case. */
static const char TEMPLATE[] =
    "{%- set what = messages[-1].content -%}"
    "{%- if what == 'slow' -%}{% for i in range(100000) %}{% for k in range(100000) %}{% endfor %}{% endfor %}"
    "{%- elif what == 'big' -%}{{ ('a' * 1000000000)|upper }}"
    "{%- elif what == 'long' -%}{{ 'a' * 70000000 }}"
    "{%- else -%}<{{ what }}>{%- endif -%}";

typedef struct fixture {
  yk_tokenizer *tokenizer;
  yk_chat_renderer *renderer;
  char template_path[32];
} fixture;

static void write_file(const char *path, const char *text)
{
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fputs(text, file) < 0, false);
  assert_int_equal(fclose(file), 0);
}

static fixture prepare(yk_chat_options *options)
{
  fixture made = {.template_path = "/tmp/yoke-chat-XXXXXX"};
  close(mkstemp(made.template_path));
  write_file(made.template_path, TEMPLATE);
  assert_int_equal(yk_tokenizer_load(DEMO, &made.tokenizer, NULL), YK_OK);
  yk_chat_options_init(options);
  options->model_dir = DEMO;
  options->tokenizer = made.tokenizer;
  return made;
}

static fixture open_fixture(double time_limit_s)
{
  yk_chat_options options;
  yk_err err = YK_ERR_INIT;
  fixture made = prepare(&options);
  options.chat_template = made.template_path;
  options.time_limit_s = time_limit_s;
  if (yk_chat_renderer_create(&options, &made.renderer, &err) != YK_OK) fail_msg("%s", err.message);
  return made;
}

static void close_fixture(fixture *of)
{
  yk_chat_renderer_free(of->renderer);
  yk_tokenizer_free(of->tokenizer);
  unlink(of->template_path);
}

static yk_status render(const fixture *with, const char *what, char *text, size_t capacity, yk_err *err)
{
  yk_json_doc *messages = document_of(json_pack("[{s:s, s:s}]", "role", "user", "content", what));
  yk_chat_conversation conversation = {.messages = yk_json_root(messages)};
  yk_chat_prompt prompt;
  *err = YK_ERR_INIT;
  yk_status status = yk_chat_render(with->renderer, &conversation, &prompt, err);
  if (status == YK_OK) snprintf(text, capacity, "%s", prompt.text);
  yk_chat_prompt_free(&prompt);
  yk_json_free(messages);
  return status;
}

static void expect(const fixture *with, const char *what, yk_status code, const char *part)
{
  char text[64] = "";
  yk_err err;
  yk_status status = render(with, what, text, sizeof text, &err);
  if (status != code || !strstr(code == YK_OK ? text : err.message, part))
    fail_msg("%s: expected status %d and \"%s\", found %d and \"%s%s\"", what, code, part, status, text, err.message);
}

static void test_too_slow(void **state)
{
  fixture with = open_fixture(0.5);
  (void)state;
  for (int i = 0; i < 2; i++) {
    int64_t begin_ns = yk_clock_now_ns();
    expect(&with, "slow", YK_E_TIMEOUT, "the time limit has passed");
    double seconds = (double)(yk_clock_now_ns() - begin_ns) / 1e9;
    assert_true(seconds >= 0.5 && seconds < 30);
    expect(&with, "well", YK_OK, "<well>"); /* by another process */
  }
  close_fixture(&with);
}

static void test_too_big(void **state)
{
  fixture with = open_fixture(60);
  (void)state;
  expect(&with, "big", YK_E_CAPACITY, "memory");
  expect(&with, "well", YK_OK, "<well>");
  expect(&with, "long", YK_E_CAPACITY, "an answer of 70000");
  expect(&with, "well", YK_OK, "<well>");
  close_fixture(&with);
}

/* The pids of this process's children. */
static size_t find_children(pid_t *pids, size_t max)
{
  DIR *folder = opendir("/proc");
  size_t n = 0;
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    char path[300], line[512] = "";
    int pid = atoi(entry->d_name), parent = 0;
    if (pid <= 0) continue;
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = fopen(path, "r");
    if (!file) continue;
    if (fgets(line, sizeof line, file) && strrchr(line, ')')) sscanf(strrchr(line, ')') + 1, " %*c %d", &parent);
    fclose(file);
    if (parent == getpid() && n < max) pids[n++] = pid;
  }
  closedir(folder);
  return n;
}

static void test_a_helper_that_dies_is_replaced(void **state)
{
  fixture with = open_fixture(60);
  pid_t first, second;
  (void)state;
  assert_int_equal(find_children(&first, 1), 1);
  kill(first, SIGKILL);
  while (find_children(&second, 1) == 1 && kill(first, 0) == 0) { /* until the connection is closed */
    char path[64], text[512] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", first);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    fclose(file);
    if (strstr(text, ") Z ")) break;
    usleep(1000);
  }
  expect(&with, "well", YK_OK, "<well>");
  assert_int_equal(find_children(&second, 1), 1);
  assert_int_not_equal(first, second);
  close_fixture(&with);
  assert_int_equal(find_children(&second, 1), 0); /* no process remains */
}

static void *kill_some(void *n)
{
  pid_t pid, last = 0;
  for (int left = *(const int *)n; left > 0;) {
    usleep(100000);
    if (find_children(&pid, 1) != 1 || pid == last) continue;
    kill(pid, SIGKILL);
    last = pid;
    left--;
  }
  return NULL;
}

/* One more try, by another process; not a third. */
static void test_a_helper_that_dies_at_work(void **state)
{
  fixture with = open_fixture(2);
  pthread_t killer;
  int once = 1, twice = 2;
  (void)state;
  assert_int_equal(pthread_create(&killer, NULL, kill_some, &once), 0);
  expect(&with, "slow", YK_E_TIMEOUT, "the time limit has passed");
  pthread_join(killer, NULL);
  expect(&with, "well", YK_OK, "<well>");
  close_fixture(&with);
  with = open_fixture(60); /* the second death ends the rendering, independent of the machine's load */
  assert_int_equal(pthread_create(&killer, NULL, kill_some, &twice), 0);
  expect(&with, "slow", YK_E_IO, "the helper process has died");
  pthread_join(killer, NULL);
  expect(&with, "well", YK_OK, "<well>");
  close_fixture(&with);
}

typedef struct caller {
  const fixture *with;
  int number;
  size_t n_wrong;
} caller;

static void *render_many(void *argument)
{
  caller *self = argument;
  for (int i = 0; i < 40; i++) {
    char what[32], expected[32], text[64] = "";
    yk_err err;
    snprintf(what, sizeof what, "%d of %d%s", i, self->number, i % 2 ? "<|im_end|>" : "");
    snprintf(expected, sizeof expected, "<%s>", what);
    if (render(self->with, what, text, sizeof text, &err) != YK_OK || strcmp(text, expected) != 0) self->n_wrong++;
  }
  return NULL;
}

static void test_many_threads(void **state)
{
  enum { THREADS = 8 };
  fixture with = open_fixture(60);
  pthread_t threads[THREADS];
  caller callers[THREADS];
  (void)state;
  for (int i = 0; i < THREADS; i++) {
    callers[i] = (caller){&with, i, 0};
    assert_int_equal(pthread_create(&threads[i], NULL, render_many, &callers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(callers[i].n_wrong, 0);
  }
  close_fixture(&with);
}

static void expect_no_start(const char *python, yk_status code, const char *part)
{
  yk_chat_options options;
  yk_chat_renderer *renderer;
  yk_err err = YK_ERR_INIT;
  fixture with = prepare(&options);
  options.chat_template = with.template_path;
  options.python = python;
  yk_status status = yk_chat_renderer_create(&options, &renderer, &err);
  if (status != code || !strstr(err.message, part) || !strstr(err.message, "builtin:chatml"))
    fail_msg("%s: expected status %d and \"%s\", found %d and \"%s\"", python, code, part, status, err.message);
  assert_null(renderer);
  close_fixture(&with);
}

static void test_no_python(void **state)
{
  char wrapper[] = "/tmp/yoke-python-XXXXXX";
  (void)state;
  close(mkstemp(wrapper));
  write_file(wrapper, "#!/bin/sh\nexec python3 -S \"$@\"\n"); /* without the folder of Debian's packages */
  chmod(wrapper, 0700);
  expect_no_start("no-such-python", YK_E_UNSUPPORTED, "program no-such-python: No such file");
  expect_no_start(wrapper, YK_E_UNSUPPORTED, "the Python module jinja2 is missing (Debian: python3-jinja2)");
  unlink(wrapper);
}

extern const yk_embedded_file yk_template_helper_files[];
static const char *const MODULES[] = {"marked_text", "template_helper"};
static const yk_helper_program PROGRAM = {yk_template_helper_files, MODULES, 2, ""};

/* The process itself, inspected from outside. */
static void test_the_helper_is_locked_up(void **state)
{
  yk_helper_process helper;
  yk_err err = YK_ERR_INIT;
  yk_json_doc *answer;
  char path[64], *status_text;
  int n_descriptors = 0;
  (void)state;
  assert_int_equal(yk_helper_start("python3", &PROGRAM, 512 << 20, 5, &helper, &err), YK_OK);
  assert_true(yk_helper_is_alive(&helper));
  static const char REQUEST[] = "{\"load\": {\"default\": \"x\"}}";
  if (yk_helper_call(&helper, REQUEST, strlen(REQUEST), 60, &answer, &err) != YK_OK) fail_msg("%s", err.message);
  assert_true(yk_json_get(yk_json_root(answer), "needs").doc != NULL);
  yk_json_free(answer);
  snprintf(path, sizeof path, "/proc/%d/fd", helper.pid);
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder && (entry = readdir(folder)) != NULL;) n_descriptors += entry->d_name[0] != '.';
  if (folder) closedir(folder);
  assert_int_equal(n_descriptors, 3);
  snprintf(path, sizeof path, "/proc/%d/status", helper.pid);
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  status_text = calloc(1, 16384);
  assert_true(fread(status_text, 1, 16383, file) > 0);
  fclose(file);
  if (strstr(status_text, "Seccomp:")) assert_non_null(strstr(status_text, "Seccomp:\t2"));
  if (strstr(status_text, "NoNewPrivs:")) assert_non_null(strstr(status_text, "NoNewPrivs:\t1"));
  free(status_text);
  yk_helper_end(&helper);
  assert_false(yk_helper_is_alive(&helper));
}

static void test_answers_that_are_none(void **state)
{
  static const char *const REQUESTS[] = {"[]", "nonsense", "{}", "{\"load\": 3}", "{\"render\": \"default\"}"};
  yk_helper_process helper;
  yk_err err = YK_ERR_INIT;
  (void)state;
  assert_int_equal(yk_helper_start("python3", &PROGRAM, 512 << 20, 5, &helper, &err), YK_OK);
  for (size_t i = 0; each_case(i, i < sizeof REQUESTS / sizeof *REQUESTS); i++) { /* refused; the helper continues */
    yk_json_doc *answer;
    if (yk_helper_call(&helper, REQUESTS[i], strlen(REQUESTS[i]), 60, &answer, &err) != YK_OK)
      fail_msg("%s", err.message);
    assert_true(yk_json_get(yk_json_root(answer), "refused").doc != NULL);
    yk_json_free(answer);
  }
  yk_helper_end(&helper);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_too_slow),
      cmocka_unit_test(test_too_big),
      cmocka_unit_test(test_a_helper_that_dies_is_replaced),
      cmocka_unit_test(test_a_helper_that_dies_at_work),
      cmocka_unit_test(test_many_threads),
      cmocka_unit_test(test_no_python),
      cmocka_unit_test(test_the_helper_is_locked_up),
      cmocka_unit_test(test_answers_that_are_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
