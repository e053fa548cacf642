#include "cli/batch/batch_chat.h"

#include "openai/chat_ids.h"

yk_status yk_batch_chat_open(yk_batch_chat *chat, yk_err *err)
{
  if (!chat->is_tried) yk_checkpoint_template_open(chat->tokenizer, chat->chat_template, &chat->template, &chat->why);
  chat->is_tried = true;
  if (chat->why.code == YK_OK) return YK_OK;
  return yk_err_set(err, chat->why.code, "%s", chat->why.message);
}

void yk_batch_chat_close(yk_batch_chat *chat)
{
  yk_checkpoint_template_close(&chat->template);
}

yk_status yk_batch_chat_encode(yk_batch_chat *chat, yk_openai_request *request, yk_err *err)
{
  yk_openai_prompt *prompt = &request->prompts[0];
  yk_status opened = yk_batch_chat_open(chat, NULL);
  if (opened == YK_E_IO) opened = YK_E_UNSUPPORTED; /* other lines do not need the unreadable file */
  if (opened != YK_OK) return yk_err_set(err, opened, "messages: %s", chat->why.message);
  YK_TRY(yk_openai_chat_ids(chat->template.renderer, &request->chat, chat->default_kwargs, &prompt->ids, &prompt->n_ids,
                            err));
  return yk_openai_chat_end(chat->template.renderer, request, err);
}
