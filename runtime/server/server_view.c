#include "server/server_view.h"

#include "server/server_internal.h"

void yk_server_view(yk_server *server, yk_metrics_view *out)
{
  *out = (yk_metrics_view){.prefix = server->options.metrics_prefix,
                           .model_name = server->options.model_names[0],
                           .reuses_prefixes = !server->options.engine.no_prefix_reuse};
  for (const yk_exchange *x = server->exchanges.first; x; x = x->next) out->n_preparing += x->state == YK_PREPARING;
  if (!server->engine) return;
  out->info = &server->info;
  yk_engine_get_stats(server->engine, &out->stats);
}
