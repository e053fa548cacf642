/* yoke study - how a model scales: measure, compare, predict, report. */
#include <stdlib.h>
#include <string.h>

#include "cli/follow.h"
#include "cli/interrupt.h"
#include "cli/study/study_follow.h"
#include "cli/study/study_machine.h"
#include "cli/study/study_options.h"
#include "cli/study/study_print.h"
#include "cli/study/study_tools.h"
#include "study/engine_driver.h"
#include "study/output.h"
#include "study/summary.h"

/* State of a running study. */
typedef struct session {
  const yk_study_settings *settings;
  yk_console console;
  yk_interrupt interrupt;
  yk_model_shapes shapes;
  bool has_shapes;
  yk_study_grid grid;
  yk_study_options options;
  yk_study_item *items;
  size_t n_items;
  yk_study_journal journal;
  yk_study_records records;
  yk_study_estimate estimate;
  yk_study_engine engine;
  yk_study_printer printer;
  yk_process_group *group; /* NULL: one process */
} session;

static yk_status get_options(void *user, size_t config, yk_engine_options *out, yk_err *err)
{
  const session *s = user;
  return yk_study_settings_engine(s->settings, &s->grid.configs[config], out, err);
}

static bool stops(void *user)
{
  session *s = user;
  return yk_interrupt_caught(&s->interrupt) != 0;
}

static void print_progress(void *user, const yk_study_progress *progress)
{
  session *s = user;
  yk_study_print_progress(&s->printer, progress);
}

/* ---- Before the first run ---------------------------------------------------------------------------------------- */

static yk_status make_points(session *s, yk_err *err)
{
  yk_err unknown = YK_ERR_INIT;
  if (s->settings->model.hf_overrides)
    yk_err_set(&unknown, YK_E_UNSUPPORTED, "--hf-overrides changes config.json's description of the model");
  else
    s->has_shapes = yk_model_shapes_read(s->settings->model.checkpoint.path, &s->shapes, &unknown) == YK_OK;
  if (!s->has_shapes)
    yk_log_write(&s->console.log, YK_LOG_INFO, "there will be no limits in the study: %s", unknown.message);
  YK_TRY(yk_study_grid_make(&s->settings->sweep, &s->grid, err));
  s->options = (yk_study_options){.get = get_options, .user = s, .load = &s->settings->load};
  YK_TRY(yk_study_plan(&s->grid, &s->options, s->shapes.max_model_tokens, err));
  yk_study_print_skipped(&s->printer);
  const yk_study_driver driver = yk_study_engine_driver(&s->engine);
  YK_TRY(yk_study_order_make(&s->grid, s->settings->n_starts, s->settings->n_repeats, driver.profile != NULL,
                             s->settings->model.seed, &s->items, &s->n_items, err));
  if (s->n_items > 0) return YK_OK;
  return yk_err_set(err, YK_E_CAPACITY, "none of the %zu points can be measured; of the first: %.150s",
                    s->grid.n_points, s->grid.points[0].reason);
}

/* Applies the records of an earlier session. */
static yk_status take_records(session *s, const json_t *records, yk_err *err)
{
  size_t i;
  json_t *record;
  json_array_foreach(records, i, record)
  {
    yk_status status = yk_study_records_take(&s->records, record, err);
    if (status == YK_OK) continue;
    yk_err_prefix(err, "%s: line %zu", s->journal.path, i + 2); /* the first line is the head */
    return status;
  }
  return YK_OK;
}

static yk_status add_machine(session *s, yk_err *err)
{
  json_t *machine;
  size_t most = SIZE_MAX; /* the startable configuration with the most ranks */
  yk_engine_options engine;
  for (size_t i = 0; i < s->grid.n_points; i++) {
    size_t config = s->grid.points[i].config;
    bool is_more = most == SIZE_MAX || s->grid.configs[config].ranks > s->grid.configs[most].ranks;
    if (!s->grid.points[i].reason[0] && is_more) most = config;
  }
  if (s->records.machine || most == SIZE_MAX) return YK_OK;
  YK_TRY(get_options(s, most, &engine, err));
  YK_TRY(yk_study_machine(&engine, s->settings->machine_path, &s->console.log, &machine, err));
  json_t *record = json_pack("{s:s, s:o}", "type", "machine", "machine", machine);
  yk_status status = record ? yk_study_journal_append(&s->journal, record, err)
                            : yk_err_set(err, YK_E_NOMEM, "no memory for a record");
  if (status == YK_OK) status = yk_study_records_take(&s->records, record, err);
  json_decref(record);
  return status;
}

