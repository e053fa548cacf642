/* Limits of control groups, from files in a directory of the test's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/host_memory.h"

static const char *const files[][2] = {{"/a/b/memory.max", "max\n"},
                                       {"/a/memory.max", "5000\n"},
                                       {"/memory.max", "9000\n"},
                                       {"/memory/c/memory.limit_in_bytes", "7000\n"},
                                       {"/memory/memory.limit_in_bytes", "9223372036854771712\n"},
                                       {"/d/memory.max", "nonsense\n"}};

static const char *const folders[] = {"/a", "/a/b", "/memory", "/memory/c", "/d"};

enum { N_FILES = sizeof files / sizeof *files, N_FOLDERS = sizeof folders / sizeof *folders };

static void limits(void **state)
{
  (void)state;
  char root[] = "/tmp/yoke-groups-XXXXXX", path[128];
  assert_non_null(mkdtemp(root));
  for (size_t i = 0; i < N_FOLDERS; i++) {
    snprintf(path, sizeof path, "%s%s", root, folders[i]);
    assert_int_equal(mkdir(path, 0700), 0);
  }
  for (size_t i = 0; i < N_FILES; i++) {
    snprintf(path, sizeof path, "%s%s", root, files[i][0]);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(files[i][1], file) >= 0);
    assert_int_equal(fclose(file), 0);
  }
  assert_true(yk_host_memory_limit("0::/a/b\n", root) == 5000);
  assert_true(yk_host_memory_limit("0::/\n", root) == 9000);
  assert_true(yk_host_memory_limit("0::/elsewhere/x\n", root) == 9000);
  assert_true(yk_host_memory_limit("0::/d", root) == 9000);
  assert_true(yk_host_memory_limit("5:cpu:/a\n4:memory:/c\n", root) == 7000);
  assert_true(yk_host_memory_limit("4:memory:/c\n0::/a\n", root) == 5000);
  assert_true(yk_host_memory_limit("4:cpu,x:/c\nnonsense\n", root) == INT64_MAX);
  assert_true(yk_host_memory_limit("", root) == INT64_MAX);
  for (size_t i = 0; i < N_FILES; i++) {
    snprintf(path, sizeof path, "%s%s", root, files[i][0]);
    unlink(path);
  }
  for (size_t i = N_FOLDERS; i-- > 0;) {
    snprintf(path, sizeof path, "%s%s", root, folders[i]);
    rmdir(path);
  }
  rmdir(root);
  assert_true(yk_host_memory_bytes() > 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(limits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
