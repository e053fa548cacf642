#include "server/server_view.h"

#include <stdlib.h>
#include <string.h>

#include "server/adapters.h"
#include "server/generation.h"
#include "server/server_internal.h"

void yk_server_view(yk_server *server, yk_metrics_view *out)
{
  *out = (yk_metrics_view){.prefix = server->options.metrics_prefix,
                           .model_name = server->options.model_names[0],
                           .reuses_prefixes = !server->options.engine.no_prefix_reuse,
                           .max_adapters = server->options.engine.max_adapters};
  for (const yk_exchange *x = server->exchanges.first; x; x = x->next) out->n_preparing += x->state == YK_PREPARING;
  if (!server->engine) return;
  out->info = &server->info;
  yk_engine_get_stats(server->engine, &out->stats);
}

static bool has_token(const yk_generation *g)
{
  for (size_t i = 0; i < g->n_choices; i++)
    if (g->token_ns[i]) return true;
  return false;
}

static void append_name(yk_strbuf *out, const char *name)
{
  if (out->length) yk_strbuf_append_str(out, ",");
  yk_strbuf_append_str(out, name);
}

void yk_server_view_adapters(const yk_server *server, yk_strbuf *running, yk_strbuf *waiting)
{
  size_t n;
  if (!server->engine) return;
  yk_adapter_name *names = yk_adapter_names(server->engine, &n);
  for (size_t i = 0; i < n; i++) {
    bool runs = false, waits = false;
    for (const yk_exchange *x = server->exchanges.first; x; x = x->next) {
      const yk_generation *g = x->state == YK_RUNNING ? x->generation : NULL;
      if (!g || g->has_ended || strcmp(g->adapter, names[i].text) != 0) continue;
      *(has_token(g) ? &runs : &waits) = true;
    }
    if (runs) append_name(running, names[i].text);
    if (waits) append_name(waiting, names[i].text);
  }
  free(names);
}
