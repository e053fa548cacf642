#include "server/request_log.h"

#include "base/clock.h"
#include "base/quote.h"
#include "server/generation.h"
#include "server/routes.h"
#include "server/server_internal.h"

enum { QUOTED_BYTES = 300 };

void yk_request_log_begin(const yk_exchange *x)
{
  char quoted[QUOTED_BYTES + 1];
  if (!x->server->options.logs_requests) return;
  size_t n_bytes = yk_quote(x->body.data, x->body.length, quoted, sizeof quoted); /* the body may contain NULs */
  yk_log_write(x->server->log, YK_LOG_INFO, "%.10s %.100s, request %s: %s%s", x->method, x->path, x->request_id, quoted,
               x->body.length > n_bytes ? "..." : "");
}

/* 503 for a probe during loading is not a failure. */
static void log_failure(const yk_exchange *x)
{
  const yk_reply *reply = yk_exchange_reply(x);
  bool is_refused = reply->http_status >= 400;
  if (!reply->why[0] || (x->place && x->place->is_probe && reply->http_status == 503)) return;
  yk_log_write(x->server->log, !is_refused || reply->http_status >= 500 ? YK_LOG_WARN : YK_LOG_INFO,
               "%s %.10s %s with %d, request %s: %s", is_refused ? "refused" : "broke off", x->method,
               x->place ? yk_route_handler(yk_route_number(x->place)) : "(no route)", reply->http_status, x->request_id,
               reply->why);
}

void yk_request_log_end(const yk_exchange *x, bool is_complete)
{
  bool has_worker = x->state == YK_PREPARING; /* the worker may be writing the fields */
  log_failure(x);
  if (!x->server->options.logs_requests) return;
  const yk_generation *g = has_worker ? NULL : x->generation;
  yk_log_write(x->server->log, YK_LOG_INFO,
               "%.10s %.100s: %d%s, %lld prompt tokens, %lld output tokens, %.3f s, request %s", x->method, x->path,
               yk_exchange_reply(x)->http_status, is_complete ? "" : " (not delivered)",
               g ? (long long)g->n_prompt_tokens : 0, g ? (long long)g->n_output_tokens : 0,
               yk_clock_seconds_since(x->began_ns), x->request_id);
}
