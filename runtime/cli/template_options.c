#include "cli/template_options.h"

#include <assert.h>
#include <string.h>

void yk_template_options_init(yk_template_options *options)
{
  *options = (yk_template_options){0};
  const yk_option table[] = {
      {"chat-template", NULL, YK_OPTION_STRING, &options->chat_template, "FILE",
       .help = "a Jinja template, or builtin:chatml, builtin:llama2, builtin:llama3, builtin:minicpm",
       .fallback = "the checkpoint's"},
      {"tool-call-parser", NULL, YK_OPTION_STRING, &options->tool_parser, "NAME",
       .help = "how calls of tools are found in answers: hermes or llama3_json", .fallback = "none: tools are refused"},
  };
  static_assert(sizeof table == sizeof options->table, "YK_TEMPLATE_OPTIONS has another size");
  memcpy(options->table, table, sizeof table);
}

yk_option_group yk_template_options_group(const yk_template_options *options, bool with_tools)
{
  return (yk_option_group){"Chat", options->table, with_tools ? YK_TEMPLATE_OPTIONS : 1};
}

yk_status yk_template_options_tools(const yk_template_options *options, yk_tool_format *out, yk_err *err)
{
  *out = options->tool_parser ? yk_tool_format_find(options->tool_parser) : YK_TOOLS_NONE;
  if (!options->tool_parser || *out != YK_TOOLS_NONE) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "--tool-call-parser: expected one of %s, found \"%.60s\"", yk_tool_format_names(),
                    options->tool_parser);
}
