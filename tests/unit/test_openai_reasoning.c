/* Reasoning in every form, alone and with calls, the same however the text is split; the forms of templates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "each_case.h"
#include "unit/answer_cases.h"

#define N_ROWS(rows) (sizeof(rows) / sizeof(rows)[0])

static const yk_output stop = {.finish = YK_FINISH_STOP, .text = ""}, cut = {.finish = YK_FINISH_LENGTH, .text = ""};

#define KIMI(calls)              "<|tool_calls_section_begin|>" calls "<|tool_calls_section_end|>"
#define KIMI_CALL(id, arguments) "<|tool_call_begin|>" id "<|tool_call_argument_begin|>" arguments "<|tool_call_end|>"

/* ---- Reasoning --------------------------------------------------------------------------------------------------- */

static void reasoning(void **state)
{
  (void)state;
  const answer_way outside = {.reasoning = yk_reasoning_find("qwen3"), .end = stop};
  answer_way inside = outside, cut_inside = outside, cut_outside = outside;
  static const answer_sample beginning[] = {{"<think>\na b\n c\n</think>\n\nd e\n", "«a b\n c»d e\n"},
                                            {"\n <think>a</think>b", "«a»b"},
                                            {"<think>\n\n</think>\n\nb", "b"},
                                            {"<think>a </thin> < /think>", "«a </thin> < /think>»"},
                                            {"<think>a\n</th", "«a\n</th»"},
                                            {" a<think>b</think>", NULL},
                                            {"<thinking>", NULL},
                                            {"a</think>b", NULL},
                                            {" \n", NULL},
                                            {"<thi", NULL}};
  static const answer_sample opened[] = {{"a\n</think>\n\nb</think>", "«a»b</think>"},
                                         {"\n<think>a", "«<think>a»"},
                                         {"</think>a", "a"},
                                         {"a <<</think>b", "«a <<»b"},
                                         {"é\n\n«", "«é\n\n«»"}};
  static const answer_sample opened_cut[] = {{"a\n</thi", "«a»"}, {"a \n", "«a»"}};
  inside.begins_inside = cut_inside.begins_inside = true;
  cut_inside.end = cut_outside.end = cut;
  answer_check_samples(&outside, beginning, N_ROWS(beginning));
  answer_check_samples(&inside, opened, N_ROWS(opened));
  answer_check_samples(&cut_inside, opened_cut, N_ROWS(opened_cut));
  answer_check(&cut_outside, "<thi", "");
}

/* Tags around the answer are dropped with the white space inside and outside. */
static void reasoning_and_answer(void **state)
{
  (void)state;
  static const answer_sample hunyuan[] = {
      {"<think>\na b\n</think>\n<answer>\nc\n d\n</answer>", "«a b»c\n d"},
      {"<answer>\nc\n</answer>\n", "c"},
      {"<think>\n\n</think>\n<answer>\nc < /answer>\n</answer>e", "c < /answer>e"},
      {"<think>a</think>c</answer>", "«a»c</answer>"},
      {"<think>a</think>\n<answer>c\n</ans", "«a»c\n</ans"},
      {"<think>a</think>\n<answers>c", "«a»<answers>c"},
      {"<think>a</think><answer>\nHi <tool_calls>[{\"name\": \"f\"}]</tool_calls>\n</answer>", "«a»Hi {f|{}}"},
      {"a<answer>b</answer>", NULL},
      {"<answer", NULL}};
  static const answer_sample ernie[] = {
      {"a\n</think>\n\n\n<response>\nb\n</response>\n\n\n<tool_call>\n{\"name\": \"f\"}\n</tool_call>\n", "«a»b{f|{}}"},
      {"</think>\n<response>\nb", "b"}};
  static const answer_sample apriel[] = {
      {"Here are my reasoning steps:\n[a]\n[BEGIN FINAL RESPONSE]\nb [END]\n[END FINAL RESPONSE]\n", "«[a]»b [END]"},
      {"Here are my reasoning steps:\na\n\n<tool_calls>[{\"name\": \"f\"}]</tool_calls>", "«a»{f|{}}"},
      {"Here are my reasoning steps:a[BEGIN FINAL RESPONSE]\n<tool_calls>[{\"name\": \"f\"}]</tool_calls>\n"
       "[END FINAL RESPONSE]",
       "«a»{f|{}}"},
      {"\n[BEGIN FINAL RESPONSE]b", "b"},
      {"Here is b [BEGIN FINAL RESPONSE]", NULL}};
  static const answer_sample cuts[] = {{"<think>a</think><answer>b\n</ans", "«a»b"},
                                       {"<think>a</think><answer>b \n", "«a»b \n"},
                                       {"<think>a</think><ans", "«a»"}};
  answer_way way = {.tools = YK_TOOLS_HUNYUAN_A13B, .reasoning = yk_reasoning_find("hunyuan_a13b"), .end = stop};
  answer_check_samples(&way, hunyuan, N_ROWS(hunyuan));
  way.end = cut;
  answer_check_samples(&way, cuts, N_ROWS(cuts));
  way = (answer_way){.tools = YK_TOOLS_HUNYUAN_A13B, .reasoning = yk_reasoning_find("apriel"), .end = stop};
  answer_check_samples(&way, apriel, N_ROWS(apriel));
  way.begins_inside = true;
  answer_check(&way, "a\n[BEGIN FINAL RESPONSE]\nb\n[END FINAL RESPONSE]\n", "«a»b");
  way = (answer_way){
      .tools = YK_TOOLS_HERMES, .reasoning = yk_reasoning_find("ernie45"), .begins_inside = true, .end = stop};
  answer_check_samples(&way, ernie, N_ROWS(ernie));
}

