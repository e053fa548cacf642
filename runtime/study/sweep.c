#include "study/sweep.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *yk_sweep_load_name(yk_sweep_load load)
{
  static const char *const names[] = {"batch", "request_rate", "clients"};
  return names[load];
}

/* ---- Options ----------------------------------------------------------------------------------------------------- */

static void free_option(yk_sweep_option *option)
{
  for (size_t i = 0; i < option->n_values; i++) free(option->values[i]);
  free(option->values);
  free(option->name);
  *option = (yk_sweep_option){0};
}

static yk_status add_value(yk_sweep_option *option, const char *text, yk_err *err)
{
  for (size_t i = 0; i < option->n_values; i++)
    if (strcmp(option->values[i], text) == 0) return YK_OK;
  if (option->n_values == YK_VALUES_MAX)
    return yk_err_set(err, YK_E_INVAL, "expected at most %d values, found more", YK_VALUES_MAX);
  char **grown = realloc(option->values, (option->n_values + 1) * sizeof *grown);
  if (grown) option->values = grown;
  char *copy = grown ? strdup(text) : NULL;
  if (!copy) return yk_err_set(err, YK_E_NOMEM, "no memory for the values of %s", option->name);
  option->values[option->n_values++] = copy;
  return YK_OK;
}

static yk_status add_range(yk_sweep_option *option, const char *text, yk_err *err)
{
  yk_values values = {0};
  char number[32];
  YK_TRY(yk_values_parse(text, 1, INT32_MAX, true, &values, err));
  yk_status status = YK_OK;
  for (size_t i = 0; i < values.n && status == YK_OK; i++) {
    snprintf(number, sizeof number, "%.0f", values.at[i]);
    status = add_value(option, number, err);
  }
  yk_values_free(&values);
  return status;
}

/* Adds the values in list, which is cut at its commas. */
static yk_status add_values(yk_sweep_option *option, char *list, yk_err *err)
{
  char *next = list;
  while (next) {
    char *value = next;
    next = strchr(value, ',');
    if (next) *next++ = '\0';
    if (!*value) return yk_err_set(err, YK_E_INVAL, "expected values separated by commas, found an empty one");
    YK_TRY(yk_values_is_range(value) ? add_range(option, value, err) : add_value(option, value, err));
  }
  return YK_OK;
}

static yk_status fill_option(yk_sweep *sweep, yk_sweep_option *option, char *text, yk_err *err)
{
  char *list = strchr(text, '=');
  char *name = text + strspn(text, "-");
  if (!list || name >= list)
    return yk_err_set(err, YK_E_INVAL, "expected NAME=VALUE,VALUE,... of an engine option, found \"%.80s\"", text);
  *list++ = '\0';
  option->name = strdup(name);
  if (!option->name) return yk_err_set(err, YK_E_NOMEM, "no memory for an option");
  for (size_t i = 0; i < sweep->n_options; i++)
    if (strcmp(sweep->options[i].name, name) == 0)
      return yk_err_set(err, YK_E_INVAL, "%.80s is swept twice; give all its values in one list", name);
  yk_status status = add_values(option, list, err);
  if (status != YK_OK) yk_err_prefix(err, "%.80s", name);
  return status;
}

yk_status yk_sweep_add_option(yk_sweep *sweep, const char *text, yk_err *err)
{
  yk_sweep_option option = {0};
  if (sweep->n_options == YK_SWEEP_MAX_OPTIONS)
    return yk_err_set(err, YK_E_INVAL, "expected at most %d swept options, found more", YK_SWEEP_MAX_OPTIONS);
  char *copy = strdup(text);
  if (!copy) return yk_err_set(err, YK_E_NOMEM, "no memory for an option");
  yk_status status = fill_option(sweep, &option, copy, err);
  free(copy);
  if (status == YK_OK)
    sweep->options[sweep->n_options++] = option;
  else
    free_option(&option);
  return status;
}

void yk_sweep_free(yk_sweep *sweep)
{
  yk_values_free(&sweep->ranks);
  yk_values_free(&sweep->loads);
  yk_values_free(&sweep->input_lens);
  yk_values_free(&sweep->output_lens);
  for (size_t i = 0; i < sweep->n_options; i++) free_option(&sweep->options[i]);
  sweep->n_options = 0;
}

/* ---- Points ------------------------------------------------------------------------------------------------------ */

