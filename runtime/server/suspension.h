/* suspension.h - suspends exchanges in libmicrohttpd until there is something to send. Server thread. */
#ifndef YK_SERVER_SUSPENSION_H
#define YK_SERVER_SUSPENSION_H

#include "server/exchange.h"

/* yk_exchange_suspend - call only from libmicrohttpd's callbacks. */
void yk_exchange_suspend(yk_exchange *exchange);

/* yk_exchange_resume - resume a suspended exchange; else no effect. */
void yk_exchange_resume(yk_exchange *exchange);

#endif
