/* Constraints that are refused: each message has the place of the fault, as a JSON pointer, and the reason. Skipped
 * without the grammar library (build/yoke-grammar, YOKE_GRAMMAR_LIBRARY). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_case.h"
#include "unit/grammar_fixture.h"
#include "unit/single_quotes.h"

static yk_status try(const fixture *f, yk_constraint_kind kind, const char *text, yk_err *err)
{
  yk_matcher *matcher;
  char *copy = double_quoted(text);
  yk_status status = yk_grammars_match(f->grammars, kind, copy, strlen(copy), NULL, 0, &matcher, err);
  free(copy);
  if (status == YK_OK) yk_matcher_free(matcher);
  return status;
}

#define TRIGGERED(triggers)                                                                                            \
  "{'type': 'structural_tag', 'format': {'type': 'triggered_tags', 'triggers': " triggers                              \
  ", 'tags': [{'type': 'tag', 'begin': 'ab', 'content': {'type': 'any_text'}, 'end': '.'}, {'type': 'tag', 'begin': "  \
  "'ac', 'content': {'type': 'any_text'}, 'end': '.'}]}}"
#define ARGUMENTS(x)                                                                                                   \
  "{'type': 'structural_tag', 'format': {'type': 'json_schema', 'style': 'qwen_xml', 'json_schema': {'type': "         \
  "'object', 'properties': {'x': " x "}}}}"
#define FIVE(text)    text text text text text
#define TWENTY(text)  FIVE(text) FIVE(text) FIVE(text) FIVE(text)
#define REFERENCES_20 TWENTY("{'allOf': [") "{'type': 'string'}" TWENTY("]}")
#define UNIONS_20     TWENTY("{'anyOf': [") "{'type': 'string'}" TWENTY("]}")

static void refused_with_place_and_reason(void **state)
{
  static const struct {
    yk_constraint_kind kind;
    const char *text, *message;
  } rows[] = {
      {YK_CONSTRAINT_JSON_SCHEMA, "{'properties': {'a': {'not': {}}}}", "/properties/a/not: 'not' is not supported"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'type': 'string'", "not JSON"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'$ref': '#/$defs/a'}", "/$ref: the schema has no #/$defs/a"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'type': 'string', 'format': 5}", "/format: expected a string"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'prefixItems': 5}", "/prefixItems: expected a list of schemas"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'patternProperties': 5}", "/patternProperties: expected an object of schemas"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'unevaluatedProperties': 5}", "/unevaluatedProperties: expected a schema"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'unevaluatedItems': 5}", "/unevaluatedItems: expected a schema"},
      /* References that no value can follow to an end. */
      {YK_CONSTRAINT_JSON_SCHEMA, "{'$ref': '#'}", "/$ref: every value would contain another one without end"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'allOf': [{'$ref': '#'}]}",
       "/allOf/0/$ref: every value would contain another one without end"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'anyOf': [{'$ref': '#'}]}",
       "/anyOf/0/$ref: every value would contain another one without end"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'properties': {'a': {'$ref': '#'}}, 'required': ['a']}",
       "/properties/a/$ref: every value would contain another one without end"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'prefixItems': [{}, {'$ref': '#'}], 'minItems': 2, 'type': 'array'}",
       "/prefixItems/1/$ref: every value would contain another one without end"},
      {YK_CONSTRAINT_JSON_SCHEMA,
       "{'properties': {'b': {'$ref': '#/$defs/c'}}, '$defs': {'c': {'$ref': '#/$defs/d'}, 'd': {'$ref': "
       "'#/$defs/c'}}}",
       "/properties/b/$ref: every value would contain another one without end"},
      /* Bounds. */
      {YK_CONSTRAINT_JSON_SCHEMA, "{'type': 'integer', 'minimum': 3, 'maximum': 2}",
       "/maximum: expected at least 'minimum'"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'type': 'integer', 'exclusiveMinimum': 1, 'exclusiveMaximum': 2}",
       "/exclusiveMaximum: no integer is left beside 'exclusiveMinimum'"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'type': 'integer', 'minimum': 1.2, 'maximum': 1.8}",
       "/maximum: no integer is left beside 'minimum'"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'type': 'number', 'minimum': 2, 'exclusiveMinimum': 2, 'maximum': 2}",
       "/maximum: no number is left beside 'exclusiveMinimum'"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'type': 'integer', 'minimum': 9223372036854775808}",
       "/minimum: integers are only supported from -9223372036854775807 to 9223372036854775807"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'type': 'integer', 'maximum': -1e300}",
       "/maximum: integers are only supported from -9223372036854775807 to 9223372036854775807"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'type': 'integer', 'exclusiveMinimum': 9223372036854775807}",
       "/exclusiveMinimum: integers are only supported from -9223372036854775807 to 9223372036854775807"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'type': 'integer', 'multipleOf': 9223372036854775808}",
       "/multipleOf: 'multipleOf' is only supported"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'type': 'number', 'maximum': 1e999}",
       "/maximum: expected a number within the range"},
      {YK_CONSTRAINT_JSON_SCHEMA,
       "{'type': 'number', 'minimum': "
       "100000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
       "000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
       "00000000000000000000000000000000000000000000000000000000000000000000000000000000000000000}",
       "/minimum: expected a number within the range"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'type': 'number', 'minimum': '3'}", "/minimum: expected a number"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'const': {'a': [9223372036854775808]}}",
       "/const/a/0: integers are only supported from -9223372036854775808"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'enum': [1, -1e999]}", "/enum/1: expected a number within the range"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'properties': {'a': {'minItems': 3, 'maxItems': 2}}}",
       "/properties/a/maxItems: expected at least 'minItems'"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'minItems': 2147483648}", "/minItems: expected an integer from 0 to 2147483647"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'maxItems': 2147483648}", "/maxItems: expected an integer from 0 to 2147483647"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'minItems': -1}", "/minItems: expected an integer from 0 to 2147483647"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'maxItems': 1.5}", "/maxItems: expected an integer from 0 to 2147483647"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'maxProperties': 2147483648}",
       "/maxProperties: expected an integer from 0 to 2147483647"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'required': ['a', 'b'], 'maxProperties': 1}",
       "/maxProperties: expected at least 2"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'minLength': 4294967297}", "/minLength: expected an integer from 0 to 2147483647"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'minLength': 3, 'maxLength': 2}", "/maxLength: expected at least"},
      /* Parts that only the library checks. */
      {YK_CONSTRAINT_JSON_SCHEMA, "{'properties': {'a': {'pattern': 'b'}, 'c': {'pattern': '('}}}",
       "/properties/c/pattern: not a supported regular expression at position 2"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'$defs': {'a': {'pattern': '[z-a]'}}, 'items': {'$ref': '#/$defs/a'}}",
       "/$defs/a/pattern: not a supported regular expression: Invalid character class"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'items': {'patternProperties': {'a$b': {}}}}",
       "/items/patternProperties/a$b: not a supported regular expression: Anchor"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'items': {'oneOf': [{'type': 'number'}, {'type': 'integer'}]}}",
       "/items/oneOf: 'oneOf' is only supported with branches that exclude each other"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'type': 'string', 'pattern': '[\\\\t ]'}", "/pattern: expected a pattern"},
      {YK_CONSTRAINT_JSON_SCHEMA, "{'pattern': '^a{4294967297,}$'}", "/pattern: expected at most 2147483647"},
      {YK_CONSTRAINT_REGEX, "a{1,4294967297}", "expected at most 2147483647 repetitions"},
      {YK_CONSTRAINT_REGEX, "(a", "not a supported regular expression at position 3"},
      {YK_CONSTRAINT_REGEX, "^a$|^b$", "found in the middle"},
      {YK_CONSTRAINT_REGEX, "a{3,2}", "not a supported regular expression: Lower bound"},
      {YK_CONSTRAINT_GRAMMAR, "root ::= a", "not a supported grammar at line 1, column 10: Rule 'a' is not defined"},
      {YK_CONSTRAINT_GRAMMAR, "root ::= [\"] '}' | 'a'{4294967297}", "/: expected at most 2147483647 repetitions"},
      {YK_CONSTRAINT_CHOICE, "[]", "at least one string"},
      {YK_CONSTRAINT_CHOICE, "['a', '']", "none empty"},
      {YK_CONSTRAINT_STRUCTURAL_TAG,
       "{'type': 'structural_tag', 'format': {'type': 'regex', 'pattern': 'a{4294967297}'}}",
       "/format/pattern: expected at most 2147483647 repetitions"},
      {YK_CONSTRAINT_STRUCTURAL_TAG,
       "{'type': 'structural_tag', 'format': {'type': 'or', 'elements': [{'type': 'any_text'}, {'type': 'regex', "
       "'pattern': '('}]}}",
       "/format/elements/1/pattern: not a supported regular expression at position 2"},
      {YK_CONSTRAINT_STRUCTURAL_TAG,
       "{'type': 'structural_tag', 'format': {'type': 'grammar', 'grammar': 'root ::= x'}}",
       "/format/grammar: not a supported grammar at line 1"},
      {YK_CONSTRAINT_STRUCTURAL_TAG,
       "{'type': 'structural_tag', 'format': {'type': 'tag', 'begin': 'a', 'content': {'type': 'json_schema', "
       "'json_schema': {'items': {'pattern': '('}}}, 'end': ''}}",
       "/format/content/json_schema/items/pattern: not a supported"},
      {YK_CONSTRAINT_STRUCTURAL_TAG,
       "{'type': 'structural_tag', 'format': {'type': 'sequence', 'elements': [{'type': 'tag'}]}}",
       "/format/elements/0: Tag format"},
      {YK_CONSTRAINT_STRUCTURAL_TAG, "{'type': 'structural_tag', 'format': {'type': 'token', 'token': '<no>'}}",
       "Token string '<no>' not found"},
      {YK_CONSTRAINT_STRUCTURAL_TAG, TRIGGERED("5"), "/format/triggers: expected a list of at least one string"},
      {YK_CONSTRAINT_STRUCTURAL_TAG, TRIGGERED("[]"), "/format/triggers: expected a list of at least one string"},
      {YK_CONSTRAINT_STRUCTURAL_TAG, TRIGGERED("['a', 5]"), "/format/triggers: expected a list of at least one string"},
      {YK_CONSTRAINT_STRUCTURAL_TAG, TRIGGERED("['a', '']"), "/format/triggers: expected a list of at least one"},
      {YK_CONSTRAINT_STRUCTURAL_TAG, TRIGGERED("['a', 'b']"), "/format/triggers: no tag begins with 'b'"},
      {YK_CONSTRAINT_STRUCTURAL_TAG, TRIGGERED("['ab']"), "/format/triggers: none is a beginning of the tag 'ac'"},
      {YK_CONSTRAINT_STRUCTURAL_TAG, "{'structures': [{'begin': 'a', 'end': 'b'}], 'triggers': []}",
       "/triggers: expected a list of at least one string"},
      {YK_CONSTRAINT_STRUCTURAL_TAG, "{'structures': [{'begin': 'a', 'end': 'b'}], 'triggers': ['b']}",
       "/triggers: no tag begins with 'b'"},
      /* Arguments in tags. */
      {YK_CONSTRAINT_STRUCTURAL_TAG, ARGUMENTS(REFERENCES_20), "/x/$ref: too many references to references"},
      {YK_CONSTRAINT_STRUCTURAL_TAG, ARGUMENTS(UNIONS_20), ": nested too deeply"},
      {YK_CONSTRAINT_STRUCTURAL_TAG, "{'structures': [{}], 'triggers': ['a']}", "/structures/0: expected"},
      {YK_CONSTRAINT_STRUCTURAL_TAG, "{'structures': 5, 'triggers': ['a']}", "/structures: expected a list"},
      {YK_CONSTRAINT_STRUCTURAL_TAG,
       "{'structures': [{'begin': 'a', 'end': 'b', 'schema': {'pattern': '('}}], 'triggers': ['a']}",
       "/structures/0/schema/pattern: not a supported"},
  };
  (void)state;
  if (!has_library()) skip();
  fixture f = grammars_of(20, 1 << 20);
  for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++) {
    yk_err err = YK_ERR_INIT;
    char *message = double_quoted(rows[i].message);
    assert_int_equal(try(&f, rows[i].kind, rows[i].text, &err), YK_E_INVAL);
    if (!strstr(err.message, message)) fail_msg("%s: %s", rows[i].text, err.message);
    free(message);
  }
  release(&f);
}

