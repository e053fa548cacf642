/* tool_schemas.h - the types of tools' parameters, for formats in which arguments are written as text. */
#ifndef YK_OPENAI_PARSE_TOOL_SCHEMAS_H
#define YK_OPENAI_PARSE_TOOL_SCHEMAS_H

#include "base/json.h"
#include "base/status.h"
#include "base/strbuf.h"

/* Types that a parameter may have: a set of bits. */
enum {
  YK_TYPE_STRING = 1,
  YK_TYPE_NUMBER = 2,
  YK_TYPE_BOOLEAN = 4,
  YK_TYPE_NULL = 8,
  YK_TYPE_OBJECT = 16,
  YK_TYPE_ARRAY = 32,
  YK_TYPE_ANY = 63,
  YK_TYPE_INTEGER = 64 /* a number without a fraction and an exponent */
};

typedef struct yk_tool_schemas yk_tool_schemas; /* owner: the creator; constant after creation */

/* yk_tool_schemas_create - copies the types from tools, a checked array of OpenAI's tools. Errors: YK_E_NOMEM. */
yk_status yk_tool_schemas_create(yk_json tools, yk_tool_schemas **out, yk_err *err);
void yk_tool_schemas_free(yk_tool_schemas *schemas);

/* yk_tool_schemas_types - types of a function's parameter; if the schema does not list the parameter, the types of
 *   additional parameters; 0: unknown. schemas may be NULL. */
unsigned yk_tool_schemas_types(const yk_tool_schemas *schemas, const yk_strbuf *function, const yk_strbuf *parameter);

/* yk_typed_value_append - append as JSON the text [n_bytes] of an argument: null, a boolean, a number, an object or an
 *   array, in JSON or as a Python literal, if types has it and the text is one; else a string of the text. */
void yk_typed_value_append(yk_strbuf *out, unsigned types, const char *text, size_t n_bytes);

#endif
