/* batch_chat.h - converts the conversations of a batch's lines to token ids.
 *
 * The template is opened for the first line with a conversation, since most batches have none and the helper takes a
 * while to start. If the checkpoint has no template, only those lines fail. */
#ifndef YK_CLI_BATCH_CHAT_H
#define YK_CLI_BATCH_CHAT_H

#include "chat/checkpoint_template.h"
#include "openai/request.h"

typedef struct yk_batch_chat {
  const char *tokenizer, *chat_template; /* the caller's; see yk_checkpoint_template_open */
  yk_json default_kwargs;                /* as in yk_openai_chat_ids */
  /* Private state; zero at first. */
  yk_checkpoint_template template;
  bool is_tried; /* opening was attempted */
  yk_err why;    /* the failure of opening */
} yk_batch_chat;

/* yk_batch_chat_open - opens the template at once, for a caller that cannot continue without a template. Errors: those
 *   of yk_checkpoint_template_open; every later call returns the same error. */
yk_status yk_batch_chat_open(yk_batch_chat *chat, yk_err *err);
void yk_batch_chat_close(yk_batch_chat *chat);

/* yk_batch_chat_encode - set the ids of a request's conversation in its prompt, and the ids that end the answer.
 *   Errors: those of yk_batch_chat_open, except that an unreadable file is YK_E_UNSUPPORTED; those of
 *   yk_openai_chat_ids and yk_openai_chat_end. */
yk_status yk_batch_chat_encode(yk_batch_chat *chat, yk_openai_request *request, yk_err *err);

#endif
