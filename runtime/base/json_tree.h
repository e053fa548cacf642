/* json_tree.h - JSON as jansson's trees, for documents that Yoke writes itself and computes with: studies and
 * benchmarks. Text is read by json.h; JSON from outside stays there. */
#ifndef YK_BASE_JSON_TREE_H
#define YK_BASE_JSON_TREE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* yk_tree_parse / yk_tree_parse_file - the value of a text that json.h reads. name appears in errors. The caller owns
 *   *out (json_decref). Errors: those of yk_json_parse; YK_E_FORMAT for a key given twice and for a number that jansson
 *   cannot hold. */
yk_status yk_tree_parse(const char *name, const char *text, size_t n_bytes, json_t **out, yk_err *err);
yk_status yk_tree_parse_file(const char *path, json_t **out, yk_err *err);

/* yk_tree_parse_line - the same of a text that is one line of a file: errors name its column, and the caller the
 *   line. */
yk_status yk_tree_parse_line(const char *text, size_t n_bytes, json_t **out, yk_err *err);

/* yk_tree_text - a value of any type as JSON text, NUL-terminated; flags: jansson's, of json_dumps, which may leave out
 *   what it has no memory for. NULL where memory is short. The caller frees it. */
char *yk_tree_text(const json_t *value, size_t flags);

/* Typed readers of object keys. Missing or null: *out keeps the default already in it, unless required. A value of the
 * wrong type or outside [min, max] is YK_E_FORMAT and names file, key, the legal range and what was found. */
yk_status yk_tree_get_i64(const json_t *object, const char *file, const char *key, bool required, int64_t min,
                          int64_t max, int64_t *out, yk_err *err);
yk_status yk_tree_get_f64(const json_t *object, const char *file, const char *key, bool required, double min,
                          double max, double *out, yk_err *err);
yk_status yk_tree_get_bool(const json_t *object, const char *file, const char *key, bool required, bool *out,
                           yk_err *err);

/* *out points into object and lives as long as it does; NULL where the key is absent and not required. */
yk_status yk_tree_get_str(const json_t *object, const char *file, const char *key, bool required, const char **out,
                          yk_err *err);

/* yk_tree_type_name - "object", "string", ... of a value, for messages. */
const char *yk_tree_type_name(const json_t *value);

#endif
