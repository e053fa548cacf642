/* The loop of a study and its journal, over a synthetic engine: interrupted runs continue. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "each_case.h"
#include "study/runner.h"

enum { STARTS = 2, REPEATS = 3, N_POINTS = 4, N_ITEMS = N_POINTS * (STARTS * REPEATS + 1) };

/* A counting engine with its faults. */
typedef struct fake {
  int n_starts, n_runs, n_profiles, n_stops;
  bool is_started;
  int stop_after;           /* runs; 0: never */
  int fail_point;           /* -1: none */
  yk_status start_status;   /* of configuration 1 */
  bool is_broken;           /* the failing point breaks the engine */
  bool cancels, is_stopped; /* a signal arrives while the failing point runs, which reports it */
} fake;

static yk_status start(void *user, size_t config, json_t **info, yk_err *err)
{
  fake *engine = user;
  assert_false(engine->is_started);
  if (config == 1 && engine->start_status != YK_OK) return yk_err_set(err, engine->start_status, "no such engine");
  engine->is_started = true;
  engine->n_starts++;
  *info = json_pack("{s:s}", "dtype", "float16");
  return YK_OK;
}

static yk_status run(void *user, size_t point, json_t **figures, yk_err *err)
{
  fake *engine = user;
  assert_true(engine->is_started);
  engine->is_stopped = engine->cancels && (int)point == engine->fail_point;
  if ((int)point == engine->fail_point)
    return yk_err_set(err, engine->cancels ? YK_E_CANCELLED : YK_E_CAPACITY, "point %zu fails", point);
  *figures = json_pack("{s:f}", "output_throughput", 100.0 + ++engine->n_runs);
  return YK_OK;
}

static yk_status profile(void *user, size_t point, json_t **times, yk_err *err)
{
  (void)point, (void)err;
  ((fake *)user)->n_profiles++;
  *times = json_pack("{s:n}", "decode");
  return YK_OK;
}

static yk_status check(void *user, yk_err *err)
{
  (void)err;
  return ((fake *)user)->is_broken ? YK_E_DEVICE : YK_OK;
}

static void stop(void *user)
{
  fake *engine = user;
  assert_true(engine->is_started);
  engine->is_started = false;
  engine->n_stops++;
}

static bool stops(void *user)
{
  const fake *engine = user;
  return (engine->stop_after && engine->n_runs >= engine->stop_after) || engine->is_stopped;
}

static void ignore_progress(void *user, const yk_study_progress *progress)
{
  (void)user;
  assert_true(progress->n_done < progress->n_items && progress->left_s >= 0);
}

typedef struct study {
  char dir[32];
  yk_sweep sweep;
  yk_study_grid grid;
  yk_study_item *items;
  size_t n_items;
  yk_study_records records;
  int n_done_before;
} study;

static void make_study(study *made)
{
  *made = (study){.dir = "/dev/shm/yoke-study-XXXXXX"}; /* where a synchronised write costs nothing */
  if (access("/dev/shm", W_OK) != 0) strcpy(made->dir, "/tmp/yoke-study-XXXXXX");
  assert_non_null(mkdtemp(made->dir));
  assert_int_equal(yk_values_parse("1,2", 1, 8, true, &made->sweep.ranks, NULL), YK_OK);
  assert_int_equal(yk_values_parse("1,4", 1, 8, true, &made->sweep.loads, NULL), YK_OK);
  assert_int_equal(yk_values_parse("16", 1, 99, true, &made->sweep.input_lens, NULL), YK_OK);
  assert_int_equal(yk_values_parse("8", 1, 99, true, &made->sweep.output_lens, NULL), YK_OK);
  assert_int_equal(yk_study_grid_make(&made->sweep, &made->grid, NULL), YK_OK);
  assert_int_equal(yk_study_order_make(&made->grid, STARTS, REPEATS, true, 5, &made->items, &made->n_items, NULL),
                   YK_OK);
  assert_int_equal(made->n_items, N_ITEMS);
}

static char *journal_path(const study *made, char path[64])
{
  snprintf(path, 64, "%s/journal.jsonl", made->dir);
  return path;
}

static void free_study(study *made)
{
  char path[64];
  unlink(journal_path(made, path));
  rmdir(made->dir);
  yk_study_records_free(&made->records);
  free(made->items);
  yk_study_grid_free(&made->grid);
  yk_sweep_free(&made->sweep);
}

