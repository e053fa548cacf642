/* json.h - reading JSON from outside: files of checkpoints, requests, lines of a batch.
 *
 * A document is read-only and compact: a copy of its text and 8 bytes per value. The grammar is that of Python's json
 * module, which wrote or would read most of these texts: integers of any length, NaN, Infinity and -Infinity, repeated
 * keys (the last one counts), a byte order mark. Numbers keep their text and are converted only when read, so an unused
 * value cannot fail. A surrogate without its partner, which JavaScript writes when it cuts a text, is read as U+FFFD.
 * Everything else that RFC 8259 forbids is an error with its position.
 *
 * Thread: a document may be read from any number of threads. */
#ifndef YK_BASE_JSON_H
#define YK_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/strbuf.h"

typedef struct yk_json_doc yk_json_doc;

typedef enum yk_json_kind {
  YK_JSON_ABSENT, /* no value: the key is missing */
  YK_JSON_NULL,
  YK_JSON_FALSE,
  YK_JSON_TRUE,
  YK_JSON_NUMBER,
  YK_JSON_STRING,
  YK_JSON_ARRAY,
  YK_JSON_OBJECT,
  YK_JSON_SKIPPED /* a member's value that yk_json_rules.keeps excluded */
} yk_json_kind;

/* A value of a document, passed by value; valid as long as the document. All functions below accept an absent value. */
typedef struct yk_json {
  const yk_json_doc *doc; /* NULL: absent */
  uint32_t node;
} yk_json;

#define YK_JSON_NONE ((yk_json){NULL, 0})

typedef struct yk_json_rules {
  int max_depth;     /* nesting of arrays and objects; at most YK_JSON_MAX_DEPTH */
  size_t max_values; /* including keys. 0: no limit */
  bool unique_keys;  /* a repeated key is an error */
  bool is_line;      /* the text is one line of a file: errors name the column, and the caller adds file and line */
  bool (*keeps)(const char *key); /* whether a member of the root object is kept; NULL: all. Other members are checked
                                   * and become YK_JSON_SKIPPED, which takes no memory for their content */
} yk_json_rules;

enum { YK_JSON_MAX_DEPTH = 2048 };

/* yk_json_parse / yk_json_parse_file - name: name of the text in errors, not used for a line. rules NULL: the rules of
 * files, depth YK_JSON_MAX_DEPTH and no other limits. *out: the caller frees it with yk_json_free. The root may be a
 * value of any kind.
 *   Errors: YK_E_FORMAT (name, line and column, expected and found), YK_E_NOMEM, YK_E_IO. */
yk_status yk_json_parse(const char *name, const char *text, size_t n_bytes, const yk_json_rules *rules,
                        yk_json_doc **out, yk_err *err);
yk_status yk_json_parse_file(const char *path, const yk_json_rules *rules, yk_json_doc **out, yk_err *err);
void yk_json_free(yk_json_doc *doc);
yk_json yk_json_root(const yk_json_doc *doc); /* absent for NULL */

/* ---- Values ------------------------------------------------------------------------------------------------------ */

yk_json_kind yk_json_kind_of(yk_json value);

static inline bool yk_json_is(yk_json value, yk_json_kind kind)
{
  return yk_json_kind_of(value) == kind;
}

/* yk_json_is_given - present and not null; null means "not given" in every format that Yoke reads. */
bool yk_json_is_given(yk_json value);
bool yk_json_is_bool(yk_json value);

/* yk_json_is_integer - a number written without decimal point and exponent, of any length. */
bool yk_json_is_integer(yk_json value);

/* yk_json_type_name - "object", "integer", "nothing", ... for messages. */
const char *yk_json_type_name(yk_json value);

/* yk_json_text - a string's UTF-8 (NUL-terminated; may hold NULs) or a number as written; NULL for other kinds.
 * yk_json_length - bytes of that text, 0 for other kinds. */
const char *yk_json_text(yk_json value);
size_t yk_json_length(yk_json value);

/* yk_json_string - the text of a string, NULL for every other kind. */
const char *yk_json_string(yk_json value);
bool yk_json_equals(yk_json value, const char *text); /* whether value is a string with these bytes */

/* yk_json_to_i64 / _u64 - true if the value is a whole number within the type; 10.0 and 1e4 are.
 * yk_json_to_f64 - true for every number; beyond a double's range the result is an infinity, and NaN gives NaN. */
bool yk_json_to_i64(yk_json value, int64_t *out);
bool yk_json_to_u64(yk_json value, uint64_t *out);
bool yk_json_to_f64(yk_json value, double *out);

