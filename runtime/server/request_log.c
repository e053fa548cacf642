#include "server/request_log.h"

#include "base/clock.h"
#include "base/quote.h"
#include "server/generation.h"
#include "server/server_internal.h"

enum { QUOTED_BYTES = 300 };

void yk_request_log_begin(const yk_exchange *x)
{
  char quoted[QUOTED_BYTES + 1];
  if (!x->server->options.logs_requests) return;
  size_t n_bytes = yk_quote(x->body.data, x->body.length, quoted, sizeof quoted); /* which may hold NULs */
  yk_log_write(x->server->log, YK_LOG_INFO, "%.10s %.100s %s%s", x->method, x->path, quoted,
               x->body.length > n_bytes ? "..." : "");
}

void yk_request_log_end(const yk_exchange *x, bool is_complete)
{
  if (!x->server->options.logs_requests) return;
  bool has_worker = x->state == YK_PREPARING; /* which writes what it works on */
  const yk_generation *g = has_worker ? NULL : x->generation;
  yk_log_write(x->server->log, YK_LOG_INFO, "%.10s %.100s: %d%s, %lld prompt tokens, %lld output tokens, %.3f s",
               x->method, x->path, has_worker ? 0 : x->reply.http_status, is_complete ? "" : " (not delivered)",
               g ? (long long)g->n_prompt_tokens : 0, g ? (long long)g->n_output_tokens : 0,
               yk_clock_seconds_since(x->began_ns));
}
