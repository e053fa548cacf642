#include "study/records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char name[] = "record"; /* for messages; the journal adds the line */

yk_status yk_study_records_init(yk_study_records *records, yk_study_grid *grid, yk_err *err)
{
  *records = (yk_study_records){.grid = grid,
                                .runs = calloc(grid->n_points, sizeof *records->runs),
                                .profiles = calloc(grid->n_points, sizeof *records->profiles),
                                .infos = calloc(grid->n_configs, sizeof *records->infos),
                                .n_engines = calloc(grid->n_configs, sizeof *records->n_engines)};
  bool has_memory = records->runs && records->profiles && records->infos && records->n_engines;
  for (size_t i = 0; has_memory && i < grid->n_points; i++) has_memory = (records->runs[i] = json_array()) != NULL;
  return has_memory ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for the records of %zu points", grid->n_points);
}

void yk_study_records_free(yk_study_records *records)
{
  for (size_t i = 0; records->grid && i < records->grid->n_points; i++) {
    if (records->runs) json_decref(records->runs[i]);
    if (records->profiles) json_decref(records->profiles[i]);
  }
  for (size_t i = 0; records->grid && i < records->grid->n_configs; i++)
    if (records->infos) json_decref(records->infos[i]);
  json_decref(records->machine);
  free(records->runs);
  free(records->profiles);
  free(records->infos);
  free(records->n_engines);
  *records = (yk_study_records){0};
}

static yk_status get_object(const json_t *record, const char *key, json_t **out, yk_err *err)
{
  *out = json_object_get(record, key);
  if (json_is_object(*out)) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", key, yk_tree_type_name(*out));
}

static yk_status get_point(const yk_study_records *records, const json_t *record, int64_t *point, yk_err *err)
{
  return yk_tree_get_i64(record, name, "point", true, 0, (int64_t)records->grid->n_points - 1, point, err);
}

static void keep(json_t **place, json_t *value)
{
  json_decref(*place);
  *place = json_incref(value);
}

static yk_status take_machine(yk_study_records *records, const json_t *record, yk_err *err)
{
  json_t *machine;
  YK_TRY(get_object(record, "machine", &machine, err));
  keep(&records->machine, machine);
  return YK_OK;
}

static yk_status take_engine(yk_study_records *records, const json_t *record, yk_err *err)
{
  int64_t config = 0;
  json_t *info;
  YK_TRY(yk_tree_get_i64(record, name, "config", true, 0, (int64_t)records->grid->n_configs - 1, &config, err));
  YK_TRY(get_object(record, "info", &info, err));
  keep(&records->infos[config], info);
  records->n_engines[config]++;
  return YK_OK;
}

static bool has_run(const json_t *runs, int start, int repeat)
{
  size_t i;
  json_t *run;
  json_array_foreach(runs, i, run)
  {
    if (json_integer_value(json_object_get(run, "start")) == start &&
        json_integer_value(json_object_get(run, "repeat")) == repeat)
      return true;
  }
  return false;
}

static yk_status take_run(yk_study_records *records, const json_t *record, yk_err *err)
{
  int64_t point = 0, start = 0, repeat = 0;
  json_t *figures;
  YK_TRY(get_point(records, record, &point, err));
  YK_TRY(yk_tree_get_i64(record, name, "start", true, 0, INT32_MAX, &start, err));
  YK_TRY(yk_tree_get_i64(record, name, "repeat", true, 0, INT32_MAX, &repeat, err));
  YK_TRY(get_object(record, "figures", &figures, err));
  int engine = records->n_engines[records->grid->points[point].config] - 1;
  if (engine < 0)
    return yk_err_set(err, YK_E_FORMAT,
                      "expected the start of an engine before the runs of its configuration, found none");
  if (has_run(records->runs[point], (int)start, (int)repeat))
    return yk_err_set(err, YK_E_FORMAT, "point %lld has run %lld of start %lld twice", (long long)point,
                      (long long)repeat, (long long)start);
  json_t *run = json_copy((json_t *)record);
  if (!run || json_object_set_new(run, "engine", json_integer(engine)) != 0 ||
      json_array_append(records->runs[point], run) != 0) {
    json_decref(run);
    return yk_err_set(err, YK_E_NOMEM, "no memory for a run");
  }
  json_decref(run);
  return YK_OK;
}

static yk_status take_profile(yk_study_records *records, const json_t *record, yk_err *err)
{
  int64_t point = 0;
  json_t *times;
  YK_TRY(get_point(records, record, &point, err));
  YK_TRY(get_object(record, "times", &times, err));
  keep(&records->profiles[point], times);
  return YK_OK;
}

static yk_status take_skip(yk_study_records *records, const json_t *record, yk_err *err)
{
  int64_t point = 0;
  const char *reason = NULL;
  YK_TRY(get_point(records, record, &point, err));
  YK_TRY(yk_tree_get_str(record, name, "reason", true, &reason, err));
  snprintf(records->grid->points[point].reason, YK_ERR_MESSAGE_BYTES, "%s", reason[0] ? reason : "unknown");
  return YK_OK;
}

yk_status yk_study_records_take(yk_study_records *records, const json_t *record, yk_err *err)
{
  static const struct {
    const char *type;
    yk_status (*take)(yk_study_records *, const json_t *, yk_err *);
  } kinds[] = {{"machine", take_machine},
               {"engine", take_engine},
               {"run", take_run},
               {"profile", take_profile},
               {"skip", take_skip}};
  const char *type = NULL;
  YK_TRY(yk_tree_get_str(record, name, "type", true, &type, err));
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(type, kinds[i].type) == 0) return kinds[i].take(records, record, err);
  return yk_err_set(err, YK_E_FORMAT, "type: expected machine, engine, run, profile or skip, found \"%.40s\"", type);
}

bool yk_study_records_has(const yk_study_records *records, const yk_study_item *item)
{
  if (records->grid->points[item->point].reason[0]) return true;
  if (item->is_profile) return records->profiles[item->point] != NULL;
  return has_run(records->runs[item->point], item->start, item->repeat);
}
