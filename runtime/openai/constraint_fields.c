#include "openai/constraint_fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "openai/values.h"

/* ---- Constraints ------------------------------------------------------------------------------------------------- */

yk_status yk_request_set_constraint_text(yk_openai_request *request, const char *name, yk_constraint_kind kind,
                                         yk_strbuf *text, yk_err *err)
{
  yk_sampling *s = &request->sampling;
  if (text->failed) {
    yk_strbuf_free(text);
    return yk_err_set(err, YK_E_NOMEM, "%s: no memory", name);
  }
  if (s->constraint_kind != YK_CONSTRAINT_NONE) {
    yk_strbuf_free(text);
    return yk_err_set(err, YK_E_INVAL, "%s: the output has another constraint already, %s", name, s->constraint_name);
  }
  free(request->constraint);
  request->constraint = text->data;
  s->constraint_kind = kind;
  s->constraint = text->data;
  s->constraint_bytes = text->length;
  s->constraint_name = name;
  return YK_OK;
}

static yk_status set_json(yk_openai_request *request, const char *name, yk_constraint_kind kind, yk_json value,
                          yk_err *err)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_json_append(&text, value, 0);
  return yk_request_set_constraint_text(request, name, kind, &text, err);
}

/* A JSON value, or a string that contains JSON, which the engine reads. */
static yk_status set_document(yk_openai_request *request, const char *name, yk_constraint_kind kind, yk_json value,
                              yk_err *err)
{
  yk_strbuf text = YK_STRBUF_INIT;
  if (!yk_json_is(value, YK_JSON_STRING)) {
    if (!yk_json_is(value, YK_JSON_OBJECT) && !yk_json_is_bool(value))
      return yk_json_wrong_type(NULL, name, "an object, or a string of JSON", value, err);
    return set_json(request, name, kind, value, err);
  }
  yk_strbuf_append(&text, yk_json_text(value), yk_json_length(value));
  return yk_request_set_constraint_text(request, name, kind, &text, err);
}

static yk_status set_text(yk_openai_request *request, const char *name, yk_constraint_kind kind, yk_json value,
                          yk_err *err)
{
  yk_strbuf text = YK_STRBUF_INIT;
  if (!yk_json_is(value, YK_JSON_STRING) || yk_json_length(value) == 0)
    return yk_json_wrong_or_empty(NULL, name, "a string that is not empty", value, err);
  yk_strbuf_append(&text, yk_json_text(value), yk_json_length(value));
  return yk_request_set_constraint_text(request, name, kind, &text, err);
}

static yk_status set_choice(yk_openai_request *request, const char *name, yk_json value, yk_err *err)
{
  if (!yk_json_is(value, YK_JSON_ARRAY)) return yk_json_wrong_type(NULL, name, "an array of strings", value, err);
  return set_json(request, name, YK_CONSTRAINT_CHOICE, value, err);
}

static yk_status set_object(yk_openai_request *request, const char *name, yk_err *err)
{
  yk_strbuf none = YK_STRBUF_INIT;
  return yk_request_set_constraint_text(request, name, YK_CONSTRAINT_JSON_OBJECT, &none, err);
}

/* ---- Fields ------------------------------------------------------------------------------------------------------ */

yk_status yk_request_read_response_format(yk_openai_request *request, yk_json value, yk_err *err)
{
  static const char name[] = "response_format";
  yk_json type = yk_json_get(value, "type"), of_schema = yk_json_get(value, "json_schema");
  yk_json schema = yk_json_get(of_schema, "schema"), strict = yk_json_get(of_schema, "strict");
  if (!yk_json_is(type, YK_JSON_STRING)) return yk_json_wrong_type(NULL, name, "an object with a \"type\"", value, err);
  if (yk_json_equals(type, "text")) return YK_OK;
  if (yk_json_equals(type, "json_object")) return set_object(request, name, err);
  if (yk_json_equals(type, "structural_tag")) return set_json(request, name, YK_CONSTRAINT_STRUCTURAL_TAG, value, err);
  if (!yk_json_equals(type, "json_schema"))
    return yk_err_set(err, YK_E_INVAL,
                      "%s: expected the type \"text\", \"json_object\", \"json_schema\" or \"structural_tag\", found "
                      "\"%.40s\"",
                      name, yk_json_string(type));
  if (!yk_json_is(of_schema, YK_JSON_OBJECT))
    return yk_json_wrong_type(NULL, "response_format.json_schema", "an object", of_schema, err);
  if (yk_json_is_given(strict) && !yk_json_is_bool(strict))
    return yk_json_wrong_type(NULL, "response_format.json_schema.strict", "true or false", strict, err);
  if (!yk_json_is(schema, YK_JSON_OBJECT) && !yk_json_is_bool(schema))
    return yk_json_wrong_type(NULL, "response_format.json_schema.schema", "an object", schema, err);
  return set_json(request, name, YK_CONSTRAINT_JSON_SCHEMA, schema, err);
}

