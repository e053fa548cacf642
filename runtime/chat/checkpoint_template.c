#include "chat/checkpoint_template.h"

static yk_status open_both(const char *model_dir, const char *chat_template, yk_checkpoint_template *out, yk_err *err)
{
  yk_chat_options options;
  YK_TRY(yk_tokenizer_load(model_dir, &out->tokenizer, err));
  yk_chat_options_init(&options);
  options.model_dir = model_dir;
  options.chat_template = chat_template;
  options.tokenizer = out->tokenizer;
  return yk_chat_renderer_create(&options, &out->renderer, err);
}

yk_status yk_checkpoint_template_open(const char *model_dir, const char *chat_template, yk_checkpoint_template *out,
                                      yk_err *err)
{
  *out = (yk_checkpoint_template){0};
  yk_status status = open_both(model_dir, chat_template, out, err);
  if (status != YK_OK && chat_template) yk_err_prefix(err, "--chat-template");
  return status;
}

void yk_checkpoint_template_close(yk_checkpoint_template *open)
{
  yk_chat_renderer_free(open->renderer);
  yk_tokenizer_free(open->tokenizer);
  *open = (yk_checkpoint_template){0};
}
