/* Forms in which templates receive contents, tool calls, reasoning and variables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "each_case.h"
#include "unit/template_fixture.h"

#define SHOW_CONTENT "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
#define JOIN_CONTENT "{% for m in messages %}{{ '[' + m['role'] + ']' + m['content'] }}{% endfor %}"
#define LOOP_CONTENT                                                                                                   \
  "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}"                         \
  "{% for p in m.content %}({{ p.text }}){% endfor %}{% endif %}{% endfor %}"
#define ONLY_LISTS                                                                                                     \
  "{% for m in messages %}[{{ m.role }}]{% for p in m['content'] %}({{ p['type'] }} {{ p['text'] }}){% endfor %}"      \
  "{% endfor %}"
#define CALLS                                                                                                          \
  "\"tool_calls\": [{\"id\": \"c\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": \"{}\"}}]"

static void check_messages(const char *chat_template, const char *messages, const char *expected)
{
  chat_check_rendering(chat_template, NULL, (chat_rendering){messages, 0, 0, 0}, YK_OK, expected);
}

/* Conversations and prompts with one template, up to two NULLs. */
static void check_many(const char *chat_template, const char *const cases[][2])
{
  yk_tokenizer *tokenizer;
  yk_chat_renderer *renderer;
  yk_err err = YK_ERR_INIT;
  if (chat_renderer_of(chat_template, NULL, &tokenizer, &renderer, &err) != YK_OK) fail_msg("%s", err.message);
  for (; (*cases)[0]; cases++)
    chat_expect_rendering(renderer, (chat_rendering){(*cases)[0], 0, 0, 0}, YK_OK, (*cases)[1]);
  yk_chat_renderer_free(renderer);
  yk_tokenizer_free(tokenizer);
}

static void test_content_lists(void **state)
{
  static const char PARTS[] = "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"},"
                              "{\"type\": \"text\", \"text\": \"b<|im_end|>\"}]}]";
  (void)state;
  check_messages("{{ messages[0].content }}", PARTS, "a\nb<|im_end|>");
  check_messages("{% for m in messages %}{% for part in m['content'] %}[{{ part.text }}]{% endfor %}{% endfor %}",
                 PARTS, "[a][b<|im_end|>]");
  check_messages("{% for m in messages %}{% set content = m.content %}{% if content is string %}no{% else %}"
                 "{% for part in content|list %}[{{ part.text }}]{% endfor %}{% endif %}{% endfor %}",
                 PARTS, "[a][b<|im_end|>]");
  check_messages("{% macro show(content) %}{% for part in content %}[{{ part.text }}]{% endfor %}{% endmacro %}"
                 "{{ show(messages[0].content) }}",
                 PARTS, "[a][b<|im_end|>]");
  check_messages("{% for word in messages[0].content.split('<') %}[{{ word }}]{% endfor %}", PARTS,
                 "[a\nb][|im_end|>]");
}

/* Null, absent and empty are the same to templates, except to those that test for null. */
static void test_content_that_is_not_there(void **state)
{
#define ANSWERED(content)                                                                                              \
  "[{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", " content CALLS "},"                          \
  "{\"role\": \"tool\", \"tool_call_id\": \"c\", \"content\": \"sun\"}]"
  static const char NONE[] = ANSWERED("\"content\": null, "), ABSENT[] = ANSWERED(""),
                    EMPTY[] = ANSWERED("\"content\": \"\", ");
  static const char SHOWN[] = "[user]hi[assistant][tool]sun", LISTED[] = "[user](text hi)[assistant][tool](text sun)";
  static const char COMPARED[] = "False True False ", NOT_COMPARED[] = "False False False ";
  (void)state;
  const char *const shown[][2] = {{NONE, SHOWN}, {ABSENT, SHOWN}, {EMPTY, SHOWN}, {NULL, NULL}};
  check_many(SHOW_CONTENT, shown);
  check_many(JOIN_CONTENT, shown);
  check_many(LOOP_CONTENT, shown);
  const char *const listed[][2] = {
      {NONE, LISTED}, {ABSENT, LISTED}, {EMPTY, "[user](text hi)[assistant](text )[tool](text sun)"}, {NULL, NULL}};
  check_many(ONLY_LISTS, listed);
  const char *const compared[][2] = {{NONE, COMPARED}, {ABSENT, COMPARED}, {EMPTY, NOT_COMPARED}, {NULL, NULL}};
  check_many("{% for m in messages %}{{ m.content is none }} {% endfor %}", compared);
  check_many("{% for m in messages %}{{ m['content'] == none }} {% endfor %}", compared);
  const char *const measured[][2] = {{NONE, "2 0 3 "}, {ABSENT, "2 0 3 "}, {EMPTY, "2 0 3 "}, {NULL, NULL}};
  check_many("{% for m in messages %}{% if not (m.content is none) %}{{ m.content|length }} {% endif %}{% endfor %}",
             measured);
  /* Null is what these test for, and what they fail on. */
  const char *const searched[][2] = {{NONE, "  sun "}, {ABSENT, "  sun "}, {EMPTY, "  sun "}, {NULL, NULL}};
  check_many("{% for m in messages %}{% if 'u' in m.content %}{{ m.content }}{% elif m.content is none %}no{% endif %}"
             " {% endfor %}",
             searched);
  const char *const trimmed[][2] = {{NONE, "hi  sun "}, {NULL, NULL}};
  check_many("{% for m in messages %}{{ m.content.strip() }}{% if m.content is none %}no{% endif %} {% endfor %}",
             trimmed);
}

