/* Constraints of outputs that requests name: of formats, of calls of tools, after reasoning. */
#include <string.h>

#include "each_case.h"
#include "unit/openai_bodies.h"

static void expect_constraint(yk_openai_form form, const char *body, yk_constraint_kind kind, const char *name,
                              const char *text)
{
  yk_openai_request r = openai_request(form, body);
  assert_int_equal(r.sampling.constraint_kind, kind);
  assert_string_equal(r.sampling.constraint_name, name);
  assert_int_equal(r.sampling.constraint_bytes, strlen(text));
  if (text[0]) assert_memory_equal(r.sampling.constraint, text, strlen(text));
  yk_openai_request_free(&r);
}

static void constraints(void **state)
{
  (void)state;
  expect_constraint(YK_FORM_COMPLETION, P "'response_format': {'type': 'json_object'}}", YK_CONSTRAINT_JSON_OBJECT,
                    "response_format", "");
  expect_constraint(YK_FORM_PLAIN,
                    P "'response_format': {'type': 'json_schema', 'json_schema': {'name': 'n', 'schema': {'type': "
                      "'null'}}}}",
                    YK_CONSTRAINT_JSON_SCHEMA, "response_format", "{\"type\": \"null\"}");
  expect_constraint(YK_FORM_PLAIN, P "'guided_json': '{}'}", YK_CONSTRAINT_JSON_SCHEMA, "guided_json", "{}");
  expect_constraint(YK_FORM_CHAT, CHAT(", 'guided_regex': 'a+'"), YK_CONSTRAINT_REGEX, "guided_regex", "a+");
  expect_constraint(YK_FORM_CHAT, CHAT(", 'guided_choice': ['a', 'b']"), YK_CONSTRAINT_CHOICE, "guided_choice",
                    "[\"a\", \"b\"]");
  expect_constraint(YK_FORM_CHAT, CHAT(", 'guided_grammar': 'root ::= x'"), YK_CONSTRAINT_GRAMMAR, "guided_grammar",
                    "root ::= x");
  expect_constraint(YK_FORM_CHAT, CHAT(", 'structured_outputs': {'structural_tag': '{}', 'regex': null}"),
                    YK_CONSTRAINT_STRUCTURAL_TAG, "structured_outputs", "{}");
  expect_constraint(YK_FORM_CHAT, CHAT(", 'structured_outputs': {'json_object': true, 'disable_fallback': true}"),
                    YK_CONSTRAINT_JSON_OBJECT, "structured_outputs", "");
  expect_constraint(YK_FORM_CHAT, CHAT(", 'structured_outputs': {'json_object': false, 'choice': ['a']}"),
                    YK_CONSTRAINT_CHOICE, "structured_outputs", "[\"a\"]");
  yk_openai_request r = openai_request(YK_FORM_CHAT, CHAT(", 'allowed_token_ids': [3, 4], 'guided_json': false"));
  assert_int_equal(r.sampling.n_allowed_ids, 2);
  assert_int_equal(r.sampling.allowed_ids[1], 4);
  assert_int_equal(r.sampling.constraint_kind, YK_CONSTRAINT_NONE);
  yk_openai_request_free(&r);
}

#define CALL_OF_F(end)                                                                                                 \
  "\"tags\": [{\"type\": \"tag\", \"begin\": \"<tool_call>\\n{\\\"name\\\": \\\"f\\\", \\\"arguments\\\": \", "        \
  "\"content\": {\"type\": \"json_schema\", \"json_schema\": {\"type\": \"object\"}, \"place\": "                      \
  "\"tools[0].function.parameters\"}, \"end\": "                                                                       \
  "\"}\\n</tool_call>\"}], "                                                                                           \
  "\"stop_after_first\": " end "}"
#define ONLY_CALLS(end)                                                                                                \
  "{\"type\": \"tags_with_separator\", \"at_least_one\": true, \"separator\": \"\\n\", " CALL_OF_F(end)

