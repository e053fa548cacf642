#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "study/plot/figures.h"

typedef enum sorting { BY_LOAD, BY_RANKS } sorting;

/* Numbers that an axis must include, and the range of the intervals around them. */
typedef struct range {
  double *values; /* owned */
  size_t n, capacity;
  double low, high;
  bool failed;
} range;

static void range_take(range *r, double value)
{
  if (r->n == r->capacity) {
    size_t capacity = r->capacity ? 2 * r->capacity : 64;
    double *values = realloc(r->values, capacity * sizeof *values);
    if (!values) {
      r->failed = true;
      return;
    }
    r->values = values;
    r->capacity = capacity;
  }
  if (r->n == 0) r->low = r->high = value;
  r->values[r->n++] = value;
  r->low = fmin(r->low, value);
  r->high = fmax(r->high, value);
}

static void range_widen(range *r, double low, double high)
{
  r->low = fmin(r->low, low);
  r->high = fmax(r->high, high);
}

static void range_take_all(range *r, const yk_lines *lines, bool is_x)
{
  for (size_t i = 0; i < lines->n_series; i++)
    for (size_t k = 0; k < lines->series[i].n_points; k++) {
      const yk_point *point = &lines->series[i].points[k];
      range_take(r, is_x ? point->x : point->y);
      if (is_x && point->has_interval_x) range_widen(r, point->low_x, point->high_x);
      if (!is_x && point->has_interval) range_widen(r, point->low, point->high);
    }
}

/* Whether counts grow by factors, and need a logarithmic axis. */
static bool grows_by_factors(const range *r)
{
  double least = INFINITY, most = -INFINITY;
  for (size_t i = 0; i < r->n; i++) {
    least = fmin(least, r->values[i]);
    most = fmax(most, r->values[i]);
  }
  return least > 0 && most / least >= 8;
}

static void fit(yk_axis *axis, const range *r)
{
  if (r->n) yk_axis_fit(axis, r->values, r->n, r->low, r->high);
}

static yk_series *add_series(yk_lines *lines)
{
  yk_series *grown = realloc(lines->series, (lines->n_series + 1) * sizeof *grown);
  if (!grown) return NULL;
  lines->series = grown;
  lines->series[lines->n_series] = (yk_series){0};
  return &lines->series[lines->n_series++];
}

/* The series of a load or of a rank count, created if missing. */
static yk_series *series_of(yk_lines *lines, const char *name)
{
  for (size_t i = 0; i < lines->n_series; i++)
    if (strcmp(lines->series[i].name, name) == 0) return &lines->series[i];
  yk_series *series = add_series(lines);
  if (series) snprintf(series->name, sizeof series->name, "%s", name);
  return series;
}

static void number_series(yk_lines *lines, size_t from)
{
  for (size_t i = from; i < lines->n_series; i++) {
    lines->series[i].look = lines->series[i].slot = (int)(i - from);
    lines->series[i].n_looks = (int)(lines->n_series - from);
  }
}

static void take_interval(const yk_plot_point *point, const char *metric, double scale, yk_point *out)
{
  out->has_interval = yk_plot_interval(point->raw, metric, &out->low, &out->high);
  out->low *= scale;
  out->high *= scale;
}

static void append_interval(const yk_point *point, yk_number_format format, char words[YK_WORDS])
{
  char low[YK_NUMBER_TEXT], high[YK_NUMBER_TEXT];
  size_t used = strlen(words);
  if (point->has_interval && point->low < point->high)
    snprintf(words + used, YK_WORDS - used, " (%s to %s)", format(point->low, low), format(point->high, high));
}

/* ---- Over ranks -------------------------------------------------------------------------------------------------- */

static bool has_scaling(const yk_plot_group *group)
{
  for (size_t i = 0; i < group->n_points; i++)
    if (yk_plot_is_scaled(&group->points[i])) return true;
  return false;
}

