/* counted_alloc.h - counts every allocation of the project's code, and makes one of them fail.
 *
 * The test programs of this folder are linked with --wrap for malloc, calloc, realloc and strdup, so that calls from
 * the project's objects are counted, but not calls from libraries. Thread-safe. */
#ifndef TESTS_FAULT_COUNTED_ALLOC_H
#define TESTS_FAULT_COUNTED_ALLOC_H

#include <stdint.h>

/* counted_alloc_reset - begin counting at 0; the fail_at-th allocation (from 1) returns NULL. 0: none fails. */
void counted_alloc_reset(int64_t fail_at);
int64_t counted_alloc_count(void);

#endif
