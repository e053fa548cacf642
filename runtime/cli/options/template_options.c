#include "cli/options/template_options.h"

#include <assert.h>
#include <string.h>

#include "cli/options/json_option.h"
#include "openai/answer_style.h"

static yk_status parse_kwargs(void *value, const char *text, yk_err *err)
{
  yk_template_options *options = value;
  yk_json_doc *object;
  YK_TRY(yk_json_option_read(text, &object, err));
  yk_json_free(options->kwargs);
  options->kwargs = object;
  options->kwargs_text = text;
  return YK_OK;
}

void yk_template_options_free(yk_template_options *options)
{
  yk_json_free(options->kwargs);
  options->kwargs = NULL;
}

void yk_template_options_init(yk_template_options *options)
{
  *options = (yk_template_options){0};
  const yk_option table[] = {
      {"chat-template", NULL, YK_OPTION_STRING, &options->chat_template, "FILE",
       .help = "a Jinja template, or builtin:chatml, builtin:llama2, builtin:llama3, builtin:minicpm",
       .fallback = "the checkpoint's"},
      {"default-chat-template-kwargs", NULL, YK_OPTION_CALL, options, "JSON",
       .help = "the template's variables, as '{\"enable_thinking\": false}'; a request's chat_template_kwargs and "
               "reasoning_effort win",
       .fallback = "none", .parse = parse_kwargs},
      {"tool-call-parser", NULL, YK_OPTION_STRING, &options->tool_parser, "NAME",
       .help = "form of tool calls in answers: " YK_TOOL_FORMAT_NAMES,
       .fallback = "by the template; tools are refused if it shows none"},
      {"reasoning-parser", NULL, YK_OPTION_STRING, &options->reasoning_parser, "NAME",
       .help = "form of reasoning in answers: " YK_REASONING_NAMES "; none: reasoning is content",
       .fallback = "by the template"},
  };
  static_assert(sizeof table == sizeof options->table, "YK_TEMPLATE_OPTIONS has another size");
  memcpy(options->table, table, sizeof table);
}

yk_option_group yk_template_options_group(const yk_template_options *options, bool with_parsers)
{
  return (yk_option_group){"Chat", options->table, with_parsers ? YK_TEMPLATE_OPTIONS : YK_TEMPLATE_OPTIONS - 2};
}

static bool is_reasoning_parser(const char *name)
{
  return strcmp(name, "none") == 0 || yk_reasoning_find(name);
}

yk_status yk_template_options_check(const yk_template_options *options, yk_err *err)
{
  const char *tools = options->tool_parser, *reasoning = options->reasoning_parser;
  if (tools && yk_tool_format_find(tools) == YK_TOOLS_NONE)
    return yk_err_set(
        err, YK_E_INVAL,
        "--tool-call-parser: expected a name that --help lists (hermes, llama3_json, ...), found \"%.30s\"", tools);
  if (reasoning && !is_reasoning_parser(reasoning))
    return yk_err_set(err, YK_E_INVAL,
                      "--reasoning-parser: expected a name that --help lists (qwen3, deepseek_r1, ..., none), found "
                      "\"%.60s\"",
                      reasoning);
  return YK_OK;
}