/* Fills configuration number i: the ranks change fastest, so that plans are grouped by options. */
static void fill_config(const yk_sweep *sweep, size_t i, yk_study_config *config)
{
  config->ranks = (int)sweep->ranks.at[i % sweep->ranks.n];
  i /= sweep->ranks.n;
  for (size_t option = 0; option < sweep->n_options; option++) {
    config->choice[option] = i % sweep->options[option].n_values;
    i /= sweep->options[option].n_values;
  }
}

static void fill_point(const yk_sweep *sweep, size_t config, size_t i, yk_study_point *point)
{
  point->config = config;
  point->load = sweep->loads.at[i % sweep->loads.n];
  i /= sweep->loads.n;
  point->input_len = (int32_t)sweep->input_lens.at[i % sweep->input_lens.n];
  point->output_len = (int32_t)sweep->output_lens.at[i / sweep->input_lens.n];
}

yk_status yk_study_grid_make(const yk_sweep *sweep, yk_study_grid *out, yk_err *err)
{
  double n_configs = (double)sweep->ranks.n;
  for (size_t i = 0; i < sweep->n_options; i++) n_configs *= (double)sweep->options[i].n_values;
  double n_each = (double)sweep->loads.n * (double)sweep->input_lens.n * (double)sweep->output_lens.n;
  *out = (yk_study_grid){.sweep = sweep};
  if (n_configs * n_each < 1 || n_configs * n_each > YK_SWEEP_MAX_POINTS)
    return yk_err_set(err, YK_E_INVAL, "expected 1 to %d points in a study, found %.0f", YK_SWEEP_MAX_POINTS,
                      n_configs * n_each);
  out->n_configs = (size_t)n_configs;
  out->n_points = (size_t)(n_configs * n_each);
  out->configs = calloc(out->n_configs, sizeof *out->configs);
  out->points = calloc(out->n_points, sizeof *out->points);
  if (!out->configs || !out->points) {
    yk_study_grid_free(out);
    return yk_err_set(err, YK_E_NOMEM, "no memory for the points of a study");
  }
  for (size_t i = 0; i < out->n_configs; i++) fill_config(sweep, i, &out->configs[i]);
  for (size_t i = 0; i < out->n_points; i++) fill_point(sweep, i / (size_t)n_each, i % (size_t)n_each, &out->points[i]);
  return YK_OK;
}

void yk_study_grid_free(yk_study_grid *grid)
{
  free(grid->configs);
  free(grid->points);
  *grid = (yk_study_grid){0};
}

json_t *yk_study_point_json(const yk_study_grid *grid, size_t i)
{
  const yk_sweep *sweep = grid->sweep;
  const yk_study_point *point = &grid->points[i];
  const yk_study_config *config = &grid->configs[point->config];
  json_t *options = json_object();
  int failed = 0;
  for (size_t o = 0; o < sweep->n_options; o++)
    failed |=
        json_object_set_new(options, sweep->options[o].name, json_string(sweep->options[o].values[config->choice[o]]));
  json_t *load = sweep->load == YK_SWEEP_REQUEST_RATE ? json_real(point->load) : json_integer((json_int_t)point->load);
  json_t *object =
      json_pack("{s:i, s:o, s:i, s:i, s:o}", "ranks", config->ranks, yk_sweep_load_name(sweep->load), load, "input_len",
                (int)point->input_len, "output_len", (int)point->output_len, "options", options);
  if (!failed) return object;
  json_decref(object);
  return NULL;
}

const char *yk_study_config_describe(const yk_study_grid *grid, size_t i, char *buffer, size_t n_bytes)
{
  const yk_study_config *config = &grid->configs[i];
  snprintf(buffer, n_bytes, "%d rank%s", config->ranks, config->ranks == 1 ? "" : "s");
  for (size_t o = 0; o < grid->sweep->n_options; o++) {
    const yk_sweep_option *option = &grid->sweep->options[o];
    size_t used = strlen(buffer);
    snprintf(buffer + used, n_bytes - used, ", %s %s", option->name, option->values[config->choice[o]]);
  }
  return buffer;
}

const char *yk_study_point_describe(const yk_study_grid *grid, size_t i, char *buffer, size_t n_bytes)
{
  static const char *const units[] = {"batch ", "", ""}, *const behind[] = {"", " requests/s", " clients"};
  const yk_study_point *point = &grid->points[i];
  yk_study_config_describe(grid, point->config, buffer, n_bytes);
  size_t used = strlen(buffer);
  snprintf(buffer + used, n_bytes - used, ", %s%g%s, %d in, %d out", units[grid->sweep->load], point->load,
           behind[grid->sweep->load], (int)point->input_len, (int)point->output_len);
  return buffer;
}
