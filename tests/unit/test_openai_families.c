/* Tool calls of every family but those of test_openai_tools.c; the same however the text is split. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "unit/answer_cases.h"
#include "unit/single_quotes.h"

#define N_ROWS(rows) (sizeof(rows) / sizeof(rows)[0])

static const yk_output stop = {.finish = YK_FINISH_STOP, .text = ""}, cut = {.finish = YK_FINISH_LENGTH, .text = ""};

static void check(yk_tool_format tools, const answer_sample *rows, size_t n)
{
  answer_check_samples(&(answer_way){.tools = tools, .end = stop}, rows, n);
}

static void check_cut(yk_tool_format tools, const answer_sample *rows, size_t n)
{
  answer_check_samples(&(answer_way){.tools = tools, .end = cut}, rows, n);
}

static yk_tool_schemas *schemas_of(const char *parameters)
{
  static const yk_json_rules rules = {.max_depth = 32};
  yk_strbuf text = YK_STRBUF_INIT;
  yk_json_doc *document;
  yk_tool_schemas *schemas;
  yk_strbuf_append_fmt(&text, "[{'function': {'name': 'f', 'parameters': {'properties': %s}}}, {'function': {}}]",
                       parameters);
  char *json = double_quoted(text.data);
  assert_int_equal(yk_json_parse("tools", json, strlen(json), &rules, &document, NULL), YK_OK);
  assert_int_equal(yk_tool_schemas_create(yk_json_root(document), &schemas, NULL), YK_OK);
  yk_json_free(document);
  free(json);
  yk_strbuf_free(&text);
  return schemas;
}

/* ---- A header and an object -------------------------------------------------------------------------------------- */

static void mistral(void **state)
{
  (void)state;
  static const answer_sample rows[] = {
      {"[TOOL_CALLS]f[ARGS]{\"a\": {\"b\": \"[ARGS]\"}}", "{f|{\"a\": {\"b\": \"[ARGS]\"}}}"},
      {"x [TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]g_2[ARGS]{\"x\": 1}", "x {f|{}}{g_2|{\"x\": 1}}"},
      {"[TOOL_CALLS]f{\"a\": 1}", "{f|{\"a\": 1}}"},
      {"[TOOL_CALLS]f[CALL_ID]abcdefghi[ARGS]{}", "{abcdefghi:f|{}}"},
      {"[TOOL_CALLS] [{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]",
       "{f|{\"a\": 1}}{g|{}}"},
      {"[TOOL_CALLS][{\"arguments\": {}, \"name\": \"f\"}] and", "{f|{}} and"},
      {"[TOOL_CALLS] f [ARGS] {}", "{f|{}}"},
      {"[TOOL_CALLS]f[ARGS]{} done", "{f|{}} done"},
      {"[TOOL_CALLS]f[ARGS]{\"a\": oops}[TOOL_CALLS]g[ARGS]{}", "{f|{\"a\": oops}!{g|{}}"},
      {"[TOOL_CALLS]f[ARGS]{\"a\": 1", "{f|{\"a\": 1!"},
      {"[TOOL_CALLS]", NULL},
      {"[TOOL_CALLS]f", NULL},
      {"[TOOL_CALLS]two words[ARGS]{}", NULL},
      {"[TOOL_CALLS][1]", NULL},
      {"[TOOL_CALLS]{}", NULL},
      {"[TOOL_[TOOL_CALL] a[0]", NULL},
      {"[[TOOL_CALLS]f[ARGS]{}", "[{f|{}}"}};
  static const answer_sample cuts[] = {{"a [TOOL_CA", "a "},
                                       {"a [TOOL_CALLS]f[AR", "a "},
                                       {"[TOOL_CALLS]f[ARGS]{\"a\": \"b", "{f|{\"a\": \"b!"},
                                       {"[TOOL_CALLS]f[ARGS]{}[TOOL", "{f|{}}"}};
  check(YK_TOOLS_MISTRAL, rows, N_ROWS(rows));
  check_cut(YK_TOOLS_MISTRAL, cuts, N_ROWS(cuts));
}

#define DS_CALLS(calls) "<｜tool▁calls▁begin｜>" calls "<｜tool▁calls▁end｜>"
#define DS_V3(name, arguments)                                                                                         \
  "<｜tool▁call▁begin｜>function<｜tool▁sep｜>" name "\n```json\n" arguments "\n```<｜tool▁call▁end｜>"
