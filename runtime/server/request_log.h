/* request_log.h - a log line for each request that is refused or fails and, if so configured, two lines for every
 * request, which quote what the client sent. */
#ifndef YK_SERVER_REQUEST_LOG_H
#define YK_SERVER_REQUEST_LOG_H

#include "server/exchange.h"

void yk_request_log_begin(const yk_exchange *exchange);
void yk_request_log_end(const yk_exchange *exchange, bool is_complete);

#endif
