/* generation_prepare.c - from a body to requests in the engine. A worker's thread, except yk_generation_begin. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "openai/chat_ids.h"
#include "openai/protocol.h"
#include "server/engine_state.h"
#include "server/generation.h"
#include "server/request_id.h"
#include "server/routes.h"

/* Reserves n more choices. An exchange that is alone in the server is accepted even beyond the limit. False: the reply
 * is the refusal. */
static bool reserve(yk_exchange *x, int n, const yk_engine_info *info)
{
  yk_server *server = x->server;
  int limit = info->max_seqs + server->options.max_waiting;
  int n_before = atomic_fetch_add(&server->n_open, n), n_others = n_before - x->n_held;
  if (n_before == 0) yk_end_rate_begin(&server->ends, yk_clock_now_ns());
  if (n_others == 0 || n_before + n <= limit) return true;
  atomic_fetch_sub(&server->n_open, n);
  yk_reply_refuse(&x->reply, 429, NULL, "too many requests: %d run or wait", n_others);
  x->reply.retry_after_s = yk_end_rate_wait_s(&server->ends, n_before + n - info->max_seqs, yk_clock_now_ns());
  return false;
}

bool yk_generation_hold(yk_exchange *x)
{
  /* without an engine the worker refuses the request */
  static const yk_engine_info unlimited = {.max_seqs = INT32_MAX / 2};
  if (!reserve(x, 1, x->server->engine ? &x->server->info : &unlimited)) return false;
  x->n_held = 1;
  return true;
}

void yk_generation_unhold(yk_exchange *x)
{
  atomic_fetch_sub(&x->server->n_open, x->n_held);
  x->n_held = 0;
}

static yk_status parse(yk_exchange *x, yk_openai_request *request, yk_err *err)
{
  yk_openai_defaults defaults;
  const yk_protocol *protocol = x->route->protocol;
  yk_openai_defaults_init(x->engine, protocol->form, &defaults);
  defaults.pass_over = yk_passed_fields_note;
  defaults.user = &x->server->passed_fields;
  defaults.style = x->server->style;
  defaults.forces_usage = x->server->options.forces_usage;
  yk_status status = yk_protocol_parse(protocol, x->body.data ? x->body.data : "", x->body.length,
                                       (size_t)x->server->options.max_body_bytes, &defaults, request, err);
  yk_strbuf_free(&x->body);
  return status;
}

static yk_status find_ids(yk_exchange *x, yk_err *err)
{
  yk_generation *g = x->generation;
  if (g->request.is_empty) return YK_OK;
  if (g->request.form != YK_FORM_CHAT) return yk_openai_request_tokenize(&g->request, x->engine, err);
  yk_openai_prompt *prompt = &g->request.prompts[0];
  yk_status status = yk_chat_tokenize(&x->server->chat, x->server->log, &g->request.chat,
                                      x->server->options.template_kwargs, &prompt->ids, &prompt->n_ids, err);
  yk_openai_request_place(&g->request, err);
  if (status != YK_OK) return status;
  YK_TRY(yk_openai_chat_end(x->server->chat.renderer, &g->request, err));
  return yk_openai_request_tokenize(&g->request, x->engine, err);
}

/* If there are several keys, a request reuses only prefixes computed for requests with the same key. */
static void add_salt_of_key(const yk_exchange *x, char *salt, size_t n_most, yk_request_options *options)
{
  if (x->server->options.n_api_keys < 2) return;
  size_t n_bytes = (size_t)snprintf(salt, n_most, "key %zu ", x->api_key);
  if (options->cache_salt) memcpy(salt + n_bytes, options->cache_salt, options->cache_salt_bytes);
  options->cache_salt_bytes = n_bytes + (options->cache_salt ? options->cache_salt_bytes : 0);
  options->cache_salt = salt;
}

static yk_status submit_all(yk_exchange *x, int32_t context_tokens, yk_err *err)
{
  yk_generation *g = x->generation;
  g->requests = calloc(g->n_choices, sizeof *g->requests);
  g->token_ns = calloc(g->n_choices, sizeof *g->token_ns);
  g->n_tokens = calloc(g->n_choices, sizeof *g->n_tokens);
  if (!g->requests || !g->token_ns || !g->n_tokens)
    return yk_err_set(err, YK_E_NOMEM, "no memory for %zu requests", g->n_choices);
  for (size_t i = 0; i < g->n_choices && !g->request.is_empty; i++) {
    char salt[YK_MAX_CACHE_SALT_BYTES];
    yk_request_options options;
    yk_request_options_init(x->engine, &options);
    yk_openai_request_options_of(&g->request, i, context_tokens, &options);
    add_salt_of_key(x, salt, sizeof salt, &options);
    options.adapter = g->adapter;
    options.waiter = x->server->waiter;
    options.user = x;
    yk_status status = yk_engine_submit(x->engine, &options, &g->requests[i], err);
    yk_openai_request_name_prompt(&g->request, i / (size_t)g->request.n_samples, err);
    YK_TRY(status);
    g->n_running++;
  }
  for (size_t i = 0; i < g->request.n_prompts; i++) g->n_prompt_tokens += (int64_t)g->request.prompts[i].n_ids;
  return yk_openai_request_drop_body(&g->request, err);
}

