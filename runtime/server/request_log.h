/* request_log.h - a log line for each request that is refused or fails and, if so configured, two lines for every
 * request, which quote the client's data. */
#ifndef YK_SERVER_REQUEST_LOG_H
#define YK_SERVER_REQUEST_LOG_H

#include "server/exchange.h"

/* yk_request_log_begin, yk_request_log_end - one line when a request has arrived, with its body, and one when the
 *   request has ended, if requests are logged; a failure is logged in any case. is_complete: the client has the whole
 *   answer. Server thread. */
void yk_request_log_begin(const yk_exchange *exchange);
void yk_request_log_end(const yk_exchange *exchange, bool is_complete);

#endif
