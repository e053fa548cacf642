#include "study/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool yk_figure_is_metric(const char *name, const json_t *value)
{
  return json_is_number(value) && strcmp(name, "start") != 0 && strcmp(name, "repeat") != 0;
}

json_t *yk_interval_json(yk_interval interval, double scale)
{
  return json_pack("[f, f]", interval.low * scale, interval.high * scale);
}

/* Collects the metric's values and starts. Returns the number of runs that have the metric. */
static size_t collect(const json_t *runs, const char *metric, double *values, int *starts)
{
  size_t i, n = 0;
  json_t *run;
  json_array_foreach(runs, i, run)
  {
    const json_t *value = json_object_get(run, metric);
    if (!json_is_number(value)) continue;
    values[n] = json_number_value(value);
    starts[n++] = (int)json_integer_value(json_object_get(run, "start"));
  }
  return n;
}

yk_status yk_figure_make(const json_t *runs, const char *metric, yk_figure *out, yk_err *err)
{
  size_t n_max = json_array_size(runs) + 1;
  double *values = calloc(n_max, 2 * sizeof *values);
  int *starts = calloc(n_max, sizeof *starts);
  *out = (yk_figure){.start_medians = calloc(n_max, sizeof *out->start_medians)};
  bool has_memory = values && starts && out->start_medians;
  size_t n = has_memory ? collect(runs, metric, values, starts) : 0;
  if (n > 0) {
    out->n_starts = yk_stats_start_medians(values, starts, n, out->start_medians, values + n_max);
    out->median = yk_stats_median(values, n);
    out->has_interval = yk_stats_interval(out->start_medians, out->n_starts, &out->interval);
    yk_interval_include(&out->interval, out->median);
  }
  free(values);
  free(starts);
  if (has_memory) return YK_OK;
  yk_figure_free(out);
  return yk_err_set(err, YK_E_NOMEM, "no memory for the figures of a point");
}

void yk_figure_free(yk_figure *figure)
{
  free(figure->start_medians);
  *figure = (yk_figure){0};
}

bool yk_figure_ratio(const yk_figure *a, const yk_figure *b, double *ratio, bool *has_interval, yk_interval *interval)
{
  if (!(b->median > 0) || a->n_starts == 0) return false;
  *ratio = a->median / b->median;
  *has_interval = yk_stats_ratio_interval(a->start_medians, a->n_starts, b->start_medians, b->n_starts, interval);
  if (*has_interval) yk_interval_include(interval, *ratio);
  return true;
}

static int add_metric(json_t *point, json_t *intervals, const json_t *runs, const char *metric)
{
  yk_figure figure;
  if (json_object_get(point, metric)) return 0;
  if (yk_figure_make(runs, metric, &figure, NULL) != YK_OK) return -1;
  int failed = json_object_set_new(point, metric, json_real(figure.median));
  if (figure.has_interval) failed |= json_object_set_new(intervals, metric, yk_interval_json(figure.interval, 1));
  yk_figure_free(&figure);
  return failed;
}

yk_status yk_figures_add(json_t *point, const json_t *runs, yk_err *err)
{
  json_t *intervals = json_object(), *run, *value;
  const char *metric;
  size_t i;
  int failed = intervals == NULL;
  json_array_foreach(runs, i, run)
  {
    json_object_foreach(run, metric, value)
    {
      if (yk_figure_is_metric(metric, value)) failed |= add_metric(point, intervals, runs, metric);
    }
  }
  failed |= json_object_set_new(point, "intervals", intervals);
  return failed ? yk_err_set(err, YK_E_NOMEM, "no memory for the figures of a point") : YK_OK;
}
