/* loop.h - what the server thread does all the time. */
#ifndef YK_SERVER_LOOP_H
#define YK_SERVER_LOOP_H

#include "base/status.h"

typedef struct yk_server yk_server;

/* yk_loop_run - serve until a signal has been obeyed. Errors: that the model cannot be loaded, or not again. */
yk_status yk_loop_run(yk_server *server, yk_err *err);

#endif