#define DS_V31(name, arguments) "<｜tool▁call▁begin｜>" name "<｜tool▁sep｜>" arguments "<｜tool▁call▁end｜>"

static void deepseek(void **state)
{
  (void)state;
  static const answer_sample v3[] = {
      {DS_CALLS(DS_V3("f", "{\"a\": \"é\"}")), "{f|{\"a\": \"é\"}}"},
      {"so: " DS_CALLS(DS_V3("f", "{}") "\n" DS_V3("g", "{}")) " end", "so: {f|{}}{g|{}} end"},
      {DS_CALLS("<｜tool▁call▁begin｜>function<｜tool▁sep｜>f {}<｜tool▁call▁end｜>"), NULL}};
  static const answer_sample v31[] = {
      {DS_CALLS(DS_V31("f", "{\"a\": [1]}")), "{f|{\"a\": [1]}}"},
      {DS_CALLS(DS_V31("f", "{}") DS_V31("g", "{\"x\": null}")), "{f|{}}{g|{\"x\": null}}"},
      {DS_V31("f", "{}") "\n\nok", "{f|{}}\n\nok"},
      {DS_CALLS(DS_V31("f", "{\"a\": oops}")), "{f|{\"a\": oops}!"},
      {DS_CALLS(""), NULL},
      {DS_CALLS(DS_V31("", "{}")), NULL},
      {DS_CALLS(DS_V31("f", "none")), NULL},
      {"<｜tool▁ <｜x｜>｜", NULL}};
  static const answer_sample cuts[] = {{"a<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool", "a"},
                                       {"<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": ", "{f|{\"a\": !"},
                                       {DS_V31("f", "{}") "<｜tool", "{f|{}}"}};
  check(YK_TOOLS_DEEPSEEK_V3, v3, N_ROWS(v3));
  check(YK_TOOLS_DEEPSEEK_V31, v31, N_ROWS(v31));
  check_cut(YK_TOOLS_DEEPSEEK_V31, cuts, N_ROWS(cuts));
}

#define KIMI(calls)              "<|tool_calls_section_begin|>" calls "<|tool_calls_section_end|>"
#define KIMI_CALL(id, arguments) "<|tool_call_begin|>" id "<|tool_call_argument_begin|>" arguments "<|tool_call_end|>"

static void kimi_k2(void **state)
{
  (void)state;
  static const answer_sample rows[] = {
      {KIMI(KIMI_CALL("functions.f:0", "{\"a\": 1}")), "{functions.f:0:f|{\"a\": 1}}"},
      {"x\n" KIMI(KIMI_CALL(" functions.a.b:12 ", " {}") KIMI_CALL("g", "{}")), "x\n{functions.a.b:12:a.b|{}}{g|{}}"},
      {KIMI(KIMI_CALL("functions.f:0", "[]")), NULL},
      {KIMI("") " none", NULL},
      {KIMI(KIMI_CALL("functions.f:0", "{\"a\": <}")) ".", "{functions.f:0:f|{\"a\": <}!."}};
  check(YK_TOOLS_KIMI_K2, rows, N_ROWS(rows));
}

#define GEMMA(call) "<|tool_call>" call "<tool_call|>"
#define Q           "<|\"|>"

static void gemma(void **state)
{
  (void)state;
  static const answer_sample rows[] = {
      {GEMMA("call:f{}"), "{f|{}}"},
      {GEMMA("call:f{a:" Q "x \"<|y" Q ",b:-1.5,c:true,d:null}"),
       "{f|{\"a\": \"x \\\"<|y\", \"b\": -1.5, \"c\": true, \"d\": null}}"},
      {"a " GEMMA("call:f{a:{b:[1," Q "é\n" Q ",{}]}}") GEMMA("call:g.h{}") "z",
       "a {f|{\"a\": {\"b\": [1, \"é\\n\", {}]}}}{g.h|{}}z"},
      {GEMMA("call:f{a:Paris,\"b\":\"q\\\"\"}"), "{f|{\"a\": \"Paris\", \"b\": \"q\\\"\"}}"},
      {GEMMA("call:f{a:}"), "{f|{\"a\": }!"},
      {GEMMA("f{}"), NULL},
      {GEMMA("call:{}"), NULL},
      {GEMMA(""), NULL}};
  static const answer_sample functions[] = {
      {"<start_function_call>call:f{a:<escape>b<c<escape>,n:2}<end_function_call>", "{f|{\"a\": \"b<c\", \"n\": 2}}"}};
  static const answer_sample cuts[] = {{"<|tool_call>call:f{a:" Q "x<|", "{f|{\"a\": \"x!"},
                                       {"a<|tool_call>call", "a"}};
  check(YK_TOOLS_GEMMA4, rows, N_ROWS(rows));
  check(YK_TOOLS_FUNCTIONGEMMA, functions, N_ROWS(functions));
  check_cut(YK_TOOLS_GEMMA4, cuts, N_ROWS(cuts));
}

static void granite(void **state)
{
  (void)state;
  static const answer_sample rows[] = {
      {"<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]",
       "{f|{\"a\": 1}}{g|{}}"},
      {"<tool_call> [ {\"name\": \"f\"} ] x", "{f|{}} x"},
      {"<|tool_call|>{\"name\": \"f\", \"arguments\": {}}", "{f|{}}"},
      {"<|tool_call|>[]", NULL},
      {"<|tool_call|>[[", NULL},
      {"<|tool_call|>[{\"name\": 1}]", NULL}};
  check(YK_TOOLS_GRANITE, rows, N_ROWS(rows));
}

static void phi4_mini(void **state)
{
  (void)state;
  static const answer_sample rows[] = {
      {"<|tool_call|>[{\"name\": \"f\", \"arguments\": {\"a\": [1]}}, {\"name\": \"g\", \"arguments\": {}}]"
       "<|/tool_call|>",
       "{f|{\"a\": [1]}}{g|{}}"},
      {"Ok. functools[{\"name\": \"f\", \"arguments\": {\"l\": [\"a\", \"b\"]}}]", "Ok. {f|{\"l\": [\"a\", \"b\"]}}"},
      {"<|tool_calls|>[{\"name\": \"f\"}]<|/tool_calls|>.", "{f|{}}."},
      {"import functools\nfunctools[x] func <|tool", NULL},
      {"functools[]", NULL},
      {"<|tool_call|>[{\"name\": 1}]<|/tool_call|>", NULL}};
  static const answer_sample cuts[] = {{"a functo", "a "},
                                       {"functools[{\"name\": \"f\", \"arguments\": {\"a\"", "{f|{\"a\"!"}};
  check(YK_TOOLS_PHI4_MINI, rows, N_ROWS(rows));
  check_cut(YK_TOOLS_PHI4_MINI, cuts, N_ROWS(cuts));
}

static void glm4(void **state)
{
  (void)state;
  static const answer_sample rows[] = {{"get_weather\n{\"city\": \"北京\"}", "{get_weather|{\"city\": \"北京\"}}"},
                                       {"f \n{}\ng.h-1\n{\"a\": {}}\n", "{f|{}}{g.h-1|{\"a\": {}}}"},
                                       {"f\n{} and so\n{}", "{f|{}} and so\n{}"},
                                       {"f\n{}\ng", "{f|{}}\ng"},
                                       {"f\n{\"a\": oops}", "{f|{\"a\": oops}!"},
                                       {"f\n{\"a\"", "{f|{\"a\"!"},
                                       {"\nf\n{}", NULL},
                                       {"Yes\n\n{}", NULL},
                                       {"two words\n{}", NULL},
                                       {"f\n", NULL},
                                       {"f", NULL},
                                       {" f\n{}", NULL},
                                       {"\nThe weather is fine.", NULL},
                                       {"", NULL}};
  static const answer_sample cuts[] = {{"f\n{\"a\": 1", "{f|{\"a\": 1!"}, {"Well", NULL}};
  check(YK_TOOLS_GLM4, rows, N_ROWS(rows));
  check_cut(YK_TOOLS_GLM4, cuts, N_ROWS(cuts));
  answer_check(&(answer_way){.tools = YK_TOOLS_GLM4, .reasoning = yk_reasoning_find("glm45"), .end = stop},
               "<think>\na\n</think>\nf\n{}", "«a»{f|{}}");
}

static void hunyuan_a13b(void **state)
{
  (void)state;
  static const answer_sample rows[] = {
      {"Hi <tool_calls>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", "
       "\"arguments\": {}}]</tool_calls>",
       "Hi {f|{\"a\": 1}}{g|{}}"},
      {"<tool_calls>\n[ {\"name\": \"f\"} ]\n</tool_calls>", "{f|{}}"},
      {"<tool_calls>[]</tool_calls>", NULL},
      {"<tool_calls>[{\"name\": 1}]</tool_calls>", NULL}};
  check(YK_TOOLS_HUNYUAN_A13B, rows, N_ROWS(rows));
}

static void nemotron_json(void **state)
{
  (void)state;
  static const answer_sample rows[] = {
      {"Hi <TOOLCALL>[{\"name\": \"f\", \"arguments\": {\"a\": 1}}, {\"name\": \"g\", \"arguments\": {}}]</TOOLCALL>",
       "Hi {f|{\"a\": 1}}{g|{}}"},
      {"<TOOLCALL>{\"name\": \"f\"}</TOOLCALL>\n", "{f|{}}"},
      {"<TOOLCALL>[]</TOOLCALL>", NULL},
      {"<TOOLCALL>[\"f\"]</TOOLCALL>", NULL}};
  check(YK_TOOLS_NEMOTRON_JSON, rows, N_ROWS(rows));
}

/* ---- Values in tags ---------------------------------------------------------------------------------------------- */

#define QWEN(inside)      "<tool_call>\n<function=f>\n" inside "</function>\n</tool_call>"
#define PARAM(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"

static void qwen3_coder(void **state)
{
  (void)state;
  yk_tool_schemas *schemas = schemas_of(
      "{'s': {'type': 'string'}, 'i': {'type': 'integer'}, 'b': {'type': 'boolean'}, 'o': {'type': "
      "'object'}, 'l': {'type': ['array', 'null']}, 'u': {'anyOf': [{'type': 'number'}, {'type': 'string'}]}"
      ", 'e': {'enum': [1, 'a']}, 'r': {'$ref': '#/$defs/r'}, 'p': {'$ref': '#/properties/i'}, 'v': {'type': "
      "['integer', 'string', 'array']}, 'm': {'minItems': 1}}");
  static const answer_sample rows[] = {
      {"Now. " QWEN(PARAM("s", "a \"b\"\n <c> é")), "Now. {f|{\"s\": \"a \\\"b\\\"\\n <c> é\"}}"},
      {QWEN(""), "{f|{}}"},
      {QWEN(PARAM("i", "12") PARAM("b", "True")), "{f|{\"i\": 12, \"b\": true}}"},
      {QWEN(PARAM("o", "{'a': [1, None]}") PARAM("l", "null")), "{f|{\"o\": {\"a\": [1, null]}, \"l\": null}}"},
      {QWEN(PARAM("u", "5") PARAM("e", "a") PARAM("r", "[\"x\"]")), "{f|{\"u\": 5, \"e\": \"a\", \"r\": [\"x\"]}}"},
      {QWEN(PARAM("s", "null") PARAM("i", "twelve") PARAM("o", "{x}")),
       "{f|{\"s\": \"null\", \"i\": \"twelve\", \"o\": \"{x}\"}}"},
      {QWEN(PARAM("p", "7") PARAM("v", "7") PARAM("v", "7.5") PARAM("m", "[7]")),
       "{f|{\"p\": 7, \"v\": 7, \"v\": \"7.5\", \"m\": [7]}}"},
      {QWEN(PARAM("o", " {\"a\": \"</parameter>\\\"</function>\", \"b\": [\"<parameter=i>\"]} ") PARAM("i", "1")),
       "{f|{\"o\": {\"a\": \"</parameter>\\\"</function>\", \"b\": [\"<parameter=i>\"]}, \"i\": 1}}"},
      {QWEN(PARAM("o", "{\"a") PARAM("o", "{\"a\": 1}") PARAM("v", "[x") PARAM("o", "{\"</parameter>")),
       "{f|{\"o\": \"{\\\"a\", \"o\": {\"a\": 1}, \"v\": \"[x\", \"o\": \"{\\\"\"}}"},
      {QWEN("<parameter=o>{\"a</parameter>"), "{f|{\"o\": \"{\\\"a\"}}"},
      {QWEN(PARAM("other", "5")), "{f|{\"other\": \"5\"}}"},
      {QWEN("<parameter=s>a</parameter><parameter=s>\n\nb\n\n</parameter>"), "{f|{\"s\": \"a\", \"s\": \"\\nb\\n\"}}"},
      {"<tool_call><function=g><parameter=s>1</parameter></function></tool_call>\n" QWEN(""),
       "{g|{\"s\": \"1\"}}{f|{}}"},
      {"<function=f><parameter=s>1</parameter></function> x", "{f|{\"s\": \"1\"}} x"},
      {"<function=f><parameter=s>\n1\n<parameter=i>\n2\n</function>", "{f|{\"s\": \"1\", \"i\": 2}}"},
      {QWEN("junk <x> " PARAM("s", "</param></parameter")), NULL},
      {QWEN(PARAM("s", "</param></parameter") "junk <x> " PARAM("i", "1")),
       "{f|{\"s\": \"</param></parameter\", \"i\": 1}}"},
      {"<function=f><parameter=s>a <</parameter></function>", "{f|{\"s\": \"a <\"}}"},
      {"<tool_call>\n<function=f>\n<parameter=s>\nend", "{f|{\"s\": \"end\"}}"},
      {"<tool_call>{\"name\": \"f\"}</tool_call>", NULL},
      {"<tool_call>\n<function=a b>\n</function>", NULL},
      {"<function=", NULL},
      {"a <func <tool_call <<", NULL}};
  static const answer_sample cuts[] = {{"a<tool_call>\n<function=f>\n<parameter=s>\nend\n</par", "a{f|{\"s\": \"end!"},
                                       {"<tool_call>\n<function=f>\n<parameter=i>\n12", "{f|{\"i\": !"},
                                       {"<function=f><parameter=o>{\"a</parameter>", "{f|{\"o\": \"{\\\"a\"!"},
                                       {"<function=f><parameter=o>{\"a\": 1", "{f|{\"o\": !"},
                                       {"a <tool_call>\n<function=f", "a "},
                                       {"a <function=f>\n", "a "}};
  answer_check_samples(&(answer_way){.tools = YK_TOOLS_QWEN3_CODER, .schemas = schemas, .end = stop}, rows,
                       N_ROWS(rows));
  answer_check_samples(&(answer_way){.tools = YK_TOOLS_QWEN3_CODER, .schemas = schemas, .end = cut}, cuts,
                       N_ROWS(cuts));
  answer_check(&(answer_way){.tools = YK_TOOLS_QWEN3_CODER, .only_first = true, .end = stop},
               QWEN("") "\n" QWEN("") " z", "{f|{}} z");
  yk_tool_schemas_free(schemas);
}

static void seed_oss(void **state)
{
  (void)state;
  yk_tool_schemas *schemas = schemas_of("{'i': {'type': 'integer'}}");
  static const answer_sample rows[] = {
      {"<seed:tool_call>\n<function=f>\n" PARAM("i", "12") PARAM("s", "a") "</function>\n</seed:tool_call>",
       "{f|{\"i\": 12, \"s\": \"a\"}}"},
      {"a <seed:tool_call><function=f></function>\n<function=g></function></seed:tool_call>", "a {f|{}}{g|{}}"},
      {QWEN(PARAM("i", "1")), NULL},
      {"<seed:tool_call>", NULL}};
  answer_check_samples(&(answer_way){.tools = YK_TOOLS_SEED_OSS, .schemas = schemas, .end = stop}, rows, N_ROWS(rows));
  yk_tool_schemas_free(schemas);
}

#define ANALYSIS(text)   "<|channel|>analysis<|message|>" text "<|end|>"
#define NEXT             "<|start|>assistant"
#define FINAL(text)      "<|channel|>final<|message|>" text
#define CALL(name, text) "<|channel|>commentary to=" name " <|constrain|>json<|message|>" text "<|call|>"

static void openai(void **state)
{
  (void)state;
  static const answer_sample rows[] = {
      {ANALYSIS("Let < me.") NEXT FINAL("Hi <b>!"), "«Let < me.»Hi <b>!"},
      {ANALYSIS("a") NEXT FINAL("b<|return|>"), "«a»b"},
      {FINAL("b"), "b"},
      {"<|message|>b", "b"},
      {ANALYSIS("a") NEXT CALL("functions.f", "{\"a\": 1}"), "«a»{f|{\"a\": 1}}"},
      {ANALYSIS("a") NEXT " to=functions.f<|channel|>commentary json<|message|>{}", "«a»{f|{}}"},
      {" to=functions.f<|channel|>commentary<|message|> ", "{f| {}}"},
      {CALL("functions.f", "{}") NEXT CALL("browser.open", "{\"x\": []}"), "{f|{}}{browser.open|{\"x\": []}}"},
      {CALL("functions.f", "{\"a\": oops}"), "{f|{\"a\": oops}!"},
      {"<|channel|>commentary<|message|>I look.<|end|>" NEXT CALL("functions.f", "{}"), "I look.{f|{}}"},
      {"<|channel|>commentary<|message|>One.<|end|>" NEXT FINAL("Two."), "One.\nTwo."},
      {ANALYSIS("a") NEXT ANALYSIS("b") NEXT FINAL("c"), "«a\nb»c"},
      {"<|channel|>analysis<|message|>a<|channel|>final<|message|>b", "«a»b"},
      {FINAL("a <|en <|end"), "a <|en <|end"},
      {"plain <|channel|>final<|message|>", NULL},
      {"<|channel|>thoughts<|message|>a<|end|>", NULL},
      {ANALYSIS("a") "<|start|>user<|message|>b", "«a»<|start|>user<|message|>b"},
      {"<|channel|>analysis", NULL},
      {"{\"a\": 1}", NULL}};
  static const answer_sample cuts[] = {{ANALYSIS("a") NEXT FINAL("b <|e"), "«a»b "},
                                       {"<|channel|>analysis<|message|>a", "«a»"},
                                       {"<|channel|>fin", ""},
                                       {"<|channel|>commentary to=functions.f<|message|>{\"a\"", "{f|{\"a\"!"}};
  static const char *const specials[] = {"<|channel|>", "<|message|>", "<|start|>", "<|end|>", "<|call|>", NULL};
  const yk_reasoning *reasoning = yk_reasoning_find("openai_gptoss");
  answer_way way = {.tools = YK_TOOLS_OPENAI, .reasoning = reasoning, .end = stop};
  answer_check_samples(&way, rows, N_ROWS(rows));
  way.end = cut;
  answer_check_samples(&way, cuts, N_ROWS(cuts));
  way = (answer_way){.tools = YK_TOOLS_OPENAI, .reasoning = reasoning, .only_first = true, .end = stop};
  answer_check(&way, CALL("functions.f", "{}") NEXT CALL("functions.g", "{}"), "{f|{}}");
  way = (answer_way){.reasoning = reasoning, .end = stop}; /* no tools: a call is content */
  answer_check(&way, ANALYSIS("a") NEXT CALL("functions.f", "{}"), "«a»{}");
  way = (answer_way){.tools = YK_TOOLS_OPENAI, .end = stop}; /* reasoning is content */
  answer_check(&way, ANALYSIS("a") NEXT FINAL("b"), "a\nb");
  way = (answer_way){
      .tools = YK_TOOLS_OPENAI, .reasoning = reasoning, .specials = specials, .hides_special = true, .end = stop};
  answer_check(&way, ANALYSIS("a") NEXT "<|channel|>x<|message|>b", "«a»assistantxb");
  way = (answer_way){.tools = YK_TOOLS_HERMES, .reasoning = reasoning, .end = stop}; /* an enforced call */
  answer_check(&way, "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>", "{f|{}}");
}

static void minimax_m2(void **state)
{
  (void)state;
  yk_tool_schemas *schemas = schemas_of("{'n': {'type': 'number'}}");
  static const answer_sample rows[] = {
      {"<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"s\">a\nb</parameter>\n<parameter name=\"n\">-2.5"
       "</parameter>\n</invoke>\n<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>",
       "{f|{\"s\": \"a\\nb\", \"n\": -2.5}}{g|{}}"},
      {"<minimax:tool_call><invoke name=f><parameter name=\"s\">\na\n</parameter></invoke></minimax:tool_call>\n!",
       "{f|{\"s\": \"a\"}}\n!"},
      {"<minimax:tool_call><invoke name=\"f\"><parameter name=\"s\">a\n</parameter></invoke></minimax:tool_call>",
       "{f|{\"s\": \"a\\n\"}}"},
      {"<minimax:tool_call>no</minimax:tool_call>", NULL},
      {"<invoke name=\"f\"></invoke>", NULL}};
  answer_check_samples(&(answer_way){.tools = YK_TOOLS_MINIMAX_M2, .schemas = schemas, .end = stop}, rows,
                       N_ROWS(rows));
  yk_tool_schemas_free(schemas);
}

#define DSML(calls)              "<｜DSML｜function_calls>\n" calls "</｜DSML｜function_calls>"
#define INVOKE(name, parameters) "<｜DSML｜invoke name=\"" name "\">\n" parameters "</｜DSML｜invoke>\n"
#define DSML_PARAM(key, mark, value)                                                                                   \
  "<｜DSML｜parameter name=\"" key "\" string=\"" mark "\">" value "</｜DSML｜parameter>\n"

/* The mark decides over the schema's type only for strings. */
static void deepseek_v32(void **state)
{
  (void)state;
  yk_tool_schemas *schemas = schemas_of("{'s': {'type': 'string'}, 'i': {'type': 'integer'}, 'o': {'type': 'object'}}");
  static const answer_sample rows[] = {
      {"Now.\n\n" DSML(INVOKE("f", DSML_PARAM("s", "true", "\n杭 \"州\"\n") DSML_PARAM("i", "false", "12"))
                           INVOKE("g", "\n")),
       "Now.\n\n{f|{\"s\": \"\\n杭 \\\"州\\\"\\n\", \"i\": 12}}{g|{}}"},
      {DSML(INVOKE("f", DSML_PARAM("i", "true", "12") DSML_PARAM("s", "false", "12"))),
       "{f|{\"i\": \"12\", \"s\": \"12\"}}"},
      {DSML(INVOKE("g", DSML_PARAM("x", "false", "[1, \"</｜DSML｜parameter>\"]") DSML_PARAM("y", "false", "null"))),
       "{g|{\"x\": [1, \"</｜DSML｜parameter>\"], \"y\": null}}"},
      {DSML(INVOKE("f", DSML_PARAM("o", "false", "{\"a\": <｜DSML｜}"))), "{f|{\"o\": \"{\\\"a\\\": <｜DSML｜}\"}}"},
      {DSML(INVOKE("f", "<｜DSML｜parameter name=\"i\">7</｜DSML｜parameter>\n"
                        "<｜DSML｜parameter name=\"z\" string=\"maybe\">7</｜DSML｜parameter>")) " ok",
       "{f|{\"i\": 7, \"z\\\" string=\\\"maybe\": \"7\"}} ok"},
      {DSML(""), NULL},
      {DSML("text"), NULL},
      {INVOKE("f", ""), NULL},
      {"<｜DSML｜ <｜ <", NULL}};
  static const answer_sample cuts[] = {
      {"a<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f", "a"},
      {"<｜DSML｜function_calls><｜DSML｜invoke name=\"f\"><｜DSML｜parameter name=\"s\" "
       "string=\"true\">b\n</｜DSML｜par",
       "{f|{\"s\": \"b\\n!"}};
  answer_check_samples(&(answer_way){.tools = YK_TOOLS_DEEPSEEK_V32, .schemas = schemas, .end = stop}, rows,
                       N_ROWS(rows));
  answer_check_samples(&(answer_way){.tools = YK_TOOLS_DEEPSEEK_V32, .schemas = schemas, .end = cut}, cuts,
                       N_ROWS(cuts));
  yk_tool_schemas_free(schemas);
}

static void glm45(void **state)
{
  (void)state;
  yk_tool_schemas *schemas = schemas_of("{'s': {'type': 'string'}, 'n': {'type': 'integer'}}");
  static const answer_sample rows[] = {
      {"<tool_call>f\n<arg_key>s</arg_key>\n<arg_value>1 </arg_value>\n<arg_key>n</arg_key>\n<arg_value>2</arg_value>\n"
       "</tool_call>",
       "{f|{\"s\": \"1 \", \"n\": 2}}"},
      {"Ok\n<tool_call>f<arg_key>x</arg_key><arg_value>[1, {\"a\": 2}]</arg_value></tool_call><tool_call>g</tool_call>",
       "Ok\n{f|{\"x\": [1, {\"a\": 2}]}}{g|{}}"},
      {"<tool_call>f<arg_key>x</arg_key><arg_value>\"a\"</arg_value><arg_key>y</arg_key><arg_value>b</arg_value>"
       "</tool_call>",
       "{f|{\"x\": \"a\", \"y\": \"b\"}}"},
      {"<tool_call>g\n</tool_call>", "{g|{}}"},
      {"<tool_call>f<arg_key>x</arg_key></tool_call>.", "{f|{}}."},
      {"<tool_call></tool_call>", NULL},
      {"<tool_call>some words</tool_call>", NULL},
      {"<tool_call>f<other>", NULL}};
  static const answer_sample cuts[] = {{"<tool_call>f<arg_key>s</arg_key><arg_value>ab</arg_v", "{f|{\"s\": \"ab!"},
                                       {"a<tool_call>f<arg", "a"}};
  answer_check_samples(&(answer_way){.tools = YK_TOOLS_GLM45, .schemas = schemas, .end = stop}, rows, N_ROWS(rows));
  answer_check_samples(&(answer_way){.tools = YK_TOOLS_GLM45, .schemas = schemas, .end = cut}, cuts, N_ROWS(cuts));
  yk_tool_schemas_free(schemas);
}

/* ---- Python ------------------------------------------------------------------------------------------------------ */

static void pythonic(void **state)
{
  (void)state;
  static const answer_sample rows[] = {
      {"[f()]", "{f|{}}"},
      {"[f(a=1, b='x\\'y', c=[1, (2, 3), {'k': True, 5: None}])]",
       "{f|{\"a\": 1, \"b\": \"x'y\", \"c\": [1, [2, 3], {\"k\": true, \"5\": null}]}}"},
      {" [f(a=-1.5e3), g_2( b = \"\" ,)]\n", "{f|{\"a\": -1.5e3}}{g_2|{\"b\": \"\"}}"},
      {"<|python_start|>[a.b(s=\"é\\n\\x41\\u00e9\\U0001F600\\q\")]<|python_end|>",
       "{a.b|{\"s\": \"é\\n\\u0041\\u00e9\\ud83d\\ude00\\\\q\"}}"},
      {"[f(s='''a'b\"\n''', t=\"\"\"\"\"\")]", "{f|{\"s\": \"a'b\\\"\\n\", \"t\": \"\"}}"},
      {"[f(a=1)] and", "{f|{\"a\": 1}} and"},
      {"[f(a=1), then]", "{f|{\"a\": 1}}, then]"},
      {"[f(a=oops)]", "{f|{\"a\": )]!"},
      {"[f(1)]", NULL},
      {"[f(a)]", NULL},
      {"[1, 2]", NULL},
      {"[link](http)", NULL},
      {"text [f()]", NULL},
      {"<|python_start|>x", NULL},
      {"[f", NULL},
      {"", NULL}};
  static const answer_sample cuts[] = {{"[f(a=\"b", "{f|{\"a\": \"b!"}, {"[f(a", "[f(a"}, {"<|python", ""}};
  check(YK_TOOLS_PYTHONIC, rows, N_ROWS(rows));
  check_cut(YK_TOOLS_PYTHONIC, cuts, N_ROWS(cuts));
}

static void olmo3(void **state)
{
  (void)state;
  static const answer_sample rows[] = {
      {"<function_calls>f(a=\"x\", b=1)\ng(c=null, d=True)\n</function_calls>",
       "{f|{\"a\": \"x\", \"b\": 1}}{g|{\"c\": null, \"d\": true}}"},
      {"Well.\n<function_calls>\n f()\n\n g() \n</function_calls>\n", "Well.\n{f|{}}{g|{}}"},
      {"<function_calls>f(a=['</function_calls>'])</function_calls> \n<function_calls>g()</function_calls> end",
       "{f|{\"a\": [\"</function_calls>\"]}}{g|{}} end"},
      {"<function_calls>f(a=1)\n1</function_calls>", "{f|{\"a\": 1}}\n1</function_calls>"},
      {"<function_calls>f(a=1)\ng h", "{f|{\"a\": 1}}\ng h"},
      {"<function_calls>f(a={oops)</function_calls>.", "{f|{\"a\": {\"oops\")!."},
      {"<function_calls>f(a={oops)</function_c", "{f|{\"a\": {\"oops\")</function_c!"},
      {"<function_calls>f(1)</function_calls>", NULL},
      {"<function_calls></function_calls>", NULL},
      {"f(a=1)\n<function", NULL}};
  static const answer_sample cuts[] = {{"a <function_calls>f", "a "},
                                       {"a <function_c", "a "},
                                       {"<function_calls>f(a=\"b", "{f|{\"a\": \"b!"},
                                       {"<function_calls>f()\n</func", "{f|{}}"}};
  check(YK_TOOLS_OLMO3, rows, N_ROWS(rows));
  check_cut(YK_TOOLS_OLMO3, cuts, N_ROWS(cuts));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mistral),       cmocka_unit_test(deepseek),     cmocka_unit_test(kimi_k2),
      cmocka_unit_test(gemma),         cmocka_unit_test(granite),      cmocka_unit_test(hunyuan_a13b),
      cmocka_unit_test(nemotron_json), cmocka_unit_test(phi4_mini),    cmocka_unit_test(glm4),
      cmocka_unit_test(qwen3_coder),   cmocka_unit_test(openai),       cmocka_unit_test(seed_oss),
      cmocka_unit_test(minimax_m2),    cmocka_unit_test(deepseek_v32), cmocka_unit_test(glm45),
      cmocka_unit_test(pythonic),      cmocka_unit_test(olmo3)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
