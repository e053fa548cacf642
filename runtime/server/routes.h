/* routes.h - what is served where, by which methods, and to whom. */
#ifndef YK_SERVER_ROUTES_H
#define YK_SERVER_ROUTES_H

#include "server/exchange.h"

enum { YK_METHOD_GET = 1, YK_METHOD_POST = 2, YK_METHOD_OPTIONS = 4 };

struct yk_route {
  const char *path;
  bool is_prefix; /* the path and anything behind it */
  bool is_open;   /* no key is asked for */
  unsigned methods;
  void (*answer)(yk_exchange *exchange);  /* server thread: fills the reply at once; or NULL */
  void (*prepare)(yk_exchange *exchange); /* a worker's thread: fills the reply, or submits */
};

/* yk_route_find - the route of a request by method and path. NULL: *allow is NULL where nothing is at the path, else
 *   the methods that there are. "HEAD" is taken for "GET". */
const yk_route *yk_route_find(const char *method, const char *path, const char **allow);

/* Routes' functions; see routes.c. */
void yk_route_models(yk_exchange *exchange);
void yk_route_model(yk_exchange *exchange);
void yk_route_health(yk_exchange *exchange);
void yk_route_version(yk_exchange *exchange);
void yk_route_metrics(yk_exchange *exchange);
void yk_route_file(yk_exchange *exchange);
void yk_route_tokenize(yk_exchange *exchange);
void yk_route_detokenize(yk_exchange *exchange);

#endif
