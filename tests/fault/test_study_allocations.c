/* Memory that runs out in a study: an error, no memory left, and no partly written file. */
#include <dirent.h>
#include <jansson.h>
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
#include "fault/counted_alloc.h"
#include "study/compare.h"
#include "study/output.h"
#include "study/predict.h"
#include "study/runner.h"
#include "study/summary.h"
#include "yoke/process.h"

/* Allocations of JSON: jansson reports a text as malformed if memory fails, or drops parts of its input; the result
 * must then be complete. */
static void expect_error_or_whole(yk_status status, const yk_err *err, bool is_whole)
{
  if (status == YK_OK && !is_whole) fail_msg("an allocation failed unnoticed");
  if (status != YK_OK) assert_true(status == YK_E_NOMEM || status == YK_E_FORMAT);
  assert_true((status != YK_OK) == (err->message[0] != '\0'));
}

static yk_status start(void *user, size_t config, json_t **info, yk_err *err)
{
  (void)user, (void)config;
  *info = json_pack("{s:s, s:i, s:i}", "dtype", "float16", "n_layers", 2, "hidden_size", 64);
  return *info ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for the engine");
}

static yk_status run(void *user, size_t point, json_t **figures, yk_err *err)
{
  (void)user;
  *figures = json_pack("{s:f, s:f, s:[s]}", "output_throughput", 100.0 + (double)point, "mean_tpot_ms", 2.0, "warnings",
                       "a warning");
  return *figures ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for figures");
}

static yk_status profile(void *user, size_t point, json_t **times, yk_err *err)
{
  (void)user, (void)point;
  *times = json_pack("{s:{s:i, s:f, s:f}, s:[{s:f}]}", "decode", "n_steps", 3, "gemm_qkv", 70.0, "host", 30.0,
                     "by_rank", "host", 1.0);
  return *times ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for times");
}

static yk_status check(void *user, yk_err *err)
{
  (void)user, (void)err;
  return YK_OK;
}

static void stop(void *user)
{
  (void)user;
}

static bool never(void *user)
{
  (void)user;
  return false;
}

static void ignore_progress(void *user, const yk_study_progress *progress)
{
  (void)user, (void)progress;
}

typedef struct study {
  char dir[32];
  yk_sweep sweep;
  yk_study_grid grid;
  yk_study_item *items;
  size_t n_items;
  yk_study_journal journal;
  yk_study_records records;
  yk_study_estimate estimate;
  json_t *identity, *stored;
} study;

/* Begins or continues the study in its folder, to the end of its runs. */
static yk_status measure(study *s, yk_err *err)
{
  static const yk_study_driver driver = {NULL, start, run, profile, check, stop};
  static const char *const options[] = {"max-num-seqs=8"};
  size_t i;
  json_t *record;
  bool stopped;
  YK_TRY(yk_values_parse("1,2", 1, 8, true, &s->sweep.ranks, err));
  YK_TRY(yk_values_parse("4", 1, 8, true, &s->sweep.loads, err));
  YK_TRY(yk_values_parse("16", 1, 99, true, &s->sweep.input_lens, err));
  YK_TRY(yk_values_parse("8", 1, 99, true, &s->sweep.output_lens, err));
  YK_TRY(yk_sweep_add_option(&s->sweep, options[0], err));
  YK_TRY(yk_study_grid_make(&s->sweep, &s->grid, err));
  YK_TRY(yk_study_order_make(&s->grid, 2, 1, true, 5, &s->items, &s->n_items, err));
  YK_TRY(yk_study_records_init(&s->records, &s->grid, err));
  YK_TRY(yk_study_estimate_init(&s->estimate, &s->grid, &(yk_study_rough){0}, err));
  s->identity = json_pack("{s:i}", "--repeats", 1);
  if (!s->identity) return yk_err_set(err, YK_E_NOMEM, "no memory for the identity");
  YK_TRY(yk_study_journal_open(&s->journal, s->dir, s->identity, &s->stored, err));
  json_array_foreach(s->stored, i, record) YK_TRY(yk_study_records_take(&s->records, record, err));
  return yk_study_run_items(&(yk_study_run){s->items, s->n_items, &s->journal, &s->records, &s->estimate, &driver,
                                            never, ignore_progress, NULL},
                            &stopped, err);
}

static void free_study(study *s)
{
  yk_study_journal_close(&s->journal);
  yk_study_records_free(&s->records);
  yk_study_estimate_free(&s->estimate);
  yk_study_grid_free(&s->grid);
  yk_sweep_free(&s->sweep);
  free(s->items);
  json_decref(s->identity);
  json_decref(s->stored);
}

