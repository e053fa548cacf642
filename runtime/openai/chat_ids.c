#include "openai/chat_ids.h"

#include <stdlib.h>
#include <string.h>

/* The further variables of the template, as in vLLM: chat_template_kwargs, reasoning_effort, and whether to think at
 * all, which templates of models that can do both ask for. NULL without memory. */
static json_t *make_arguments(const yk_openai_chat *asked)
{
  const char *effort = asked->reasoning_effort;
  json_t *arguments = asked->template_kwargs ? json_copy((json_t *)asked->template_kwargs) : json_object();
  if (!effort) return arguments;
  bool says_thinking = json_object_get(arguments, "enable_thinking") != NULL;
  bool ok = json_object_set_new(arguments, "reasoning_effort", json_string(effort)) == 0;
  if (ok && !says_thinking)
    ok = json_object_set_new(arguments, "enable_thinking", json_boolean(strcmp(effort, "none") != 0)) == 0;
  if (ok) return arguments;
  json_decref(arguments);
  return NULL;
}

yk_status yk_openai_chat_ids(yk_chat_renderer *renderer, const yk_openai_chat *asked, int32_t **ids, size_t *n_ids,
                             yk_err *err)
{
  *ids = NULL;
  *n_ids = 0;
  json_t *arguments = make_arguments(asked);
  if (!arguments) return yk_err_set(err, YK_E_NOMEM, "no memory for the variables of a chat template");
  const yk_chat_conversation conversation = {.messages = asked->messages,
                                             .tools = asked->tools,
                                             .documents = asked->documents,
                                             .arguments = arguments,
                                             .add_generation_prompt = asked->add_generation_prompt,
                                             .continue_final_message = asked->continue_final_message,
                                             .add_special_tokens = asked->add_special_tokens};
  yk_err why = YK_ERR_INIT;
  yk_status status = yk_chat_encode(renderer, &conversation, ids, n_ids, &why);
  json_decref(arguments);
  if (status == YK_OK) return YK_OK;
  if (status == YK_E_TIMEOUT || status == YK_E_CAPACITY) status = YK_E_INVAL;
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
