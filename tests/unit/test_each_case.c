/* A failed assertion inside loops over cases prints the case of each loop. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "each_case.h"

static void fail_in_the_third(void **state)
{
  (void)state;
  for (int done = 0; each_case(done, done < 2); done++) assert_true(done < 2);
  for (int outer = 5; each_case(outer, outer < 9); outer++)
    for (int inner = 0; each_case(inner, inner < 4); inner++) assert_true(outer != 7 || inner != 2);
}

static void fail_in_no_case(void **state)
{
  (void)state;
  for (int done = 0; each_case(done, done < 2); done++) assert_true(done < 2);
  assert_true(false);
}

/* The output of a process that runs one failing test. */
static void output_of(CMUnitTestFunction test, char *out, size_t max)
{
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) {
    const struct CMUnitTest tests[] = {{.name = "failing", .test_func = test}};
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
    fflush(stdout);
    _exit(n_failed);
  }
  close(ends[1]);
  size_t used = 0;
  for (ssize_t n; used < max - 1 && (n = read(ends[0], out + used, max - 1 - used)) > 0;) used += (size_t)n;
  out[used] = '\0';
  close(ends[0]);
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
}

static void a_failure_names_its_cases(void **state)
{
  (void)state;
  char out[4096];
  output_of(fail_in_the_third, out, sizeof out);
  const char *outer = strstr(out, "in case outer = 7 of test_each_case.c:"),
             *inner = strstr(out, "in case inner = 2 of ");
  assert_non_null(outer);
  assert_non_null(inner);
  assert_true(outer < inner);
  assert_null(strstr(out, "done"));
}

static void loops_that_have_ended_are_not_named(void **state)
{
  (void)state;
  char out[4096];
  output_of(fail_in_no_case, out, sizeof out);
  assert_null(strstr(out, "in case"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_failure_names_its_cases),
                                     cmocka_unit_test(loops_that_have_ended_are_not_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
