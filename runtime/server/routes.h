/* routes.h - what is served where, by which methods, and to whom. */
#ifndef YK_SERVER_ROUTES_H
#define YK_SERVER_ROUTES_H

#include "server/exchange.h"

enum { YK_METHOD_GET = 1, YK_METHOD_POST = 2 };

struct yk_route {
  const char *path;
  const char *handler; /* its name in metrics and the log; NULL: the path */
  bool is_prefix;      /* the path and anything behind it */
  bool has_no_body;    /* a POST without one, or whose body does not matter */
  bool is_probe;       /* asked by monitors all the time: neither counted nor logged */
  bool is_open;        /* no key is asked for */
  bool may_render;     /* prepare may wait for the helper process that renders chat templates */
  unsigned methods;
  void (*answer)(yk_exchange *exchange);  /* server thread: fills the reply at once; or NULL */
  void (*prepare)(yk_exchange *exchange); /* a worker's thread: fills the reply, or submits */
};

/* yk_route_at - what is at a path, by any method; NULL: nothing. */
const yk_route *yk_route_at(const char *path);

/* yk_route_number - its handler's in http_metrics.h: one for each route, and one for NULL, which stands for any path
 *   with nothing at it. */
size_t yk_route_number(const yk_route *route);

/* yk_route_handler - the name of the route with that number; "none" for NULL's; static. */
const char *yk_route_handler(size_t number);

/* yk_route_takes - whether a route takes a method; "HEAD" is taken for "GET". */
bool yk_route_takes(const yk_route *route, const char *method);

/* yk_route_methods - what a route takes, as the header Allow lists it; static. */
const char *yk_route_methods(const yk_route *route);

/* Routes' functions; see routes.c. */
void yk_route_models(yk_exchange *exchange);
void yk_route_model(yk_exchange *exchange);
void yk_route_health(yk_exchange *exchange);
void yk_route_version(yk_exchange *exchange);
void yk_route_metrics(yk_exchange *exchange);
void yk_route_file(yk_exchange *exchange);
void yk_route_tokenize(yk_exchange *exchange);
void yk_route_detokenize(yk_exchange *exchange);
void yk_route_server_info(yk_exchange *exchange);
void yk_route_model_info(yk_exchange *exchange);
void yk_route_loads(yk_exchange *exchange);
void yk_route_reset_prefix_cache(yk_exchange *exchange);
void yk_route_tokenizer_info(yk_exchange *exchange);

#endif
