/* name_nearest.h - suggest the intended name for a mistyped one. */
#ifndef YK_BASE_NAME_NEAREST_H
#define YK_BASE_NAME_NEAREST_H

#include <stddef.h>

enum { YK_NAME_MAX_CHARS = 63 }; /* no suggestions for longer names */

/* yk_name_nearest - the candidate that text was probably meant to be, or NULL if none is near. candidates may contain
 *   NULLs. */
const char *yk_name_nearest(const char *text, const char *const *candidates, size_t n_candidates);

#endif
