/* http_metrics.h - requests by route, method and class of status, under the names of vLLM's server (those of
 * prometheus-fastapi-instrumentator), which have no prefix. Server thread only. */
#ifndef YK_SERVER_HTTP_METRICS_H
#define YK_SERVER_HTTP_METRICS_H

#include "base/strbuf.h"
#include "server/histogram.h"

enum { YK_HANDLERS = 28, YK_HTTP_METHODS = 8, YK_HTTP_CLASSES = 5 };

/* One method at one route. */
typedef struct yk_http_counts {
  uint64_t statuses[YK_HTTP_CLASSES]; /* [i]: statuses (i + 1) * 100 and up */
  yk_histogram seconds;
} yk_http_counts;

typedef struct yk_http_metrics {
  yk_http_counts counts[YK_HANDLERS][YK_HTTP_METHODS];
  yk_histogram seconds; /* over all methods and routes, with more bounds */
} yk_http_metrics;

void yk_http_metrics_init(yk_http_metrics *metrics);

/* yk_http_metrics_add - count a request that has ended. handler: number of its route, below YK_HANDLERS. http_status:
 *   100 to 599, or 0 if the client left before an answer began, which counts as 4xx. */
void yk_http_metrics_add(yk_http_metrics *metrics, size_t handler, const char *method, int http_status, double seconds);

/* yk_http_metrics_append - Prometheus' text format. name_of: returns a handler's name, which needs no escapes. */
void yk_http_metrics_append(const yk_http_metrics *metrics, const char *(*name_of)(size_t handler), yk_strbuf *out);

#endif
