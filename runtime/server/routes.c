#include "server/routes.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "openai/tokens.h"
#include "server/adapters.h"
#include "server/engine_state.h"
#include "server/generation.h"
#include "server/page.h"
#include "server/process_metrics.h"
#include "server/server_view.h"

/* A request waits longer than this only if there are too many. */
static const double OVERLOADED_S = 2;

static const yk_route routes[] = {
    {"/v1/completions", .methods = YK_METHOD_POST, .protocol = &yk_protocol_completions,
     .prepare = yk_generation_prepare},
    {"/v1/chat/completions", .methods = YK_METHOD_POST, .may_render = true, .protocol = &yk_protocol_chat,
     .prepare = yk_generation_prepare},
    {"/v1/responses", .methods = YK_METHOD_POST, .may_render = true, .protocol = &yk_protocol_responses,
     .prepare = yk_generation_prepare},
    {"/v1/responses/", .handler = "/v1/responses/{response_id}", .is_prefix = true,
     .methods = YK_METHOD_GET | YK_METHOD_POST | YK_METHOD_DELETE, .answer = yk_route_stored_response},
    {"/v1/messages", .methods = YK_METHOD_POST, .may_render = true, .protocol = &yk_protocol_messages,
     .prepare = yk_generation_prepare},
    {"/v1/messages/count_tokens", .methods = YK_METHOD_POST, .may_render = true,
     .protocol = &yk_protocol_messages_count, .prepare = yk_route_count_tokens},
    {"/v1/embeddings", .methods = YK_METHOD_POST, .protocol = &yk_protocol_embeddings,
     .prepare = yk_generation_prepare},
    {"/v1/models", .methods = YK_METHOD_GET, .answer = yk_route_models},
    {"/v1/models/", .handler = "/v1/models/{model}", .is_prefix = true, .methods = YK_METHOD_GET,
     .answer = yk_route_model},
    {"/tokenize", .methods = YK_METHOD_POST, .may_render = true, .prepare = yk_route_tokenize},
    {"/detokenize", .methods = YK_METHOD_POST, .prepare = yk_route_detokenize},
    {"/health", .is_probe = true, .is_open = true, .methods = YK_METHOD_GET, .answer = yk_route_health},
    {"/ping", .is_probe = true, .is_open = true, .methods = YK_METHOD_GET | YK_METHOD_POST, .answer = yk_route_health},
    {"/metrics", .is_probe = true, .methods = YK_METHOD_GET, .answer = yk_route_metrics},
    {"/version", .is_probe = true, .methods = YK_METHOD_GET, .answer = yk_route_version},
    {"/server_info", .is_probe = true, .methods = YK_METHOD_GET, .answer = yk_route_server_info},
    {"/model_info", .is_probe = true, .methods = YK_METHOD_GET, .answer = yk_route_model_info},
    {"/v1/loads", .is_probe = true, .methods = YK_METHOD_GET, .answer = yk_route_loads},
    {"/get_load", .is_probe = true, .methods = YK_METHOD_GET, .answer = yk_route_get_load},
    {"/tokenizer_info", .methods = YK_METHOD_GET, .prepare = yk_route_tokenizer_info},
    {"/v1/load_lora_adapter", .methods = YK_METHOD_POST, .prepare = yk_route_load_adapter},
    {"/v1/unload_lora_adapter", .methods = YK_METHOD_POST, .prepare = yk_route_unload_adapter},
    {"/reset_prefix_cache", .has_no_body = true, .methods = YK_METHOD_POST, .prepare = yk_route_reset_prefix_cache},
};

enum { N_ROUTES = sizeof routes / sizeof routes[0] };
_Static_assert(N_ROUTES + 2 <= YK_HANDLERS, "YK_HANDLERS counts each route, the page's files, and unknown paths");

static const yk_route file_route = {"/", .is_open = true, .methods = YK_METHOD_GET, .answer = yk_route_file};

const yk_route *yk_route_at(const char *path)
{
  for (size_t i = 0; i < N_ROUTES; i++) {
    size_t length = strlen(routes[i].path);
    bool is_at = routes[i].is_prefix ? strncmp(path, routes[i].path, length) == 0 && path[length]
                                     : strcmp(path, routes[i].path) == 0;
    if (is_at) return &routes[i];
  }
  return yk_page_find(path) ? &file_route : NULL;
}

size_t yk_route_number(const yk_route *route)
{
  if (!route) return N_ROUTES + 1;
  return route == &file_route ? N_ROUTES : (size_t)(route - routes);
}

const char *yk_route_handler(size_t number)
{
  if (number > N_ROUTES) return "none";
  const yk_route *route = number == N_ROUTES ? &file_route : &routes[number];
  return route->handler ? route->handler : route->path;
}

