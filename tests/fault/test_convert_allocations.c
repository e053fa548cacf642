/* Memory that runs out while a model is converted: an error, and no files. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "fault/counted_alloc.h"
#include "yoke/tools.h"
#include "yoke/yoke.h"

static const char folder_form[] = "/tmp/yoke-convert-XXXXXX";

static int n_entries(const char *dir)
{
  int n = -2; /* "." and ".." */
  DIR *stream = opendir(dir);
  if (!stream) return -1;
  while (readdir(stream)) n++;
  closedir(stream);
  return n;
}

static void remove_made(const char *path)
{
  char name[256];
  static const char *const files[] = {"config.json", "model.safetensors"};
  for (int i = 0; i < 2; i++) {
    snprintf(name, sizeof name, "%s/%s", path, files[i]);
    unlink(name);
  }
  if (rmdir(path) != 0) unlink(path);
}

static yk_status convert(const char *from, const char *folder, yk_convert_format to, int64_t *n_allocations)
{
  char out[128];
  yk_convert_options options;
  yk_err err = YK_ERR_INIT;
  yk_convert_options_init(&options);
  snprintf(out, sizeof out, "%s/made", folder);
  options.model_dir = from;
  options.out = out;
  options.to = to;
  yk_status status = yk_convert(&options, &err);
  if (n_allocations) *n_allocations = counted_alloc_count();
  counted_alloc_reset(0);
  if (status == YK_OK) {
    remove_made(out);
  } else {
    assert_int_equal(status, YK_E_NOMEM);
    assert_true(err.message[0] != '\0');
  }
  assert_int_equal(n_entries(folder), 0);
  return status;
}

static void any_allocation_may_fail(void **state)
{
  (void)state;
  static const struct {
    const char *from;
    yk_convert_format to;
  } cases[] = {{YOKE_TESTS_DIR "/golden/kuiper/untied.bin", YK_CONVERT_AWQ},
               {YOKE_TESTS_DIR "/golden/kuiper/tied.bin", YK_CONVERT_KUIPER}};
  char folder[sizeof folder_form];
  snprintf(folder, sizeof folder, "%s", folder_form);
  assert_non_null(mkdtemp(folder));
  for (int c = 0; c < 2; c++) {
    int64_t n;
    counted_alloc_reset(0);
    assert_int_equal(convert(cases[c].from, folder, cases[c].to, &n), YK_OK);
    assert_true(n > 20);
    for (int64_t i = 1; i <= n; i++) {
      counted_alloc_reset(i);
      if (convert(cases[c].from, folder, cases[c].to, NULL) == YK_OK)
        fail_msg("allocation %lld of %lld failed, without an error", (long long)i, (long long)n);
    }
  }
  assert_int_equal(rmdir(folder), 0);
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest tests[] = {cmocka_unit_test(any_allocation_may_fail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
