#include "openai/parse/tool_schemas.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json_write.h"
#include "openai/parse/json_scan.h"
#include "openai/parse/literal.h"

typedef struct parameter {
  char *function, *name; /* [n_function], [n_name], one allocation */
  size_t n_function, n_name;
  unsigned types;
} parameter;

struct yk_tool_schemas {
  size_t n, capacity;
  parameter *parameters;
};

/* ---- Types of a schema ------------------------------------------------------------------------------------------- */

static unsigned type_named(yk_json name)
{
  static const struct {
    const char *name;
    unsigned type;
  } names[] = {{"string", YK_TYPE_STRING},   {"integer", YK_TYPE_NUMBER}, {"number", YK_TYPE_NUMBER},
               {"boolean", YK_TYPE_BOOLEAN}, {"null", YK_TYPE_NULL},      {"object", YK_TYPE_OBJECT},
               {"array", YK_TYPE_ARRAY}};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (yk_json_equals(name, names[i].name)) return names[i].type;
  return 0;
}

static unsigned type_of_value(yk_json value)
{
  switch (yk_json_kind_of(value)) {
  case YK_JSON_STRING: return YK_TYPE_STRING;
  case YK_JSON_TRUE:
  case YK_JSON_FALSE: return YK_TYPE_BOOLEAN;
  case YK_JSON_OBJECT: return YK_TYPE_OBJECT;
  case YK_JSON_ARRAY: return YK_TYPE_ARRAY;
  default: return yk_json_is_given(value) ? YK_TYPE_NUMBER : YK_TYPE_NULL;
  }
}

static unsigned types_of(yk_json schema, int depth);

static unsigned types_of_each(yk_json list, int depth)
{
  unsigned types = 0;
  if (!yk_json_is(list, YK_JSON_ARRAY)) return 0;
  YK_JSON_EACH(schema, list) types |= types_of(schema, depth);
  return types;
}

static unsigned types_of(yk_json schema, int depth)
{
  static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
  unsigned types = 0;
  if (!yk_json_is(schema, YK_JSON_OBJECT) || depth == 0) return 0;
  yk_json type = yk_json_get(schema, "type"), values = yk_json_get(schema, "enum"),
          value = yk_json_get(schema, "const");
  if (yk_json_is(type, YK_JSON_STRING)) types |= type_named(type);
  if (yk_json_is(type, YK_JSON_ARRAY)) YK_JSON_EACH(name, type) types |= type_named(name);
  if (types) return types;
  if (yk_json_is(values, YK_JSON_ARRAY)) YK_JSON_EACH(one, values) types |= type_of_value(one);
  if (value.doc) types |= type_of_value(value);
  for (size_t i = 0; i < 3; i++) types |= types_of_each(yk_json_get(schema, unions[i]), depth - 1);
  if (yk_json_get(schema, "$ref").doc) types = YK_TYPE_ANY;
  if (yk_json_get(schema, "properties").doc) types |= YK_TYPE_OBJECT;
  return types;
}

/* ---- The list ---------------------------------------------------------------------------------------------------- */

static bool add(yk_tool_schemas *s, yk_json function, yk_json name, unsigned types)
{
  size_t n_function = yk_json_length(function), n_name = yk_json_length(name);
  if (s->n == s->capacity) {
    size_t capacity = s->capacity ? 2 * s->capacity : 16;
    parameter *grown = realloc(s->parameters, capacity * sizeof *grown);
    if (!grown) return false;
    s->parameters = grown;
    s->capacity = capacity;
  }
  char *text = malloc(n_function + n_name + 1);
  if (!text) return false;
  memcpy(text, yk_json_text(function), n_function);
  memcpy(text + n_function, yk_json_text(name), n_name);
  s->parameters[s->n++] = (parameter){text, text + n_function, n_function, n_name, types};
  return true;
}