static yk_status take_all(study *made, const json_t *stored, yk_err *err)
{
  size_t i;
  json_t *record;
  json_array_foreach(stored, i, record) YK_TRY(yk_study_records_take(&made->records, record, err));
  return YK_OK;
}

/* One session: open, read the journal, run. */
static yk_status session(study *made, fake *engine, int repeats, bool *stopped, yk_err *err)
{
  yk_study_journal journal;
  yk_study_estimate estimate;
  json_t *identity = json_pack("{s:i, s:[i, i]}", "--repeats", repeats, "--ranks", 1, 2), *stored;
  yk_study_records_free(&made->records);
  for (size_t i = 0; i < made->grid.n_points; i++) made->grid.points[i].reason[0] = '\0';
  assert_int_equal(yk_study_records_init(&made->records, &made->grid, NULL), YK_OK);
  assert_int_equal(yk_study_estimate_init(&estimate, &made->grid, &(yk_study_rough){0}, NULL), YK_OK);
  const yk_study_driver driver = {engine, start, run, profile, check, stop};
  yk_status status = yk_study_journal_open(&journal, made->dir, identity, &stored, err);
  json_decref(identity);
  if (status == YK_OK) status = take_all(made, stored, err);
  made->n_done_before = 0;
  for (size_t i = 0; i < made->n_items; i++)
    made->n_done_before += yk_study_records_has(&made->records, &made->items[i]);
  json_decref(stored);
  if (status == YK_OK)
    status = yk_study_run_items(&(yk_study_run){made->items, made->n_items, &journal, &made->records, &estimate,
                                                &driver, stops, ignore_progress, engine},
                                stopped, err);
  yk_study_journal_close(&journal);
  yk_study_estimate_free(&estimate);
  assert_int_equal(engine->n_starts, engine->n_stops);
  return status;
}

static yk_status expect_session(study *made, fake *engine, bool expect_stopped)
{
  bool stopped = false;
  yk_err err = YK_ERR_INIT;
  yk_status status = session(made, engine, REPEATS, &stopped, &err);
  assert_int_equal(stopped, expect_stopped);
  return status;
}

static void test_whole(void **state)
{
  (void)state;
  study made;
  fake engine = {.fail_point = -1};
  make_study(&made);
  assert_int_equal(expect_session(&made, &engine, false), YK_OK);
  assert_int_equal(engine.n_starts, 2 * STARTS);
  assert_int_equal(engine.n_runs, N_POINTS * STARTS * REPEATS);
  assert_int_equal(engine.n_profiles, N_POINTS);
  assert_int_equal(made.n_done_before, 0);
  assert_int_equal(expect_session(&made, &engine, false), YK_OK); /* no point remains to be run */
  assert_int_equal(engine.n_starts, 2 * STARTS);
  assert_int_equal(made.n_done_before, N_ITEMS);
  free_study(&made);
}

/* Interrupted after every possible number of runs; no run is lost or done twice. */
static void test_stopped(void **state)
{
  (void)state;
  for (int n = 1; n < N_POINTS * STARTS * REPEATS; n++) {
    study made;
    fake engine = {.fail_point = -1, .stop_after = n};
    make_study(&made);
    assert_int_equal(expect_session(&made, &engine, true), YK_OK);
    assert_int_equal(engine.n_runs, n);
    engine.stop_after = 0;
    assert_int_equal(expect_session(&made, &engine, false), YK_OK);
    assert_int_equal(engine.n_runs, N_POINTS * STARTS * REPEATS);
    for (size_t i = 0; i < N_POINTS; i++) {
      assert_int_equal(json_array_size(made.records.runs[i]), STARTS * REPEATS);
      assert_non_null(made.records.profiles[i]);
    }
    free_study(&made);
  }
}

static void test_failing_point(void **state)
{
  (void)state;
  study made;
  fake engine = {.fail_point = 2};
  make_study(&made);
  assert_int_equal(expect_session(&made, &engine, false), YK_OK);
  assert_string_equal(made.grid.points[2].reason, "point 2 fails");
  assert_int_equal(engine.n_runs, (N_POINTS - 1) * STARTS * REPEATS);
  assert_int_equal(expect_session(&made, &engine, false), YK_OK); /* and is not tried again */
  assert_string_equal(made.grid.points[2].reason, "point 2 fails");
  free_study(&made);
}

