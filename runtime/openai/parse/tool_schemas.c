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
  bool is_other; /* the types of every parameter that the schema does not list */
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
  } names[] = {{"string", YK_TYPE_STRING},   {"integer", YK_TYPE_INTEGER}, {"number", YK_TYPE_NUMBER},
               {"boolean", YK_TYPE_BOOLEAN}, {"null", YK_TYPE_NULL},       {"object", YK_TYPE_OBJECT},
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

/* The schema at "#/a/b". */
static yk_json referred(yk_json root, const char *target)
{
  char key[256];
  yk_json node = root;
  if (!target || *target++ != '#') return YK_JSON_NONE;
  while (*target == '/') {
    size_t n = 0;
    for (target++; *target && *target != '/' && n + 1 < sizeof key; target++) {
      bool is_escape = *target == '~' && (target[1] == '0' || target[1] == '1');
      key[n++] = !is_escape ? *target : *++target == '1' ? '/' : '~';
    }
    key[n] = '\0';
    node = yk_json_get(node, key);
  }
  return *target ? YK_JSON_NONE : node;
}

static unsigned types_of(yk_json schema, yk_json root, int depth);

static unsigned types_of_each(yk_json list, yk_json root, int depth)
{
  unsigned types = 0;
  if (!yk_json_is(list, YK_JSON_ARRAY)) return 0;
  YK_JSON_EACH(schema, list) types |= types_of(schema, root, depth);
  return types;
}

static unsigned listed_types(yk_json schema)
{
  unsigned types = 0;
  yk_json type = yk_json_get(schema, "type"), values = yk_json_get(schema, "enum");
  if (yk_json_is(type, YK_JSON_STRING)) types |= type_named(type);
  if (yk_json_is(type, YK_JSON_ARRAY)) YK_JSON_EACH(name, type) types |= type_named(name);
  if (types) return types;
  if (yk_json_is(values, YK_JSON_ARRAY)) YK_JSON_EACH(value, values) types |= type_of_value(value);
  yk_json value = yk_json_get(schema, "const");
  return value.doc ? types | type_of_value(value) : types;
}

/* Types to which the keywords of a schema without a type belong. */
static unsigned implied_types(yk_json schema)
{
  static const struct {
    const char *keyword;
    unsigned type;
  } rows[] = {{"properties", YK_TYPE_OBJECT},
              {"required", YK_TYPE_OBJECT},
              {"items", YK_TYPE_ARRAY},
              {"additionalProperties", YK_TYPE_OBJECT},
              {"patternProperties", YK_TYPE_OBJECT},
              {"propertyNames", YK_TYPE_OBJECT},
              {"minProperties", YK_TYPE_OBJECT},
              {"maxProperties", YK_TYPE_OBJECT},
              {"prefixItems", YK_TYPE_ARRAY},
              {"minItems", YK_TYPE_ARRAY},
              {"maxItems", YK_TYPE_ARRAY},
              {"minimum", YK_TYPE_NUMBER},
              {"maximum", YK_TYPE_NUMBER},
              {"exclusiveMinimum", YK_TYPE_NUMBER},
              {"exclusiveMaximum", YK_TYPE_NUMBER},
              {"multipleOf", YK_TYPE_NUMBER},
              {"minLength", YK_TYPE_STRING},
              {"maxLength", YK_TYPE_STRING},
              {"pattern", YK_TYPE_STRING}};
  unsigned types = 0;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (yk_json_get(schema, rows[i].keyword).doc) types |= rows[i].type;
  return types;
}

static unsigned types_of(yk_json schema, yk_json root, int depth)
{
  static const char *const unions[] = {"anyOf", "oneOf", "allOf"};
  if (!yk_json_is(schema, YK_JSON_OBJECT) || depth == 0) return 0;
  yk_json reference = yk_json_get(schema, "$ref");
  if (reference.doc) {
    yk_json target = referred(root, yk_json_string(reference));
    return target.doc ? types_of(target, root, depth - 1) : YK_TYPE_ANY;
  }
  unsigned types = listed_types(schema);
  for (size_t i = 0; i < 3 && !yk_json_get(schema, "type").doc; i++)
    types |= types_of_each(yk_json_get(schema, unions[i]), root, depth - 1);
  return types ? types : implied_types(schema);
}

/* ---- The list ---------------------------------------------------------------------------------------------------- */

/* name: none for the parameters that the schema does not list. */
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
  if (n_name) memcpy(text + n_function, yk_json_text(name), n_name);
  s->parameters[s->n++] = (parameter){text, text + n_function, n_function, n_name, !name.doc, types};
  return true;
}

static bool add_function(yk_tool_schemas *s, yk_json function)
{
  enum { MAX_DEPTH = 8 }; /* of unions and references in each other */
  yk_json root = yk_json_get(function, "parameters"), name = yk_json_get(function, "name"), object = root;
  for (int i = 0; i < MAX_DEPTH && yk_json_get(object, "$ref").doc; i++)
    object = referred(root, yk_json_string(yk_json_get(object, "$ref")));
  yk_json properties = yk_json_get(object, "properties"), others = yk_json_get(object, "additionalProperties");
  bool is_whole = !yk_json_is(others, YK_JSON_OBJECT) || add(s, name, YK_JSON_NONE, types_of(others, root, MAX_DEPTH));
  if (!yk_json_is(properties, YK_JSON_OBJECT)) return is_whole;
  YK_JSON_EACH_KEY(key, properties)
  is_whole = is_whole && add(s, name, key, types_of(yk_json_member(key), root, MAX_DEPTH));
  return is_whole;
}

yk_status yk_tool_schemas_create(yk_json tools, yk_tool_schemas **out, yk_err *err)
{
  bool is_whole = true;
  *out = calloc(1, sizeof **out);
  if (!*out) return yk_err_set(err, YK_E_NOMEM, "no memory for the types of tools");
  YK_JSON_EACH(tool, tools) is_whole = is_whole && add_function(*out, yk_json_get(tool, "function"));
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
  unsigned others = 0;
  for (size_t i = 0; schemas && i < schemas->n; i++) {
    const parameter *p = &schemas->parameters[i];
    if (!is_text(function, p->function, p->n_function)) continue;
    if (p->is_other) others = p->types;
    if (!p->is_other && is_text(name, p->name, p->n_name)) return p->types;
  }
  return others;
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

static bool is_integer(const char *text, size_t n_bytes)
{
  for (size_t i = 0; i < n_bytes; i++)
    if (yk_is_one_of(text[i], ".eE")) return false;
  return true;
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
  bool may_be_number =
      types & YK_TYPE_NUMBER || (types & YK_TYPE_INTEGER && (is_integer(text, n_bytes) || !(types & YK_TYPE_STRING)));
  bool is_number = is_json && may_be_number && (first == '-' || (first >= '0' && first <= '9'));
  bool is_quoted = is_json && first == '"' && types == YK_TYPE_ANY;
  if (is_quoted || is_number || (is_json && container & types)) {
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
