/* json_edit.h - change some members of a configuration: the other members keep their order and the text of their
 * numbers. */
#ifndef YK_LOADER_JSON_EDIT_H
#define YK_LOADER_JSON_EDIT_H

#include "base/json.h"

/* yk_json_append_member - append a key and its value as the next member of an object that is being written: out ends
 *   with the object's "{" or with a member of the object. */
void yk_json_append_member(yk_strbuf *out, yk_json key, yk_json value);

/* yk_json_begin_member - the same for a key that needs no escapes; the caller appends the value. */
void yk_json_begin_member(yk_strbuf *out, const char *key);

/* yk_json_edit - a copy of object in which the members of changes replace those of the same key, or follow all others,
 *   and removed (a key, or NULL) is omitted. changes: the text of an object, freed here; changes->failed gives
 *   YK_E_NOMEM. name: name of the text in errors. Errors: YK_E_NOMEM. Free *out with yk_json_free. */
yk_status yk_json_edit(const char *name, yk_json object, yk_strbuf *changes, const char *removed, yk_json_doc **out,
                       yk_err *err);

/* yk_json_to_text - a value as text with an indent of two spaces, malloc'd; the caller frees it. NULL: no memory. */
char *yk_json_to_text(yk_json value);

#endif
