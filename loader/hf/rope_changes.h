/* rope_changes.h - rotary settings of config.json in which some are replaced. Files have them under older names
 * (rope_theta, rope_scaling, ...) or inside rope_parameters; a change may use either. */
#ifndef YK_LOADER_ROPE_CHANGES_H
#define YK_LOADER_ROPE_CHANGES_H

#include "base/json.h"

/* yk_rope_changes_concern - whether changes contain a rotary setting. */
bool yk_rope_changes_concern(yk_json changes);

/* yk_rope_changes_replace - whether the file's key is written by yk_rope_changes_append, or void. */
bool yk_rope_changes_replace(const char *key);

/* yk_rope_changes_append - append the rotary settings of file that changes do not replace, under the older names, as
 *   members of an object that is being written. Scaling is replaced as a whole; bases and the share that rotates stay
 *   unless they are given. */
void yk_rope_changes_append(yk_strbuf *out, yk_json file, yk_json changes);

#endif
