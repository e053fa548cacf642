/* routes.h - the table of routes: path, methods, access. */
#ifndef YK_SERVER_ROUTES_H
#define YK_SERVER_ROUTES_H

#include "openai/protocol.h"
#include "server/exchange.h"

enum { YK_METHOD_GET = 1, YK_METHOD_POST = 2, YK_METHOD_DELETE = 4 };

struct yk_route {
  const char *path;
  const char *handler; /* name in metrics and the log; NULL: the path */
  bool is_prefix;      /* matches the path and all paths below */
  bool has_no_body;    /* a POST without a body, or whose body is ignored */
  bool is_probe;       /* polled by monitors: neither counted nor logged */
  bool is_open;        /* requires no key */
  bool may_render;     /* prepare may wait for the helper process that renders chat templates */
  unsigned methods;
  const yk_protocol *protocol;            /* of requests and errors; NULL: requests of no protocol */
  void (*answer)(yk_exchange *exchange);  /* server thread: fills the reply at once; or NULL */
  void (*prepare)(yk_exchange *exchange); /* a worker's thread: fills the reply, or submits */
};

/* yk_route_at - the route of a path, for any method; NULL: none. */
const yk_route *yk_route_at(const char *path);

/* yk_route_number - the number of its handler in http_metrics.h: one for each route, and one for NULL, which stands for
 *   all paths without a route. */
size_t yk_route_number(const yk_route *route);

/* yk_route_handler - the name of the route with that number; "none" for NULL's; static. */
const char *yk_route_handler(size_t number);

/* yk_route_takes - whether a route accepts a method; "HEAD" counts as "GET". */
bool yk_route_takes(const yk_route *route, const char *method);

/* yk_route_methods - the methods of a route in the form of the header Allow; static. */
const char *yk_route_methods(const yk_route *route);

/* The routes' functions, in routes.c, route_*.c and tokenizer_info.c. */
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
void yk_route_get_load(yk_exchange *exchange);
void yk_route_reset_prefix_cache(yk_exchange *exchange);
void yk_route_tokenizer_info(yk_exchange *exchange);
void yk_route_load_adapter(yk_exchange *exchange);
void yk_route_unload_adapter(yk_exchange *exchange);
void yk_route_stored_response(yk_exchange *exchange);
void yk_route_count_tokens(yk_exchange *exchange);

#endif