/* ---- Arrays and objects ------------------------------------------------------------------------------------------ */

size_t yk_json_size(yk_json container); /* elements, or members with distinct keys; 0 for other kinds */

/* yk_json_get - a member, absent if missing. Time is proportional to the number of members. */
yk_json yk_json_get(yk_json object, const char *key);

/* yk_json_watch - from now on, yk_json_get marks the members that it finds; only one thread may then read the document.
 *   Errors: YK_E_NOMEM.
 * yk_json_was_read - whether a member's value was found so; false for an absent value.
 * yk_json_get_quietly - yk_json_get without the mark. */
yk_status yk_json_watch(yk_json_doc *doc, yk_err *err);
bool yk_json_was_read(yk_json value);
yk_json yk_json_get_quietly(yk_json object, const char *key);

/* yk_json_at - element i; O(1) if no element is an array or object, else O(i). */
yk_json yk_json_at(yk_json array, size_t i);

/* Iterate over elements in order, or over members: key (a string), then its value, in order of the keys that count. */
yk_json yk_json_first(yk_json array);
yk_json yk_json_after(yk_json array, yk_json element);
yk_json yk_json_first_key(yk_json object);
yk_json yk_json_key_after(yk_json object, yk_json key);
yk_json yk_json_member(yk_json key); /* the value of a key returned by yk_json_first_key or yk_json_key_after */

#define YK_JSON_EACH(element, array)                                                                                   \
  for (yk_json element = yk_json_first(array); element.doc; element = yk_json_after(array, element))
#define YK_JSON_EACH_KEY(key, object)                                                                                  \
  for (yk_json key = yk_json_first_key(object); key.doc; key = yk_json_key_after(object, key))

/* yk_json_same - whether values are equal: members in any order, numbers by their text or, if both are finite, by
 *   value. */
bool yk_json_same(yk_json a, yk_json b);

/* yk_json_append - a value as JSON text that yk_json_parse and Python read back unchanged, numbers as written.
 *   indent: spaces per level; 0 writes one line, separated by ", " and ": ". Absent and skipped values become null. */
void yk_json_append(yk_strbuf *out, yk_json value, int indent);

/* ---- Typed readers of an object's keys --------------------------------------------------------------------------- */

/* Missing or null: *out keeps its default, unless required. A value of the wrong type, or outside [min, max], is
 * YK_E_FORMAT and names file (omitted if NULL), key, the legal range and the value found. */
yk_status yk_json_get_i64(yk_json object, const char *file, const char *key, bool required, int64_t min, int64_t max,
                          int64_t *out, yk_err *err);
yk_status yk_json_get_i32(yk_json object, const char *file, const char *key, bool required, int32_t min, int32_t max,
                          int32_t *out, yk_err *err);
yk_status yk_json_get_f64(yk_json object, const char *file, const char *key, bool required, double min, double max,
                          double *out, yk_err *err);
yk_status yk_json_get_f32(yk_json object, const char *file, const char *key, bool required, double min, double max,
                          float *out, yk_err *err);
yk_status yk_json_get_bool(yk_json object, const char *file, const char *key, bool required, bool *out, yk_err *err);

/* *out points into the document; NULL if the key is absent and not required. */
yk_status yk_json_get_str(yk_json object, const char *file, const char *key, bool required, const char **out,
                          yk_err *err);

/* The same for a value already looked up, which must be present; key names it in errors. */
yk_status yk_json_read_i64(yk_json value, const char *file, const char *key, int64_t min, int64_t max, int64_t *out,
                           yk_err *err);
yk_status yk_json_read_i32(yk_json value, const char *file, const char *key, int32_t min, int32_t max, int32_t *out,
                           yk_err *err);
yk_status yk_json_read_f64(yk_json value, const char *file, const char *key, double min, double max, double *out,
                           yk_err *err);
yk_status yk_json_read_bool(yk_json value, const char *file, const char *key, bool *out, yk_err *err);
yk_status yk_json_read_str(yk_json value, const char *file, const char *key, const char **out, yk_err *err);

/* yk_json_wrong_type - the error for a value that is not as expected ("a string"). */
yk_status yk_json_wrong_type(const char *file, const char *key, const char *expected, yk_json found, yk_err *err);

/* yk_json_wrong_or_empty - the same where a string or an array may not be empty. */
yk_status yk_json_wrong_or_empty(const char *file, const char *key, const char *expected, yk_json found, yk_err *err);

#endif
