/* json_edit.h - a configuration with some members changed: all others keep the text of their numbers and their order.
 */
#ifndef YK_LOADER_JSON_EDIT_H
#define YK_LOADER_JSON_EDIT_H

#include "base/json.h"

/* yk_json_edit - a document like object, in which the members of changes (an object, or absent) stand in the place of
 *   those of the same key, or behind all others, and removed (a key, or NULL) does not. name: of the text in errors.
 *   Errors: YK_E_NOMEM. Free with yk_json_free. */
yk_status yk_json_edit(const char *name, yk_json object, yk_json changes, const char *removed, yk_json_doc **out,
                       yk_err *err);

/* yk_json_edit_by_text - the same with the changes as JSON text, which is taken over. text.failed: no memory. */
yk_status yk_json_edit_by_text(const char *name, yk_json object, yk_strbuf *text, const char *removed,
                               yk_json_doc **out, yk_err *err);

/* yk_json_to_text - a value as text with an indent of two spaces, malloc'd and the caller's. NULL: no memory. */
char *yk_json_to_text(yk_json value);

#endif
