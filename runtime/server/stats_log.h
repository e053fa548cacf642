/* stats_log.h - a line every few seconds while there is something to do: what runs and waits, tokens a second, the KV
 * cache. Server thread. */
#ifndef YK_SERVER_STATS_LOG_H
#define YK_SERVER_STATS_LOG_H

#include <stdint.h>

#include "server/connection.h"

/* yk_stats_log_expire - look at what has been done, if it is time, and write the line, where that is wanted.
 *   Returns when to look again; INT64_MAX: not before the next request. */
int64_t yk_stats_log_expire(yk_server *server, int64_t now_ns);

#endif
