/* template_source.h - finds a checkpoint's chat template and its special tokens. */
#ifndef YK_CHAT_TEMPLATE_SOURCE_H
#define YK_CHAT_TEMPLATE_SOURCE_H

#include "base/json.h"
#include "base/status.h"
#include "base/strbuf.h"

typedef struct yk_builtin_form yk_builtin_form;

typedef struct yk_template_source {
  const yk_builtin_form *builtin; /* NULL: the template is text */
  char *text;                     /* the template, NUL-terminated */
  char *tool_use;                 /* the template for conversations with tools, if it is a separate one; or NULL */
  char *origin;                   /* "DIR/chat_template.jinja", "builtin:chatml" */
  yk_json_doc *special_tokens;    /* an object of "bos_token" and so on, which transformers passes to templates */
} yk_template_source;

/* yk_template_source_find - the template of a checkpoint's directory: chat_template.jinja and
 *   additional_chat_templates/tool_use.jinja, else the key "chat_template" of tokenizer_config.json, a string or a list
 *   of {"name", "template"} of which "default" and "tool_use" are used.
 *   chat_template: NULL, or a replacement of these: "builtin:NAME" or a file's path.
 *   Special tokens are those of yk_special_tokens_find.
 *   Errors: YK_E_INVAL (no such built-in form), YK_E_IO, YK_E_FORMAT (named by file and key), YK_E_UNSUPPORTED (there
 *   is no template; names the built-in forms), YK_E_NOMEM. On failure the caller frees nothing. */
yk_status yk_template_source_find(const char *model_dir, const char *chat_template, yk_template_source *out,
                                  yk_err *err);
void yk_template_source_free(yk_template_source *source);

#endif
