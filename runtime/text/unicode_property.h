/* unicode_property.h - sets of characters by property, and case, as the public `tokenizers` package has them, whatever
 * libraries are installed. */
#ifndef YK_TEXT_UNICODE_PROPERTY_H
#define YK_TEXT_UNICODE_PROPERTY_H

#include "text/code_set.h"

/* yk_unicode_add_property - put the characters of a general category, of a script or of Alphabetic into set, which has
 *   to be ordered afterwards. Case, spaces, '-' and '_' of the name do not count. Returns whether there is such a
 *   name. */
bool yk_unicode_add_property(yk_code_set *set, const char *name, size_t n_bytes);

/* yk_unicode_close_over_case - add to an ordered set what differs from its members by case alone, one character for
 *   one; leaves it ordered. */
void yk_unicode_close_over_case(yk_code_set *set);

/* yk_unicode_has_several - whether a member of the ordered set stands for several characters where case does not count,
 *   as U+00DF does for ss. *found is the first. */
bool yk_unicode_has_several(const yk_code_set *set, uint32_t *found);

/* yk_unicode_ends_in_several - whether the last of n characters are what one other character stands for. */
bool yk_unicode_ends_in_several(const uint32_t *code_points, size_t n);

#endif