static void test_forms_of_content(void **state)
{
  static const char PARTS[] = "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, \"b\","
                              "{\"type\": \"input_text\", \"text\": \"\"}, {\"type\": \"text\", \"text\": null}]},"
                              "{\"role\": \"assistant\", \"content\": [{\"type\": \"refusal\", \"refusal\": \"no\"}]},"
                              "{\"role\": \"tool\", \"content\": [{\"type\": \"text\", \"text\": \"x\"}, {\"type\": "
                              "\"text\", \"text\": \"y\"}]}]";
  static const char TEXTS[] = "[{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"hi\"}]";
  (void)state;
  const char *const shown[][2] = {{PARTS, "[user]a\nb[assistant]no[tool]x\ny"}, {NULL, NULL}};
  check_many(SHOW_CONTENT, shown);
  const char *const looped[][2] = {
      {PARTS, "[user](a)(b)()[assistant](no)[tool]x\ny"}, {TEXTS, "[system]s[user]hi"}, {NULL, NULL}};
  check_many(LOOP_CONTENT, looped);
  const char *const listed[][2] = {{PARTS, "[user](text a)(text b)(text )[assistant](text no)[tool](text x)(text y)"},
                                   {TEXTS, "[system](text s)[user](text hi)"},
                                   {NULL, NULL}};
  check_many(ONLY_LISTS, listed);
  check_messages("{{ messages[0].content[0].text }}|{{ messages[1]['content'][0]['text'] }}", TEXTS, "s|hi");
  check_messages("{% set list = messages %}{% for m in list[1:] %}{% set c = m.content %}{% for p in c %}<{{ p.text }}>"
                 "{% endfor %}{% endfor %}",
                 TEXTS, "<hi>");
}

static void test_reasoning_and_names(void **state)
{
#define ANSWER(members) "[{\"role\": \"assistant\", \"content\": \"a\", " members "}]"
  static const char *const CASES[][2] = {
      {ANSWER("\"reasoning\": \"R\""), "<R R>a"},
      {ANSWER("\"reasoning_content\": \"R\""), "<R R>a"},
      {ANSWER("\"reasoning\": \"R\", \"reasoning_content\": null"), "<R R>a"},
      {ANSWER("\"reasoning\": null, \"reasoning_content\": \"R\""), "<R R>a"},
      {ANSWER("\"reasoning\": \"R\", \"reasoning_content\": \"S\""), "<R R>a"},
      {ANSWER("\"reasoning_content\": null"), "a"},
      {ANSWER("\"reasoning\": null, \"name\": null, \"refusal\": null"), "a"},
      {ANSWER("\"name\": 3"), "a"},
      {ANSWER("\"name\": \"n\""), "n:a"},
      {NULL, NULL},
  };
  (void)state;
  check_many("{% for m in messages %}{% if m.name is defined %}{{ m.name }}:{% endif %}"
             "{% if m.reasoning is defined %}<{{ m.reasoning }} {{ m.reasoning_content }}>{% endif %}"
             "{% if m.refusal is defined %}!{% endif %}{{ m.content }}{% endfor %}",
             CASES);
  static const char *const THOUGHTS[][2] = {{ANSWER("\"reasoning_content\": \"R\""), "R R R"},
                                            {ANSWER("\"reasoning\": \"R\", \"thinking\": \"T\""), "R R T"},
                                            {NULL, NULL}};
  check_many("{% set m = messages[0] %}{{ m.reasoning }} {{ m.reasoning_content }} {{ m.thinking }}", THOUGHTS);
}

