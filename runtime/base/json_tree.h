/* json_tree.h - JSON as jansson's trees, for documents that Yoke writes and computes with: studies and benchmarks.
 * json.h parses the text. JSON from outside is read with json.h only. */
#ifndef YK_BASE_JSON_TREE_H
#define YK_BASE_JSON_TREE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* yk_tree_parse / yk_tree_parse_file - the value of a text. name appears in errors. The caller owns *out (json_decref).
 * Errors: those of yk_json_parse; YK_E_FORMAT for a repeated key and for a number that jansson cannot hold. */
yk_status yk_tree_parse(const char *name, const char *text, size_t n_bytes, json_t **out, yk_err *err);
yk_status yk_tree_parse_file(const char *path, json_t **out, yk_err *err);

/* yk_tree_parse_line - the same for one line of a file: errors name the column, and the caller adds the line. */
yk_status yk_tree_parse_line(const char *text, size_t n_bytes, json_t **out, yk_err *err);

/* yk_tree_text - a value of any type as JSON text, NUL-terminated; flags: those of jansson's json_dumps. json_dumps may
 *   omit parts when out of memory; this function returns NULL instead. The caller frees the text. */
char *yk_tree_text(const json_t *value, size_t flags);

/* Typed readers of object keys. Missing or null: *out keeps its default, unless required. A value of the wrong type or
 * outside [min, max] is YK_E_FORMAT and names file, key, the legal range and the value found. */
yk_status yk_tree_get_i64(const json_t *object, const char *file, const char *key, bool required, int64_t min,
                          int64_t max, int64_t *out, yk_err *err);
yk_status yk_tree_get_f64(const json_t *object, const char *file, const char *key, bool required, double min,
                          double max, double *out, yk_err *err);

/* *out points into object and is valid as long as object; NULL if the key is absent and not required. */
yk_status yk_tree_get_str(const json_t *object, const char *file, const char *key, bool required, const char **out,
                          yk_err *err);

/* yk_tree_type_name - "object", "string", ... of a value, for messages. */
const char *yk_tree_type_name(const json_t *value);

#endif
