/* figures.h - figures of a point from its runs: median and interval of each metric. A metric is any named number of a
 * run; runs that lack the metric are ignored. */
#ifndef YK_STUDY_FIGURES_H
#define YK_STUDY_FIGURES_H

#include "base/json_tree.h"
#include "study/stats.h"

/* One metric of one point. */
typedef struct yk_figure {
  double median;
  bool has_interval; /* there are runs of at least two starts */
  yk_interval interval;
  double *start_medians; /* [n_starts], owned */
  size_t n_starts;
} yk_figure;

/* yk_figure_make - from an array of runs {"start", metric, ...}; without starts if no run has the metric. Free with
 *   yk_figure_free. Errors: YK_E_NOMEM, with nothing to free. */
yk_status yk_figure_make(const json_t *runs, const char *metric, yk_figure *out, yk_err *err);
void yk_figure_free(yk_figure *figure);

/* yk_figure_is_metric - whether a member of a run is a metric: a number other than "start" and "repeat". */
bool yk_figure_is_metric(const char *name, const json_t *value);

/* yk_figures_add - set the median of every metric of the runs in point, and "intervals". Errors: YK_E_NOMEM. */
yk_status yk_figures_add(json_t *point, const json_t *runs, yk_err *err);

/* yk_figure_ratio - a / b of the medians, and its interval. False: b is 0, or either has no starts. has_interval: see
 *   yk_stats_ratio_interval. */
bool yk_figure_ratio(const yk_figure *a, const yk_figure *b, double *ratio, bool *has_interval, yk_interval *interval);

/* yk_interval_json - [low, high] times scale; belongs to the caller. */
json_t *yk_interval_json(yk_interval interval, double scale);

#endif