static void test_broken_engine(void **state)
{
  (void)state;
  study made;
  fake engine = {.fail_point = 2, .is_broken = true};
  make_study(&made);
  assert_int_equal(expect_session(&made, &engine, false), YK_E_CAPACITY);
  int n_runs = engine.n_runs;
  engine = (fake){.fail_point = -1};
  assert_int_equal(expect_session(&made, &engine, false), YK_OK);
  assert_int_equal(engine.n_runs + n_runs, N_POINTS * STARTS * REPEATS);
  free_study(&made);
}

static void test_cancelled_run(void **state)
{
  (void)state;
  study made;
  fake engine = {.cancels = true};
  make_study(&made);
  engine.fail_point = (int)made.items[0].point;
  assert_int_equal(expect_session(&made, &engine, true), YK_OK);
  assert_int_equal(engine.n_runs, 0);
  assert_string_equal(made.grid.points[engine.fail_point].reason, ""); /* the point is not at fault */
  free_study(&made);
}

static void test_engine_that_cannot_start(void **state)
{
  (void)state;
  study made;
  fake engine = {.fail_point = -1, .start_status = YK_E_CAPACITY};
  make_study(&made);
  assert_int_equal(expect_session(&made, &engine, false), YK_OK); /* that configuration is left out */
  assert_string_equal(made.grid.points[2].reason, "no such engine");
  assert_string_equal(made.grid.points[3].reason, "no such engine");
  assert_int_equal(engine.n_runs, 2 * STARTS * REPEATS);
  free_study(&made);
  make_study(&made);
  engine = (fake){.fail_point = -1, .start_status = YK_E_DEVICE};
  assert_int_equal(expect_session(&made, &engine, false), YK_E_DEVICE);
  free_study(&made);
}

static void test_identity(void **state)
{
  (void)state;
  study made;
  fake engine = {.fail_point = -1, .stop_after = 5};
  bool stopped;
  yk_err err = YK_ERR_INIT;
  make_study(&made);
  assert_int_equal(expect_session(&made, &engine, true), YK_OK);
  engine.stop_after = 0;
  assert_int_equal(session(&made, &engine, 9, &stopped, &err), YK_E_INVAL);
  assert_non_null(strstr(err.message, "begun with another --repeats: expected 3, found 9"));
  assert_int_equal(engine.n_runs, 5);
  assert_int_equal(expect_session(&made, &engine, false), YK_OK); /* it is unchanged */
  free_study(&made);
}

/* ---- Damage ------------------------------------------------------------------------------------------------------ */

static void write_file(const char *path, const char *bytes, size_t n_bytes)
{
  assert_int_equal(yk_file_replace(path, bytes, n_bytes, NULL), YK_OK);
}

/* For any length of the file, the study continues from the whole lines. */
static void test_cut(void **state)
{
  (void)state;
  study made;
  fake engine = {.fail_point = -1, .stop_after = 3};
  char path[64], *text;
  size_t n_bytes;
  make_study(&made);
  assert_int_equal(expect_session(&made, &engine, true), YK_OK);
  assert_int_equal(yk_file_read(journal_path(&made, path), 1 << 20, &text, &n_bytes, NULL), YK_OK);
  for (size_t cut = 0; cut <= n_bytes; cut += 3) {
    char padded[4096];
    int n_runs = 0; /* whole ones before the cut */
    assert_in_range(n_bytes, 100, sizeof padded - 64);
    memset(padded, 0, sizeof padded);
    memcpy(padded, text, cut);
    for (char *line = padded, *end; (end = memchr(line, '\n', (size_t)(padded + cut - line))); line = end + 1)
      n_runs += strncmp(line, "{\"type\":\"run\"", 13) == 0;
    for (int zeros = 0; zeros <= 40; zeros += 40) { /* and the bytes that a power cut puts after it */
      write_file(path, padded, cut + (size_t)zeros);
      engine = (fake){.fail_point = -1};
      assert_int_equal(expect_session(&made, &engine, false), YK_OK);
      assert_int_equal(made.n_done_before, n_runs);
      assert_int_equal(engine.n_runs, N_POINTS * STARTS * REPEATS - n_runs);
      assert_int_equal(expect_session(&made, &engine, false), YK_OK); /* the truncated line is removed */
      assert_int_equal(made.n_done_before, N_ITEMS);
    }
  }
  free(text);
  free_study(&made);
}

