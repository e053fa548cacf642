#include "server/engine_state.h"

#include <string.h>

#include "server/adapters.h"
#include "server/listen.h"

/* The server thread answers a late request before a worker notices that it is late. */
static const double GRACE_S = 0.2;

static void adopt(yk_server *server, yk_engine *engine)
{
  server->engine = engine;
  server->has_failed = false;
  yk_engine_get_info(engine, &server->info);
  yk_err err = YK_ERR_INIT;
  if (yk_token_texts_create(engine, &server->texts, &err) != YK_OK)
    yk_log_write(server->log, YK_LOG_ERROR, "%s", err.message);
  const yk_engine_info *info = &server->info;
  yk_log_write(server->log, YK_LOG_INFO, "serving %.100s: %s, %s, on %d %s rank%s, loaded in %.2f s",
               server->options.model_names[0], info->family, info->dtype, info->n_ranks, info->device,
               info->n_ranks > 1 ? "s" : "", info->load_s);
  if (!server->was_ready) yk_service_notify("READY=1");
  server->was_ready = true;
}

static bool is_used(const yk_server *server)
{
  for (const yk_exchange *x = server->exchanges.first; x; x = x->next)
    if (x->state == YK_RUNNING && x->engine) return true;
  return false;
}

/* Release a failed engine. No answer needs the texts of its tokens any more. */
static void let_go(yk_server *server)
{
  yk_engine_stats stats;
  yk_engine_get_stats(server->engine, &stats);
  yk_metrics_engine_gone(&server->metrics, &stats);
  yk_token_texts_free(server->texts);
  server->texts = NULL;
  server->engine = NULL;
  yk_engine_host_release(&server->host);
}

void yk_server_follow_host(yk_server *server)
{
  if (server->engine && server->has_failed && !is_used(server)) let_go(server);
  bool may_adopt = !server->engine && atomic_load(&server->has_chat);
  yk_engine *engine = may_adopt ? yk_engine_host_acquire(&server->host) : NULL;
  if (engine) adopt(server, engine);
}

/* A run of several processes that does not restart ends, and reports its failure then. */
static void log_failure(const yk_server *server, const yk_err *failure)
{
  const yk_server_options *options = &server->options;
  if (options->restarts_on_failure)
    yk_log_write(server->log, YK_LOG_ERROR, "%s; loading the model again", failure->message);
  else if (options->engine.n_processes <= 1)
    yk_log_write(server->log, YK_LOG_ERROR, "%s; requests are refused from now on", failure->message);
}

void yk_server_check_engine(yk_server *server)
{
  yk_err err = YK_ERR_INIT;
  if (!server->engine || server->has_failed || yk_engine_check(server->engine, &err) == YK_OK) return;
  server->has_failed = true;
  log_failure(server, &err);
  yk_engine_host_fail(&server->host, &err);
  for (yk_exchange *x = server->exchanges.first; x; x = x->next) /* their requests have ended, or will end at once */
    if (x->state == YK_RUNNING) yk_ready_push(&server->ready, &x->news);
}

bool yk_server_explain(yk_server *server, yk_reply *reply)
{
  yk_err why;
  yk_host_state state = yk_engine_host_look(&server->host, &why);
  if (atomic_load(&server->is_draining))
    yk_reply_refuse(reply, 503, NULL, "the server is shutting down");
  else if (state == YK_HOST_SERVING && atomic_load(&server->has_chat))
    return true;
  else if (state == YK_HOST_BROKEN)
    yk_reply_refuse(reply, 503, NULL, "the engine has failed: %s", why.message);
  else
    yk_reply_refuse(reply, 503, NULL, "the model is loading");
  if (state == YK_HOST_LOADING || state == YK_HOST_SERVING) reply->retry_after_s = 5;
  return false;
}

bool yk_server_has_model(const yk_server *server, yk_engine *engine, const char *model, const char **adapter,
                         yk_reply *reply)
{
  const yk_server_options *options = &server->options;
  *adapter = NULL;
  if (!model || !model[0]) return true;
  for (size_t i = 0; i < options->n_model_names; i++)
    if (strcmp(model, options->model_names[i]) == 0) return true;
  if (yk_adapter_is_loaded(engine, model)) {
    *adapter = model;
    return true;
  }
  yk_reply_refuse(reply, 404, "model_not_found", "the model \"%.100s\" is not served here", model);
  return false;
}

bool yk_server_has_engine(yk_exchange *x)
{
  yk_server_follow_host(x->server);
  return yk_server_explain(x->server, &x->reply);
}

bool yk_exchange_lease_engine(yk_exchange *x)
{
  yk_server *server = x->server;
  do {
    if (atomic_load(&server->has_chat) && !atomic_load(&server->is_draining))
      x->engine = yk_engine_host_acquire(&server->host);
  } while (!x->engine && yk_server_explain(server, &x->reply)); /* true: the engine has begun to serve since */
  return x->engine != NULL;
}

void yk_exchange_return_engine(yk_exchange *x)
{
  x->engine = NULL;
  yk_engine_host_release(&x->server->host);
}

int64_t yk_exchange_deadline_ns(const yk_exchange *x)
{
  double limit_s = x->server->options.request_timeout_s;
  return limit_s > 0 ? x->began_ns + (int64_t)((limit_s + GRACE_S) * 1e9) : 0;
}
