/* chat.h - the model's chat template, as the server's workers use it.
 *
 * Belongs to the checkpoint and not to an engine: it stays where an engine is loaded again. */
#ifndef YK_SERVER_CHAT_H
#define YK_SERVER_CHAT_H

#include "chat/checkpoint_template.h"
#include "openai/request.h"

/* yk_chat_open - read the tokenizer and the template. Without either the server can do without chats, unless a
 *   template was asked for: chat_template, else NULL for the checkpoint's own.
 *   Close with yk_checkpoint_template_close.
 *   Errors: those of yk_checkpoint_template_open for a template that was asked for, YK_E_NOMEM. */
yk_status yk_chat_open(const char *model_dir, const char *chat_template, const yk_log *log, yk_checkpoint_template *out,
                       yk_err *err);

/* yk_chat_tokenize - the ids of a conversation; malloc'd and the caller's. default_kwargs: as of yk_openai_chat_ids.
 *   Errors: YK_E_UNSUPPORTED where the checkpoint has no template that can be used, YK_E_CANCELLED where the helper
 *   process has died (the log has the cause), and the others of yk_openai_chat_ids. Any thread. */
yk_status yk_chat_tokenize(yk_checkpoint_template *chat, const yk_log *log, const yk_openai_chat *conversation,
                           yk_json default_kwargs, int32_t **ids, size_t *n_ids, yk_err *err);

#endif
