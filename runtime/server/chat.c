#include "server/chat.h"

#include "base/log.h"
#include "openai/chat_ids.h"

yk_status yk_chat_open(const char *model_dir, const char *chat_template, const yk_log *log, yk_checkpoint_template *out,
                       yk_err *err)
{
  yk_err why = YK_ERR_INIT;
  yk_status status = yk_checkpoint_template_open(model_dir, chat_template, out, &why);
  if (status == YK_OK) {
    yk_log_write(log, YK_LOG_INFO, "chat template: %s", yk_chat_template_origin(out->renderer));
    return YK_OK;
  }
  yk_checkpoint_template_close(out);
  if (chat_template || status == YK_E_NOMEM) return yk_err_set(err, status, "%s", why.message);
  yk_log_write(log, YK_LOG_WARN, "chat completions are not available: %s", why.message);
  return YK_OK;
}

/* The log has the cause, which may name files; the answer to the client does not. */
static yk_status no_helper(const yk_log *log, yk_err *err)
{
  yk_log_write(log, YK_LOG_ERROR, "%s", err->message);
  yk_err_clear(err);
  return yk_err_set(err, YK_E_CANCELLED,
                    "messages: the helper process that renders the chat template has died; try again later");
}

yk_status yk_chat_tokenize(yk_checkpoint_template *chat, const yk_log *log, const yk_openai_chat *request,
                           yk_json default_kwargs, int32_t **ids, size_t *n_ids, yk_err *err)
{
  if (chat->renderer) {
    yk_status status = yk_openai_chat_ids(chat->renderer, request, default_kwargs, ids, n_ids, err);
    return status == YK_E_IO ? no_helper(log, err) : status;
  }
  *ids = NULL;
  *n_ids = 0;
  return yk_err_set(err, YK_E_UNSUPPORTED, "messages: this server has no chat template for its model");
}
