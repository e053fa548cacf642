/* chat_ids.h - the token ids of a conversation that a request brings, by the model's chat template. */
#ifndef YK_OPENAI_CHAT_IDS_H
#define YK_OPENAI_CHAT_IDS_H

#include "chat/chat_renderer.h"
#include "openai/request.h"

/* yk_openai_chat_ids - *ids is malloc'd and the caller's, NULL after an error. default_kwargs: an object of variables
 *   of the template that the request may give too, or absent. Any thread.
 *   Errors: those of yk_chat_encode, where a conversation that takes more
 *   time or memory than the renderer's limits is YK_E_INVAL: the request is at fault, and would be on another try. */
yk_status yk_openai_chat_ids(yk_chat_renderer *renderer, const yk_openai_chat *asked, yk_json default_kwargs,
                             int32_t **ids, size_t *n_ids, yk_err *err);

/* yk_openai_chat_end - an answer to a chat ends where the template's turns do, as yk_chat_stop_ids says, unless the
 *   request asks to go on behind ends (ignore_eos). Errors: YK_E_NOMEM. */
yk_status yk_openai_chat_end(const yk_chat_renderer *renderer, yk_openai_request *request, yk_err *err);

#endif