yk_status yk_tool_schemas_create(yk_json tools, yk_tool_schemas **out, yk_err *err)
{
  enum { MAX_DEPTH = 8 }; /* of unions in unions */
  bool is_whole = true;
  *out = calloc(1, sizeof **out);
  if (!*out) return yk_err_set(err, YK_E_NOMEM, "no memory for the types of tools");
  YK_JSON_EACH(tool, tools)
  {
    yk_json function = yk_json_get(tool, "function");
    yk_json properties = yk_json_get(yk_json_get(function, "parameters"), "properties");
    if (!yk_json_is(properties, YK_JSON_OBJECT)) continue;
    YK_JSON_EACH_KEY(key, properties)
    is_whole = is_whole && add(*out, yk_json_get(function, "name"), key, types_of(yk_json_member(key), MAX_DEPTH));
  }
  if (is_whole) return YK_OK;
  yk_tool_schemas_free(*out);
  *out = NULL;
  return yk_err_set(err, YK_E_NOMEM, "no memory for the types of tools");
}

void yk_tool_schemas_free(yk_tool_schemas *schemas)
{
  if (!schemas) return;
  for (size_t i = 0; i < schemas->n; i++) free(schemas->parameters[i].function);
  free(schemas->parameters);
  free(schemas);
}

static bool is_text(const yk_strbuf *text, const char *other, size_t n_other)
{
  return text->length == n_other && (n_other == 0 || memcmp(text->data, other, n_other) == 0);
}

unsigned yk_tool_schemas_types(const yk_tool_schemas *schemas, const yk_strbuf *function, const yk_strbuf *name)
{
  for (size_t i = 0; schemas && i < schemas->n; i++) {
    const parameter *p = &schemas->parameters[i];
    if (is_text(function, p->function, p->n_function) && is_text(name, p->name, p->n_name)) return p->types;
  }
  return 0;
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

static bool is_word(const char *text, size_t n_bytes, const char *word)
{
  return n_bytes == strlen(word) && strncasecmp(text, word, n_bytes) == 0;
}

/* Appends an object or an array that is written as a Python literal. False: the text is none. */
static bool append_literal(yk_strbuf *out, const char *text, size_t n_bytes)
{
  yk_literal literal;
  yk_strbuf json = YK_STRBUF_INIT;
  yk_scan_result result = YK_SCAN_MORE;
  yk_literal_begin(&literal, &yk_literal_python, text[0], &json);
  size_t i = 1;
  while (i < n_bytes && result == YK_SCAN_MORE) result = yk_literal_byte(&literal, text[i++], &json);
  bool is_literal = result == YK_SCAN_END && i == n_bytes && !json.failed;
  if (is_literal) yk_strbuf_append(out, json.data, json.length);
  yk_strbuf_free(&json);
  return is_literal;
}

static bool append_typed(yk_strbuf *out, unsigned types, const char *text, size_t n_bytes)
{
  bool is_json = yk_json_scan_is_value(text, n_bytes);
  char first = n_bytes ? text[0] : '\0';
  unsigned container = first == '{' ? YK_TYPE_OBJECT : first == '[' ? YK_TYPE_ARRAY : 0;
  bool is_null = is_word(text, n_bytes, "null") || is_word(text, n_bytes, "none");
  if (is_null && (types & YK_TYPE_NULL || !(types & YK_TYPE_STRING))) {
    yk_strbuf_append_str(out, "null");
    return true;
  }
  if (types & YK_TYPE_BOOLEAN && (is_word(text, n_bytes, "true") || is_word(text, n_bytes, "false"))) {
    yk_strbuf_append_str(out, n_bytes == 4 ? "true" : "false");
    return true;
  }
  bool is_number = is_json && (first == '-' || (first >= '0' && first <= '9'));
  bool is_quoted = is_json && first == '"' && types == YK_TYPE_ANY;
  if (is_quoted || (is_number && types & YK_TYPE_NUMBER) || (is_json && container & types)) {
    yk_strbuf_append(out, text, n_bytes);
    return true;
  }
  return container & types && append_literal(out, text, n_bytes);
}

void yk_typed_value_append(yk_strbuf *out, unsigned types, const char *text, size_t n_bytes)
{
  size_t begin = 0, end = n_bytes;
  while (begin < end && yk_json_is_space(text[begin])) begin++;
  while (end > begin && yk_json_is_space(text[end - 1])) end--;
  if (types != YK_TYPE_STRING && append_typed(out, types, text + begin, end - begin)) return;
  yk_json_append_string(out, text, n_bytes);
}
