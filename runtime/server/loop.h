/* loop.h - the event loop of the server thread. */
#ifndef YK_SERVER_LOOP_H
#define YK_SERVER_LOOP_H

#include "base/status.h"

typedef struct yk_server yk_server;

/* yk_loop_run - serve until a signal has ended the loop. Errors: those of loading the model, also again after a rank
 * has failed. */
yk_status yk_loop_run(yk_server *server, yk_err *err);

#endif
