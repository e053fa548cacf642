#include "base/json.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/strbuf.h"

enum { JSON_FILE_MAX_BYTES = 256 << 20 }; /* the largest public tokenizer.json is about 35 MB */

enum { JSON_FLAGS = JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY };

yk_status yk_json_parse_line(const char *text, size_t n_bytes, json_t **out, yk_err *err)
{
  json_error_t at;
  json_t *value = json_loadb(text, n_bytes, JSON_FLAGS, &at);
  if (!value && !at.text[0]) return yk_err_set(err, YK_E_NOMEM, "JSON: no memory for %zu bytes", n_bytes);
  if (!value) return yk_err_set(err, YK_E_FORMAT, "JSON: column %d: %s", at.column, at.text);
  *out = value;
  return YK_OK;
}

yk_status yk_json_parse(const char *name, const char *text, size_t n_bytes, json_t **out, yk_err *err)
{
  json_error_t at;
  json_t *value = json_loadb(text, n_bytes, JSON_FLAGS, &at);
  if (!value && !at.text[0]) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %zu bytes", name, n_bytes);
  if (!value) return yk_err_set(err, YK_E_FORMAT, "%s: line %d column %d: %s", name, at.line, at.column, at.text);
  *out = value;
  return YK_OK;
}

static int append(const char *bytes, size_t n_bytes, void *text)
{
  yk_strbuf_append(text, bytes, n_bytes);
  return ((yk_strbuf *)text)->failed ? -1 : 0;
}

char *yk_json_text(const json_t *value, size_t flags)
{
  yk_strbuf text = YK_STRBUF_INIT;
  int failed = json_dump_callback(value, append, &text, flags | JSON_ENCODE_ANY);
  if (!failed && !text.failed) return text.data;
  yk_strbuf_free(&text);
  return NULL;
}

yk_status yk_json_parse_file(const char *path, json_t **out, yk_err *err)
{
  char *text;
  size_t n_bytes;
  YK_TRY(yk_file_read(path, JSON_FILE_MAX_BYTES, &text, &n_bytes, err));
  yk_status status = yk_json_parse(path, text, n_bytes, out, err);
  free(text);
  return status;
}

char *yk_json_dump_same(const json_t *value)
{
  enum { FEWEST_DIGITS = 15, MOST_DIGITS = 17 }; /* of doubles */
  for (int digits = FEWEST_DIGITS;; digits++) {
    char *text = yk_json_text(value, JSON_INDENT(2) | (size_t)JSON_REAL_PRECISION(digits));
    if (!text || digits == MOST_DIGITS) return text;
    json_t *again = json_loads(text, JSON_FLAGS, NULL);
    bool is_same = again && json_equal(again, value);
    json_decref(again);
    if (is_same) return text;
    free(text);
  }
}

const char *yk_json_type_name(const json_t *value)
{
  if (!value) return "nothing";
  switch (json_typeof(value)) {
  case JSON_OBJECT: return "object";
  case JSON_ARRAY: return "array";
  case JSON_STRING: return "string";
  case JSON_INTEGER: return "integer";
  case JSON_REAL: return "number";
  case JSON_TRUE: return "true";
  case JSON_FALSE: return "false";
  case JSON_NULL: return "null";
  }
  return "unknown";
}

/* The value of a key, or NULL where it may be absent. Status says whether reading can go on. */
static yk_status find(const json_t *object, const char *file, const char *key, bool required, const char *expected,
                      const json_t **out, yk_err *err)
{
  const json_t *value = json_object_get(object, key);
  if (value && json_is_null(value)) value = NULL;
  if (!value && required)
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\" is missing, expected %s", file, key, expected);
  *out = value;
  return YK_OK;
}

yk_status yk_json_get_i64(const json_t *object, const char *file, const char *key, bool required, int64_t min,
                          int64_t max, int64_t *out, yk_err *err)
{
  const json_t *value = NULL;
  YK_TRY(find(object, file, key, required, "an integer", &value, err));
  if (!value) return YK_OK;
  int64_t number;
  if (json_is_integer(value))
    number = json_integer_value(value);
  else if (json_is_real(value) && fabs(json_real_value(value)) < 0x1p53 &&
           json_real_value(value) == floor(json_real_value(value)))
    number = (int64_t)json_real_value(value); /* 1e4 and 10000.0 are integers to people */
  else
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected an integer, found %s", file, key,
                      yk_json_type_name(value));
  if (number < min || number > max)
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected %lld to %lld, found %lld", file, key, (long long)min,
                      (long long)max, (long long)number);
  *out = number;
  return YK_OK;
}

yk_status yk_json_get_f64(const json_t *object, const char *file, const char *key, bool required, double min,
                          double max, double *out, yk_err *err)
{
  const json_t *value = NULL;
  YK_TRY(find(object, file, key, required, "a number", &value, err));
  if (!value) return YK_OK;
  if (!json_is_number(value))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected a number, found %s", file, key,
                      yk_json_type_name(value));
  double number = json_number_value(value);
  if (!(number >= min && number <= max))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected %g to %g, found %g", file, key, min, max, number);
  *out = number;
  return YK_OK;
}

yk_status yk_json_get_bool(const json_t *object, const char *file, const char *key, bool required, bool *out,
                           yk_err *err)
{
  const json_t *value = NULL;
  YK_TRY(find(object, file, key, required, "true or false", &value, err));
  if (!value) return YK_OK;
  if (!json_is_boolean(value))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected true or false, found %s", file, key,
                      yk_json_type_name(value));
  *out = json_is_true(value);
  return YK_OK;
}

yk_status yk_json_get_str(const json_t *object, const char *file, const char *key, bool required, const char **out,
                          yk_err *err)
{
  const json_t *value = NULL;
  *out = NULL;
  YK_TRY(find(object, file, key, required, "a string", &value, err));
  if (!value) return YK_OK;
  if (!json_is_string(value))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected a string, found %s", file, key,
                      yk_json_type_name(value));
  *out = json_string_value(value);
  return YK_OK;
}