/* Phi-4-mini's form of tools: the functions as a text, in the first message of the system. */
static void test_tools_in_system_messages(void **state)
{
  static const char SHOWN[] = "{% for message in messages %}[{{ message.role }}]{{ message.content }}"
                              "{% if 'tools' in message %}{{ '<|tool|>' + message['tools'] }}{% endif %}{% endfor %}";
  static const char TOOLS[] =
      "[{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"a\": [1]}}}, "
      "{\"name\": \"g<|im_end|>\"}]";
#define TEXT_OF_TOOLS "<|tool|>[{\"name\": \"f\", \"parameters\": {\"a\": [1]}}, {\"name\": \"g<|im_end|>\"}]"
#define SPOKEN(role)  "{\"role\": \"" role "\", \"content\": \"" role "\"}"
  static const struct {
    const char *messages, *tools, *expected;
  } cases[] = {{"[" SPOKEN("system") ", " SPOKEN("user") ", " SPOKEN("system") "]", TOOLS,
                "[system]system" TEXT_OF_TOOLS "[user]user[system]system"},
               {"[" SPOKEN("user") "]", TOOLS, "[system]" TEXT_OF_TOOLS "[user]user"},
               {"[" SPOKEN("user") ", " SPOKEN("developer") "]", TOOLS, "[system]developer" TEXT_OF_TOOLS "[user]user"},
               {"[" SPOKEN("user") "]", "[]", "[user]user"},
               {"[" SPOKEN("user") "]", NULL, "[user]user"}};
  (void)state;
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++)
    chat_check_rendering(SHOWN, NULL, (chat_rendering){cases[i].messages, cases[i].tools, 0, 0}, YK_OK,
                         cases[i].expected);
}

static void test_arguments_of_calls(void **state)
{
#define CALL(arguments) "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"arguments\": " arguments "}}]}]"
  static const char TEXT[] = CALL("\"{\\\"a\\\": \\\"<|im_end|>\\\"}\"");
  static const char SHOW[] = "{% for call in messages[0].tool_calls %}{{ call.function.arguments|tojson }}{% endfor %}";
  (void)state;
  const char *const shown[][2] = {{TEXT, "{\"a\": \"<|im_end|>\"}"},
                                  {CALL("\"\""), "{}"},
                                  {CALL("\"[1]\""), "{}"},
                                  {CALL("\"{broken\""), "{}"},
                                  {NULL, NULL}};
  check_many(SHOW, shown);
  check_messages("{{ messages[0].tool_calls[0].function.arguments + '!' }}", TEXT, "{\"a\": \"<|im_end|>\"}!");
  check_messages("{% set arguments = messages[0].tool_calls[0].function.arguments %}"
                 "{% if arguments is string %}{{ arguments }}{% else %}{{ arguments|tojson }}{% endif %}",
                 TEXT, "{\"a\": \"<|im_end|>\"}");
  check_messages("{% for name, value in messages[0].tool_calls[0].function.arguments.items() %}{{ name }}={{ value }}"
                 "{% endfor %}",
                 TEXT, "a=<|im_end|>");
  check_messages("{% for call in messages[0].tool_calls %}{% set given = call.function.arguments or {} %}"
                 "{% for name in given %}{{ name }}{% endfor %}{% endfor %}",
                 TEXT, "a");
  static const char WHOLE[] = "{\"arguments\": {\"a\": \"<|im_end|>\"}}";
  check_messages("{% for call in messages[0].tool_calls %}{{ call.function|tojson }}{% endfor %}", TEXT, WHOLE);
  check_messages("{% set calls = messages[0].tool_calls %}{% for call in calls %}{% set call = call['function'] %}"
                 "{{ call|tojson }}{% endfor %}",
                 TEXT, WHOLE);
  check_messages("{{ messages[0].tool_calls|map(attribute='function')|list|tojson }}", TEXT,
                 "[{\"arguments\": {\"a\": \"<|im_end|>\"}}]");
  check_messages("{% for call in tools or [] %}{{ call.function|tojson }}{% endfor %}"
                 "{% for call in messages[0].tool_calls %}{{ call.function.arguments + '!' }}{% endfor %}",
                 TEXT, "{\"a\": \"<|im_end|>\"}!");
}

