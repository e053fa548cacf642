/* each_case.h - a loop over cases names the case in which an assertion failed.
 *
 *   for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++) { ... }
 *
 * After a failure cmocka's output has, for this loop and each one around it: "in case i = 3 of test_json.c:120".
 * A loop that may end early (break, return) is a plain loop: its last case would be named for later failures of the
 * same test. */
#ifndef TESTS_EACH_CASE_H
#define TESTS_EACH_CASE_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returns condition. Thread: the test's own. */
bool test_case_begin(bool condition, const char *name, long long value, const char *file, int line);

#ifdef __cplusplus
}
#endif

#define each_case(i, condition) test_case_begin(condition, #i, (long long)(i), __FILE__, __LINE__)

#endif
