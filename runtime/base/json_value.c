#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_doc.h"
#include "base/json_write.h"

static const yk_json_node *node_of(yk_json value)
{
  return value.doc ? &value.doc->nodes[value.node] : NULL;
}

yk_json yk_json_root(const yk_json_doc *doc)
{
  return (yk_json){doc, 0};
}

yk_json_kind yk_json_kind_of(yk_json value)
{
  return value.doc ? (yk_json_kind)value.doc->nodes[value.node].kind : YK_JSON_ABSENT;
}

bool yk_json_is_given(yk_json value)
{
  return yk_json_kind_of(value) > YK_JSON_NULL;
}

bool yk_json_is_bool(yk_json value)
{
  return yk_json_is(value, YK_JSON_TRUE) || yk_json_is(value, YK_JSON_FALSE);
}

bool yk_json_is_integer(yk_json value)
{
  const char *text = yk_json_is(value, YK_JSON_NUMBER) ? yk_json_text(value) : "";
  text += *text == '-';
  return *text && text[strspn(text, "0123456789")] == '\0';
}

const char *yk_json_type_name(yk_json value)
{
  switch (yk_json_kind_of(value)) {
  case YK_JSON_ABSENT: return "nothing";
  case YK_JSON_NULL: return "null";
  case YK_JSON_FALSE: return "false";
  case YK_JSON_TRUE: return "true";
  case YK_JSON_NUMBER: return yk_json_is_integer(value) ? "integer" : "number";
  case YK_JSON_STRING: return "string";
  case YK_JSON_ARRAY: return "array";
  case YK_JSON_OBJECT: return "object";
  case YK_JSON_SKIPPED: return "a value";
  }
  return "unknown";
}

const char *yk_json_text(yk_json value)
{
  const yk_json_node *node = node_of(value);
  bool has_text = yk_json_is(value, YK_JSON_STRING) || yk_json_is(value, YK_JSON_NUMBER) ||
                  (node && node->kind == YK_JSON_REPLACED);
  return has_text ? value.doc->text + node->at : NULL;
}

size_t yk_json_length(yk_json value)
{
  return yk_json_text(value) ? node_of(value)->size : 0;
}

const char *yk_json_string(yk_json value)
{
  return yk_json_is(value, YK_JSON_STRING) ? yk_json_text(value) : NULL;
}

bool yk_json_equals(yk_json value, const char *text)
{
  return yk_json_is(value, YK_JSON_STRING) && yk_json_length(value) == strlen(text) &&
         memcmp(yk_json_text(value), text, yk_json_length(value)) == 0;
}

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

bool yk_json_to_f64(yk_json value, double *out)
{
  if (!yk_json_is(value, YK_JSON_NUMBER)) return false;
  const char *text = yk_json_text(value);
  const char *point = strchr(text, '.'), *local = localeconv()->decimal_point;
  if (!point || strcmp(local, ".") == 0) {
    *out = strtod(text, NULL); /* strtod also accepts NaN and Infinity */
    return true;
  }
  char *copy = strdup(text); /* strtod expects the locale's decimal point */
  if (!copy) return false;
  copy[point - text] = local[0];
  *out = strtod(copy, NULL);
  free(copy);
  return true;
}

/* A number that is an integer below 2^53 although it is not written as one. */
static bool whole_f64(yk_json value, double *out)
{
  return yk_json_to_f64(value, out) && fabs(*out) < 0x1p53 && *out == floor(*out);
}

bool yk_json_to_i64(yk_json value, int64_t *out)
{
  double number;
  if (yk_json_is_integer(value)) {
    errno = 0;
    long long integer = strtoll(yk_json_text(value), NULL, 10);
    *out = integer;
    return errno == 0;
  }
  if (!whole_f64(value, &number)) return false;
  *out = (int64_t)number;
  return true;
}

bool yk_json_to_u64(yk_json value, uint64_t *out)
{
  double number;
  if (yk_json_is_integer(value)) {
    errno = 0;
    if (yk_json_text(value)[0] == '-') return false;
    *out = strtoull(yk_json_text(value), NULL, 10);
    return errno == 0;
  }
  if (!whole_f64(value, &number) || number < 0) return false;
  *out = (uint64_t)number;
  return true;
}

/* ---- Arrays and objects ------------------------------------------------------------------------------------------ */

size_t yk_json_size(yk_json container)
{
  bool is_container = yk_json_is(container, YK_JSON_ARRAY) || yk_json_is(container, YK_JSON_OBJECT);
  return is_container ? node_of(container)->size : 0;
}

yk_json yk_json_first(yk_json array)
{
  return yk_json_is(array, YK_JSON_ARRAY) && yk_json_size(array) > 0 ? (yk_json){array.doc, array.node + 1}
                                                                     : YK_JSON_NONE;
}

yk_json yk_json_after(yk_json array, yk_json element)
{
  uint32_t next = yk_json_node_after(array.doc->nodes, element.node);
  return next < node_of(array)->at ? (yk_json){array.doc, next} : YK_JSON_NONE;
}

/* The key at `key`, or the next key that counts. */
static yk_json counting_key(yk_json object, uint32_t key)
{
  const yk_json_node *nodes = object.doc->nodes;
  while (key < nodes[object.node].at && nodes[key].kind == YK_JSON_REPLACED) key = yk_json_node_after(nodes, key + 1);
  return key < nodes[object.node].at ? (yk_json){object.doc, key} : YK_JSON_NONE;
}

