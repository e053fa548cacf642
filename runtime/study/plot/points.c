#include "study/plot/points.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "study/plot/scale.h"

/* Measured numbers are within these bounds; beyond them axes would have no ticks. */
#define LEAST_NUMBER 1e-12
#define MOST_NUMBER  1e15

double yk_plot_number(const json_t *object, const char *key)
{
  const json_t *value = json_object_get(object, key);
  double number = json_is_number(value) ? json_number_value(value) : NAN;
  return number == 0 || (fabs(number) >= LEAST_NUMBER && fabs(number) <= MOST_NUMBER) ? number : NAN;
}

bool yk_plot_interval(const json_t *point, const char *metric, double *low, double *high)
{
  char key[64];
  bool is_in_point = strcmp(metric, "speedup") == 0 || strcmp(metric, "efficiency") == 0;
  snprintf(key, sizeof key, is_in_point ? "%s_interval" : "%s", metric);
  const json_t *pair = json_object_get(is_in_point ? point : json_object_get(point, "intervals"), key);
  const json_t *from = json_array_get(pair, 0), *to = json_array_get(pair, 1);
  if (!json_is_number(from) || !json_is_number(to)) return false;
  *low = json_number_value(from);
  *high = json_number_value(to);
  return *low <= *high;
}

int yk_plot_base_ranks(const yk_plot_point *point)
{
  double speedup = yk_plot_number(point->raw, "speedup"), efficiency = yk_plot_number(point->raw, "efficiency");
  if (!(speedup > 0) || !(efficiency > 0)) return 0;
  double ranks = round(point->ranks * efficiency / speedup);
  return ranks >= 1 && ranks <= 1 << 20 ? (int)ranks : 1;
}

bool yk_plot_is_scaled(const yk_plot_point *point)
{
  int base = yk_plot_base_ranks(point);
  return base > 0 && base < point->ranks;
}

const char *yk_plot_ranks(int ranks, char text[24])
{
  snprintf(text, 24, ranks == 1 ? "%d rank" : "%d ranks", ranks);
  return text;
}

bool yk_plot_point_read(const json_t *raw, yk_plot_point *out)
{
  static const struct {
    const char *key, *format;
  } loads[] = {{"batch", "batch %s"}, {"request_rate", "%s requests/s"}, {"clients", "%s clients"}};
  double ranks = yk_plot_number(raw, "ranks");
  char number[YK_NUMBER_TEXT];
  *out = (yk_plot_point){.raw = raw};
  if (!(ranks >= 1 && ranks <= 1 << 20)) return false;
  out->ranks = (int)ranks;
  for (int i = 0; i < 3; i++) {
    double load = yk_plot_number(raw, loads[i].key);
    if (!(load > 0) || load > 1e12 || out->load > 0) continue;
    out->kind = (yk_load_kind)i;
    out->load = load;
    snprintf(out->label, sizeof out->label, i == YK_LOAD_CLIENTS && load == 1 ? "%s client" : loads[i].format,
             yk_format_readable(load, number));
  }
  return true;
}

/* ---- Groups ------------------------------------------------------------------------------------------------------ */

static bool same(const json_t *a, const json_t *b, const char *key)
{
  const json_t *left = json_object_get(a, key), *right = json_object_get(b, key);
  return left == right || (left && right && json_equal(left, right));
}

bool yk_plot_same_settings(const json_t *a, const json_t *b)
{
  return same(a, b, "input_len") && same(a, b, "output_len") && same(a, b, "options");
}

bool yk_plot_group_leads(const json_t *study, size_t point)
{
  const json_t *points = json_object_get(study, "points");
  for (size_t i = 0; i < point; i++)
    if (yk_plot_same_settings(json_array_get(points, i), json_array_get(points, point))) return false;
  return json_is_object(json_array_get(points, point));
}

static int compare_points(const void *a, const void *b)
{
  const yk_plot_point *left = a, *right = b;
  if (left->kind != right->kind) return left->kind < right->kind ? -1 : 1;
  if (left->load != right->load) return left->load < right->load ? -1 : 1;
  return (left->ranks > right->ranks) - (left->ranks < right->ranks);
}

static yk_status describe(const json_t *point, char settings[128], yk_err *err)
{
  const char *name;
  json_t *value;
  yk_strbuf text = YK_STRBUF_INIT;
  yk_strbuf_append_fmt(&text, "%.9g in, %.9g out", yk_plot_number(point, "input_len"),
                       yk_plot_number(point, "output_len"));
  json_object_foreach(json_object_get(point, "options"), name, value)
  {
    if (json_is_string(value)) yk_strbuf_append_fmt(&text, ", %s %s", name, json_string_value(value));
  }
  yk_status status = text.failed ? yk_err_set(err, YK_E_NOMEM, "no memory for a figure") : YK_OK;
  if (status == YK_OK) snprintf(settings, 128, "%s", text.data);
  yk_strbuf_free(&text);
  return status;
}

yk_status yk_plot_group_make(const json_t *study, size_t point, yk_plot_group *out, yk_err *err)
{
  const json_t *points = json_object_get(study, "points"), *own = json_array_get(points, point);
  const char *device = json_string_value(json_object_get(json_object_get(study, "machine"), "device"));
  bool is_cpu = device && strcmp(device, "cpu") == 0;
  *out = (yk_plot_group){.study = study, .shares_cores = is_cpu, .unit = is_cpu ? "rank" : "GPU"};
  YK_TRY(describe(own, out->settings, err));
  out->points = calloc(json_array_size(points) + 1, sizeof *out->points);
  if (!out->points) return yk_err_set(err, YK_E_NOMEM, "no memory for a figure of %zu points", json_array_size(points));
  for (size_t i = 0; i < json_array_size(points); i++) {
    const json_t *raw = json_array_get(points, i);
    if (yk_plot_same_settings(raw, own)) out->n_points += yk_plot_point_read(raw, &out->points[out->n_points]);
  }
  qsort(out->points, out->n_points, sizeof *out->points, compare_points);
  return YK_OK;
}

void yk_plot_group_free(yk_plot_group *group)
{
  free(group->points);
  *group = (yk_plot_group){0};
}
