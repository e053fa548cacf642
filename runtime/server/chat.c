#include "server/chat.h"

#include <string.h>

#include "base/log.h"

static yk_status open_renderer(yk_chat *chat, const char *model_dir, const char *chat_template, yk_err *err)
{
  yk_chat_options options;
  YK_TRY(yk_tokenizer_load(model_dir, &chat->tokenizer, err));
  yk_chat_options_init(&options);
  options.model_dir = model_dir;
  options.chat_template = chat_template;
  options.tokenizer = chat->tokenizer;
  return yk_chat_renderer_create(&options, &chat->renderer, err);
}

yk_status yk_chat_open(const char *model_dir, const char *chat_template, const yk_log *log, yk_chat *out, yk_err *err)
{
  yk_err why = YK_ERR_INIT;
  memset(out, 0, sizeof *out);
  yk_status status = open_renderer(out, model_dir, chat_template, &why);
  if (status == YK_OK) {
    yk_log_write(log, YK_LOG_INFO, "chat template: %s", yk_chat_template_origin(out->renderer));
    return YK_OK;
  }
  if (chat_template || status == YK_E_NOMEM) {
    yk_chat_close(out);
    return yk_err_set(err, status, "--chat-template: %s", why.message);
  }
  yk_log_write(log, YK_LOG_WARN, "no chats: %s", why.message);
  return YK_OK;
}

void yk_chat_close(yk_chat *chat)
{
  yk_chat_renderer_free(chat->renderer);
  yk_tokenizer_free(chat->tokenizer);
  memset(chat, 0, sizeof *chat);
}

yk_status yk_chat_tokenize(yk_chat *chat, const yk_openai_chat *asked, int32_t **ids, size_t *n_ids, yk_err *err)
{
  *ids = NULL;
  *n_ids = 0;
  if (!chat->renderer)
    return yk_err_set(err, YK_E_UNSUPPORTED, "messages: this server has no chat template for its model");
  if (asked->continue_final_message)
    return yk_err_set(err, YK_E_UNSUPPORTED, "continue_final_message: expected false, which is all that there is");
  const yk_chat_conversation conversation = {.messages = asked->messages,
                                             .tools = asked->tools,
                                             .documents = asked->documents,
                                             .arguments = asked->template_kwargs,
                                             .add_generation_prompt = asked->add_generation_prompt};
  return yk_chat_encode(chat->renderer, &conversation, ids, n_ids, err);
}
