/* process_metrics.h - the metrics that Prometheus' client libraries report for every process: process_... */
#ifndef YK_SERVER_PROCESS_METRICS_H
#define YK_SERVER_PROCESS_METRICS_H

#include "base/strbuf.h"

/* yk_process_start_s - Unix time at which this process began; 0 if /proc does not have it. Call once: a change of the
 *   clock would change the result. */
double yk_process_start_s(void);

/* yk_process_metrics_append - Prometheus' text format. Values that /proc lacks are left out. */
void yk_process_metrics_append(double start_s, yk_strbuf *out);

#endif
