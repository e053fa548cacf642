/* batch_chat.h - conversations of a batch's lines to token ids.
 *
 * The template is opened when the first such line comes, since most batches hold none and its helper takes a while to
 * start. A checkpoint without a template fails those lines alone. */
#ifndef YK_CLI_BATCH_CHAT_H
#define YK_CLI_BATCH_CHAT_H

#include "chat/checkpoint_template.h"
#include "openai/request.h"

typedef struct yk_batch_chat {
  const char *tokenizer, *chat_template; /* the caller's; see yk_checkpoint_template_open */
  yk_json default_kwargs;                /* as of yk_openai_chat_ids */
  /* Its own, zero at first. */
  yk_checkpoint_template template;
  bool is_tried; /* opened, or failed to */
  yk_err why;    /* what failed */
} yk_batch_chat;

/* yk_batch_chat_open - open the template now, for a caller that must not go on without it. Errors: as
 *   yk_checkpoint_template_open's, and the same again at every later call. */
yk_status yk_batch_chat_open(yk_batch_chat *chat, yk_err *err);
void yk_batch_chat_close(yk_batch_chat *chat);

/* yk_batch_chat_encode - the ids of a request's conversation into its prompt, and what ends the answer.
 *   Errors: those of yk_batch_chat_open, where a file that cannot be read is YK_E_UNSUPPORTED; those of
 *   yk_openai_chat_ids and yk_openai_chat_end. */
yk_status yk_batch_chat_encode(yk_batch_chat *chat, yk_openai_request *request, yk_err *err);

#endif