bool yk_route_takes(const yk_route *route, const char *method)
{
  bool is_get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
  if (is_get) return route->methods & YK_METHOD_GET;
  return route->methods & (strcmp(method, "POST") == 0     ? YK_METHOD_POST
                           : strcmp(method, "DELETE") == 0 ? YK_METHOD_DELETE
                                                           : 0u);
}

const char *yk_route_methods(const yk_route *route)
{
  if (route->methods & YK_METHOD_DELETE) return "GET, HEAD, POST, DELETE";
  return route->methods == YK_METHOD_POST ? "POST" : route->methods == YK_METHOD_GET ? "GET, HEAD" : "GET, HEAD, POST";
}

void yk_route_file(yk_exchange *x)
{
  const yk_embedded_file *file = yk_page_find(x->path);
  x->reply.http_status = 200;
  x->reply.content_type = file->content_type;
  x->reply.static_body = (const char *)file->bytes;
  x->reply.static_bytes = file->n_bytes;
}

void yk_route_models(yk_exchange *x)
{
  yk_server *server = x->server;
  size_t n_adapters = 0;
  if (!yk_server_has_engine(x)) return;
  yk_adapter_name *adapters = yk_adapter_names(server->engine, &n_adapters);
  const yk_served_names names = {server->options.model_names, server->options.n_model_names, adapters, n_adapters};
  yk_models_append(&names, server->created_s, server->info.max_model_tokens, &x->reply.body);
  free(adapters);
  yk_reply_json(&x->reply);
}

void yk_route_model(yk_exchange *x)
{
  yk_server *server = x->server;
  const char *name = x->path + strlen(x->route->path);
  const char *adapter;
  if (!yk_server_has_engine(x) || !yk_server_has_model(server, server->engine, name, &adapter, &x->reply)) return;
  yk_model_append(name, adapter ? server->options.model_names[0] : NULL, server->created_s,
                  server->info.max_model_tokens, &x->reply.body);
  yk_reply_json(&x->reply);
}

/* Responses are not stored: none can be retrieved, deleted, cancelled or listed. */
void yk_route_stored_response(yk_exchange *x)
{
  const char *id = x->path + strlen(x->route->path);
  yk_reply_refuse(&x->reply, 404, NULL, "Response with id '%.*s' not found: responses are not stored here",
                  (int)yk_min_i64((int64_t)strcspn(id, "/"), 100), id);
}

void yk_route_health(yk_exchange *x)
{
  yk_server_check_engine(x->server);
  if (!yk_server_explain(x->server, &x->reply)) return;
  int64_t since_ns =
      yk_min_i64(yk_workers_waiting_since(&x->server->workers), yk_workers_waiting_since(&x->server->renderers));
  double waited_s = since_ns == INT64_MAX ? 0 : yk_clock_seconds_since(since_ns);
  if (waited_s <= OVERLOADED_S) {
    x->reply.http_status = 200; /* without a body */
    return;
  }
  yk_reply_refuse(&x->reply, 503, NULL, "overloaded: a request has waited %.1f s to be read and tokenised", waited_s);
  x->reply.retry_after_s = 1;
}

void yk_route_version(yk_exchange *x)
{
  yk_strbuf_append_fmt(&x->reply.body, "{\"version\": \"%s\"}", yk_version());
  yk_reply_json(&x->reply);
}

static void count_profile(yk_server *server)
{
  yk_profile profile;
  yk_engine_get_profile(server->engine, &profile);
  yk_metrics_profile(&server->metrics, &profile);
}

void yk_route_metrics(yk_exchange *x)
{
  yk_server *server = x->server;
  yk_strbuf running = YK_STRBUF_INIT, waiting = YK_STRBUF_INIT;
  yk_metrics_view view;
  yk_server_view(server, &view);
  yk_server_view_adapters(server, &running, &waiting);
  view.running_adapters = running.data;
  view.waiting_adapters = waiting.data;
  if (server->engine) {
    yk_err err = YK_ERR_INIT; /* without memory for the expert counts, the counts are left out */
    yk_engine_get_expert_load(server->engine, false, &view.experts, &err);
    if (server->options.profile_every > 0) count_profile(server);
  }
  yk_metrics_append(&server->metrics, &view, &x->reply.body);
  yk_expert_load_free(&view.experts);
  x->reply.body.failed |= running.failed || waiting.failed;
  yk_strbuf_free(&running);
  yk_strbuf_free(&waiting);
  yk_http_metrics_append(&server->http_metrics, yk_route_handler, &x->reply.body);
  yk_process_metrics_append(server->process_start_s, &x->reply.body);
  yk_reply_json(&x->reply);
  if (x->reply.http_status == 200) x->reply.content_type = "text/plain; version=0.0.4; charset=utf-8";
}
