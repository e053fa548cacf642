#include "each_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_LOOPS = 16 };

typedef struct test_loop {
  const char *name, *file;
  long long value;
  int line;
} test_loop;

/* The loops around the running test's position, the outermost first. */
static _Thread_local test_loop loops[MAX_LOOPS];
static _Thread_local int n_loops;

static bool is_at(const test_loop *loop, const char *file, int line)
{
  return loop->line == line && strcmp(loop->file, file) == 0;
}

bool test_case_begin(bool condition, const char *name, long long value, const char *file, int line)
{
  int at = 0;
  while (at < n_loops && !is_at(&loops[at], file, line)) at++;
  n_loops = at; /* loops inside have ended */
  if (condition && at < MAX_LOOPS) loops[n_loops++] = (test_loop){name, file, value, line};
  return condition;
}

/* After each test: loops that are still open were ended by an assertion. */
static int name_cases(void **state)
{
  (void)state;
  for (int i = 0; i < n_loops; i++) {
    const char *slash = strrchr(loops[i].file, '/');
    print_error("in case %s = %lld of %s:%d\n", loops[i].name, loops[i].value, slash ? slash + 1 : loops[i].file,
                loops[i].line);
  }
  n_loops = 0;
  return 0;
}

int __real__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup,
                                   CMFixtureFunction teardown);
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup,
                                   CMFixtureFunction teardown);

/* Every test without a separate teardown gets name_cases. */
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests, size_t n, CMFixtureFunction setup,
                                   CMFixtureFunction teardown)
{
  struct CMUnitTest *copies = malloc(n * sizeof *copies);
  if (!copies) return 1;
  memcpy(copies, tests, n * sizeof *copies);
  for (size_t i = 0; i < n; i++)
    if (!copies[i].teardown_func) copies[i].teardown_func = name_cases;
  int n_failed = __real__cmocka_run_group_tests(name, copies, n, setup, teardown);
  free(copies);
  return n_failed;
}