static yk_status open_journal(session *s, yk_err *err)
{
  json_t *identity, *records = NULL;
  YK_TRY(yk_study_records_init(&s->records, &s->grid, err));
  YK_TRY(yk_study_settings_identity(s->settings, &identity, err));
  yk_status status = yk_study_journal_open(&s->journal, s->settings->output_dir, identity, &records, err);
  if (status == YK_OK) status = take_records(s, records, err);
  yk_interrupt_set_resume_command(&s->interrupt, s->settings->command);
  if (status == YK_OK) status = add_machine(s, err);
  json_decref(identity);
  json_decref(records);
  return status;
}

/* Without measured limits, typical limits of such a machine give a rough time. */
static yk_status make_estimate(session *s, yk_err *err)
{
  const yk_machine_rates gpu = {.memory_bytes_per_s = 3e12, .gemm_flops = 5e14};
  const yk_machine_rates cpu = {.memory_bytes_per_s = 1e10, .gemm_flops = 5e10, .is_shared = true};
  yk_study_rough rough = {
      .shapes = s->has_shapes ? &s->shapes : NULL, .element_bytes = 2, .n_requests = s->settings->n_requests};
  if (!yk_machine_rates_read(s->records.machine, &rough.machine)) {
    const char *device = json_string_value(json_object_get(s->records.machine, "device"));
    rough.machine = s->settings->model.device == YK_DEVICE_CPU || (device && strcmp(device, "cpu") == 0) ? cpu : gpu;
  }
  return yk_study_estimate_init(&s->estimate, &s->grid, &rough, err);
}

static bool is_done(const void *records, const yk_study_item *item)
{
  return yk_study_records_has(records, item);
}

static void print_plan(session *s)
{
  char text[32];
  size_t n_done = 0, n_possible = 0;
  for (size_t i = 0; i < s->n_items; i++) n_done += is_done(&s->records, &s->items[i]);
  for (size_t i = 0; i < s->grid.n_points; i++) n_possible += !s->grid.points[i].reason[0];
  double left_s = yk_study_estimate_left_s(&s->estimate, &s->grid, s->items, s->n_items, is_done, &s->records);
  yk_log_write(&s->console.log, YK_LOG_INFO, "%zu point%s, %zu run%s, of which %zu %s done; about %s left", n_possible,
               n_possible == 1 ? "" : "s", s->n_items, s->n_items == 1 ? "" : "s", n_done, n_done == 1 ? "is" : "are",
               yk_study_format_seconds(left_s, text));
}

/* ---- Running ----------------------------------------------------------------------------------------------------- */

static yk_status write_study(session *s, yk_err *err)
{
  json_t *study;
  const char *dir = s->settings->model.checkpoint.name, *name = dir + strlen(dir);
  while (name > dir && name[-1] == '/') name--;
  size_t length = (size_t)(name - dir);
  while (name > dir && name[-1] != '/') name--;
  char model_name[256];
  snprintf(model_name, sizeof model_name, "%.*s", (int)(length - (size_t)(name - dir)), name);
  yk_study_frame frame = {.command = s->settings->command,
                          .model_name = model_name,
                          .shapes = s->has_shapes ? &s->shapes : NULL,
                          .n_repeats = s->settings->n_repeats,
                          .n_starts = s->settings->n_starts,
                          .shared_prefix = s->settings->shared_prefix};
  YK_TRY(yk_study_summarise(&frame, &s->records, &study, err));
  yk_status status = yk_study_write(s->settings->output_dir, study, err);
  if (status == YK_OK) {
    yk_study_print_table(study);
    status = yk_cli_flush(err);
  }
  if (status == YK_OK && json_array_size(json_object_get(study, "points")) == 0)
    status = yk_err_set(err, YK_E_CAPACITY, "none of the points could be measured");
  json_decref(study);
  return status;
}

/* Reports points that turned out to be impossible; points left out before have no items. */
static void print_failed(session *s)
{
  char text[256];
  for (size_t i = 0; i < s->n_items; i++) {
    const yk_study_item *item = &s->items[i];
    const char *reason = s->grid.points[item->point].reason;
    if (!reason[0] || item->start > 0 || item->repeat > 0 || item->is_profile) continue; /* each point once */
    yk_study_point_describe(&s->grid, item->point, text, sizeof text);
    yk_log_write(&s->console.log, YK_LOG_WARN, "could not be measured: %s: %s", text, reason);
  }
}

static void print_remaining(session *s)
{
  size_t n_done = 0;
  for (size_t i = 0; i < s->n_items; i++) n_done += is_done(&s->records, &s->items[i]);
  yk_console_clear(&s->console);
  yk_log_write(&s->console.log, YK_LOG_WARN, "stopped with %zu of %zu runs done; to continue:", n_done, s->n_items);
  yk_log_text(&s->console.log, YK_LOG_WARN, s->settings->command);
}

