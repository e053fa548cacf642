/* unicode_property.h - sets of characters by property, and case, as in the public `tokenizers` package, independent of
 * installed libraries. */
#ifndef YK_TEXT_UNICODE_PROPERTY_H
#define YK_TEXT_UNICODE_PROPERTY_H

#include "text/code_set.h"

/* yk_unicode_add_property - add the characters of a general category, of a script or of Alphabetic to set, which has to
 *   be ordered afterwards. Case, spaces, '-' and '_' of the name are ignored. Returns whether there is such a name. */
bool yk_unicode_add_property(yk_code_set *set, const char *name, size_t n_bytes);

/* yk_unicode_close_over_case - add to an ordered set the characters that differ from its members only by case, one
 *   character for one; leaves it ordered. */
void yk_unicode_close_over_case(yk_code_set *set);

/* yk_unicode_has_several - whether a member of the ordered set stands for several characters if case is ignored, as
 *   U+00DF does for ss. *found is the first. */
bool yk_unicode_has_several(const yk_code_set *set, uint32_t *found);

/* yk_unicode_ends_in_several - whether the last of n characters equal the long form of one other character. */
bool yk_unicode_ends_in_several(const uint32_t *code_points, size_t n);

#endif
