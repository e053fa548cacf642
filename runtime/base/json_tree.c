#include "base/json_tree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/strbuf.h"

/* Build the tree of a document's values; *out is NULL if memory ran out. */
static yk_status to_tree(yk_json value, json_t **out, yk_err *err);

static yk_status number_to_tree(yk_json value, json_t **out, yk_err *err)
{
  int64_t integer;
  double real;
  if (yk_json_is_integer(value)) {
    if (!yk_json_to_i64(value, &integer))
      return yk_err_set(err, YK_E_FORMAT, "expected integers of at most 64 bits, found %.40s", yk_json_text(value));
    *out = json_integer(integer);
    return YK_OK;
  }
  if (!yk_json_to_f64(value, &real) || !isfinite(real))
    return yk_err_set(err, YK_E_FORMAT, "expected numbers of ordinary size, found %.40s", yk_json_text(value));
  *out = json_real(real);
  return YK_OK;
}

static yk_status elements_to_tree(yk_json array, json_t *out, yk_err *err)
{
  YK_JSON_EACH(element, array)
  {
    json_t *tree;
    YK_TRY(to_tree(element, &tree, err));
    if (json_array_append_new(out, tree) != 0) return yk_err_set(err, YK_E_NOMEM, "no memory for a JSON array");
  }
  YK_JSON_EACH_KEY(key, array)
  {
    json_t *tree;
    YK_TRY(to_tree(yk_json_member(key), &tree, err));
    if (json_object_setn_new(out, yk_json_text(key), yk_json_length(key), tree) != 0)
      return yk_err_set(err, YK_E_NOMEM, "no memory for a JSON object");
  }
  return YK_OK;
}

static yk_status to_tree(yk_json value, json_t **out, yk_err *err)
{
  *out = NULL;
  switch (yk_json_kind_of(value)) {
  case YK_JSON_FALSE: *out = json_false(); break;
  case YK_JSON_TRUE: *out = json_true(); break;
  case YK_JSON_NUMBER: YK_TRY(number_to_tree(value, out, err)); break;
  case YK_JSON_STRING: *out = json_stringn(yk_json_text(value), yk_json_length(value)); break;
  case YK_JSON_ARRAY: *out = json_array(); break;
  case YK_JSON_OBJECT: *out = json_object(); break;
  default: *out = json_null(); break;
  }
  if (!*out) return yk_err_set(err, YK_E_NOMEM, "no memory for a JSON value");
  yk_status status = elements_to_tree(value, *out, err);
  if (status != YK_OK) json_decref(*out);
  return status;
}

/* Takes ownership of doc. */
static yk_status take_as_tree(yk_json_doc *doc, const char *name, json_t **out, yk_err *err)
{
  json_t *tree;
  yk_status status = to_tree(yk_json_root(doc), &tree, err);
  if (status == YK_OK) *out = tree;
  if (status != YK_OK) yk_err_prefix(err, "%s", name);
  yk_json_free(doc);
  return status;
}

yk_status yk_tree_parse_line(const char *text, size_t n_bytes, json_t **out, yk_err *err)
{
  const yk_json_rules rules = {.max_depth = YK_JSON_MAX_DEPTH, .is_line = true, .unique_keys = true};
  yk_json_doc *doc;
  YK_TRY(yk_json_parse("JSON", text, n_bytes, &rules, &doc, err));
  return take_as_tree(doc, "JSON", out, err);
}

yk_status yk_tree_parse(const char *name, const char *text, size_t n_bytes, json_t **out, yk_err *err)
{
  const yk_json_rules rules = {.max_depth = YK_JSON_MAX_DEPTH, .unique_keys = true};
  yk_json_doc *doc;
  YK_TRY(yk_json_parse(name, text, n_bytes, &rules, &doc, err));
  return take_as_tree(doc, name, out, err);
}

static int append(const char *bytes, size_t n_bytes, void *text)
{
  yk_strbuf_append(text, bytes, n_bytes);
  return ((yk_strbuf *)text)->failed ? -1 : 0;
}

char *yk_tree_text(const json_t *value, size_t flags)
{
  yk_strbuf text = YK_STRBUF_INIT;
  int failed = json_dump_callback(value, append, &text, flags | JSON_ENCODE_ANY);
  if (!failed && !text.failed) return text.data;
  yk_strbuf_free(&text);
  return NULL;
}

yk_status yk_tree_parse_file(const char *path, json_t **out, yk_err *err)
{
  const yk_json_rules rules = {.max_depth = YK_JSON_MAX_DEPTH, .unique_keys = true};
  yk_json_doc *doc;
  YK_TRY(yk_json_parse_file(path, &rules, &doc, err));
  return take_as_tree(doc, path, out, err);
}

const char *yk_tree_type_name(const json_t *value)
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

/* *out is the value of a key, or NULL if the key is optional and missing. */
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

yk_status yk_tree_get_i64(const json_t *object, const char *file, const char *key, bool required, int64_t min,
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
    number = (int64_t)json_real_value(value); /* people also write integers as 1e4 and 10000.0 */
  else
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected an integer, found %s", file, key,
                      yk_tree_type_name(value));
  if (number < min || number > max)
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected %lld to %lld, found %lld", file, key, (long long)min,
                      (long long)max, (long long)number);
  *out = number;
  return YK_OK;
}

yk_status yk_tree_get_f64(const json_t *object, const char *file, const char *key, bool required, double min,
                          double max, double *out, yk_err *err)
{
  const json_t *value = NULL;
  YK_TRY(find(object, file, key, required, "a number", &value, err));
  if (!value) return YK_OK;
  if (!json_is_number(value))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected a number, found %s", file, key,
                      yk_tree_type_name(value));
  double number = json_number_value(value);
  if (!(number >= min && number <= max))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected %g to %g, found %g", file, key, min, max, number);
  *out = number;
  return YK_OK;
}

yk_status yk_tree_get_str(const json_t *object, const char *file, const char *key, bool required, const char **out,
                          yk_err *err)
{
  const json_t *value = NULL;
  *out = NULL;
  YK_TRY(find(object, file, key, required, "a string", &value, err));
  if (!value) return YK_OK;
  if (!json_is_string(value))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected a string, found %s", file, key,
                      yk_tree_type_name(value));
  *out = json_string_value(value);
  return YK_OK;
}
