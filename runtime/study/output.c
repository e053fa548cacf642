#include "study/output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/strbuf.h"
#include "study/csv.h"
#include "study/folder.h"
#include "study/latex.h"
#include "study/output_figures.h"
#include "study/report.h"

/* ---- Writing ----------------------------------------------------------------------------------------------------- */

static yk_status write_whole(const char *dir, const char *name, const char *bytes, size_t n_bytes, yk_err *err)
{
  char path[4200];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return yk_file_replace(path, bytes, n_bytes, err);
}

static yk_status write_table(const char *dir, const char *name, const json_t *study,
                             yk_status (*append)(const json_t *, yk_strbuf *, yk_err *), yk_err *err)
{
  yk_strbuf table = YK_STRBUF_INIT;
  yk_status status = append(study, &table, err);
  if (status == YK_OK) status = write_whole(dir, name, table.data, table.length, err);
  yk_strbuf_free(&table);
  return status;
}

/* Round the real numbers of a tree to the digits that study.json holds. */
static void round_numbers(json_t *value)
{
  size_t i;
  const char *key;
  char text[32];
  json_t *member;
  if (json_is_real(value)) {
    snprintf(text, sizeof text, "%.*g", YK_STUDY_N_DIGITS, json_real_value(value));
    json_real_set(value, strtod(text, NULL));
  }
  json_array_foreach(value, i, member) round_numbers(member);
  json_object_foreach(value, key, member) round_numbers(member);
}

yk_status yk_study_write(const char *dir, json_t *study, yk_err *err)
{
  round_numbers(study);
  YK_TRY(yk_study_make_folder(dir, err));
  char *text = yk_tree_text(study, JSON_INDENT(1) | YK_STUDY_DIGITS);
  if (!text) return yk_err_set(err, YK_E_NOMEM, "no memory to write a study");
  yk_status status = write_whole(dir, "study.json", text, strlen(text), err);
  free(text);
  if (status == YK_OK) status = write_table(dir, "study.csv", study, yk_study_csv, err);
  if (status == YK_OK) status = write_table(dir, "results.tex", study, yk_study_latex, err);
  if (status == YK_OK) {
    char path[4200];
    snprintf(path, sizeof path, "%s/report.html", dir);
    status = yk_study_report_write(path, study, err);
  }
  if (status == YK_OK) status = yk_study_write_figures(dir, study, err);
  return status;
}

/* ---- Reading ----------------------------------------------------------------------------------------------------- */

static yk_status check_runs(const json_t *point, yk_err *err)
{
  size_t i;
  const json_t *runs = json_object_get(point, "runs");
  json_t *run;
  if (!json_is_array(runs) || json_array_size(runs) == 0)
    return yk_err_set(err, YK_E_FORMAT, "runs: expected an array of runs, found %s",
                      json_is_array(runs) ? "an empty one" : yk_tree_type_name(runs));
  json_array_foreach(runs, i, run)
  {
    if (!json_is_object(run) || !json_is_integer(json_object_get(run, "start")))
      return yk_err_set(err, YK_E_FORMAT, "runs: expected objects with \"start\", found %s", yk_tree_type_name(run));
  }
  return YK_OK;
}

static yk_status check_point(const json_t *point, const char *path, yk_err *err)
{
  double load = 0;
  int64_t number = 0;
  if (!json_is_object(point))
    return yk_err_set(err, YK_E_FORMAT, "expected an object, found %s", yk_tree_type_name(point));
  YK_TRY(yk_tree_get_i64(point, path, "ranks", true, 1, 1 << 20, &number, err));
  YK_TRY(yk_tree_get_i64(point, path, "input_len", true, 1, INT32_MAX, &number, err));
  YK_TRY(yk_tree_get_i64(point, path, "output_len", true, 1, INT32_MAX, &number, err));
  YK_TRY(yk_tree_get_f64(point, path, "batch", false, 0, 1e9, &load, err));
  YK_TRY(yk_tree_get_f64(point, path, "clients", false, 0, 1e9, &load, err));
  YK_TRY(yk_tree_get_f64(point, path, "request_rate", false, 0, 1e9, &load, err));
  if (!(load > 0)) return yk_err_set(err, YK_E_FORMAT, "expected a batch, request_rate or clients above 0");
  return check_runs(point, err);
}

static yk_status check_study(const json_t *study, const char *path, yk_err *err)
{
  int64_t form = 0;
  size_t i;
  json_t *point;
  const json_t *points = json_object_get(study, "points");
  if (!json_is_object(study))
    return yk_err_set(err, YK_E_FORMAT, "%s: expected a study, found %s", path, yk_tree_type_name(study));
  YK_TRY(yk_tree_get_i64(study, path, "yoke_study", true, 1, 1, &form, err));
  if (!json_is_array(points))
    return yk_err_set(err, YK_E_FORMAT, "%s: points: expected an array, found %s", path, yk_tree_type_name(points));
  json_array_foreach(points, i, point)
  {
    yk_status status = check_point(point, "it", err);
    if (status == YK_OK) continue;
    yk_err_prefix(err, "%s: point %zu", path, i);
    return status;
  }
  return YK_OK;
}

yk_status yk_study_read(const char *path, json_t **out, yk_err *err)
{
  json_t *study;
  *out = NULL;
  YK_TRY(yk_tree_parse_file(path, &study, err));
  yk_status status = check_study(study, path, err);
  if (status == YK_OK)
    *out = study;
  else
    json_decref(study);
  return status;
}
