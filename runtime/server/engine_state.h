/* engine_state.h - what the server thread knows of the engine: that it serves, and that it has failed. */
#ifndef YK_SERVER_ENGINE_STATE_H
#define YK_SERVER_ENGINE_STATE_H

#include "server/server_internal.h"

/* yk_server_follow_host - take notice of an engine that has been loaded, or has been given up. Server thread. */
void yk_server_follow_host(yk_server *server);

/* yk_server_check_engine - after a request's failure: whether the engine has failed as a whole. Then no more work goes
 *   to it, and every exchange that runs is listed as ready, so that it reads the failure. Server thread. */
void yk_server_check_engine(yk_server *server);

/* yk_server_has_engine - whether server->engine and info are there for this exchange; else its reply says why not.
 *   Server thread. */
bool yk_server_has_engine(yk_exchange *exchange);

/* yk_exchange_lease_engine - a lease for the work of an exchange. False: the reply says why there is none. A worker's
 *   thread. */
bool yk_exchange_lease_engine(yk_exchange *exchange);

/* yk_exchange_deadline_ns - when work for the request ends, a little after the server thread has answered that it is
 *   late; 0: never. Any thread. */
int64_t yk_exchange_deadline_ns(const yk_exchange *exchange);

/* yk_exchange_return_engine - give the lease back: nothing of the exchange uses the engine any more. The thread that
 *   has the exchange. */
void yk_exchange_return_engine(yk_exchange *exchange);

/* yk_server_explain - a reply, with 503, that says why there is no engine to work with. True where there is one: the
 *   reply is left alone. Any thread. */
bool yk_server_explain(yk_server *server, yk_reply *reply);

/* yk_server_has_model - whether the model that a request names is the one that is served, as NULL and "" are; else the
 *   reply, with 404, says so. Any thread. */
bool yk_server_has_model(const yk_server *server, const char *model, yk_reply *reply);

#endif
