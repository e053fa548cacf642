#include "server/http_metrics.h"

#include <stdbool.h>
#include <string.h>

/* The last one stands for any other method, since clients choose the names. */
static const char *const methods[YK_HTTP_METHODS] = {"GET", "HEAD",   "POST",  "OPTIONS",
                                                     "PUT", "DELETE", "PATCH", "other"};

static const double low_bounds[YK_HISTOGRAM_BOUNDS] = {0.1, 0.5, 1};
static const double high_bounds[YK_HISTOGRAM_BOUNDS] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1,  1.5, 2,
                                                        2.5,  3,     3.5,  4,     4.5, 5,    7.5, 10,   30, 60};

static const char total[] = "http_requests_total", low[] = "http_request_duration_seconds",
                  high[] = "http_request_duration_highr_seconds";

void yk_http_metrics_init(yk_http_metrics *m)
{
  memset(m, 0, sizeof *m);
  m->seconds.bounds = high_bounds;
  for (size_t i = 0; i < YK_HANDLERS; i++)
    for (size_t j = 0; j < YK_HTTP_METHODS; j++) m->counts[i][j].seconds.bounds = low_bounds;
}

void yk_http_metrics_add(yk_http_metrics *m, size_t handler, const char *method, int http_status, double seconds)
{
  size_t i = 0;
  while (i < YK_HTTP_METHODS - 1 && strcmp(methods[i], method) != 0) i++;
  yk_http_counts *counts = &m->counts[handler][i];
  counts->statuses[http_status ? http_status / 100 - 1 : 3]++;
  yk_histogram_add(&counts->seconds, seconds);
  yk_histogram_add(&m->seconds, seconds);
}

static void head(yk_strbuf *out, const char *name, const char *type, const char *help)
{
  yk_strbuf_append_fmt(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* labels: a comma after each; "" for none. */
static void buckets(yk_strbuf *out, const char *name, const char *labels, const yk_histogram *h)
{
  uint64_t count = 0;
  int n = (int)strlen(labels);
  for (int i = 0; h->bounds[i] > 0; i++) {
    char bound[YK_BOUND_TEXT];
    count += h->counts[i];
    yk_strbuf_append_fmt(out, "%s_bucket{%sle=\"%s\"} %llu\n", name, labels,
                         yk_histogram_bound_format(h->bounds[i], bound), (unsigned long long)count);
  }
  yk_strbuf_append_fmt(out, "%s_bucket{%sle=\"+Inf\"} %llu\n", name, labels, (unsigned long long)h->count);
  yk_strbuf_append_fmt(out, n ? "%s_sum{%.*s} %.17g\n" : "%s_sum%.*s %.17g\n", name, n ? n - 1 : 0, labels, h->sum);
  yk_strbuf_append_fmt(out, n ? "%s_count{%.*s} %llu\n" : "%s_count%.*s %llu\n", name, n ? n - 1 : 0, labels,
                       (unsigned long long)h->count);
}

static void statuses(yk_strbuf *out, const char *labels, const yk_http_counts *counts)
{
  for (int i = 0; i < YK_HTTP_CLASSES; i++)
    if (counts->statuses[i])
      yk_strbuf_append_fmt(out, "%s{%sstatus=\"%dxx\"} %llu\n", total, labels, i + 1,
                           (unsigned long long)counts->statuses[i]);
}

/* Writes the counts of each method at each route that has had a request. */
static void each(const yk_http_metrics *m, const char *(*name_of)(size_t), bool is_durations, yk_strbuf *out)
{
  for (size_t i = 0; i < YK_HANDLERS; i++)
    for (size_t j = 0; j < YK_HTTP_METHODS; j++) {
      char labels[128];
      const yk_http_counts *counts = &m->counts[i][j];
      if (!counts->seconds.count) continue;
      snprintf(labels, sizeof labels, "handler=\"%s\",method=\"%s\",", name_of(i), methods[j]);
      if (is_durations)
        buckets(out, low, labels, &counts->seconds);
      else
        statuses(out, labels, counts);
    }
}

void yk_http_metrics_append(const yk_http_metrics *m, const char *(*name_of)(size_t handler), yk_strbuf *out)
{
  head(out, total, "counter", "Requests that have ended, by route, method and class of status.");
  each(m, name_of, false, out);
  head(out, low, "histogram", "From a request's headers to the last byte of its answer, by route and method.");
  each(m, name_of, true, out);
  head(out, high, "histogram", "The same of all requests, with more buckets.");
  buckets(out, high, "", &m->seconds);
}
