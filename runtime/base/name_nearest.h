/* name_nearest.h - what somebody who mistyped a name may have meant. */
#ifndef YK_BASE_NAME_NEAREST_H
#define YK_BASE_NAME_NEAREST_H

#include <stddef.h>

enum { YK_NAME_MAX_CHARS = 63 }; /* nothing is near a longer name */

/* yk_name_nearest - the candidate that text was probably meant to be, or NULL where none is near. candidates may hold
 *   NULLs. */
const char *yk_name_nearest(const char *text, const char *const *candidates, size_t n_candidates);

#endif
