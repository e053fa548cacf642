#include "openai/chat_ids.h"

#include <stdlib.h>

yk_status yk_openai_chat_ids(yk_chat_renderer *renderer, const yk_openai_chat *request, yk_json default_kwargs,
                             int32_t **ids, size_t *n_ids, yk_err *err)
{
  const yk_chat_conversation conversation = {.messages = request->messages,
                                             .tools = request->tools,
                                             .documents = request->documents,
                                             .arguments = request->template_kwargs,
                                             .default_arguments = default_kwargs,
                                             .reasoning_effort = request->reasoning_effort,
                                             .add_generation_prompt = request->add_generation_prompt,
                                             .continue_final_message = request->continue_final_message,
                                             .add_special_tokens = request->add_special_tokens,
                                             .deadline_ns = request->deadline_ns,
                                             .max_ids = request->max_ids,
                                             .last_ids = request->last_ids};
  yk_err why = YK_ERR_INIT;
  *n_ids = 0;
  yk_status status = yk_chat_encode(renderer, &conversation, ids, n_ids, &why);
  if (status == YK_OK) return YK_OK;
  bool is_too_long = status == YK_E_CAPACITY && *n_ids > 0; /* else the template needs too much memory */
  if (status == YK_E_TIMEOUT || (status == YK_E_CAPACITY && !is_too_long)) status = YK_E_INVAL;
  return yk_err_set(err, status, "%s", why.message);
}

yk_status yk_openai_chat_end(const yk_chat_renderer *renderer, yk_openai_request *request, yk_err *err)
{
  yk_sampling *sampling = &request->sampling;
  int32_t *ids;
  if (sampling->ignore_eos) return YK_OK;
  YK_TRY(yk_chat_stop_ids(renderer, sampling->stop_ids, sampling->n_stop_ids, &ids, &sampling->n_stop_ids, err));
  free(request->stop_ids);
  sampling->stop_ids = request->stop_ids = ids;
  return YK_OK;
}