/* Near those that are refused. */
static void taken(void **state)
{
  static const char *const schemas[] = {
      "{'anyOf': [{'$ref': '#'}, {'type': 'null'}]}",
      "{'properties': {'a': {'$ref': '#'}}}",
      "{'type': 'array', 'items': {'$ref': '#'}}",
      "{'type': ['array', 'null'], 'items': {'$ref': '#'}, 'minItems': 1}",
      "{'prefixItems': [{}, {'$ref': '#'}], 'minItems': 1, 'type': 'array'}",
      "{'type': 'integer', 'minimum': 1.5, 'exclusiveMaximum': 3}",
      "{'type': 'integer', 'minimum': -9223372036854775807, 'maximum': 9223372036854775807}",
      "{'type': ['integer', 'number'], 'minimum': 1.5}",
      "{'type': 'number', 'maximum': 1e308}",
      "{'const': -9223372036854775808}",
      "{'maxItems': 2.0}",
      "{'minLength': 1.0}",
      "{'required': ['a'], 'maxProperties': 1}",
  };
  (void)state;
  if (!has_library()) skip();
  fixture f = grammars_of(20, 1 << 20);
  for (size_t i = 0; each_case(i, i < sizeof schemas / sizeof *schemas); i++) {
    yk_err err = YK_ERR_INIT;
    if (try(&f, YK_CONSTRAINT_JSON_SCHEMA, schemas[i], &err) != YK_OK) fail_msg("%s: %s", schemas[i], err.message);
  }
  release(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(refused_with_place_and_reason), cmocka_unit_test(taken)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
