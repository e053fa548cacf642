/* bounded_match.h - matches regular expressions from untrusted files with a bound on the number of steps. */
#ifndef YK_LOADER_BOUNDED_MATCH_H
#define YK_LOADER_BOUNDED_MATCH_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* yk_bounded_match - match a module's name within max_steps steps and 1 MiB of heap. Returns PCRE2's result: 0 or more
 *   if the expression matches, PCRE2_ERROR_NOMATCH, or another error, of a limit or of memory. Thread: any. */
int yk_bounded_match(const pcre2_code *regex, const char *module, uint32_t max_steps);

#endif
