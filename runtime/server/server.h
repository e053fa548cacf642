/* server.h - an OpenAI endpoint over HTTP in front of one engine.
 *
 * One thread serves all connections (libmicrohttpd on epoll; a stream that waits for tokens is a suspended connection).
 * YK_WORKERS further threads (workers.h) read bodies, render chat templates, tokenise and submit, and YK_WORKERS more
 * process requests that may wait for a template's helper process. One thread loads the engine, and loads it again after
 * a failure. See README.md in this folder. */
#ifndef YK_SERVER_SERVER_H
#define YK_SERVER_SERVER_H

#include "server/server_options.h"

/* yk_server_run - serve until SIGTERM or SIGINT; a second signal ends the process at once. Call the function while the
 *   process has no other threads: they must inherit the blocked signals. *all_freed: whether the engine was freed, see
 *   yk_engine_destroy.
 *   Errors: YK_E_INVAL (an option), YK_E_IO (the port), those of yk_engine_create. */
yk_status yk_server_run(const yk_server_options *options, bool *all_freed, yk_err *err);

#endif
