/* The file of a trace: complete when it is full and when it is not, and every failure to write it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/json_tree.h"
#include "trace/trace.h"

static void add_step(yk_trace *trace, int64_t begin_ns)
{
  const yk_trace_slice step = {0, 1, "step", -1, 7, begin_ns, begin_ns + 1001};
  const yk_trace_slice part = {0, 1, "part", 3, -1, begin_ns, begin_ns + 1};
  yk_trace_name_row(trace, 0, 1, "engine thread");
  yk_trace_add(trace, &step);
  yk_trace_add(trace, &part);
  yk_trace_end_step(trace);
}

static json_t *read_events(const char *path, json_t **root)
{
  json_error_t error;
  *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  if (!*root) fail_msg("%s:%d: %s", path, error.line, error.text);
  return json_object_get(*root, "traceEvents");
}

static size_t count(const json_t *events, const char *name)
{
  size_t n = 0, i;
  json_t *event;
  json_array_foreach(events, i, event) n += strcmp(json_string_value(json_object_get(event, "name")), name) == 0;
  return n;
}

static void write_steps(int n_steps, int max_steps, size_t expected)
{
  char path[] = "/tmp/yoke_trace_XXXXXX";
  int file = mkstemp(path);
  assert_true(file >= 0);
  close(file);
  yk_trace *trace;
  assert_int_equal(yk_trace_create(path, max_steps, &trace, NULL), YK_OK);
  for (int i = 0; i < n_steps; i++) {
    assert_int_equal(yk_trace_wants(trace), i < max_steps);
    add_step(trace, 5000000000000 + 2000 * i);
  }
  assert_int_equal(yk_trace_finish(trace, NULL), YK_OK);
  json_t *root, *events = read_events(path, &root);
  assert_int_equal(count(events, "step"), expected);
  assert_int_equal(count(events, "part"), expected);
  assert_int_equal(count(events, "thread_name"), expected > 0);
  if (expected > 1) {
    json_t *last = json_array_get(events, json_array_size(events) - 3);
    assert_string_equal(json_string_value(json_object_get(last, "name")), "step");
    assert_true(json_real_value(json_object_get(last, "ts")) == 2.0 * (double)(expected - 1));
    assert_true(json_real_value(json_object_get(last, "dur")) == 1.001);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(last, "args"), "rows")), 7);
  }
  json_decref(root);
  unlink(path);
}

static void whole_files(void **state)
{
  (void)state;
  write_steps(0, 3, 0);
  write_steps(2, 3, 2);
  write_steps(3, 3, 3);
  write_steps(5, 3, 3);
  write_steps(5000, 4500, 4500); /* more slices than the initial capacity */
}

static void unwritable_files(void **state)
{
  (void)state;
  yk_trace *trace;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(yk_trace_create("/nowhere/trace.json", 1, &trace, &err), YK_E_IO);
  assert_null(trace);
  assert_string_equal(err.message, "/nowhere/trace.json: No such file or directory");
  assert_int_equal(yk_trace_create(NULL, 1, &trace, NULL), YK_E_INVAL);
  assert_int_equal(yk_trace_create("/dev/null", 0, &trace, NULL), YK_E_INVAL);
  assert_int_equal(yk_trace_finish(NULL, NULL), YK_OK);
  for (int n_steps = 1; n_steps <= 2; n_steps++) { /* by finish, by the trace's own thread */
    err = YK_ERR_INIT;
    assert_int_equal(yk_trace_create("/dev/full", 2, &trace, NULL), YK_OK);
    for (int i = 0; i < n_steps; i++) add_step(trace, 0);
    assert_int_equal(yk_trace_finish(trace, &err), YK_E_IO);
    assert_string_equal(err.message, "/dev/full: cannot be written: No space left on device");
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(whole_files), cmocka_unit_test(unwritable_files)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