yk_status yk_request_read_guided(yk_openai_request *request, const char *name, yk_json value, yk_err *err)
{
  if (yk_json_is(value, YK_JSON_FALSE)) return YK_OK;
  if (strcmp(name, "guided_json") == 0) return set_document(request, name, YK_CONSTRAINT_JSON_SCHEMA, value, err);
  if (strcmp(name, "structural_tag") == 0) return set_document(request, name, YK_CONSTRAINT_STRUCTURAL_TAG, value, err);
  if (strcmp(name, "guided_regex") == 0) return set_text(request, name, YK_CONSTRAINT_REGEX, value, err);
  if (strcmp(name, "guided_grammar") == 0) return set_text(request, name, YK_CONSTRAINT_GRAMMAR, value, err);
  return set_choice(request, name, value, err);
}

static yk_status read_flag(yk_openai_request *request, const char *key, yk_json value, yk_err *err)
{
  static const char name[] = "structured_outputs";
  char path[64];
  bool flag;
  snprintf(path, sizeof path, "%s.%s", name, key);
  YK_TRY(yk_json_read_bool(value, NULL, path, &flag, err));
  if (!flag) return YK_OK;
  if (strcmp(key, "json_object") == 0) return set_object(request, name, err);
  if (strcmp(key, "disable_any_whitespace") != 0) return YK_OK; /* every answer has the other two */
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: \"%s\" is not supported; leave it out", name, key);
}

static bool is_among(const char *key, const char *const *names)
{
  while (*names && strcmp(key, *names) != 0) names++;
  return *names != NULL;
}

static bool is_flag(const char *key)
{
  static const char *const flags[] = {"json_object", "disable_fallback", "disable_additional_properties",
                                      "disable_any_whitespace", NULL};
  return is_among(key, flags);
}

/* Whether a member of structured_outputs is a constraint. */
static bool is_constraint(const char *key, yk_json value)
{
  static const char *const kinds[] = {"json", "regex", "choice", "grammar", "json_object", "structural_tag", NULL};
  return is_among(key, kinds) && !(strcmp(key, "json_object") == 0 && yk_json_is(value, YK_JSON_FALSE));
}

static yk_status read_member(yk_openai_request *request, const char *key, yk_json value, yk_err *err)
{
  static const char name[] = "structured_outputs";
  if (strcmp(key, "json") == 0) return set_document(request, name, YK_CONSTRAINT_JSON_SCHEMA, value, err);
  if (strcmp(key, "regex") == 0) return set_text(request, name, YK_CONSTRAINT_REGEX, value, err);
  if (strcmp(key, "grammar") == 0) return set_text(request, name, YK_CONSTRAINT_GRAMMAR, value, err);
  if (strcmp(key, "choice") == 0) return set_choice(request, name, value, err);
  if (strcmp(key, "structural_tag") == 0) return set_document(request, name, YK_CONSTRAINT_STRUCTURAL_TAG, value, err);
  if (is_flag(key)) return read_flag(request, key, value, err);
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: \"%.40s\" is not supported; leave it out", name, key);
}

yk_status yk_request_read_structured_outputs(yk_openai_request *request, yk_json value, yk_err *err)
{
  static const char name[] = "structured_outputs";
  if (yk_json_is(value, YK_JSON_FALSE)) return YK_OK;
  if (!yk_json_is(value, YK_JSON_OBJECT)) return yk_json_wrong_type(NULL, name, "an object", value, err);
  const char *found = NULL;
  YK_JSON_EACH_KEY(key, value)
  {
    yk_json member = yk_json_member(key);
    if (!yk_json_is_given(member)) continue;
    const char *constraint = is_constraint(yk_json_text(key), member) ? yk_json_text(key) : NULL;
    if (found && constraint)
      return yk_err_set(err, YK_E_INVAL, "%s: expected one constraint, found \"%s\" and \"%s\"", name, found,
                        constraint);
    if (constraint) found = constraint;
    YK_TRY(read_member(request, yk_json_text(key), member, err));
  }
  if (found) return YK_OK;
  return yk_err_set(
      err, YK_E_INVAL,
      "%s: expected one of \"json\", \"regex\", \"choice\", \"grammar\", \"json_object\" or \"structural_tag\"", name);
}

yk_status yk_request_read_allowed_ids(yk_openai_request *request, yk_json value, yk_err *err)
{
  static const char name[] = "allowed_token_ids";
  if (!yk_json_is(value, YK_JSON_ARRAY) || yk_json_size(value) == 0)
    return yk_json_wrong_or_empty(NULL, name, "an array of at least one token id", value, err);
  YK_TRY(yk_value_read_ids(name, value, &request->allowed_ids, &request->sampling.n_allowed_ids, err));
  request->sampling.allowed_ids = request->allowed_ids;
  return YK_OK;
}