/* As in vLLM's _postprocess_messages, and then Python. */
static void test_arguments_of_the_past(void **state)
{
#define CALLED(arguments)                                                                                              \
  "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\"" arguments "}}]}]"
#define GIVEN(arguments) CALLED(", \"arguments\": " arguments)
  static const char *const CASES[][2] = {
      {GIVEN("\"{\\\"city\\\": \\\"Rome\\\"}\""), "<f city=Rome>"},
      {GIVEN("\"{\\\"n\\\": 18446744073709551615}\""), "<f n=18446744073709551615>"},
      {GIVEN("\"{\\\"a\\\": 1, \\\"a\\\": 2}\""), "<f a=2>"},
      {GIVEN("\"{\\\"x\\\": NaN, \\\"y\\\": 1e400, \\\"z\\\": -Infinity}\""), "<f x=nan y=inf z=-inf>"},
      {GIVEN("{\"n\": 1e400, \"m\": 1.50}"), "<f n=inf m=1.5>"},
      {GIVEN("\"null\""), "<f>"},
      {GIVEN("\"[1]\""), "<f>"},
      {GIVEN("\"42\""), "<f>"},
      {GIVEN("\"\\\"x\\\"\""), "<f>"},
      {GIVEN("\"{\\\"city\\\": \\\"Ro\""), "<f>"},
      {GIVEN("\"not json\""), "<f>"},
      {GIVEN("\"\""), "<f>"},
      {GIVEN("null"), "<f>"},
      {GIVEN("[1]"), "<f>"},
      {GIVEN("7"), "<f>"},
      {CALLED(""), "<f>"},
      {NULL, NULL},
  };
  (void)state;
  check_many("{% for c in messages[0].tool_calls %}<{{ c.function.name }}{% for k, v in c.function.arguments|items %} "
             "{{ k }}={{ v }}{% endfor %}>{% endfor %}",
             CASES);
  check_messages("{{ messages[0].tool_calls is defined }}", "[{\"role\": \"assistant\", \"tool_calls\": []}]", "False");
  check_messages("{{ messages[0].tool_calls[0].function.arguments + '!' }}", CALLED(""), "{}!");
}

/* A template without the role gets one system message. */
static void test_developers(void **state)
{
#define MESSAGE(role, text) "{\"role\": \"" role "\", \"content\": " text "}"
  static const char BOTH[] = "[" MESSAGE("system", "\"s\"") ", " MESSAGE("user", "\"u\"") ", " MESSAGE(
      "developer",
      "[{\"type\": \"text\", \"text\": \"d\"}, {\"type\": \"text\", \"text\": \"e\"}]") ", " MESSAGE("system",
                                                                                                     "\"t\"") "]";
  (void)state;
  const char *const shown[][2] = {
      {BOTH, "[system]s\n\nd\ne\n\nt[user]u"},
      {"[" MESSAGE("developer", "\"d\"") ", " MESSAGE("user", "\"u\"") "]", "[system]d[user]u"},
      {"[" MESSAGE("system", "\"s\"") ", " MESSAGE("system", "\"t\"") "]", "[system]s[system]t"},
      {NULL, NULL}};
  check_many(SHOW_CONTENT, shown);
  check_messages(ONLY_LISTS, BOTH, "[system](text s\n\nd\ne\n\nt)[user](text u)");
  check_messages(SHOW_CONTENT "{# 'developer' #}", BOTH, "[system]s[user]u[developer]d\ne[system]t");
}

/* If a template refuses a late system message, that message keeps its position as a message of the user. */
static void test_late_systems(void **state)
{
#define REFUSAL "{% if not messages %}{{ raise_exception('System message must be at the beginning.') }}{% endif %}"
  (void)state;
  const char *const shown[][2] = {
      {"[" MESSAGE("system", "\"s\"") ", " MESSAGE("user", "\"u\"") ", " MESSAGE("system", "\"t\"") ", " MESSAGE(
           "system", "\"v\"") "]",
       "[system]s[user]u[user]t[user]v"},
      {"[" MESSAGE("system", "\"s\"") ", " MESSAGE("system", "\"t\"") ", " MESSAGE("user", "\"u\"") "]",
       "[system]s\n\nt[user]u"},
      {"[" MESSAGE("user", "\"u\"") ", " MESSAGE("system", "\"t\"") "]", "[user]u[user]t"},
      {"[" MESSAGE("system", "\"s\"") ", " MESSAGE("user", "\"u\"") "]", "[system]s[user]u"},
      {NULL, NULL}};
  check_many(SHOW_CONTENT REFUSAL, shown);
}