static study new_study(const char *dir)
{
  study s = {.journal = {.fd = -1}};
  snprintf(s.dir, sizeof s.dir, "%s", dir);
  return s;
}

static void make_dir(char dir[32])
{
  strcpy(dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm/yoke-study-XXXXXX" : "/tmp/yoke-study-XXXXXX");
  assert_non_null(mkdtemp(dir));
}

static char *read_file(const char *dir, const char *name, size_t *n_bytes)
{
  char path[512], *text = NULL;
  snprintf(path, sizeof path, "%s/%s", dir, name);
  if (access(path, F_OK) == 0) assert_int_equal(yk_file_read(path, 1 << 24, &text, n_bytes, NULL), YK_OK);
  unlink(path);
  return text;
}

/* Checks that the folder holds only the journal, and removes it. */
static void expect_empty(const char *dir)
{
  size_t n_bytes;
  free(read_file(dir, "journal.jsonl", &n_bytes));
  if (rmdir(dir) != 0) fail_msg("%s: something was left behind", dir);
  assert_int_equal(mkdir(dir, 0700), 0);
}

/* Whether every point has its runs and times, or a reason for their absence. */
static bool is_measured(const study *s)
{
  for (size_t i = 0; i < s->grid.n_points; i++) {
    bool has_reason = strstr(s->grid.points[i].reason, "no memory") != NULL;
    if (!has_reason && (json_array_size(s->records.runs[i]) != 2 || !s->records.profiles[i])) return false;
  }
  return true;
}

/* After any failure, the same command continues from the finished runs. */
static void measuring_may_run_out(void **state)
{
  (void)state;
  int64_t n = 1;
  char dir[32];
  make_dir(dir);
  for (int64_t fail_at = 0; fail_at <= n; fail_at++) {
    yk_err err = YK_ERR_INIT;
    study s = new_study(dir);
    counted_alloc_reset(fail_at);
    yk_status status = measure(&s, &err);
    if (fail_at == 0) n = counted_alloc_count();
    expect_error_or_whole(status, &err, status != YK_OK || is_measured(&s));
    free_study(&s);
    counted_alloc_reset(0);
    s = new_study(dir);
    assert_int_equal(measure(&s, NULL), YK_OK);
    assert_true(is_measured(&s));
    free_study(&s);
    expect_empty(dir);
  }
  assert_true(n > 200);
  rmdir(dir);
}

static yk_status summarise_study(const study *s, yk_err *err)
{
  static const yk_model_shapes shapes = {.n_layers = 2,
                                         .hidden_size = 64,
                                         .intermediate_size = 128,
                                         .n_heads = 4,
                                         .n_kv_heads = 2,
                                         .head_dim = 16,
                                         .vocab_size = 256};
  const yk_study_frame frame = {
      .command = "yoke study", .model_name = "m", .shapes = &shapes, .n_repeats = 1, .n_starts = 2};
  json_t *summary;
  YK_TRY(yk_study_summarise(&frame, &s->records, &summary, err));
  yk_status status = yk_study_write(s->dir, summary, err);
  json_decref(summary);
  return status;
}

/* The files of a study, without their time of creation. */
typedef struct study_files {
  json_t *summary;
  char *csv, *latex, *report;
  size_t csv_bytes, latex_bytes, report_bytes;
  json_t *figures; /* name: a checksum */
} study_files;

/* The files of the folder of figures, which is removed. */
static json_t *take_figures(const char *dir)
{
  char path[512];
  json_t *sums = json_object();
  snprintf(path, sizeof path, "%s/figures", dir);
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    size_t n_bytes = 0;
    json_int_t sum = 0;
    if (entry->d_name[0] == '.') continue;
    char *bytes = read_file(path, entry->d_name, &n_bytes);
    for (size_t i = 0; i < n_bytes; i++) sum = (sum * 31 + bytes[i]) % 1000000007;
    json_object_set_new(sums, entry->d_name, json_integer(sum));
    free(bytes);
  }
  if (folder) closedir(folder);
  rmdir(path);
  return sums;
}

static study_files take_files(const char *dir)
{
  study_files files = {.csv = read_file(dir, "study.csv", &files.csv_bytes),
                       .latex = read_file(dir, "results.tex", &files.latex_bytes),
                       .report = read_file(dir, "report.html", &files.report_bytes),
                       .figures = take_figures(dir)};
  size_t n_bytes;
  char *text = read_file(dir, "study.json", &n_bytes);
  if (text) assert_int_equal(yk_tree_parse("study.json", text, n_bytes, &files.summary, NULL), YK_OK);
  json_object_del(files.summary, "created");
  free(text);
  return files;
}