yk_json yk_json_first_key(yk_json object)
{
  return yk_json_is(object, YK_JSON_OBJECT) ? counting_key(object, object.node + 1) : YK_JSON_NONE;
}

yk_json yk_json_key_after(yk_json object, yk_json key)
{
  return counting_key(object, yk_json_node_after(object.doc->nodes, key.node + 1));
}

yk_json yk_json_member(yk_json key)
{
  return key.doc ? (yk_json){key.doc, key.node + 1} : YK_JSON_NONE;
}

yk_json yk_json_get_quietly(yk_json object, const char *key)
{
  size_t n_bytes = strlen(key);
  YK_JSON_EACH_KEY(at, object)
  if (yk_json_length(at) == n_bytes && memcmp(yk_json_text(at), key, n_bytes) == 0) return yk_json_member(at);
  return YK_JSON_NONE;
}

yk_json yk_json_get(yk_json object, const char *key)
{
  yk_json found = yk_json_get_quietly(object, key);
  if (found.doc && found.doc->is_read) found.doc->is_read[found.node] = true;
  return found;
}

yk_status yk_json_watch(yk_json_doc *doc, yk_err *err)
{
  if (!doc || doc->is_read) return YK_OK;
  doc->is_read = calloc(doc->n_nodes, sizeof *doc->is_read);
  return doc->is_read ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for the marks of a JSON document");
}

bool yk_json_was_read(yk_json value)
{
  return value.doc && value.doc->is_read && value.doc->is_read[value.node];
}

yk_json yk_json_at(yk_json array, size_t i)
{
  if (!yk_json_is(array, YK_JSON_ARRAY) || i >= yk_json_size(array)) return YK_JSON_NONE;
  const yk_json_node *node = node_of(array);
  if (node->at - array.node - 1 == node->size) return (yk_json){array.doc, array.node + 1 + (uint32_t)i};
  yk_json element = yk_json_first(array);
  while (i-- > 0) element = yk_json_after(array, element);
  return element;
}

static bool same_number(yk_json a, yk_json b)
{
  double x, y;
  if (strcmp(yk_json_text(a), yk_json_text(b)) == 0) return true;
  if (yk_json_is_integer(a) && yk_json_is_integer(b)) return false; /* doubles could round them to one number */
  return yk_json_to_f64(a, &x) && yk_json_to_f64(b, &y) && isfinite(x) && x == y;
}

static bool same_members(yk_json a, yk_json b)
{
  YK_JSON_EACH_KEY(key, a)
  {
    yk_json other = YK_JSON_NONE;
    YK_JSON_EACH_KEY(at, b)
    if (yk_json_same(key, at)) other = yk_json_member(at);
    if (!other.doc || !yk_json_same(yk_json_member(key), other)) return false;
  }
  return true;
}

bool yk_json_same(yk_json a, yk_json b)
{
  if (yk_json_kind_of(a) != yk_json_kind_of(b) || yk_json_size(a) != yk_json_size(b)) return false;
  switch (yk_json_kind_of(a)) {
  case YK_JSON_NUMBER: return same_number(a, b);
  case YK_JSON_STRING:
    return yk_json_length(a) == yk_json_length(b) && memcmp(yk_json_text(a), yk_json_text(b), yk_json_length(a)) == 0;
  case YK_JSON_ARRAY:
    for (yk_json x = yk_json_first(a), y = yk_json_first(b); x.doc; x = yk_json_after(a, x), y = yk_json_after(b, y))
      if (!yk_json_same(x, y)) return false;
    return true;
  case YK_JSON_OBJECT: return same_members(a, b);
  default: return true;
  }
}

/* ---- Text -------------------------------------------------------------------------------------------------------- */

static void append_break(yk_strbuf *out, int indent, int level, bool is_first)
{
  if (!is_first) yk_strbuf_append_str(out, indent ? "," : ", ");
  if (!indent) return;
  yk_strbuf_append_str(out, "\n");
  yk_strbuf_append_fmt(out, "%*s", indent * level, "");
}

static void append_value(yk_strbuf *out, yk_json value, int indent, int level)
{
  bool is_object = yk_json_is(value, YK_JSON_OBJECT), is_first = true;
  switch (yk_json_kind_of(value)) {
  case YK_JSON_FALSE: yk_strbuf_append_str(out, "false"); return;
  case YK_JSON_TRUE: yk_strbuf_append_str(out, "true"); return;
  case YK_JSON_NUMBER: yk_strbuf_append(out, yk_json_text(value), yk_json_length(value)); return;
  case YK_JSON_STRING: yk_json_append_string(out, yk_json_text(value), yk_json_length(value)); return;
  case YK_JSON_ARRAY:
  case YK_JSON_OBJECT: break;
  default: yk_strbuf_append_str(out, "null"); return;
  }
  yk_strbuf_append_str(out, is_object ? "{" : "[");
  YK_JSON_EACH(element, value)
  {
    append_break(out, indent, level + 1, is_first);
    append_value(out, element, indent, level + 1);
    is_first = false;
  }
  YK_JSON_EACH_KEY(key, value)
  {
    append_break(out, indent, level + 1, is_first);
    append_value(out, key, indent, level + 1);
    yk_strbuf_append_str(out, ": ");
    append_value(out, yk_json_member(key), indent, level + 1);
    is_first = false;
  }
  if (!is_first && indent) yk_strbuf_append_fmt(out, "\n%*s", indent * level, "");
  yk_strbuf_append_str(out, is_object ? "}" : "]");
}

void yk_json_append(yk_strbuf *out, yk_json value, int indent)
{
  append_value(out, value, indent, 0);
}
