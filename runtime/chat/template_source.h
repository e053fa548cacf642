/* template_source.h - where a checkpoint's chat template and its special tokens stand. */
#ifndef YK_CHAT_TEMPLATE_SOURCE_H
#define YK_CHAT_TEMPLATE_SOURCE_H

#include "base/json_tree.h"
#include "base/status.h"
#include "base/strbuf.h"

typedef struct yk_builtin_form yk_builtin_form;

typedef struct yk_template_source {
  const yk_builtin_form *builtin; /* or NULL: then there is a text */
  char *text;                     /* the template, NUL-terminated */
  char *tool_use;                 /* the one for conversations with tools, where there is one of its own; or NULL */
  char *origin;                   /* "DIR/chat_template.jinja", "builtin:chatml" */
  json_t *special_tokens;         /* "bos_token" and so on, as transformers hands them to templates */
} yk_template_source;

/* yk_template_source_find - the template of a checkpoint's directory: chat_template.jinja and
 *   additional_chat_templates/tool_use.jinja, else the key "chat_template" of tokenizer_config.json, a string or a list
 *   of {"name", "template"} of which "default" and "tool_use" are taken.
 *   chat_template: NULL, or what takes the place of those: "builtin:NAME" or a file's path.
 *   Special tokens are, as in transformers, those of the class that tokenizer_config.json names (class_tokens.h); in
 *   their place those that this file has, each a string, {"content"}, or null for none; and where it has no
 *   "added_tokens_decoder", in their place those of special_tokens_map.json.
 *   Errors: YK_E_INVAL (no such built-in form), YK_E_IO, YK_E_FORMAT (named by file and key), YK_E_UNSUPPORTED (there
 *   is no template; names the built-in forms), YK_E_NOMEM. On failure nothing is left to free. */
yk_status yk_template_source_find(const char *model_dir, const char *chat_template, yk_template_source *out,
                                  yk_err *err);
void yk_template_source_free(yk_template_source *source);

#endif
