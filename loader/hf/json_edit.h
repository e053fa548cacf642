/* json_edit.h - a configuration with some members changed: others keep their order and the text of their numbers. */
#ifndef YK_LOADER_JSON_EDIT_H
#define YK_LOADER_JSON_EDIT_H

#include "base/json.h"

/* yk_json_append_member - a key and its value as the next member of an object whose text is being written: out ends
 *   with the object's "{" or with a member of it. */
void yk_json_append_member(yk_strbuf *out, yk_json key, yk_json value);

/* yk_json_begin_member - the same for a key that needs no escapes; the caller appends the value. */
void yk_json_begin_member(yk_strbuf *out, const char *key);

/* yk_json_edit - a document like object, in which the members of changes replace those of the same key, or follow all
 *   others, and removed (a key, or NULL) is left out. changes: the text of an object, freed here; changes->failed is
 *   YK_E_NOMEM. name: of the text in errors. Errors: YK_E_NOMEM. Free *out with yk_json_free. */
yk_status yk_json_edit(const char *name, yk_json object, yk_strbuf *changes, const char *removed, yk_json_doc **out,
                       yk_err *err);

/* yk_json_to_text - a value as text with an indent of two spaces, malloc'd and the caller's. NULL: no memory. */
char *yk_json_to_text(yk_json value);

#endif
