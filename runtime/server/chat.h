/* chat.h - the model's chat template, for the server's workers.
 *
 * Belongs to the checkpoint and not to an engine: the template stays open if an engine is loaded again. */
#ifndef YK_SERVER_CHAT_H
#define YK_SERVER_CHAT_H

#include "chat/checkpoint_template.h"
#include "openai/request.h"

/* yk_chat_open - open the tokenizer and the template. Without either the server runs without chats, unless a template
 *   was requested: chat_template, else NULL for the checkpoint's own.
 *   Close with yk_checkpoint_template_close.
 *   Errors: those of yk_checkpoint_template_open for a requested template, YK_E_NOMEM. */
yk_status yk_chat_open(const char *model_dir, const char *chat_template, const yk_log *log, yk_checkpoint_template *out,
                       yk_err *err);

/* yk_chat_tokenize - the ids of a conversation, malloc'd; the caller frees them. default_kwargs: as in
 *   yk_openai_chat_ids. Errors: YK_E_UNSUPPORTED if the checkpoint has no usable template, YK_E_CANCELLED if the helper
 *   process has died (the log has the cause), and the others of yk_openai_chat_ids. Any thread. */
yk_status yk_chat_tokenize(yk_checkpoint_template *chat, const yk_log *log, const yk_openai_chat *conversation,
                           yk_json default_kwargs, int32_t **ids, size_t *n_ids, yk_err *err);

#endif