/* The engine gets the tags where a constraint or a limit depends on them, by the beginning of the output. */
static void reasoning_with_constraints(void **state)
{
  (void)state;
  static const struct {
    yk_openai_form form;
    const char *body;
    yk_reasoning_beginning beginning;
    const char *open, *close; /* NULL: none */
  } rows[] = {
      {YK_FORM_CHAT, CHAT(""), YK_REASONING_OPENED, NULL, NULL},
      {YK_FORM_CHAT, CHAT(", 'guided_regex': 'a'"), YK_REASONING_OPENED, NULL, "</think>"},
      {YK_FORM_CHAT, CHAT(", 'guided_regex': 'a'"), YK_REASONING_UNDECIDED, "<think>", "</think>"},
      {YK_FORM_CHAT, CHAT(", 'guided_regex': 'a'"), YK_REASONING_ENDED, NULL, NULL},
      {YK_FORM_CHAT, CHAT(", 'tools': [" TOOL "]"), YK_REASONING_OPENED, NULL, NULL},
      {YK_FORM_CHAT, CHAT(", 'tools': [" TOOL "], 'tool_choice': 'required'"), YK_REASONING_OPENED, NULL, "</think>"},
      {YK_FORM_CHAT, CHAT(", 'thinking_token_budget': 0"), YK_REASONING_UNDECIDED, "<think>", "</think>"},
      {YK_FORM_COMPLETION, P "'guided_regex': 'a'}", YK_REASONING_OPENED, NULL, "</think>"},
      {YK_FORM_COMPLETION, P "'guided_regex': 'a'}", YK_REASONING_UNDECIDED, NULL, NULL}};
  yk_openai_defaults defaults = openai_defaults(YK_TOOLS_HERMES);
  defaults.style.reasoning = yk_reasoning_find("qwen3");
  for (size_t i = 0; each_case(i, i < N_ROWS(rows)); i++) {
    yk_openai_request r;
    yk_request_options options;
    yk_err err = YK_ERR_INIT;
    assert_int_equal(openai_parse_with(&defaults, rows[i].form, rows[i].body, &r, &err), YK_OK);
    assert_ptr_equal(r.reasoning, rows[i].form == YK_FORM_CHAT ? defaults.style.reasoning : NULL);
    r.prompts[0].beginning = rows[i].beginning;
    yk_openai_request_options_of(&r, 0, 100, &options);
    const yk_sampling *s = &options.sampling;
    const char *open = s->reasoning_tags && !s->reasoning_is_open ? s->reasoning_tags->open : "";
    assert_string_equal(open, rows[i].open ? rows[i].open : "");
    assert_string_equal(s->reasoning_tags ? s->reasoning_tags->close : "", rows[i].close ? rows[i].close : "");
    yk_openai_request_free(&r);
  }
  check_refusals(YK_FORM_CHAT, YK_TOOLS_NONE,
                 (const refusal[]){{CHAT(", 'thinking_token_budget': 3"), "thinking_token_budget", "--reasoning-parser",
                                    YK_E_UNSUPPORTED}},
                 1);
}

static void constraints_of_tools(void **state)
{
  (void)state;
  expect_constraint(YK_FORM_CHAT, CHAT(", 'tools': [" TOOL "], 'tool_choice': 'required'"),
                    YK_CONSTRAINT_STRUCTURAL_TAG, "tool_choice",
                    "{\"type\": \"structural_tag\", \"format\": " ONLY_CALLS("false") "}");
  expect_constraint(YK_FORM_CHAT,
                    CHAT(", 'tools': [" TOOL "], 'tool_choice': {'type': 'function', 'function': {'name': 'f'}}"),
                    YK_CONSTRAINT_STRUCTURAL_TAG, "tool_choice",
                    "{\"type\": \"structural_tag\", \"format\": " ONLY_CALLS("true") "}");
  expect_constraint(YK_FORM_CHAT, CHAT(", 'tools': [" TOOL "], 'response_format': {'type': 'json_object'}"),
                    YK_CONSTRAINT_STRUCTURAL_TAG, "response_format",
                    "{\"type\": \"structural_tag\", \"format\": {\"type\": \"or\", \"elements\": [" ONLY_CALLS(
                        "false") ", {\"type\": \"json_schema\", \"json_schema\": {\"type\": \"object\"}}]}}");
  expect_constraint(YK_FORM_CHAT,
                    CHAT(", 'parallel_tool_calls': false, 'tools': [{'type': 'function', 'function': {'name': 'f', "
                         "'strict': true}}]"),
                    YK_CONSTRAINT_STRUCTURAL_TAG, "tools",
                    "{\"type\": \"structural_tag\", \"format\": {\"type\": \"triggered_tags\", \"triggers\": "
                    "[\"<tool_call>\"], " CALL_OF_F("true") "}");
  yk_openai_request r = openai_request(YK_FORM_CHAT, CHAT(", 'tools': [" TOOL "]"));
  assert_int_equal(r.sampling.constraint_kind, YK_CONSTRAINT_NONE);
  yk_openai_request_free(&r);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(constraints), cmocka_unit_test(reasoning_with_constraints),
                                     cmocka_unit_test(constraints_of_tools)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
