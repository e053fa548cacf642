#include "cli/options/template_options.h"

#include <assert.h>
#include <string.h>

#include "cli/options/json_option.h"

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
      {"tool-call-parser", NULL, YK_OPTION_STRING, &options->tool_parser, "NAME", .help = "hermes or llama3_json",
       .fallback = "none: tools are refused"},
  };
  static_assert(sizeof table == sizeof options->table, "YK_TEMPLATE_OPTIONS has another size");
  memcpy(options->table, table, sizeof table);
}

yk_option_group yk_template_options_group(const yk_template_options *options, bool with_tools)
{
  return (yk_option_group){"Chat", options->table, with_tools ? YK_TEMPLATE_OPTIONS : YK_TEMPLATE_OPTIONS - 1};
}

yk_status yk_template_options_tools(const yk_template_options *options, yk_tool_format *out, yk_err *err)
{
  *out = options->tool_parser ? yk_tool_format_find(options->tool_parser) : YK_TOOLS_NONE;
  if (!options->tool_parser || *out != YK_TOOLS_NONE) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "--tool-call-parser: expected one of %s, found \"%.60s\"", yk_tool_format_names(),
                    options->tool_parser);
}