/* GLM-4's form of calls and their results. */
static void test_calls_in_metadata(void **state)
{
#define SHOW_METADATA "{% for m in messages %}[{{ m.role }}|{{ m.metadata }}]{{ m.content }}{% endfor %}"
  (void)state;
  static const char PAST[] = "[" MESSAGE(
      "user", "\"u\"") ", {\"role\": \"assistant\", \"content\": \"a\", \"tool_calls\": [{\"function\": "
                       "{\"name\": \"f\", \"arguments\": \"{\\\"x\\\": 1}\"}}, {\"function\": {\"name\": \"g\", "
                       "\"arguments\": {\"y\": "
                       "[2]}}}]}, " MESSAGE("tool",
                                            "\"r\"") ", {\"role\": \"assistant\", \"content\": null, \"tool_calls\": "
                                                     "[{\"function\": {\"name\": \"h\", \"arguments\": \"\"}}]}]";
  check_messages(SHOW_METADATA "{# observation #}", PAST,
                 "[user|]u[assistant|]a[assistant|f]{\"x\": 1}[assistant|g]{\"y\": [2]}[observation|]r[assistant|h]{}");
  check_messages(SHOW_METADATA "{# observation tool_calls #}", PAST, "[user|]u[assistant|]a[tool|]r[assistant|]");
}

/* Numbers and the order of keys reach a template in Python's reading. */
static void test_numbers_and_keys(void **state)
{
  static const char HI[] = "[{\"role\": \"user\", \"content\": \"hi\"}]";
  (void)state;
  chat_check_rendering("{{ tools|tojson }}{{ big }} {{ documents[0].x }}", NULL,
                       (chat_rendering){HI,
                                        "[{\"z\": 18446744073709551615, \"a\": [1e400, NaN, 1.10, -0.0], \"m\": 1E5}]",
                                        "[{\"x\": 123456789012345678901234567890}]", "{\"big\": 1e400}"},
                       YK_OK,
                       "[{\"z\": 18446744073709551615, \"a\": [Infinity, NaN, 1.1, -0.0], \"m\": 100000.0}]"
                       "inf 123456789012345678901234567890");
}

/* reasoning_effort selects thinking unless the request does; the server's defaults come last. */
static void test_arguments_of_templates(void **state)
{
  static const struct {
    const char *defaults, *arguments, *effort, *expected;
  } CASES[] = {
      {NULL, NULL, NULL, "- -"},
      {NULL, NULL, "high", "high True"},
      {NULL, NULL, "none", "none False"},
      {NULL, "{\"enable_thinking\": false}", "high", "high False"},
      {"{\"enable_thinking\": false, \"reasoning_effort\": \"low\"}", NULL, NULL, "low False"},
      {"{\"enable_thinking\": false, \"reasoning_effort\": \"low\"}", NULL, "high", "high True"},
      {"{\"enable_thinking\": false}", "{\"enable_thinking\": true}", NULL, "- True"},
  };
  (void)state;
  yk_tokenizer *tokenizer;
  yk_chat_renderer *renderer;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(chat_renderer_of("{{ reasoning_effort|default('-') }} {{ enable_thinking|default('-') }}", NULL,
                                    &tokenizer, &renderer, &err),
                   YK_OK);
  yk_json_doc *messages = chat_json("[{\"role\": \"user\", \"content\": \"hi\"}]");
  for (size_t i = 0; each_case(i, i < sizeof CASES / sizeof *CASES); i++) {
    yk_json_doc *defaults = chat_json(CASES[i].defaults), *arguments = chat_json(CASES[i].arguments);
    yk_chat_conversation conversation = {.messages = yk_json_root(messages),
                                         .arguments = yk_json_root(arguments),
                                         .default_arguments = yk_json_root(defaults),
                                         .reasoning_effort = CASES[i].effort};
    chat_expect_prompt(renderer, &conversation, YK_OK, CASES[i].expected);
    yk_json_free(defaults);
    yk_json_free(arguments);
  }
  yk_json_free(messages);
  yk_chat_renderer_free(renderer);
  yk_tokenizer_free(tokenizer);
}