static void test_damaged(void **state)
{
  (void)state;
  static const char head[] = "{\"yoke_study_journal\":1,\"identity\":{\"--repeats\":3,\"--ranks\":[1,2]}}\n";
  static const char engine_line[] = "{\"type\":\"engine\",\"config\":0,\"start\":0,\"info\":{}}\n";
  static const char run_line[] = "{\"type\":\"run\",\"point\":0,\"start\":0,\"repeat\":0,\"figures\":{}}\n";
  static const struct {
    const char *lines[3], *message;
  } cases[] = {
      {{"{\"foo\":1}\n"}, "line 1: expected the head"},
      {{"some text\n"}, "line 1: JSON"},
      {{"some text"}, "line 1: not the beginning"},
      {{head, "nonsense\n"}, "line 2: JSON"},
      {{head, "[1]\n"}, "line 2: expected an object, found array"},
      {{head, "{\"type\":\"x\"}\n"}, "type: expected machine"},
      {{head, "{\"typ\":1}\n"}, "type"},
      {{head, run_line}, "expected the start of an engine"},
      {{head, engine_line, "{\"type\":\"run\",\"point\":4,\"start\":0,\"repeat\":0,\"figures\":{}}\n"}, "point"},
      {{head, engine_line, "{\"type\":\"run\",\"point\":0,\"start\":0,\"repeat\":0,\"figures\":7}\n"}, "figures"},
      {{head, engine_line, "{\"type\":\"profile\",\"point\":0,\"times\":[]}\n"}, "times"},
      {{head, "{\"type\":\"engine\",\"config\":2,\"info\":{}}\n"}, "config"},
      {{head, "{\"type\":\"skip\",\"point\":1}\n"}, "reason"},
      {{head, "{\"type\":\"machine\"}\n"}, "machine"},
  };
  study made;
  char path[64], *after;
  make_study(&made);
  journal_path(&made, path);
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    char text[1024] = "";
    for (int line = 0; line < 3 && cases[i].lines[line]; line++) strcat(text, cases[i].lines[line]);
    write_file(path, text, strlen(text));
    fake engine = {.fail_point = -1};
    bool stopped;
    yk_err err = YK_ERR_INIT;
    assert_int_equal(session(&made, &engine, REPEATS, &stopped, &err), YK_E_FORMAT);
    if (!strstr(err.message, cases[i].message)) fail_msg("\"%s\" lacks \"%s\"", err.message, cases[i].message);
    assert_int_equal(yk_file_read(path, 1024, &after, NULL, NULL), YK_OK);
    assert_string_equal(after, text); /* as it was */
    free(after);
  }
  char twice[1024];
  snprintf(twice, sizeof twice, "%s%s%s%s", head, engine_line, run_line, run_line);
  write_file(path, twice, strlen(twice));
  fake engine = {.fail_point = -1};
  bool stopped;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(session(&made, &engine, REPEATS, &stopped, &err), YK_E_FORMAT);
  assert_non_null(strstr(err.message, "twice"));
  free_study(&made);
}

static void test_journal_places(void **state)
{
  (void)state;
  study made;
  char path[64];
  yk_study_journal journal, second;
  json_t *identity = json_object(), *records;
  yk_err err = YK_ERR_INIT;
  make_study(&made);
  assert_int_equal(yk_study_journal_open(&journal, "/dev/null/x", identity, &records, &err), YK_E_IO);
  yk_study_journal_close(&journal);
  assert_int_equal(yk_study_journal_open(&journal, "", identity, &records, NULL), YK_E_INVAL);
  yk_study_journal_close(&journal);
  assert_int_equal(yk_study_journal_open(&journal, made.dir, identity, &records, NULL), YK_OK);
  json_decref(records);
  yk_err_clear(&err);
  assert_int_equal(yk_study_journal_open(&second, made.dir, identity, &records, &err), YK_E_INVAL);
  assert_non_null(strstr(err.message, "another study is writing"));
  yk_study_journal_close(&second);
  yk_study_journal_close(&journal);
  assert_int_equal(unlink(journal_path(&made, path)), 0);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(yk_study_journal_open(&journal, made.dir, identity, &records, NULL), YK_E_IO);
  yk_study_journal_close(&journal);
  json_decref(identity);
  free_study(&made);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_whole),         cmocka_unit_test(test_stopped),
      cmocka_unit_test(test_failing_point), cmocka_unit_test(test_broken_engine),
      cmocka_unit_test(test_cancelled_run), cmocka_unit_test(test_engine_that_cannot_start),
      cmocka_unit_test(test_identity),      cmocka_unit_test(test_cut),
      cmocka_unit_test(test_damaged),       cmocka_unit_test(test_journal_places)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
