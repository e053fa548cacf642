/* process_metrics.h - what Prometheus' client libraries tell of every process: process_... */
#ifndef YK_SERVER_PROCESS_METRICS_H
#define YK_SERVER_PROCESS_METRICS_H

#include "base/strbuf.h"

/* yk_process_start_s - Unix time at which this process began; 0 where /proc does not tell. Call it once: setting the
 *   clock would move it. */
double yk_process_start_s(void);

/* yk_process_metrics_append - Prometheus' text format. What /proc does not tell is left out. */
void yk_process_metrics_append(double start_s, yk_strbuf *out);

#endif
