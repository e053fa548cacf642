#include "study/runner.h"

#include <stdio.h>

#include "base/clock.h"

/* ---- Records ----------------------------------------------------------------------------------------------------- */

/* Appends a record to the journal and to the records. Takes ownership of the record. */
static yk_status add_record(yk_study_run *run, json_t *record, yk_err *err)
{
  if (!record) return yk_err_set(err, YK_E_NOMEM, "no memory for a record");
  yk_status status = yk_study_journal_append(run->journal, record, err);
  if (status == YK_OK) status = yk_study_records_take(run->records, record, err);
  json_decref(record);
  return status;
}

static yk_status add_skip(yk_study_run *run, size_t point, const char *reason, yk_err *err)
{
  return add_record(run, json_pack("{s:s, s:I, s:s}", "type", "skip", "point", (json_int_t)point, "reason", reason),
                    err);
}

/* ---- Starts ------------------------------------------------------------------------------------------------------ */

/* Skips all points of a configuration with which no engine can be started. */
static yk_status skip_config(yk_study_run *run, size_t config, yk_err *err)
{
  const yk_study_grid *grid = run->records->grid;
  char reason[YK_ERR_MESSAGE_BYTES];
  snprintf(reason, sizeof reason, "%s", err->message);
  yk_err_clear(err);
  for (size_t i = 0; i < grid->n_points; i++)
    if (grid->points[i].config == config && !grid->points[i].reason[0]) YK_TRY(add_skip(run, i, reason, err));
  return YK_OK;
}

/* *started: false if the configuration turned out to be impossible. */
static yk_status start_engine(yk_study_run *run, size_t config, int start, bool *started, yk_err *err)
{
  json_t *info = NULL;
  int64_t begun_ns = yk_clock_now_ns();
  yk_status begun = run->driver->start(run->driver->user, config, &info, err);
  *started = begun == YK_OK;
  if (begun == YK_E_CAPACITY || begun == YK_E_UNSUPPORTED || begun == YK_E_INVAL) return skip_config(run, config, err);
  if (begun != YK_OK) return begun;
  double seconds = yk_clock_seconds_since(begun_ns);
  yk_study_estimate_start(run->estimate, seconds);
  yk_status status = add_record(run,
                                json_pack("{s:s, s:I, s:i, s:f, s:O}", "type", "engine", "config", (json_int_t)config,
                                          "start", start, "seconds", seconds, "info", info),
                                err);
  json_decref(info);
  return status;
}

/* ---- Items ------------------------------------------------------------------------------------------------------- */

/* After a failed run: if the engine still works, the point becomes impossible. */
static yk_status judge_failure(yk_study_run *run, const yk_study_item *item, yk_status status, yk_err *err)
{
  char reason[YK_ERR_MESSAGE_BYTES];
  if (status == YK_E_CANCELLED || run->driver->check(run->driver->user, NULL) != YK_OK) return status;
  snprintf(reason, sizeof reason, "%s", err->message);
  yk_err_clear(err);
  return add_skip(run, item->point, reason, err);
}

static yk_status run_item(yk_study_run *run, const yk_study_item *item, yk_err *err)
{
  const yk_study_driver *driver = run->driver;
  json_t *result = NULL;
  int64_t begun_ns = yk_clock_now_ns();
  yk_status status = (item->is_profile ? driver->profile : driver->run)(driver->user, item->point, &result, err);
  double seconds = yk_clock_seconds_since(begun_ns);
  if (status != YK_OK) return judge_failure(run, item, status, err);
  yk_study_estimate_run(run->estimate, item->point, seconds);
  if (item->is_profile)
    return add_record(run,
                      json_pack("{s:s, s:I, s:i, s:f, s:o}", "type", "profile", "point", (json_int_t)item->point,
                                "start", item->start, "seconds", seconds, "times", result),
                      err);
  return add_record(run,
                    json_pack("{s:s, s:I, s:i, s:i, s:f, s:o}", "type", "run", "point", (json_int_t)item->point,
                              "start", item->start, "repeat", item->repeat, "seconds", seconds, "figures", result),
                    err);
}

static bool is_done(const void *user, const yk_study_item *item)
{
  return yk_study_records_has(user, item);
}

static void report_progress(yk_study_run *run, const yk_study_item *item, bool starts_engine)
{
  yk_study_progress progress = {.n_items = run->n_items, .point = item->point, .starts_engine = starts_engine};
  for (size_t i = 0; i < run->n_items; i++) progress.n_done += is_done(run->records, &run->items[i]);
  progress.left_s =
      yk_study_estimate_left_s(run->estimate, run->records->grid, run->items, run->n_items, is_done, run->records);
  run->progress(run->user, &progress);
}

/* The running engine; SIZE_MAX: none. */
typedef struct running {
  size_t config;
  int start;
} running;

static yk_status run_all(yk_study_run *run, running *engine, bool *stopped, yk_err *err)
{
  for (size_t i = 0; i < run->n_items; i++) {
    const yk_study_item *item = &run->items[i];
    size_t config = run->records->grid->points[item->point].config;
    if (is_done(run->records, item)) continue;
    if ((*stopped = run->stops(run->user))) return YK_OK;
    if (engine->config != config || engine->start != item->start) {
      if (engine->config != SIZE_MAX) run->driver->stop(run->driver->user);
      engine->config = SIZE_MAX;
      report_progress(run, item, true);
      bool started;
      yk_status status = start_engine(run, config, item->start, &started, err);
      if (started) *engine = (running){config, item->start};
      if (status != YK_OK) return status;
      if (is_done(run->records, item)) continue; /* the configuration turned out to be impossible */
      if ((*stopped = run->stops(run->user))) return YK_OK;
    }
    report_progress(run, item, false);
    YK_TRY(run_item(run, item, err));
  }
  return YK_OK;
}

yk_status yk_study_run_items(yk_study_run *run, bool *stopped, yk_err *err)
{
  running engine = {SIZE_MAX, -1};
  *stopped = false;
  yk_status status = run_all(run, &engine, stopped, err);
  if (engine.config != SIZE_MAX) run->driver->stop(run->driver->user);
  if (status == YK_E_CANCELLED && run->stops(run->user)) {
    *stopped = true;
    yk_err_clear(err);
    return YK_OK;
  }
  return status;
}
