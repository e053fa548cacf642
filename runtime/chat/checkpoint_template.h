/* checkpoint_template.h - a model's chat template and tokenizer, opened from the directory, before and without an
 * engine. They stay open if an engine is loaded again. The tokenizer is separate from the engine's, which is freed with
 * its engine, and which yoke.h does not let tokenise a text with plain parts. */
#ifndef YK_CHAT_CHECKPOINT_TEMPLATE_H
#define YK_CHAT_CHECKPOINT_TEMPLATE_H

#include "chat/chat_renderer.h"

typedef struct yk_checkpoint_template {
  yk_tokenizer *tokenizer; /* the checkpoint's, for the renderer */
  yk_chat_renderer *renderer;
} yk_checkpoint_template;

/* yk_checkpoint_template_open - path: of the tokenizer, as for yk_tokenizer_load; the template is in the same
 *   directory. chat_template: as in yk_chat_options; NULL: the checkpoint's. If it is given, messages begin with the
 *   option. Close with yk_checkpoint_template_close, even after an error.
 *   Errors: those of yk_tokenizer_load and yk_chat_renderer_create. */
yk_status yk_checkpoint_template_open(const char *path, const char *chat_template, yk_checkpoint_template *out,
                                      yk_err *err);
void yk_checkpoint_template_close(yk_checkpoint_template *open);

#endif
