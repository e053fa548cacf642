#include "openai/answer_style.h"

#include <string.h>

#include "base/model_path.h"
#include "chat/template_source.h"

static yk_answer_style style_of_template(const char *tokenizer, const char *chat_template)
{
  char dir[YK_MODEL_PATH_BYTES];
  yk_template_source source;
  yk_answer_style style = {0};
  if (yk_model_path_dir(tokenizer, dir, NULL) != YK_OK) return style;
  if (yk_template_source_find(dir, chat_template, &source, NULL) != YK_OK) return style;
  if (source.text) {
    style.tools = yk_tool_format_of_template(source.tool_use ? source.tool_use : source.text);
    style.reasoning = yk_reasoning_of_template(source.text);
  }
  yk_template_source_free(&source);
  return style;
}

yk_answer_style yk_answer_style_find(const char *tokenizer, const yk_answer_style_options *options)
{
  yk_answer_style style = style_of_template(tokenizer, options->chat_template);
  if (options->tool_parser) style.tools = yk_tool_format_find(options->tool_parser);
  if (options->reasoning_parser) style.reasoning = yk_reasoning_find(options->reasoning_parser);
  return style;
}
