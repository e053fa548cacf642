#include "openai/chat_ids.h"

#include <stdlib.h>
#include <string.h>

#include "base/json_tree.h"

/* A value as the renderer takes it; NULL for an absent one. */
static yk_status tree_of(const char *name, yk_json value, json_t **out, yk_err *err)
{
  yk_strbuf text = YK_STRBUF_INIT;
  *out = NULL;
  if (!value.doc) return YK_OK;
  yk_json_append(&text, value, 0);
  yk_status status = text.failed ? yk_err_set(err, YK_E_NOMEM, "%s: no memory", name)
                                 : yk_tree_parse(name, text.data, text.length, out, err);
  yk_strbuf_free(&text);
  return status;
}

/* The further variables of the template, as in vLLM: chat_template_kwargs, reasoning_effort, and whether to think at
 * all, which templates of models that can do both ask for. */
static yk_status add_effort(const char *effort, json_t **arguments, yk_err *err)
{
  if (!effort) return YK_OK;
  if (!*arguments) *arguments = json_object();
  bool says_thinking = json_object_get(*arguments, "enable_thinking") != NULL;
  bool ok = json_object_set_new(*arguments, "reasoning_effort", json_string(effort)) == 0;
  if (ok && !says_thinking)
    ok = json_object_set_new(*arguments, "enable_thinking", json_boolean(strcmp(effort, "none") != 0)) == 0;
  return ok ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for the variables of a chat template");
}

static yk_status encode(yk_chat_renderer *renderer, const yk_openai_chat *asked, json_t *trees[4], int32_t **ids,
                        size_t *n_ids, yk_err *err)
{
  YK_TRY(tree_of("messages", asked->messages, &trees[0], err));
  YK_TRY(tree_of("tools", asked->tools, &trees[1], err));
  YK_TRY(tree_of("documents", asked->documents, &trees[2], err));
  YK_TRY(tree_of("chat_template_kwargs", asked->template_kwargs, &trees[3], err));
  YK_TRY(add_effort(asked->reasoning_effort, &trees[3], err));
  const yk_chat_conversation conversation = {.messages = trees[0],
                                             .tools = trees[1],
                                             .documents = trees[2],
                                             .arguments = trees[3],
                                             .add_generation_prompt = asked->add_generation_prompt,
                                             .continue_final_message = asked->continue_final_message,
                                             .add_special_tokens = asked->add_special_tokens};
  return yk_chat_encode(renderer, &conversation, ids, n_ids, err);
}

yk_status yk_openai_chat_ids(yk_chat_renderer *renderer, const yk_openai_chat *asked, int32_t **ids, size_t *n_ids,
                             yk_err *err)
{
  *ids = NULL;
  *n_ids = 0;
  json_t *trees[4] = {0};
  yk_err why = YK_ERR_INIT;
  yk_status status = encode(renderer, asked, trees, ids, n_ids, &why);
  for (int i = 0; i < 4; i++) json_decref(trees[i]);
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
