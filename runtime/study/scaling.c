#include "study/scaling.h"

#include <stdlib.h>
#include <string.h>

#include "base/strbuf.h"
#include "study/figures.h"
#include "study/parts.h"

static int ranks_of(const json_t *point)
{
  return (int)json_integer_value(json_object_get(point, "ranks"));
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorted by name, so that the order in which options were given does not matter. */
static void append_options(yk_strbuf *text, json_t *options)
{
  const char *name, **names = calloc(json_object_size(options) + 1, sizeof *names);
  json_t *value;
  size_t n = 0;
  if (!names) {
    text->failed = true;
    return;
  }
  json_object_foreach(options, name, value) names[n++] = name;
  qsort(names, n, sizeof *names, compare_names);
  for (size_t i = 0; i < n; i++) {
    const char *option = json_string_value(json_object_get(options, names[i]));
    yk_strbuf_append_fmt(text, ", %s %s", names[i], option ? option : "?");
  }
  free(names);
}

char *yk_scaling_key(const json_t *point)
{
  static const struct {
    const char *key, *before, *behind;
  } keys[] = {{"batch", "batch ", ""},
              {"request_rate", "", " requests/s"},
              {"clients", "", " clients"},
              {"input_len", "", " in"},
              {"output_len", "", " out"}};
  yk_strbuf text = YK_STRBUF_INIT;
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    const json_t *value = json_object_get(point, keys[i].key);
    if (json_is_number(value))
      yk_strbuf_append_fmt(&text, "%s%s%.9g%s", text.length ? ", " : "", keys[i].before, json_number_value(value),
                           keys[i].behind);
  }
  append_options(&text, json_object_get(point, "options"));
  if (!text.failed) return text.data;
  yk_strbuf_free(&text);
  return NULL;
}

/* The point with the same key, the fewest ranks and a throughput. */
static const json_t *find_base(const json_t *points, char *const *keys, size_t own)
{
  const json_t *base = NULL, *point;
  for (size_t i = 0; i < json_array_size(points); i++) {
    point = json_array_get(points, i);
    if (strcmp(keys[i], keys[own]) != 0 || !json_is_number(json_object_get(point, "output_throughput"))) continue;
    if (!base || ranks_of(point) < ranks_of(base)) base = point;
  }
  return base;
}

static int add_ratio(json_t *point, double speedup, bool has_interval, yk_interval interval, double scale)
{
  int failed = json_object_set_new(point, "speedup", json_real(speedup));
  failed |= json_object_set_new(point, "efficiency", json_real(speedup * scale));
  failed |= json_object_set_new(point, "speedup_interval", has_interval ? yk_interval_json(interval, 1) : json_null());
  failed |=
      json_object_set_new(point, "efficiency_interval", has_interval ? yk_interval_json(interval, scale) : json_null());
  return failed;
}

static int add_speedup(json_t *point, const json_t *base)
{
  yk_figure own, other = {0};
  double speedup = 1, scale = (double)ranks_of(base) / ranks_of(point);
  bool has_interval = true;
  yk_interval interval = {1, 1};
  if (point == base) return add_ratio(point, 1, true, interval, 1);
  int failed = yk_figure_make(json_object_get(point, "runs"), "output_throughput", &own, NULL) ||
               yk_figure_make(json_object_get(base, "runs"), "output_throughput", &other, NULL);
  if (!failed && yk_figure_ratio(&own, &other, &speedup, &has_interval, &interval))
    failed = add_ratio(point, speedup, has_interval, interval, scale);
  yk_figure_free(&own);
  yk_figure_free(&other);
  return failed;
}

static bool read_shares(const json_t *point, double shares[YK_TIME_PARTS])
{
  return yk_study_shares_read(json_object_get(point, "time_us"), json_object_get(point, "time_us_prefill"), shares);
}

/* With an offered load the engine also waits for requests, which is not part of any step. */
static int add_losses(json_t *point, const json_t *base)
{
  double shares[YK_TIME_PARTS], base_shares[YK_TIME_PARTS], losses[YK_LOSSES];
  double throughput = json_number_value(json_object_get(point, "output_throughput"));
  double base_throughput = json_number_value(json_object_get(base, "output_throughput"));
  if (json_object_get(point, "request_rate") || !(throughput > 0) || !(base_throughput > 0)) return 0;
  if (!read_shares(point, shares) || !read_shares(base, base_shares)) return 0;
  yk_study_losses_compute(ranks_of(base), 1 / base_throughput, base_shares, ranks_of(point), 1 / throughput, shares,
                          losses);
  json_t *object = json_object();
  int failed = object == NULL;
  for (int i = 0; i < YK_LOSSES; i++)
    failed |= json_object_set_new(object, yk_study_loss_name((yk_study_loss)i), json_real(losses[i]));
  return failed | json_object_set_new(point, "losses", object);
}

static int add_all(json_t *points, char *const *keys)
{
  int failed = 0;
  for (size_t i = 0; i < json_array_size(points); i++) {
    json_t *point = json_array_get(points, i);
    const json_t *base = find_base(points, keys, i);
    if (!base || !json_is_number(json_object_get(point, "output_throughput"))) continue;
    failed |= add_speedup(point, base);
    failed |= add_losses(point, base);
  }
  return failed;
}

yk_status yk_scaling_add(json_t *points, yk_err *err)
{
  size_t n = json_array_size(points);
  char **keys = calloc(n + 1, sizeof *keys);
  bool has_memory = keys != NULL;
  for (size_t i = 0; has_memory && i < n; i++)
    has_memory = (keys[i] = yk_scaling_key(json_array_get(points, i))) != NULL;
  int failed = has_memory ? add_all(points, keys) : -1;
  for (size_t i = 0; keys && i < n; i++) free(keys[i]);
  free(keys);
  return failed ? yk_err_set(err, YK_E_NOMEM, "no memory for the speed-up of %zu points", n) : YK_OK;
}
