/* tool_format.h - the forms in which models write calls of tools; machine.h has the functions that read them. */
#ifndef YK_OPENAI_PARSE_TOOL_FORMAT_H
#define YK_OPENAI_PARSE_TOOL_FORMAT_H

#include <stdbool.h>

typedef enum yk_tool_format {
  YK_TOOLS_NONE, /* calls are not searched */
  YK_TOOLS_HERMES,
  YK_TOOLS_LLAMA3_JSON,
  YK_TOOLS_GRANITE,
  YK_TOOLS_HUNYUAN_A13B,
  YK_TOOLS_MISTRAL,
  YK_TOOLS_DEEPSEEK_V3,
  YK_TOOLS_DEEPSEEK_V31,
  YK_TOOLS_KIMI_K2,
  YK_TOOLS_GEMMA4,
  YK_TOOLS_FUNCTIONGEMMA,
  YK_TOOLS_QWEN3_CODER,
  YK_TOOLS_MINIMAX_M2,
  YK_TOOLS_SEED_OSS,
  YK_TOOLS_GLM45,
  YK_TOOLS_GLM4,
  YK_TOOLS_PHI4_MINI,
  YK_TOOLS_PYTHONIC,
  YK_TOOLS_OPENAI, /* messages with channels */
  YK_TOOLS_DEEPSEEK_V32,
  YK_TOOLS_NEMOTRON_JSON,
  YK_TOOLS_OLMO3,
  YK_N_TOOL_FORMATS
} yk_tool_format;

/* yk_tool_format_find - the format of one of vLLM's names ("qwen3_coder"); YK_TOOLS_NONE for any other name. */
yk_tool_format yk_tool_format_find(const char *name);

/* YK_TOOL_FORMAT_NAMES - every name, for --help; errors have no room for the list. */
#define YK_TOOL_FORMAT_NAMES                                                                                           \
  "hermes, ernie45, granite4, llama3_json, llama4_json, granite, hunyuan_a13b, apriel, nemotron_json, "                \
  "phi4_mini_json, mistral, deepseek_v3, deepseek_v31, deepseek_v32, kimi_k2, gemma4, functiongemma, qwen3_coder, "    \
  "qwen3_xml, minimax_m2, seed_oss, glm45, glm47, glm4, openai, pythonic, llama4_pythonic, olmo3"

/* yk_tool_format_of_template - the format whose tags a chat template contains; YK_TOOLS_NONE if there are none. */
yk_tool_format yk_tool_format_of_template(const char *template_text);

/* yk_tool_format_is_typed - arguments are written as text, whose types come from the tool's schema. */
bool yk_tool_format_is_typed(yk_tool_format format);

#endif