static void free_files(study_files *files)
{
  json_decref(files->summary);
  json_decref(files->figures);
  free(files->csv);
  free(files->latex);
  free(files->report);
}

/* Each file is complete or absent; returns whether all are present. */
static bool are_whole(const study_files *found, const study_files *expected)
{
  if (found->summary) assert_true(json_equal(found->summary, expected->summary));
  if (found->csv) {
    assert_int_equal(found->csv_bytes, expected->csv_bytes);
    assert_memory_equal(found->csv, expected->csv, found->csv_bytes);
  }
  if (found->latex) assert_string_equal(found->latex, expected->latex);
  if (found->report) assert_int_equal(found->report_bytes, expected->report_bytes);
  const char *name;
  json_t *sum;
  json_object_foreach(found->figures, name, sum)
  {
    if (!json_equal(sum, json_object_get(expected->figures, name))) fail_msg("%s is other than it should be", name);
  }
  bool has_figures = json_object_size(found->figures) == json_object_size(expected->figures);
  return found->summary && found->csv && found->latex && found->report && has_figures;
}

static void telling_may_run_out(void **state)
{
  (void)state;
  int64_t n = 1;
  char dir[32];
  study_files expected = {0};
  make_dir(dir);
  study s = new_study(dir);
  counted_alloc_reset(0);
  assert_int_equal(measure(&s, NULL), YK_OK);
  s.records.machine = json_pack("{s:f, s:f}", "memory_bytes_per_s", 1e10, "gemm_flops", 1e11);
  expect_empty(dir);
  for (int64_t fail_at = 0; fail_at <= n; fail_at++) {
    yk_err err = YK_ERR_INIT;
    counted_alloc_reset(fail_at);
    yk_status status = summarise_study(&s, &err);
    if (fail_at == 0) n = counted_alloc_count();
    counted_alloc_reset(0);
    study_files found = take_files(dir);
    expect_empty(dir);
    if (fail_at == 0) expected = found;
    expect_error_or_whole(status, &err, are_whole(&found, &expected));
    if (fail_at > 0) free_files(&found);
  }
  assert_int_equal(json_object_size(expected.figures), 12); /* of four figures */
  assert_true(n > 400 && json_array_size(json_object_get(expected.summary, "points")) == 2);
  free_files(&expected);
  free_study(&s);
  rmdir(dir);
}

static yk_status derive(const json_t *summary, json_t *derived[2], yk_err *err)
{
  static const int ranks[] = {3, 4};
  yk_compared *compared;
  size_t n;
  YK_TRY(yk_study_predict(summary, ranks, 2, &derived[0], &derived[1], err));
  YK_TRY(yk_study_compare(summary, summary, "output_throughput", &compared, &n, err));
  for (size_t i = 0; i < n; i++) assert_true(compared[i].has_interval && compared[i].ratio == 1);
  yk_study_compare_free(compared, n);
  return YK_OK;
}

static void deriving_may_run_out(void **state)
{
  (void)state;
  int64_t n = 1;
  char dir[32];
  json_t *summary, *expected[2] = {NULL, NULL};
  make_dir(dir);
  study s = new_study(dir);
  counted_alloc_reset(0);
  assert_int_equal(measure(&s, NULL), YK_OK);
  assert_int_equal(summarise_study(&s, NULL), YK_OK);
  free_study(&s);
  study_files files = take_files(dir);
  summary = files.summary;
  for (int64_t fail_at = 0; fail_at <= n; fail_at++) {
    yk_err err = YK_ERR_INIT;
    json_t *derived[2] = {NULL, NULL};
    counted_alloc_reset(fail_at);
    yk_status status = derive(summary, derived, &err);
    if (fail_at == 0) n = counted_alloc_count();
    counted_alloc_reset(0);
    for (int i = 0; i < 2 && fail_at == 0; i++) expected[i] = json_incref(derived[i]);
    bool is_whole = json_equal(derived[0], expected[0]) && json_equal(derived[1], expected[1]);
    expect_error_or_whole(status, &err, is_whole);
    for (int i = 0; i < 2; i++) json_decref(derived[i]);
  }
  assert_true(n > 50 && json_array_size(expected[0]) == 2 && json_array_size(expected[1]) == 1);
  for (int i = 0; i < 2; i++) json_decref(expected[i]);
  free_files(&files);
  expect_empty(dir);
  rmdir(dir);
}

int main(void)
{
  yk_process_init();
  json_set_alloc_funcs(malloc, free); /* jansson's allocations are counted too */
  const struct CMUnitTest tests[] = {cmocka_unit_test(measuring_may_run_out), cmocka_unit_test(telling_may_run_out),
                                     cmocka_unit_test(deriving_may_run_out)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
