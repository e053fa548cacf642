/* suspension.h - exchanges that libmicrohttpd leaves alone until there is something to tell it. Server thread. */
#ifndef YK_SERVER_SUSPENSION_H
#define YK_SERVER_SUSPENSION_H

#include "server/exchange.h"

/* yk_exchange_suspend - from libmicrohttpd's callbacks alone. */
void yk_exchange_suspend(yk_exchange *exchange);

/* yk_exchange_resume - have libmicrohttpd look at it again, where it is suspended. */
void yk_exchange_resume(yk_exchange *exchange);

#endif
