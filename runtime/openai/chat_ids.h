/* chat_ids.h - the token ids of a request's conversation, by the model's chat template. */
#ifndef YK_OPENAI_CHAT_IDS_H
#define YK_OPENAI_CHAT_IDS_H

#include "chat/chat_renderer.h"
#include "openai/request.h"

/* yk_openai_chat_ids - *ids is malloc'd; the caller frees it; NULL after an error. default_kwargs: an object of default
 *   template variables, which the request may override, or absent. Any thread.
 *   Errors: those of yk_chat_encode, except that a conversation that exceeds the renderer's limits of time or memory is
 *   YK_E_INVAL: the request is at fault, and a retry would fail too. */
yk_status yk_openai_chat_ids(yk_chat_renderer *renderer, const yk_openai_chat *request, yk_json default_kwargs,
                             int32_t **ids, size_t *n_ids, yk_err *err);

/* yk_openai_chat_end - adds yk_chat_stop_ids to the request's stop ids, so that an answer ends with the template's
 *   turn, unless the request ignores ends (ignore_eos). Errors: YK_E_NOMEM. */
yk_status yk_openai_chat_end(const yk_chat_renderer *renderer, yk_openai_request *request, yk_err *err);

#endif