static void test_variables(void **state)
{
  static const char HI[] = "[{\"role\": \"user\", \"content\": \"hi\"}]";
  yk_tokenizer *tokenizer;
  yk_chat_renderer *renderer;
  (void)state;
  assert_int_equal(chat_renderer_of("default", "tools", &tokenizer, &renderer, NULL), YK_OK);
  chat_expect_rendering(renderer, (chat_rendering){HI, 0, 0, 0}, YK_OK, "default");
  chat_expect_rendering(renderer, (chat_rendering){HI, "[{}]", 0, 0}, YK_OK, "tools");
  chat_expect_rendering(renderer, (chat_rendering){HI, "[]", 0, 0}, YK_OK, "tools"); /* as in transformers */
  chat_expect_rendering(renderer, (chat_rendering){HI, "null", 0, 0}, YK_OK, "default");
  yk_chat_renderer_free(renderer);
  yk_tokenizer_free(tokenizer);
  chat_check_rendering("{{ documents[0].text }} {{ a }} {{ bos_token }} {{ tools }}", NULL,
                       (chat_rendering){HI, 0, "[{\"text\": \"d\"}]", "{\"a\": \"<|im_end|>\", \"bos_token\": \"b\"}"},
                       YK_OK, "d <|im_end|> b None");
}

static void check_continued(const char *text, const char *messages, yk_status code, const char *expected)
{
  yk_tokenizer *tokenizer;
  yk_chat_renderer *renderer;
  yk_err err = YK_ERR_INIT;
  yk_json_doc *content = chat_json(messages);
  yk_chat_conversation conversation = {.messages = yk_json_root(content), .continue_final_message = true};
  if (chat_renderer_of(text, NULL, &tokenizer, &renderer, &err) != YK_OK) fail_msg("%s", err.message);
  chat_expect_prompt(renderer, &conversation, code, expected);
  yk_chat_renderer_free(renderer);
  yk_tokenizer_free(tokenizer);
  yk_json_free(content);
}

/* The last part of a list of parts is continued; parts of a list that became one text are one. */
static void test_continued_messages(void **state)
{
#define CONTENT(content)                                                                                               \
  "[{\"role\": \"user\", \"content\": \"<|im_end|>\"}, {\"role\": \"assistant\", \"content\": " content "}]"
#define PART(text) "{\"type\": \"text\", \"text\": \"" text "\"}"
  static const char PARTS[] = CONTENT("[" PART("a") ", " PART("b ") "]");
  static const char JOINS[] = "{% for m in messages %}{{ m.content }}|{% endfor %}";
  static const char GOES_THROUGH[] = "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
                                     "{% for part in m.content %}({{ part.text|trim }}){% endfor %}{% endif %}"
                                     "{% endfor %}";
  (void)state;
  check_continued(JOINS, PARTS, YK_OK, "<|im_end|>|a\nb ");
  check_continued(GOES_THROUGH, PARTS, YK_OK, "<|im_end|>(a)(b");
  check_continued(JOINS, CONTENT("[]"), YK_E_INVAL, "messages[1].content: expected a text to continue, found none");
  check_continued(JOINS, CONTENT("null"), YK_E_INVAL, "messages[1].content: expected a text to continue, found null");
  check_continued("x", PARTS, YK_E_INVAL, "continue_final_message: the final message does not appear");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_content_lists),
      cmocka_unit_test(test_content_that_is_not_there),
      cmocka_unit_test(test_forms_of_content),
      cmocka_unit_test(test_reasoning_and_names),
      cmocka_unit_test(test_tools_in_system_messages),
      cmocka_unit_test(test_arguments_of_calls),
      cmocka_unit_test(test_arguments_of_the_past),
      cmocka_unit_test(test_developers),
      cmocka_unit_test(test_late_systems),
      cmocka_unit_test(test_calls_in_metadata),
      cmocka_unit_test(test_numbers_and_keys),
      cmocka_unit_test(test_arguments_of_templates),
      cmocka_unit_test(test_variables),
      cmocka_unit_test(test_continued_messages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
