/* sanitized.h - whether a sanitizer watches this build. Then tests run the same code with fewer cases: sanitizers look
 * at code, and the numbers are tested without them. */
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
