/* server_view.h - what the server tells of the present. Server thread. */
#ifndef YK_SERVER_SERVER_VIEW_H
#define YK_SERVER_SERVER_VIEW_H

#include "server/connection.h"
#include "server/metrics.h"

/* yk_server_view - everything but the load of experts, which is the caller's to add. */
void yk_server_view(yk_server *server, yk_metrics_view *out);

#endif
