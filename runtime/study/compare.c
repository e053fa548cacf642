#include "study/compare.h"

#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "study/figures.h"
#include "study/scaling.h"

static bool is_better_small(const char *metric)
{
  static const char *const whole[] = {"duration", "preemptions", "memory_bytes", "between_share"};
  size_t length = strlen(metric);
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
    if (strcmp(metric, whole[i]) == 0) return true;
  const char *end = metric + (length > 3 ? length - 3 : 0);
  return strcmp(end, "_ms") == 0 || strcmp(end, "_us") == 0 || strncmp(metric, "energy", 6) == 0;
}

/* "2 ranks, batch 64, ..."; NULL: no memory. */
static char *name_of(const json_t *point)
{
  char *key = yk_scaling_key(point);
  yk_strbuf name = YK_STRBUF_INIT;
  int ranks = (int)json_integer_value(json_object_get(point, "ranks"));
  if (key) yk_strbuf_append_fmt(&name, "%d rank%s, %s", ranks, ranks == 1 ? "" : "s", key);
  free(key);
  if (name.data && !name.failed) return name.data;
  yk_strbuf_free(&name);
  return NULL;
}

static yk_status find_ratio(yk_compared *pair, const char *metric, yk_err *err)
{
  yk_figure a = {0}, b = {0};
  yk_status status = yk_figure_make(json_object_get(pair->a, "runs"), metric, &a, err);
  if (status == YK_OK) status = yk_figure_make(json_object_get(pair->b, "runs"), metric, &b, err);
  pair->has_starts = a.n_starts > 1 && b.n_starts > 1;
  pair->value_a = a.median;
  pair->value_b = b.median;
  if (status == YK_OK && yk_figure_ratio(&b, &a, &pair->ratio, &pair->has_interval, &pair->interval)) {
    bool is_less = pair->interval.high<1, is_more = pair->interval.low> 1;
    pair->is_significant = pair->has_interval && (is_less || is_more);
    pair->slowdown_percent = 100 * (is_better_small(metric) ? pair->ratio - 1 : 1 - pair->ratio);
  }
  yk_figure_free(&a);
  yk_figure_free(&b);
  return status;
}

/* Adds the points of A, or then those of B. A point of B is added to the entry of the same point of A. */
static yk_status add_points(const json_t *study, bool is_b, yk_compared *all, size_t *n, yk_err *err)
{
  json_t *point;
  size_t i;
  json_array_foreach(json_object_get(study, "points"), i, point)
  {
    yk_compared *found = NULL;
    char *name = name_of(point);
    if (!name) return yk_err_set(err, YK_E_NOMEM, "no memory to compare points");
    for (size_t j = 0; j < *n && !found; j++)
      if (strcmp(all[j].name, name) == 0) found = &all[j];
    if (found && (is_b ? found->b : found->a)) {
      yk_err_set(err, YK_E_FORMAT, "study %s has a point twice: %.150s", is_b ? "B" : "A", name);
      free(name);
      return YK_E_FORMAT;
    }
    if (found) {
      free(name);
    } else {
      found = &all[(*n)++];
      found->name = name;
    }
    *(is_b ? &found->b : &found->a) = point;
  }
  return YK_OK;
}

yk_status yk_study_compare(const json_t *study_a, const json_t *study_b, const char *metric, yk_compared **out,
                           size_t *n, yk_err *err)
{
  size_t n_max =
      json_array_size(json_object_get(study_a, "points")) + json_array_size(json_object_get(study_b, "points"));
  yk_compared *all = calloc(n_max + 1, sizeof *all);
  bool has_ratio = false;
  *n = 0;
  *out = NULL;
  if (!all) return yk_err_set(err, YK_E_NOMEM, "no memory to compare %zu points", n_max);
  yk_status status = add_points(study_a, false, all, n, err);
  if (status == YK_OK) status = add_points(study_b, true, all, n, err);
  for (size_t i = 0; status == YK_OK && i < *n; i++) {
    if (all[i].a && all[i].b) status = find_ratio(&all[i], metric, err);
    has_ratio |= all[i].ratio > 0;
  }
  if (status == YK_OK && !has_ratio)
    status = yk_err_set(err, YK_E_INVAL, "the studies have no point in common with the metric %.60s", metric);
  if (status == YK_OK) {
    *out = all;
    return YK_OK;
  }
  yk_study_compare_free(all, *n);
  *n = 0;
  return status;
}

void yk_study_compare_free(yk_compared *compared, size_t n)
{
  for (size_t i = 0; compared && i < n; i++) free(compared[i].name);
  free(compared);
}