/* Connects the processes of the study, if it has several and measures. */
static yk_status join(session *s, yk_err *err)
{
  yk_engine_options engine;
  char purpose[YK_STUDY_PURPOSE_BYTES];
  YK_TRY(yk_model_options_apply(&s->settings->model, &engine, err));
  if (engine.n_processes < 2 || s->settings->dry_run) return YK_OK;
  engine.log = s->console.log;
  if (!engine.model_dir) engine.model_dir = s->settings->model.checkpoint.name; /* not found: the reason for all */
  YK_TRY(yk_study_settings_purpose(s->settings, purpose, err));
  YK_TRY(yk_process_group_join(&engine, purpose, &s->group, err));
  s->engine.group = s->group;
  return YK_OK;
}

static yk_status run_session(session *s, yk_err *err)
{
  bool stopped;
  yk_request *const none = NULL;
  YK_TRY(join(s, err));
  YK_TRY(make_points(s, err));
  if (!s->settings->dry_run) YK_TRY(open_journal(s, err));
  if (s->settings->dry_run) YK_TRY(yk_study_records_init(&s->records, &s->grid, err));
  YK_TRY(make_estimate(s, err));
  print_plan(s);
  if (s->settings->dry_run) return YK_OK;
  const yk_study_driver driver = yk_study_engine_driver(&s->engine);
  yk_study_run run = {.items = s->items,
                      .n_items = s->n_items,
                      .journal = &s->journal,
                      .records = &s->records,
                      .estimate = &s->estimate,
                      .driver = &driver,
                      .stops = stops,
                      .progress = print_progress,
                      .user = s};
  yk_interrupt_watch(&s->interrupt, &none, 0); /* from this point a signal ends the loop, not the program */
  yk_status status = yk_study_run_items(&run, &stopped, err);
  yk_interrupt_watch(&s->interrupt, NULL, 0);
  yk_console_clear(&s->console);
  print_failed(s);
  if (status != YK_OK || stopped) print_remaining(s);
  return status == YK_OK && !stopped ? write_study(s, err) : status;
}

static void free_session(session *s)
{
  yk_study_engine_free(&s->engine);
  yk_study_journal_close(&s->journal);
  yk_study_records_free(&s->records);
  yk_study_estimate_free(&s->estimate);
  yk_study_grid_free(&s->grid);
  free(s->items);
}

/* ---- The command ------------------------------------------------------------------------------------------------- */

static int run_study(yk_study_settings *settings)
{
  yk_err err = YK_ERR_INIT;
  if (yk_cli_follows(&settings->model) && settings->dry_run) return YK_EXIT_OK;
  if (yk_cli_follows(&settings->model)) return yk_cli_follow_by(&settings->model, yk_study_follow, settings);
  session s = {.settings = settings, .journal = {.fd = -1}};
  yk_console_init(&s.console, (yk_log_level)settings->model.log_level);
  if (yk_model_options_find(&settings->model, true, &err) != YK_OK) {
    join(&s, NULL);
    return yk_cli_failure(&err);
  }
  s.printer = (yk_study_printer){.console = &s.console, .grid = &s.grid};
  s.engine = (yk_study_engine){.grid = &s.grid,
                               .options = &s.options,
                               .log = s.console.log,
                               .progress = yk_console_loading,
                               .progress_user = &s.console};
  if (yk_interrupt_start(&s.interrupt, &s.console, &err) != YK_OK) return yk_cli_failure(&err);
  int exit_code = run_session(&s, &err) == YK_OK ? YK_EXIT_OK : yk_cli_failure(&err);
  free_session(&s);
  if (!s.engine.is_stuck) yk_process_group_leave(s.group, &err);
  int caught = yk_interrupt_stop(&s.interrupt);
  return yk_cli_end(!s.engine.is_stuck, caught ? YK_EXIT_SIGNAL + caught : exit_code);
}

int yk_cli_study(int argc, char **argv)
{
  yk_study_settings settings;
  int exit_code;
  if (argc > 0 && strcmp(argv[0], "compare") == 0) return yk_cli_study_compare(argc - 1, argv + 1);
  if (argc > 0 && strcmp(argv[0], "predict") == 0) return yk_cli_study_predict(argc - 1, argv + 1);
  if (argc > 0 && strcmp(argv[0], "report") == 0) return yk_cli_study_report(argc - 1, argv + 1);
  if (yk_study_settings_parse(&settings, argc, argv, &exit_code)) exit_code = run_study(&settings);
  yk_study_settings_free(&settings);
  return exit_code;
}
