#include "chat/checkpoint_template.h"

#include "base/model_path.h"

static yk_status open_both(const char *path, const char *chat_template, yk_checkpoint_template *out, yk_err *err)
{
  char dir[YK_MODEL_PATH_BYTES];
  yk_chat_options options;
  YK_TRY(yk_tokenizer_load(path, &out->tokenizer, err));
  YK_TRY(yk_model_path_dir(path, dir, err));
  yk_chat_options_init(&options);
  options.model_dir = dir;
  options.chat_template = chat_template;
  options.tokenizer = out->tokenizer;
  return yk_chat_renderer_create(&options, &out->renderer, err);
}

yk_status yk_checkpoint_template_open(const char *path, const char *chat_template, yk_checkpoint_template *out,
                                      yk_err *err)
{
  *out = (yk_checkpoint_template){0};
  yk_status status = open_both(path, chat_template, out, err);
  if (status != YK_OK && chat_template) yk_err_prefix(err, "--chat-template");
  return status;
}

void yk_checkpoint_template_close(yk_checkpoint_template *open)
{
  yk_chat_renderer_free(open->renderer);
  yk_tokenizer_free(open->tokenizer);
  *open = (yk_checkpoint_template){0};
}
