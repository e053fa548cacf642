/* server_view.h - the server's present state for metrics and log. Server thread. */
#ifndef YK_SERVER_SERVER_VIEW_H
#define YK_SERVER_SERVER_VIEW_H

#include "server/connection.h"
#include "server/metrics.h"

/* yk_server_view - everything except the load of experts, which the caller adds. */
void yk_server_view(yk_server *server, yk_metrics_view *out);

#endif
