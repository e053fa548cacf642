/* follow.c - a process other than process 0: it opens the same checkpoint, loads its ranks and runs the steps that
 * process 0 sends. */
#include "engine/machine/mpi_run.h"
#include "engine/machine/processes.h"
#include "engine/machine/ranks.h"
#include "engine/machine/roll_call.h"
#include "engine/machine/settings_resolve.h"
#include "engine/process_group.h"
#include "loader/checkpoint.h"

/* Owner: yk_engine_follow. */
typedef struct follower {
  const yk_engine_options *options;
  const char *(*stops)(void *user);
  void *user;
  yk_mpi_run *mpi; /* or NULL */
  yk_cluster *cluster;
  yk_ranks *ranks;
  bool has_run; /* all processes have loaded */
} follower;

static yk_status load(follower *f, const yk_checkpoint *checkpoint, yk_err *err)
{
  yk_plan plan;
  yk_settings settings;
  YK_TRY(yk_settings_resolve(f->options, checkpoint, 0, f->cluster, &settings, &plan, err));
  settings.wires = yk_mpi_run_wires(f->mpi, f->cluster);
  YK_TRY(yk_ranks_create(&settings, f->cluster, &f->ranks, err));
  yk_open_adapters adapters;
  yk_status status = yk_open_adapters_open(f->options, yk_checkpoint_config(checkpoint), &adapters, err);
  if (status == YK_OK) status = yk_ranks_load(f->ranks, checkpoint, &adapters, NULL, NULL, err);
  yk_open_adapters_close(&adapters);
  return yk_checkpoint_settle(checkpoint, status, err);
}

static yk_status open_and_load(follower *f, yk_err *err)
{
  yk_checkpoint *checkpoint;
  const yk_config_changes changes = yk_settings_config_changes(f->options);
  YK_TRY(yk_checkpoint_open_changed(f->options->model_dir, &changes, &f->options->log, &checkpoint, err));
  yk_status status = load(f, checkpoint, err);
  yk_checkpoint_close(checkpoint);
  return status;
}

/* Run what process 0 sends, until its engine ends. */
static yk_status run(follower *f, yk_err *err)
{
  const double poll_s = 0.25;
  bool is_end = false;
  while (!is_end) {
    const char *reason = f->stops ? f->stops(f->user) : NULL;
    if (reason) return yk_err_set(err, YK_E_CANCELLED, "%s", reason);
    yk_status status = yk_ranks_follow(f->ranks, poll_s, &is_end, err);
    if (status == YK_E_AGAIN)
      yk_err_clear(err);
    else
      YK_TRY(status);
  }
  return YK_OK;
}

static yk_status follow(follower *f, yk_err *err)
{
  YK_TRY(open_and_load(f, err));
  f->has_run = true;
  yk_log_write(&f->options->log, YK_LOG_INFO, "%s follows %s", yk_cluster_name(f->cluster, f->options->process),
               yk_cluster_name(f->cluster, 0));
  return run(f, err);
}

static yk_status join(follower *f, const yk_engine_options *own, yk_err *err)
{
  if (own->n_processes < 2 || own->process < 1)
    return yk_err_set(err, YK_E_INVAL, "process: expected 1 to %d, found %d of %d processes", own->n_processes - 1,
                      own->process, own->n_processes);
  return yk_roll_call_hold(own, yk_mpi_run_listener(f->mpi), &own->log, NULL, &f->cluster, err);
}

yk_status yk_engine_follow(const yk_engine_options *options, const char *(*stops)(void *user), void *user,
                           bool *has_run, bool *is_stuck, yk_err *err)
{
  return yk_engine_follow_in(options, NULL, stops, user, has_run, is_stuck, err);
}

yk_status yk_engine_follow_in(const yk_engine_options *options, yk_process_group *group,
                              const char *(*stops)(void *user), void *user, bool *has_run, bool *is_stuck, yk_err *err)
{
  yk_engine_options own;
  yk_err failure = YK_ERR_INIT;
  follower f = {.options = &own, .stops = stops, .user = user};
  *is_stuck = *has_run = false;
  YK_TRY(yk_engine_options_read(options, &own, err));
  if (!own.model_dir) return yk_err_set(err, YK_E_INVAL, "model_dir: expected a checkpoint directory, found nothing");
  if (group) f.mpi = yk_process_group_mpi(group);
  if (!group) YK_TRY(yk_mpi_run_start(&own, &f.mpi, err));
  yk_status status = join(&f, &own, &failure);
  if (status == YK_OK) status = yk_processes_fail(f.cluster, follow(&f, &failure), &failure);
  *has_run = f.has_run;
  *is_stuck = !yk_ranks_destroy(f.ranks);
  if (!*is_stuck) yk_processes_leave(f.cluster);
  if (!*is_stuck && !group) yk_mpi_run_end(f.mpi, status == YK_OK);
  if (status != YK_OK && err && err->code == YK_OK) *err = failure;
  return status;
}
