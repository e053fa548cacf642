#include "openai/parse/tool_format.h"

#include <stddef.h>
#include <string.h>

static const struct {
  const char *name;
  yk_tool_format format;
} names[] = {{"hermes", YK_TOOLS_HERMES},
             {"llama3_json", YK_TOOLS_LLAMA3_JSON},
             {"llama4_json", YK_TOOLS_LLAMA3_JSON},
             {"ernie45", YK_TOOLS_HERMES},
             {"granite4", YK_TOOLS_HERMES},
             {"granite", YK_TOOLS_GRANITE},
             {"hunyuan_a13b", YK_TOOLS_HUNYUAN_A13B},
             {"apriel", YK_TOOLS_HUNYUAN_A13B},
             {"mistral", YK_TOOLS_MISTRAL},
             {"deepseek_v3", YK_TOOLS_DEEPSEEK_V3},
             {"deepseek_v31", YK_TOOLS_DEEPSEEK_V31},
             {"deepseek_v32", YK_TOOLS_DEEPSEEK_V32},
             {"kimi_k2", YK_TOOLS_KIMI_K2},
             {"gemma4", YK_TOOLS_GEMMA4},
             {"functiongemma", YK_TOOLS_FUNCTIONGEMMA},
             {"qwen3_coder", YK_TOOLS_QWEN3_CODER},
             {"qwen3_xml", YK_TOOLS_QWEN3_CODER},
             {"minimax_m2", YK_TOOLS_MINIMAX_M2},
             {"seed_oss", YK_TOOLS_SEED_OSS},
             {"glm45", YK_TOOLS_GLM45},
             {"glm47", YK_TOOLS_GLM45},
             {"glm4", YK_TOOLS_GLM4},
             {"phi4_mini_json", YK_TOOLS_PHI4_MINI},
             {"nemotron_json", YK_TOOLS_NEMOTRON_JSON},
             {"openai", YK_TOOLS_OPENAI},
             {"pythonic", YK_TOOLS_PYTHONIC},
             {"llama4_pythonic", YK_TOOLS_PYTHONIC},
             {"olmo3", YK_TOOLS_OLMO3}};

yk_tool_format yk_tool_format_find(const char *name)
{
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
    if (strcmp(names[i].name, name) == 0) return names[i].format;
  return YK_TOOLS_NONE;
}

/* Both texts mark a template of the format; the first row that fits decides. */
static const struct {
  const char *first, *second;
  yk_tool_format format;
} marks[] = {{"<|channel|>", "<|message|>", YK_TOOLS_OPENAI},
             {"<tool_call>", "<function=", YK_TOOLS_QWEN3_CODER},
             {"<tool_call>", "<arg_key>", YK_TOOLS_GLM45},
             {"<minimax:tool_call>", "<invoke", YK_TOOLS_MINIMAX_M2},
             {"<seed:tool_call>", "<function", YK_TOOLS_SEED_OSS},
             {"｜DSML｜", "function_calls>", YK_TOOLS_DEEPSEEK_V32},
             {"<|tool_calls_section_begin|>", "<|tool_call_begin|>", YK_TOOLS_KIMI_K2},
             {"<｜tool▁calls▁begin｜>", "```json", YK_TOOLS_DEEPSEEK_V3},
             {"<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>", YK_TOOLS_DEEPSEEK_V31},
             {"[TOOL_CALLS]", "", YK_TOOLS_MISTRAL},
             {"<|tool_call>", "call:", YK_TOOLS_GEMMA4},
             {"<start_function_call>", "call:", YK_TOOLS_FUNCTIONGEMMA},
             {"<|tool|>", "<|/tool|>", YK_TOOLS_PHI4_MINI},
             {"functools[", "", YK_TOOLS_PHI4_MINI},
             {"<|tool_call|>", "", YK_TOOLS_GRANITE},
             {"<TOOLCALL>", "arguments", YK_TOOLS_NEMOTRON_JSON},
             {"<function_calls>", "<functions>", YK_TOOLS_OLMO3},
             {"<tool_calls>", "arguments", YK_TOOLS_HUNYUAN_A13B},
             {"<tool_call>", "<invoke", YK_TOOLS_NONE},
             {"<tool_call>", "arguments", YK_TOOLS_HERMES},
             {"请使用 Json 格式表示调用的参数", "<|assistant|>", YK_TOOLS_GLM4},
             {"[func_name1(", "", YK_TOOLS_PYTHONIC},
             {"<|header_start|>", "\"parameters\": ", YK_TOOLS_LLAMA3_JSON},
             {"<|python_start|>", "", YK_TOOLS_PYTHONIC},
             {"Environment: ipython", "\"parameters\": ", YK_TOOLS_LLAMA3_JSON}};

yk_tool_format yk_tool_format_of_template(const char *template_text)
{
  for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++)
    if (strstr(template_text, marks[i].first) && strstr(template_text, marks[i].second)) return marks[i].format;
  return YK_TOOLS_NONE;
}

bool yk_tool_format_is_typed(yk_tool_format format)
{
  return format == YK_TOOLS_QWEN3_CODER || format == YK_TOOLS_MINIMAX_M2 || format == YK_TOOLS_SEED_OSS ||
         format == YK_TOOLS_GLM45 || format == YK_TOOLS_DEEPSEEK_V32;
}
