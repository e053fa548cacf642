/* rope_changes.h - replaces some of the rotary settings of config.json. Files have the settings under older names
 * (rope_theta, rope_scaling, ...) or inside rope_parameters; a change may use either form. */
#ifndef YK_LOADER_ROPE_CHANGES_H
#define YK_LOADER_ROPE_CHANGES_H

#include "base/json.h"

/* yk_rope_changes_concern - whether changes contain a rotary setting. */
bool yk_rope_changes_concern(yk_json changes);

/* yk_rope_changes_replace - whether the key is a rotary setting, so that the file's member is omitted:
 *   yk_rope_changes_append writes its final value, if it has one. */
bool yk_rope_changes_replace(const char *key);

/* yk_rope_changes_append - append the rotary settings of file that changes do not replace, under the older names, as
 *   members of an object that is being written. Scaling is replaced as a whole; each base, and the share of a head that
 *   rotates, is replaced only if changes contain it. */
void yk_rope_changes_append(yk_strbuf *out, yk_json file, yk_json changes);

#endif
