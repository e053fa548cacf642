/* server_view.h - the server's present state for metrics and log. Server thread. */
#ifndef YK_SERVER_SERVER_VIEW_H
#define YK_SERVER_SERVER_VIEW_H

#include "server/connection.h"
#include "server/metrics.h"

/* yk_server_view - everything except the load of experts and the names of adapters, which the caller adds. */
void yk_server_view(yk_server *server, yk_metrics_view *out);

/* yk_server_view_adapters - write the names of loaded adapters with commas between: to running those of requests that
 *   have a token, to waiting those of requests without a token yet; an adapter may be in both. */
void yk_server_view_adapters(const yk_server *server, yk_strbuf *running, yk_strbuf *waiting);

#endif