static bool over_ranks(const yk_plot_group *group, const char *metric, yk_number_format format, yk_lines *out)
{
  char ranks[24], number[YK_NUMBER_TEXT];
  for (size_t i = 0; i < group->n_points; i++) {
    const yk_plot_point *from = &group->points[i];
    double value = yk_plot_number(from->raw, metric);
    if (!(value > 0)) continue;
    yk_series *series = series_of(out, from->label);
    yk_point *point = series ? yk_series_add(series) : NULL;
    if (!point) return false;
    point->x = from->ranks;
    point->y = value;
    take_interval(from, metric, 1, point);
    snprintf(point->words, sizeof point->words, "%s, %s: %s", from->label, yk_plot_ranks(from->ranks, ranks),
             format(value, number));
    append_interval(point, format, point->words);
  }
  number_series(out, 0);
  out->n_slots = (int)out->n_series;
  return true;
}

static int compare_numbers(const void *a, const void *b)
{
  double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

/* Makes every value a tick of the axis; sorts the values. */
static void fit_counts(yk_axis *axis, range *r)
{
  if (!r->n) return;
  qsort(r->values, r->n, sizeof *r->values, compare_numbers);
  for (size_t i = 0; i < r->n; i++)
    if (i == 0 || r->values[i] != r->values[i - 1]) yk_ticks_add(&axis->ticks, r->values[i]);
  axis->low = r->values[0];
  axis->high = r->values[r->n - 1];
}

static bool fit_ranks(yk_lines *out)
{
  range r = {0};
  range_take_all(&r, out, true);
  fit_counts(&out->x, &r);
  free(r.values);
  out->x.is_log = out->x.high / out->x.low >= 4;
  if (!(out->x.high > out->x.low)) out->x.high = out->x.low + 1;
  out->x.format = yk_format_readable;
  snprintf(out->x.label, sizeof out->x.label, "Ranks");
  return !r.failed;
}

static bool add_guide(yk_lines *out, const char *name, double x1, double y1, double x2, double y2)
{
  double(*points)[2] = calloc(2, sizeof *points);
  if (!points) return false;
  points[0][0] = x1;
  points[0][1] = y1;
  points[1][0] = x2;
  points[1][1] = y2;
  yk_guide *guide = &out->guides[out->n_guides++];
  *guide = (yk_guide){.points = points, .n_points = 2};
  snprintf(guide->name, sizeof guide->name, "%s", name);
  return true;
}

/* Finds up to two rank counts to which speed-ups refer, ascending. */
static int find_bases(const yk_plot_group *group, int bases[2])
{
  int n = 0;
  for (int least = 0; n < 2; least = bases[n - 1]) {
    int next = 0;
    for (size_t i = 0; i < group->n_points; i++) {
      int base = yk_plot_base_ranks(&group->points[i]);
      if (base > least && (next == 0 || base < next)) next = base;
    }
    if (next == 0) break;
    bases[n++] = next;
  }
  return n;
}

/* Predicted points continue the line of their load. */
static bool add_predictions(const yk_plot_group *group, yk_lines *out)
{
  const json_t *predictions = json_object_get(group->study, "predictions");
  size_t n_measured = out->n_series;
  char ranks[24];
  for (size_t i = 0; i < json_array_size(predictions); i++) {
    yk_plot_point from;
    const json_t *raw = json_array_get(predictions, i);
    double speedup = yk_plot_number(raw, "speedup"), error = fabs(yk_plot_number(raw, "error"));
    size_t k = 0;
    if (!yk_plot_point_read(raw, &from) || !(speedup > 0) || !group->n_points) continue;
    if (!yk_plot_same_settings(raw, group->points[0].raw)) continue;
    while (k < n_measured && strcmp(out->series[k].name, from.label) != 0) k++;
    if (k == n_measured) continue;
    yk_series *series = NULL;
    for (size_t s = n_measured; s < out->n_series; s++)
      if (out->series[s].look == (int)k) series = &out->series[s];
    if (!series) {
      series = add_series(out);
      yk_point *joint = series ? yk_series_add(series) : NULL;
      if (!joint) return false;
      *joint = out->series[k].points[out->series[k].n_points - 1];
      joint->has_interval = false;
      joint->is_joint = true;
      series->look = series->slot = (int)k;
      series->n_looks = (int)n_measured;
      series->is_open = true;
      memcpy(series->name, out->series[k].name, sizeof series->name);
    }
    yk_point *point = yk_series_add(series);
    if (!point) return false;
    *point = (yk_point){.x = from.ranks, .y = speedup, .has_interval = error > 0};
    point->low = speedup * (1 - error);
    point->high = speedup * (1 + error);
    snprintf(point->words, sizeof point->words, "predicted: %s, %s: %.2f", from.label, yk_plot_ranks(from.ranks, ranks),
             speedup);
  }
  for (size_t s = n_measured; s < out->n_series; s++) out->series[out->series[s].look].name[0] = '\0';
  return true;
}

/* Moves predictions to the front, since series are drawn in order, and measured ones must be above. */
static void put_last_first(yk_lines *lines, size_t n_first)
{
  for (size_t i = n_first; i < lines->n_series; i++) {
    yk_series series = lines->series[i];
    memmove(lines->series + (i - n_first) + 1, lines->series + (i - n_first), n_first * sizeof *lines->series);
    lines->series[i - n_first] = series;
  }
}

bool yk_plot_speedup(const yk_plot_group *group, yk_lines *out)
{
  int bases[2], n_bases = find_bases(group, bases);
  char name[YK_SERIES_NAME], ranks[24];
  range r = {0};
  if (!has_scaling(group)) return true;
  if (!over_ranks(group, "speedup", yk_format_times, out)) return false;
  size_t n_measured = out->n_series;
  if (!add_predictions(group, out) || !fit_ranks(out)) return false;
  put_last_first(out, n_measured);
  range_take(&r, 1);
  bool has_memory = true;
  for (int i = 0; i < n_bases && !group->shares_cores; i++) {
    snprintf(name, sizeof name, n_bases > 1 ? "ideal from %d" : "ideal", bases[i]);
    range_take(&r, out->x.high / bases[i]);
    has_memory &= add_guide(out, name, bases[i], 1, out->x.high, out->x.high / bases[i]);
  }
  if (group->shares_cores) has_memory &= add_guide(out, "same cores", out->x.low, 1, out->x.high, 1);
  range_take_all(&r, out, false);
  out->y.is_log = out->x.is_log;
  fit(&out->y, &r);
  free(r.values);
  if (out->y.is_log) yk_ticks_doubled(out->y.low, out->y.high, &out->y.ticks);
  out->y.format = yk_format_readable;
  snprintf(out->y.label, sizeof out->y.label, "Speed-up (times %s)",
           n_bases > 1 ? "the fewest ranks" : yk_plot_ranks(n_bases ? bases[0] : 1, ranks));
  return has_memory && !r.failed;
}

bool yk_plot_efficiency(const yk_plot_group *group, yk_lines *out)
{
  range r = {0};
  if (!has_scaling(group) || group->shares_cores) return true;
  if (!over_ranks(group, "efficiency", yk_format_percent, out) || !fit_ranks(out)) return false;
  range_take(&r, 1);
  range_take_all(&r, out, false);
  fit(&out->y, &r);
  free(r.values);
  out->y.low = fmax(0, floor(out->y.low * 10) / 10);
  out->y.format = yk_format_percents;
  snprintf(out->y.label, sizeof out->y.label, "Efficiency (speed-up / ideal speed-up, %%)");
  return add_guide(out, "ideal", out->x.low, 1, out->x.high, 1) && !r.failed;
}

/* ---- Throughput and latency -------------------------------------------------------------------------------------- */

typedef struct placed {
  double x, y;
} placed;

static int compare_placed(const void *a, const void *b)
{
  const placed *left = a, *right = b;
  if (left->x != right->x) return left->x > right->x ? -1 : 1;
  return (left->y < right->y) - (left->y > right->y);
}

/* The points that no other point exceeds in both coordinates, as a band below the lines. */
static bool add_frontier(yk_lines *out, size_t n_points)
{
  placed *all = calloc(n_points + 1, sizeof *all);
  double(*points)[2] = calloc(n_points + 1, sizeof *points);
  size_t n = 0, n_kept = 0;
  for (size_t i = 0; all && i < out->n_series; i++)
    for (size_t k = 0; k < out->series[i].n_points; k++)
      all[n++] = (placed){out->series[i].points[k].x, out->series[i].points[k].y};
  if (all) qsort(all, n, sizeof *all, compare_placed);
  for (size_t i = 0; all && points && i < n; i++) {
    if (n_kept && !(all[i].y > points[n_kept - 1][1])) continue;
    points[n_kept][0] = all[i].x;
    points[n_kept++][1] = all[i].y;
  }
  bool has_memory = all && points;
  free(all);
  if (n_kept > 1)
    out->guides[out->n_guides++] = (yk_guide){.is_band = true, .points = points, .n_points = n_kept};
  else
    free(points);
  return has_memory;
}

/* Removes the notes of points off the frontier if there are many. */
static void thin_notes(yk_lines *out, size_t n_points)
{
  const yk_guide *band = out->n_guides ? &out->guides[0] : NULL;
  if (n_points <= 24) return;
  for (size_t i = 0; i < out->n_series; i++)
    for (size_t k = 0; k < out->series[i].n_points; k++) {
      yk_point *point = &out->series[i].points[k];
      bool is_best = false;
      for (size_t b = 0; band && b < band->n_points; b++)
        is_best |= band->points[b][0] == point->x && band->points[b][1] == point->y;
      if (!is_best) point->note[0] = '\0';
    }
}

static bool add_latency_point(const yk_plot_group *group, const yk_plot_point *from, yk_lines *out)
{
  double tpot_ms = yk_plot_number(from->raw, "median_tpot_ms");
  double throughput = yk_plot_number(from->raw, "output_throughput"), low, high;
  char ranks[24], number[2][YK_NUMBER_TEXT];
  if (!(tpot_ms > 0) || !(throughput > 0)) return true;
  yk_series *series = series_of(out, yk_plot_ranks(from->ranks, ranks));
  yk_point *point = series ? yk_series_add(series) : NULL;
  if (!point) return false;
  point->x = 1000 / tpot_ms;
  point->y = throughput / from->ranks;
  take_interval(from, "output_throughput", 1.0 / from->ranks, point);
  point->has_interval_x = yk_plot_interval(from->raw, "median_tpot_ms", &low, &high) && high > 0;
  if (point->has_interval_x) {
    point->low_x = 1000 / high;
    point->high_x = low > 0 ? 1000 / low : 1e300;
  }
  snprintf(point->note, sizeof point->note, "%s", yk_format_readable(from->load, number[0]));
  snprintf(point->words, sizeof point->words, "%s, %s: %s output tokens/s/%s, %s tokens/s/user", ranks, from->label,
           yk_format_readable(point->y, number[0]), group->unit, yk_format_readable(point->x, number[1]));
  return true;
}

static int compare_ranks(const void *a, const void *b)
{
  const yk_plot_point *left = *(const yk_plot_point *const *)a, *right = *(const yk_plot_point *const *)b;
  if (left->ranks != right->ranks) return left->ranks < right->ranks ? -1 : 1;
  return (left > right) - (left < right); /* keep their order */
}

/* Calls add for each point, in ascending order of ranks. */
static bool each_by_ranks(const yk_plot_group *group, yk_lines *out,
                          bool (*add)(const yk_plot_group *, const yk_plot_point *, yk_lines *))
{
  const yk_plot_point **order = calloc(group->n_points + 1, sizeof *order);
  bool has_memory = order != NULL;
  for (size_t i = 0; has_memory && i < group->n_points; i++) order[i] = &group->points[i];
  if (has_memory) qsort(order, group->n_points, sizeof *order, compare_ranks);
  for (size_t i = 0; has_memory && i < group->n_points; i++) has_memory = add(group, order[i], out);
  free(order);
  return has_memory;
}

static bool fit_axis(yk_lines *out, bool is_x, const char *label)
{
  yk_axis *axis = is_x ? &out->x : &out->y;
  range r = {0};
  range_take_all(&r, out, is_x);
  axis->is_log = grows_by_factors(&r);
  axis->format = yk_format_readable;
  fit(axis, &r);
  free(r.values);
  snprintf(axis->label, sizeof axis->label, "%s", label);
  return !r.failed;
}

bool yk_plot_latency(const yk_plot_group *group, yk_lines *out)
{
  char label[40];
  size_t n_points = 0;
  if (!each_by_ranks(group, out, add_latency_point)) return false;
  number_series(out, 0);
  for (size_t i = 0; i < out->n_series; i++) {
    out->series[i].slot = 0;
    n_points += out->series[i].n_points;
  }
  if (n_points == 0) return true;
  snprintf(label, sizeof label, "Output tokens/s/%s", group->unit);
  if (!fit_axis(out, true, "Output tokens/s/user (1000 / median TPOT in ms)") || !fit_axis(out, false, label))
    return false;
  bool has_memory = add_frontier(out, n_points);
  thin_notes(out, n_points);
  return has_memory;
}

/* ---- The limit --------------------------------------------------------------------------------------------------- */

static double limit_of(const yk_plot_point *point)
{
  return yk_plot_number(json_object_get(point->raw, "limit"), "output_throughput");
}

static bool add_limit_point(const yk_plot_group *group, const yk_plot_point *from, yk_lines *out)
{
  double throughput = yk_plot_number(from->raw, "output_throughput"), limit = limit_of(from);
  double share = yk_plot_number(json_object_get(from->raw, "limit"), "share");
  char ranks[24], number[2][YK_NUMBER_TEXT], name[YK_SERIES_NAME];
  (void)group;
  if (!(throughput > 0) || !(limit > 0) || !(from->load > 0)) return true;
  yk_plot_ranks(from->ranks, ranks);
  snprintf(name, sizeof name, "limit of %s", ranks);
  yk_series *limits = series_of(out, name);
  if (!limits) return false;
  limits->is_ticks = true;
  yk_point *bound = yk_series_add(limits);
  if (!bound) return false;
  *bound = (yk_point){.x = from->load, .y = limit};
  snprintf(bound->words, sizeof bound->words, "limit of %s, %s: %s output tokens/s", ranks, from->label,
           yk_format_readable(limit, number[0]));
  yk_series *measured = series_of(out, ranks);
  yk_point *point = measured ? yk_series_add(measured) : NULL;
  if (!point) return false;
  point->x = from->load;
  point->y = throughput;
  take_interval(from, "output_throughput", 1, point);
  snprintf(point->words, sizeof point->words, "%s, %s: %s output tokens/s, %s of the limit", ranks, from->label,
           yk_format_readable(throughput, number[0]), yk_format_percent(isnan(share) ? 0 : share, number[1]));
  return true;
}

/* Appends to the name of a rank count the share of the limit that its last point reaches. */
static void name_limits(const yk_plot_group *group, yk_lines *out)
{
  int n = (int)(out->n_series / 2);
  for (size_t i = 0; i < out->n_series; i++) {
    yk_series *series = &out->series[i];
    int ranks = 0;
    char number[YK_NUMBER_TEXT], words[24];
    series->look = (int)(i / 2);
    series->n_looks = n;
    if (series->is_ticks) {
      series->name[0] = '\0';
      continue;
    }
    sscanf(series->name, "%d", &ranks);
    for (size_t k = 0; k < group->n_points; k++) {
      const yk_plot_point *point = &group->points[k];
      double share = yk_plot_number(json_object_get(point->raw, "limit"), "share");
      if (point->ranks == ranks && !isnan(share))
        snprintf(series->name, sizeof series->name, "%s, %s", yk_plot_ranks(ranks, words),
                 yk_format_whole_percent(share, number));
    }
  }
}

bool yk_plot_limit(const yk_plot_group *group, yk_lines *out)
{
  static const char *const loads[] = {"Batch (sequences)", "Offered load (requests/s)", "Clients"};
  range r = {0};
  if (!each_by_ranks(group, out, add_limit_point)) return false;
  if (out->n_series == 0) return true;
  range_take_all(&r, out, true);
  out->x.is_log = grows_by_factors(&r);
  fit_counts(&out->x, &r);
  free(r.values);
  if (!(out->x.high > out->x.low)) out->x.high = out->x.low * 1.01 + 1;
  out->x.format = yk_format_readable;
  snprintf(out->x.label, sizeof out->x.label, "%s", loads[group->points[0].kind]);
  bool has_memory = fit_axis(out, false, "Output tokens/s") && !r.failed;
  if (!out->y.is_log) out->y.low = 0;
  name_limits(group, out);
  return has_memory;
}
