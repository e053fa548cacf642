/* route_tokens.c - /tokenize and /detokenize. A worker's thread. */
#include <stdlib.h>

#include "openai/tokens.h"
#include "server/engine_state.h"
#include "server/routes.h"

/* State of either route while it runs. */
typedef struct tokens_work {
  yk_exchange *exchange;
  yk_json_doc *document;
} tokens_work;

static bool begin(tokens_work *work, yk_exchange *x, yk_err *err)
{
  *work = (tokens_work){.exchange = x};
  if (!yk_exchange_lease_engine(x)) return false;
  yk_json_rules rules = yk_tokens_body_rules((size_t)x->server->options.max_body_bytes);
  yk_json_parse("body", x->body.data ? x->body.data : "", x->body.length, &rules, &work->document, err);
  yk_strbuf_free(&x->body);
  return true;
}

static void end(tokens_work *work, const yk_err *err, const char *param)
{
  yk_reply *reply = &work->exchange->reply;
  if (err->code != YK_OK)
    yk_reply_failure(reply, err, param);
  else if (!reply->http_status)
    yk_reply_json(reply);
  yk_json_free(work->document);
  yk_exchange_return_engine(work->exchange);
}

static yk_status tokenize(tokens_work *work, const yk_tokenize_request *request, yk_err *err)
{
  yk_exchange *x = work->exchange;
  yk_engine_info info;
  yk_token_texts *texts = NULL;
  int32_t *ids = NULL;
  size_t n_ids = 0;
  yk_engine_get_info(x->engine, &info);
  yk_status status = request->text ? yk_engine_tokenize(x->engine, request->text, request->n_bytes,
                                                        request->add_special_tokens, &ids, &n_ids, err)
                                   : yk_chat_tokenize(&x->server->chat, x->server->log, &request->chat,
                                                      x->server->options.template_kwargs, &ids, &n_ids, err);
  if (status == YK_OK && request->return_token_strs) status = yk_token_texts_create(x->engine, &texts, err);
  if (status == YK_OK)
    status = yk_tokenize_answer_append(ids, n_ids, info.max_model_tokens, texts, &x->reply.body, err);
  yk_token_texts_free(texts);
  free(ids);
  return status;
}

void yk_route_tokenize(yk_exchange *x)
{
  yk_err err = YK_ERR_INIT;
  yk_tokenize_request request = {0};
  tokens_work work;
  const char *adapter;
  if (!begin(&work, x, &err)) return;
  if (err.code == YK_OK) yk_tokenize_request_parse(yk_json_root(work.document), &request, &err);
  request.chat.deadline_ns = yk_exchange_deadline_ns(x);
  if (err.code == YK_OK && yk_server_has_model(x->server, x->engine, request.model, &adapter, &x->reply))
    tokenize(&work, &request, &err);
  end(&work, &err, request.param);
}

static yk_status detokenize(tokens_work *work, const yk_detokenize_request *request, yk_err *err)
{
  char *text;
  size_t n_bytes;
  YK_TRY(yk_engine_detokenize(work->exchange->engine, request->ids, request->n_ids, false, &text, &n_bytes, err));
  yk_detokenize_answer_append(text, n_bytes, &work->exchange->reply.body);
  free(text);
  return YK_OK;
}

void yk_route_detokenize(yk_exchange *x)
{
  yk_err err = YK_ERR_INIT;
  yk_detokenize_request request = {0};
  tokens_work work;
  const char *adapter;
  if (!begin(&work, x, &err)) return;
  if (err.code == YK_OK) yk_detokenize_request_parse(yk_json_root(work.document), &request, &err);
  if (err.code == YK_OK && yk_server_has_model(x->server, x->engine, request.model, &adapter, &x->reply))
    detokenize(&work, &request, &err);
  end(&work, &err, request.param);
  free(request.ids);
}
