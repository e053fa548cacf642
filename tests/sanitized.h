/* sanitized.h - whether a sanitizer checks this build. Tests then run the same code with fewer cases: sanitizers check
 * code, and other builds check numbers. */
#ifndef TESTS_SANITIZED_H
#define TESTS_SANITIZED_H

#ifdef __SANITIZE_THREAD__
enum { TEST_WATCHES_THREADS = 1, TEST_IS_SANITIZED = 1 };
#elif defined __SANITIZE_ADDRESS__
enum { TEST_WATCHES_THREADS = 0, TEST_IS_SANITIZED = 1 };
#else
enum { TEST_WATCHES_THREADS = 0, TEST_IS_SANITIZED = 0 };
#endif

#endif
