/* engine_state.h - the server thread's view of the engine: serving or failed. */
#ifndef YK_SERVER_ENGINE_STATE_H
#define YK_SERVER_ENGINE_STATE_H

#include "server/server_internal.h"

/* yk_server_follow_host - adopt an engine that has been loaded, release one that has failed. Server thread. */
void yk_server_follow_host(yk_server *server);

/* yk_server_check_engine - after a request's failure: checks whether the engine has failed as a whole. If so, the
 *   engine receives no further requests, and every running exchange is listed as ready, so that it reads the failure.
 *   Server thread. */
void yk_server_check_engine(yk_server *server);

/* yk_server_has_engine - whether server->engine and info can be used for this exchange; if not, its reply gives the
 *   reason. Server thread. */
bool yk_server_has_engine(yk_exchange *exchange);

/* yk_exchange_lease_engine - a lease for the work of an exchange. False: there is none, and the reply gives the reason.
 *   A worker's thread. */
bool yk_exchange_lease_engine(yk_exchange *exchange);

/* yk_exchange_deadline_ns - when work for the request ends, shortly after the server thread has answered that the
 *   request is late; 0: never. Any thread. */
int64_t yk_exchange_deadline_ns(const yk_exchange *exchange);

/* yk_exchange_return_engine - return the lease: the exchange no longer uses the engine. The thread that owns the
 *   exchange. */
void yk_exchange_return_engine(yk_exchange *exchange);

/* yk_server_explain - true: the engine can be used, and the reply is unchanged. False: the reply, with 503, gives the
 *   reason. Any thread. */
bool yk_server_explain(yk_server *server, yk_reply *reply);

/* yk_server_has_model - whether a request names the served model or an adapter of it; NULL and "" name the model too.
 *   If not, the reply is a 404. *adapter: model if it is an adapter's name, else NULL. Any thread with a lease of the
 *   engine. */
bool yk_server_has_model(const yk_server *server, yk_engine *engine, const char *model, const char **adapter,
                         yk_reply *reply);

#endif
