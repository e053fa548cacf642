/* The report holds the study unchanged, in an element that no text of the study can end; a report that cannot be
 * written leaves the old one. */
#include "unit/loader_fixture.h"

#include <sys/stat.h>

#include "base/embedded.h"
#include "base/file.h"
#include "base/json_tree.h"
#include "study/report.h"

enum { MAX_REPORT_BYTES = 1 << 20 };
static const char START[] = "<script type=\"application/json\" id=\"study\">";

static void read_report(const char *path, char **text)
{
  yk_err err = YK_ERR_INIT;
  expect_ok("report", yk_file_read(path, MAX_REPORT_BYTES, text, NULL, &err), &err);
}

/* The report of a study given as text. */
static yk_status write_report(const char *path, const char *study_json, yk_err *err)
{
  json_t *study = NULL;
  expect_ok("study", yk_tree_parse("study", study_json, strlen(study_json), &study, err), err);
  yk_status status = yk_study_report_write(path, study, err);
  json_decref(study);
  return status;
}

/* The text of the study's element, up to its end tag. */
static char *study_of(const char *report)
{
  const char *from = strstr(report, START);
  assert_non_null(from);
  from += strlen(START);
  const char *end = strstr(from, "</");
  assert_non_null(end);
  assert_memory_equal(end, "</script>", 9);
  return strndup(from, (size_t)(end - from));
}

static void hostile_texts_stay_texts(void **state)
{
  (void)state;
  static const char study[] = "{\"a\": \"</script><script>\", \"<!--\": \"<SCRIPT \\u0000 {{report.css}} \\\"'&\","
                              " \"b\": [1e300, \"\xe2\x80\xa8<\"]}";
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  char path[128];
  snprintf(path, sizeof path, "%s/report.html", dir.path);
  expect_ok("hostile", write_report(path, study, &err), &err);
  char *report = NULL;
  read_report(path, &report);
  char *inside = study_of(report);
  assert_null(strchr(inside, '<'));
  assert_non_null(strstr(inside, ",\"b\":["));       /* compact */
  assert_non_null(strstr(inside, "{{report.css}}")); /* placeholders belong to the template alone */
  json_t *given = NULL, *found = NULL;
  expect_ok("given", yk_tree_parse("given", study, strlen(study), &given, &err), &err);
  expect_ok("found", yk_tree_parse("found", inside, strlen(inside), &found, &err), &err);
  assert_true(json_equal(given, found));
  json_decref(given);
  json_decref(found);
  free(inside);
  free(report);
  temp_dir_remove(&dir);
}

static void the_page_is_whole(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  char path[128];
  snprintf(path, sizeof path, "%s/report.html", dir.path);
  expect_ok("empty", write_report(path, "{}", &err), &err);
  char *report = NULL;
  read_report(path, &report);
  char *inside = study_of(report);
  assert_string_equal(inside, "{}");
  assert_memory_equal(report, "<!doctype html>", 15);
  assert_non_null(strstr(report, "<style id=\"paper\" media=\"print\">"));
  assert_non_null(strstr(report, "window.yokeReport"));
  assert_null(strstr(report, "{{"));
  assert_string_equal(report + strlen(report) - 8, "</html>\n");
  free(inside);
  free(report);
  temp_dir_remove(&dir);
}

static void errors_leave_the_old_report(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  char path[128], part[160], absent[160];
  snprintf(path, sizeof path, "%s/report.html", dir.path);
  snprintf(part, sizeof part, "%s.part", path);
  snprintf(absent, sizeof absent, "%s/none/report.html", dir.path);
  write_text(&dir, "report.html", "old");
  expect_error("list", YK_E_FORMAT, "expected an object, found array", write_report(path, "[]", &err), &err);
  expect_error("absent", YK_E_IO, "none/report.html.part: No such file", write_report(absent, "{}", &err), &err);
  assert_int_equal(mkdir(part, 0700), 0);
  expect_error("part", YK_E_IO, "report.html.part: Is a directory", write_report(path, "{}", &err), &err);
  assert_int_equal(rmdir(part), 0);
  char *report = NULL;
  read_report(path, &report);
  assert_string_equal(report, "old");
  free(report);
  assert_int_equal(unlink(path), 0);
  assert_int_equal(mkdir(path, 0700), 0);
  expect_error("directory", YK_E_IO, "report.html: expected a new name or a regular file",
               write_report(path, "{}", &err), &err);
  assert_int_equal(access(part, F_OK), -1);
  assert_int_equal(rmdir(path), 0);
  temp_dir_remove(&dir);
}

static void a_full_device_is_reported(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  char path[128], part[160];
  snprintf(path, sizeof path, "%s/report.html", dir.path);
  snprintf(part, sizeof part, "%s.part", path);
  if (symlink("/dev/full", part) != 0) skip();
  expect_error("full", YK_E_IO, "No space left", write_report(path, "{}", &err), &err);
  assert_int_equal(access(part, F_OK), -1);
  assert_int_equal(access(path, F_OK), -1);
  temp_dir_remove(&dir);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(hostile_texts_stay_texts), cmocka_unit_test(the_page_is_whole),
                                     cmocka_unit_test(errors_leave_the_old_report),
                                     cmocka_unit_test(a_full_device_is_reported)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
