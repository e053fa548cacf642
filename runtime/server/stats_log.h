/* stats_log.h - a log line every few seconds while there is work: running and waiting requests, tokens per second, the
 * KV cache. Server thread. */
#ifndef YK_SERVER_STATS_LOG_H
#define YK_SERVER_STATS_LOG_H

#include <stdint.h>

#include "server/connection.h"

/* yk_stats_log_expire - update the statistics if the interval is over, and, if so configured, write the line.
 *   Returns when to call again; INT64_MAX: not before the next request. */
int64_t yk_stats_log_expire(yk_server *server, int64_t now_ns);

#endif
