#include "text/component.h"

#include <string.h>

#include "base/utf8.h"

yk_status yk_component_type(const char *file, const char *what, yk_json part, const char **type, yk_err *err)
{
  if (!yk_json_is(part, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "%s: %s: expected an object, found %s", file, what, yk_json_type_name(part));
  yk_status status = yk_json_get_str(part, file, "type", true, type, err);
  if (status != YK_OK) yk_err_prefix(err, "%s", what);
  return status;
}

yk_status yk_component_unsupported(const char *file, const char *what, const char *type, const char *supported,
                                   yk_err *err)
{
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: %s type \"%.48s\" is not supported (supported: %s)", file, what, type,
                    supported);
}

yk_status yk_component_too_many(const char *file, const char *what, yk_err *err)
{
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: %s: more than %d steps", file, what, (int)YK_COMPONENT_MAX_STEPS);
}

yk_status yk_component_list(const char *file, const char *what, yk_json part, const char *key, int depth, yk_json *list,
                            yk_err *err)
{
  if (depth >= YK_COMPONENT_MAX_DEPTH)
    return yk_err_set(err, YK_E_FORMAT, "%s: %s: sequences nested more than %d deep", file, what,
                      (int)YK_COMPONENT_MAX_DEPTH);
  *list = yk_json_get(part, key);
  if (!yk_json_is(*list, YK_JSON_ARRAY))
    return yk_err_set(err, YK_E_FORMAT, "%s: %s: key \"%s\": expected an array, found %s", file, what, key,
                      yk_json_type_name(*list));
  return YK_OK;
}

yk_status yk_component_text(const char *file, yk_json part, const char *key, const char **text, size_t *n_bytes,
                            yk_err *err)
{
  yk_json value = yk_json_get(part, key);
  if (!yk_json_is(value, YK_JSON_STRING))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected a string, found %s", file, key,
                      yk_json_type_name(value));
  *text = yk_json_string(value);
  *n_bytes = yk_json_length(value);
  return YK_OK;
}

yk_status yk_component_character(const char *file, yk_json part, const char *key, const char **text, size_t *n_bytes,
                                 yk_err *err)
{
  YK_TRY(yk_component_text(file, part, key, text, n_bytes, err));
  if (*n_bytes == 0 || yk_utf8_sequence_bytes((unsigned char)(*text)[0]) != *n_bytes)
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected one character, found \"%.48s\"", file, key, *text);
  return YK_OK;
}

yk_status yk_component_metaspace(const char *file, yk_json part, yk_metaspace *out, yk_err *err)
{
  static const char *const SCHEMES[] = {"always", "first", "never"};
  const char *replacement, *scheme;
  bool add_prefix_space = true;
  *out = (yk_metaspace){.split = true};
  YK_TRY(yk_component_character(file, part, "replacement", &replacement, &out->replacement_bytes, err));
  memcpy(out->replacement, replacement, out->replacement_bytes);
  YK_TRY(yk_json_get_bool(part, file, "split", false, &out->split, err));
  /* older files have add_prefix_space instead of prepend_scheme */
  YK_TRY(yk_json_get_bool(part, file, "add_prefix_space", false, &add_prefix_space, err));
  YK_TRY(yk_json_get_str(part, file, "prepend_scheme", false, &scheme, err));
  if (!scheme) scheme = add_prefix_space ? "always" : "never";
  for (int i = 0; i < 3; i++)
    if (strcmp(scheme, SCHEMES[i]) == 0 && (add_prefix_space || i == YK_PREPEND_NEVER)) {
      out->scheme = i;
      return YK_OK;
    }
  return yk_err_set(err, YK_E_FORMAT, "%s: Metaspace prepend_scheme: expected %s, found \"%.48s\"", file,
                    add_prefix_space ? "always, first or never" : "never (add_prefix_space is false)", scheme);
}

yk_status yk_component_pattern(const char *file, yk_json part, yk_regex **out, yk_err *err)
{
  yk_json pattern = yk_json_get(part, "pattern");
  bool literal = yk_json_get(pattern, "String").doc != NULL;
  const char *text;
  size_t n_bytes;
  if (!yk_json_is(pattern, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: key \"pattern\": expected an object with \"String\" or \"Regex\", found %s", file,
                      yk_json_type_name(pattern));
  YK_TRY(yk_component_text(file, pattern, literal ? "String" : "Regex", &text, &n_bytes, err));
  if (n_bytes == 0) return yk_err_set(err, YK_E_UNSUPPORTED, "%s: an empty pattern is not supported", file);
  return yk_regex_compile(file, text, n_bytes, literal, out, err);
}