/* The text is content, byte for byte, after the open tag of the prompt; calls are found after the reasoning. */
static void reasoning_as_content(void **state)
{
  (void)state;
  static const char *const specials[] = {"<think>", "</think>", "<|x|>", NULL};
  answer_way way = {.reasoning = yk_reasoning_find("minimax_m2_append_think"), .end = stop};
  static const answer_sample outside[] = {
      {"\n<think> a\n</think>\n\nb", NULL}, {"a</think>", NULL}, {"<thin", NULL}, {"<think></thi", NULL}};
  static const answer_sample inside[] = {{" a\n</think>\n\nb</think>", "<think> a\n</think>\n\nb</think>"},
                                         {"a <</</think>b", "<think>a <</</think>b"},
                                         {"", "<think>"}};
  answer_check_samples(&way, outside, N_ROWS(outside));
  way.begins_inside = true;
  answer_check_samples(&way, inside, N_ROWS(inside));
  way.tools = YK_TOOLS_HERMES;
  answer_check(&way, "<tool_call>{\"name\": \"f\"}</tool_call></think><tool_call>{\"name\": \"f\"}</tool_call>",
               "<think><tool_call>{\"name\": \"f\"}</tool_call></think>{f|{}}");
  way = (answer_way){.reasoning = way.reasoning, .specials = specials, .hides_special = true, .end = stop};
  answer_check(&way, "<think>a<|x|></think>b<|x|>", "<think>a</think>b");
  way.end = cut;
  answer_check(&way, "<think>a</thi", "<think>a");
}

/* Calls are found after reasoning alone, except where a call ends the reasoning. */
static void reasoning_and_calls(void **state)
{
  (void)state;
  static const char *const specials[] = {"<tool_call>", "[THINK]", "[/THINK]", "<|x|>", NULL};
  static const char call[] = "<tool_call>{\"name\": \"f\"}</tool_call>";
  answer_way way = {.tools = YK_TOOLS_HERMES, .reasoning = yk_reasoning_find("qwen3"), .end = stop};
  yk_strbuf text = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&text, "<think>a %s</think>\n\n%s", call, call);
  answer_check(&way, text.data, "«a <tool_call>{\"name\": \"f\"}</tool_call>»{f|{}}");
  yk_strbuf_free(&text);
  way.tools = YK_TOOLS_KIMI_K2;
  way.reasoning = yk_reasoning_find("kimi_k2");
  answer_check(&way, "<think>a " KIMI(KIMI_CALL("f", "{}")) "b", "«a»{f|{}}b");
  way = (answer_way){.reasoning = yk_reasoning_find("mistral"), .specials = specials, .end = stop};
  answer_check(&way, "[THINK]a<|x|>[/THINK]b<|x|>", "«a<|x|>»b<|x|>");
  way.hides_special = true;
  answer_check(&way, "[THINK]a<|x|>[/THINK]b<|x|>", "«a»b");
}

static void reasoning_has_names(void **state)
{
  (void)state;
  char names[] = YK_REASONING_NAMES;
  for (char *name = strtok(names, ", "); name; name = strtok(NULL, ", ")) assert_non_null(yk_reasoning_find(name));
  assert_null(yk_reasoning_find("none"));
  const yk_reasoning *qwen3 = yk_reasoning_find("qwen3"), *r1 = yk_reasoning_find("deepseek_r1");
  assert_int_equal(yk_reasoning_beginning_of(qwen3, "assistant\n<think>\n", 18), YK_REASONING_OPENED);
  assert_int_equal(yk_reasoning_beginning_of(qwen3, "assistant\n", 10), YK_REASONING_UNDECIDED);
  assert_int_equal(yk_reasoning_beginning_of(qwen3, "<think>\n\n</think>\n\n", 19), YK_REASONING_ENDED);
  assert_int_equal(yk_reasoning_beginning_of(r1, "assistant\n", 10), YK_REASONING_UNDECIDED);
  assert_int_equal(yk_reasoning_beginning_of(r1, "</think>", 8), YK_REASONING_ENDED);
}