/* Called when the body has been parsed. False: the reply gives the reason. */
static bool admit(yk_exchange *x, const yk_engine_info *info)
{
  yk_generation *g = x->generation;
  yk_server *server = x->server;
  size_t n_choices = yk_openai_request_choices(&g->request);
  const char *adapter;
  if (!yk_server_has_model(server, x->engine, g->request.model, &adapter, &x->reply)) return false;
  if (adapter) snprintf(g->adapter, sizeof g->adapter, "%s", adapter);
  if (!reserve(x, (int)n_choices - x->n_held, info)) return false;
  g->n_choices = n_choices;
  x->n_held = 0;
  return true;
}

static void reply_failure(yk_exchange *x, const yk_err *err, const char *param)
{
  yk_openai_error error;
  yk_protocol_error_of(x->route->protocol, err, param[0] ? param : NULL, &error);
  yk_reply_error(&x->reply, &error);
}

/* Undoes the preparation of a generation that has been refused. */
static void drop(yk_exchange *x)
{
  yk_generation *g = x->generation;
  for (size_t i = 0; g->requests && i < g->n_choices; i++) yk_request_free(g->requests[i]);
  atomic_fetch_sub(&x->server->n_open, (int)g->n_choices);
  yk_generation_free(g);
  x->generation = NULL;
  yk_exchange_return_engine(x);
}

static void prepare(yk_exchange *x)
{
  yk_generation *g = x->generation;
  yk_engine_info info;
  yk_err err = YK_ERR_INIT;
  yk_engine_get_info(x->engine, &info);
  bool is_admitted = false;
  if (parse(x, &g->request, &err) == YK_OK) is_admitted = admit(x, &info);
  g->request.chat.max_ids = (size_t)info.max_model_tokens;
  g->request.chat.deadline_ns = yk_exchange_deadline_ns(x);
  if (is_admitted && atomic_load(&x->is_given_up)) yk_err_set(&err, YK_E_CANCELLED, "given up");
  if (is_admitted && err.code == YK_OK &&
      yk_openai_request_kept_ids(&g->request, info.max_model_tokens, &g->request.chat.last_ids, &err) == YK_OK &&
      find_ids(x, &err) == YK_OK && yk_openai_request_truncate(&g->request, info.max_model_tokens, &err) == YK_OK)
    submit_all(x, info.max_model_tokens, &err);
  if (err.code != YK_OK) reply_failure(x, &err, g->request.param);
  if (x->reply.http_status) drop(x);
}

void yk_generation_prepare(yk_exchange *x)
{
  if (!yk_exchange_lease_engine(x)) return;
  x->generation = calloc(1, sizeof *x->generation);
  if (!x->generation) {
    yk_reply_refuse(&x->reply, 500, NULL, "out of memory");
    yk_exchange_return_engine(x);
    return;
  }
  prepare(x);
  yk_strbuf_free(&x->body);
}

/* The number of tokens of a message's prompt. */
static yk_status count_tokens(yk_exchange *x, yk_openai_request *request, yk_err *err)
{
  int32_t *ids = NULL;
  size_t n_ids = 0;
  YK_TRY(parse(x, request, err));
  const char *adapter;
  if (!yk_server_has_model(x->server, x->engine, request->model, &adapter, &x->reply)) return YK_OK;
  request->chat.deadline_ns = yk_exchange_deadline_ns(x);
  yk_status status = yk_chat_tokenize(&x->server->chat, x->server->log, &request->chat,
                                      x->server->options.template_kwargs, &ids, &n_ids, err);
  yk_openai_request_place(request, err);
  if (status != YK_OK) return status;
  free(ids);
  yk_strbuf_append_fmt(&x->reply.body, "{\"input_tokens\":%zu}", n_ids);
  yk_reply_json(&x->reply);
  return YK_OK;
}

void yk_route_count_tokens(yk_exchange *x)
{
  yk_err err = YK_ERR_INIT;
  yk_openai_request request = {0};
  if (!yk_exchange_lease_engine(x)) return;
  if (count_tokens(x, &request, &err) != YK_OK) reply_failure(x, &err, request.param);
  yk_openai_request_free(&request);
  yk_exchange_return_engine(x);
}

void yk_generation_begin(yk_exchange *x)
{
  yk_generation *g = x->generation;
  yk_server *server = x->server;
  char id[sizeof "chatcmpl-" + YK_REQUEST_ID_BYTES]; /* the longest prefix */
  yk_err err = YK_ERR_INIT;
  if (g->request.request_id[0] && !x->has_clients_id) yk_request_id_choose(x, g->request.request_id);
  snprintf(id, sizeof id, "%s%s", g->request.protocol->id_prefix, x->request_id);
  yk_openai_answer_options options = {.id = id,
                                      .model = g->adapter[0] ? g->adapter : server->options.model_names[0],
                                      .created_s = (int64_t)time(NULL),
                                      .with_cached_tokens = server->options.reports_cached_tokens};
  yk_server_follow_host(server); /* the worker may have seen the engine first */
  options.texts = server->texts;
  options.has_text = server->info.has_tokenizer;
  yk_metrics_request(&server->metrics, g->request.n_samples);
  if (server->has_failed || !server->engine)
    yk_err_set(&err, YK_E_CANCELLED, "the engine has failed");
  else
    yk_openai_answer_create(&g->request, &options, &g->answer, &err);
  if (err.code == YK_OK) {
    yk_generation_pump(x);
    return;
  }
  yk_openai_error error;
  yk_protocol_error_of(g->request.protocol, &err, NULL, &error);
  yk_generation_fail(x, &error);
}
