/* template.h - a model's chat template, opened by its directory alone: before the engine and without it. */
#ifndef YK_CLI_TEMPLATE_H
#define YK_CLI_TEMPLATE_H

#include "chat/chat_renderer.h"

typedef struct yk_template {
  yk_tokenizer *tokenizer; /* the checkpoint's, for the renderer */
  yk_chat_renderer *renderer;
} yk_template;

/* yk_template_open - chat_template: of yk_template_options; NULL takes the checkpoint's. Where it is given, messages
 *   begin with the option. Close with yk_template_close whatever is returned.
 *   Errors: those of yk_tokenizer_load and yk_chat_renderer_create. */
yk_status yk_template_open(const char *model_dir, const char *chat_template, yk_template *out, yk_err *err);
void yk_template_close(yk_template *open);

#endif