/* ---- Templates --------------------------------------------------------------------------------------------------- */

static void forms_of_templates(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    yk_tool_format tools;
    const char *reasoning;
  } rows[] = {{"{{ messages }}", YK_TOOLS_NONE, NULL},
              {"<tool_call>\n{\"name\": x, \"arguments\": y}</tool_call> </think>", YK_TOOLS_HERMES, "qwen3"},
              {"<tool_call>\n<function=x> <think>", YK_TOOLS_QWEN3_CODER, "qwen3"},
              {"<tool_call>{{ name }}<arg_key> <think></think>", YK_TOOLS_GLM45, "qwen3"},
              {"<minimax:tool_call><invoke name=", YK_TOOLS_MINIMAX_M2, NULL},
              {"<minimax:tool_call><invoke name= <response> <think>", YK_TOOLS_MINIMAX_M2, "qwen3"},
              {"<|start|>assistant<|channel|>analysis<|message|> <tool_call>", YK_TOOLS_OPENAI, "openai_gptoss"},
              {"<seed:tool_call>\n<function={{ f }}> <seed:think>", YK_TOOLS_SEED_OSS, "seed_oss"},
              {"<|tool_calls_section_begin|><|tool_call_begin|><think>", YK_TOOLS_KIMI_K2, "kimi_k2"},
              {"<｜tool▁calls▁begin｜>'<｜tool▁sep｜>' '```json'", YK_TOOLS_DEEPSEEK_V3, NULL},
              {"<｜tool▁calls▁begin｜>'<｜tool▁sep｜>'", YK_TOOLS_DEEPSEEK_V31, NULL},
              {"{%- set dsml = '｜DSML｜' %}<functions>'<' + dsml + 'function_calls>'", YK_TOOLS_DEEPSEEK_V32, NULL},
              {"<TOOLCALL>[{'arguments'}]</TOOLCALL><think>", YK_TOOLS_NEMOTRON_JSON, "qwen3"},
              {"<functions></functions> <function_calls>", YK_TOOLS_OLMO3, NULL},
              {"[TOOL_CALLS][THINK]", YK_TOOLS_MISTRAL, "mistral"},
              {"<|tool_call>call:<tool_call|><|channel>thought\n", YK_TOOLS_GEMMA4, "gemma4"},
              {"<start_function_call>call:", YK_TOOLS_FUNCTIONGEMMA, NULL},
              {"<|tool_call|>", YK_TOOLS_GRANITE, NULL},
              {"<tool_calls>[{\"name\": n, \"arguments\": a}]</tool_calls><think>", YK_TOOLS_HUNYUAN_A13B, "qwen3"},
              {"<tool_calls>[{'arguments'}] <think> content.split('<answer>')", YK_TOOLS_HUNYUAN_A13B, "hunyuan_a13b"},
              {"<tool_call>\n{\"arguments\": y}</tool_call> <think> <response>", YK_TOOLS_HERMES, "ernie45"},
              {"<tool_calls>[{'arguments'}] [BEGIN FINAL RESPONSE]", YK_TOOLS_HUNYUAN_A13B, "apriel"},
              {"'<tool_call>' '<invoke name=' arguments", YK_TOOLS_NONE, NULL},
              {"message['tools'] '<|tool|>' '<|/tool|>'", YK_TOOLS_PHI4_MINI, NULL},
              {"formatted as functools[{...}]", YK_TOOLS_PHI4_MINI, NULL},
              {"在调用上述函数时，请使用 Json 格式表示调用的参数。<|assistant|>", YK_TOOLS_GLM4, NULL},
              {"<|python_start|>", YK_TOOLS_PYTHONIC, NULL},
              {"Use exact format: [func_name1(a=b), func_name2(...)] '\"parameters\": '", YK_TOOLS_PYTHONIC, NULL},
              {"<|header_start|>{{- '{\"name\": ' }}{{- '\"parameters\": ' }}", YK_TOOLS_LLAMA3_JSON, NULL},
              {"Environment: ipython {\"name\": f, \"parameters\": x}", YK_TOOLS_LLAMA3_JSON, NULL}};
  for (size_t i = 0; each_case(i, i < N_ROWS(rows)); i++) {
    const yk_reasoning *found = yk_reasoning_of_template(rows[i].text);
    assert_int_equal(yk_tool_format_of_template(rows[i].text), rows[i].tools);
    assert_ptr_equal(found, rows[i].reasoning ? yk_reasoning_find(rows[i].reasoning) : NULL);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(reasoning),
                                     cmocka_unit_test(reasoning_and_answer),
                                     cmocka_unit_test(reasoning_as_content),
                                     cmocka_unit_test(reasoning_and_calls),
                                     cmocka_unit_test(reasoning_has_names),
                                     cmocka_unit_test(forms_of_templates)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
