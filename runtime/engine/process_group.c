/* process_group.c - the processes of a run of several engines: a cluster of all of them for the whole run, over which
 * process 0 announces each engine with the address of that engine's own roll call. */
#include "engine/process_group.h"

#include <stdlib.h>
#include <string.h>

#include "engine/machine/processes.h"
#include "engine/machine/roll_call.h"
#include "engine/machine/settings_resolve.h"

enum { MESSAGE_ENGINE = 1 };

static const double END_S = 60; /* for followers to free their ranks */

/* The content of a message. */
typedef struct engine_notice {
  int64_t number;
  int32_t n_processes, port;
} engine_notice;

_Static_assert(sizeof(engine_notice) == 16, "messages have no padding");

struct yk_process_group {
  yk_engine_options options; /* the processes of the run, and the log */
  yk_mpi_run *mpi;           /* that started the processes, or NULL */
  yk_cluster *cluster;
  bool has_engine; /* process 0: announced, and not ended */
};

yk_status yk_process_group_join(const yk_engine_options *options, const char *purpose, yk_process_group **out,
                                yk_err *err)
{
  *out = NULL;
  yk_process_group *group = calloc(1, sizeof *group);
  if (!group) return yk_err_set(err, YK_E_NOMEM, "no memory for a group of processes");
  yk_status status = yk_engine_options_read(options, &group->options, err);
  if (status == YK_OK) status = yk_mpi_run_start(&group->options, &group->mpi, err);
  const yk_engine_options *own = &group->options;
  if (status == YK_OK && own->n_processes < 2)
    status = yk_err_set(err, YK_E_INVAL, "n_processes: expected 2 or more for a group, found %d", own->n_processes);
  if (status == YK_OK)
    status = yk_roll_call_hold_group(own, purpose, yk_mpi_run_listener(group->mpi), &own->log, &group->cluster, err);
  if (status == YK_OK) {
    *out = group;
    return YK_OK;
  }
  yk_mpi_run_end(group->mpi, false);
  free(group);
  return status;
}

int yk_process_group_size(const yk_process_group *group)
{
  return group->options.n_processes;
}

yk_status yk_process_group_check(yk_process_group *group, yk_err *err)
{
  return yk_cluster_check(group->cluster, err);
}

yk_mpi_run *yk_process_group_mpi(const yk_process_group *group)
{
  return group->mpi;
}

void yk_process_group_leave(yk_process_group *group, const yk_err *failure)
{
  if (!group) return;
  const bool in_order = !failure || failure->code == YK_OK;
  yk_err why = in_order ? YK_ERR_INIT : *failure;
  if (!in_order) yk_processes_fail(group->cluster, why.code, &why);
  const bool has_failed = yk_cluster_check(group->cluster, NULL) != YK_OK;
  yk_processes_leave(group->cluster);
  yk_mpi_run_end(group->mpi, in_order && !has_failed);
  free(group);
}

/* The options of an engine as one process has them; port: of the engine's roll call. */
static void place_processes(const yk_process_group *group, int n_processes, int port, yk_engine_options *options)
{
  const yk_engine_options *run = &group->options;
  options->starts_by_mpi = false;
  options->n_processes = n_processes;
  options->process = n_processes > 1 ? run->process : 0;
  options->local_process = run->local_process;
  options->master_host = run->master_host;
  options->master_port = port;
  options->process_key = run->process_key;
  options->process_hosts = run->process_hosts;
  options->n_process_hosts = run->n_process_hosts;
  options->start_timeout_s = run->start_timeout_s;
}

/* ---- Process 0 --------------------------------------------------------------------------------------------------- */

yk_status yk_process_group_begin(yk_group_place *place, yk_engine_options *options, yk_err *err)
{
  yk_process_group *group = place->group;
  const yk_engine_options *run = &group->options;
  engine_notice notice = {.number = place->number, .n_processes = options->n_processes > 1 ? options->n_processes : 1};
  if (run->process != 0 || group->has_engine)
    return yk_err_set(err, YK_E_INVAL, "process: expected 0, without another engine, found %d%s", run->process,
                      group->has_engine ? ", with an engine" : "");
  if (notice.n_processes > run->n_processes)
    return yk_err_set(err, YK_E_INVAL, "number of processes: expected at most %d, those of the run, found %d",
                      run->n_processes, notice.n_processes);
  if (notice.n_processes > 1) {
    const bool has_key = run->process_key && run->process_key[0];
    YK_TRY(yk_listener_open(has_key ? NULL : run->master_host, 0, &place->listener, err));
    notice.port = place->listener.port;
  }
  place_processes(group, notice.n_processes, notice.port, options);
  const struct iovec piece = {&notice, sizeof notice};
  yk_status status = yk_cluster_send(group->cluster, MESSAGE_ENGINE, &piece, 1, err);
  group->has_engine = status == YK_OK;
  if (status != YK_OK && notice.n_processes > 1) yk_listener_close(&place->listener);
  return status;
}

/* Answers that are errors are ignored: process 0 has the failure of that engine already. */
void yk_process_group_end(yk_process_group *group)
{
  yk_err err = YK_ERR_INIT;
  if (!group->has_engine) return;
  group->has_engine = false;
  if (yk_cluster_wait(group->cluster, END_S, &err) == YK_E_TIMEOUT)
    yk_processes_fail(group->cluster, YK_E_TIMEOUT, &err);
}

yk_status yk_process_group_create_engine(yk_process_group *group, int64_t number, const yk_engine_options *options,
                                         yk_engine **out, yk_err *err)
{
  yk_group_place place = {.group = group, .number = number, .listener.fd = -1};
  return yk_engine_create_at(options, &place, out, err);
}

/* ---- The other processes ----------------------------------------------------------------------------------------- */

static yk_status follow_engine(yk_process_group *group, const engine_notice *notice, const yk_group_follower *follower,
                               bool *is_stuck, yk_err *err)
{
  bool has_run;
  yk_engine_options options;
  if (group->options.process >= notice->n_processes) return YK_OK;
  YK_TRY(follower->get_options(follower->user, notice->number, &options, err));
  place_processes(group, notice->n_processes, notice->port, &options);
  options.log = group->options.log;
  return yk_engine_follow_in(&options, group, follower->stops, follower->user, &has_run, is_stuck, err);
}

/* An engine that fails ends itself; process 0 decides whether another follows. */
static yk_status answer_notice(yk_process_group *group, const yk_cluster_message *message,
                               const yk_group_follower *follower, bool *is_stuck, yk_err *err)
{
  engine_notice notice;
  yk_err result = YK_ERR_INIT;
  if (message->kind != MESSAGE_ENGINE || message->n_bytes != sizeof notice)
    return yk_err_set(err, YK_E_COMM, "message of process 0: expected an engine, found kind %u of %zu bytes",
                      message->kind, message->n_bytes);
  memcpy(&notice, message->data, sizeof notice);
  yk_status status = follow_engine(group, &notice, follower, is_stuck, &result);
  if (*is_stuck || status == YK_E_CANCELLED) {
    if (err) *err = result;
    return status == YK_OK ? yk_err_set(err, YK_E_DEVICE, "a rank hangs") : status;
  }
  if (status != YK_OK) yk_log_write(&group->options.log, YK_LOG_WARN, "%s", result.message);
  return yk_cluster_answer(group->cluster, &result, err);
}

static yk_status follow_all(yk_process_group *group, const yk_group_follower *follower, bool *is_stuck, yk_err *err)
{
  const double poll_s = 0.25;
  for (;;) {
    yk_cluster_message message;
    const char *reason = follower->stops ? follower->stops(follower->user) : NULL;
    if (reason) return yk_err_set(err, YK_E_CANCELLED, "%s", reason);
    yk_status status = yk_cluster_receive(group->cluster, poll_s, &message, err);
    if (status == YK_OK && message.is_end) return YK_OK;
    if (status == YK_OK)
      YK_TRY(answer_notice(group, &message, follower, is_stuck, err));
    else if (status == YK_E_AGAIN)
      yk_err_clear(err);
    else
      return status;
  }
}

yk_status yk_process_group_follow(yk_process_group *group, const yk_group_follower *follower, bool *is_stuck,
                                  yk_err *err)
{
  yk_err own = YK_ERR_INIT;
  *is_stuck = false;
  if (group->options.process == 0)
    return yk_err_set(err, YK_E_INVAL, "process: expected 1 or more, found 0, which creates the engines");
  yk_status status = yk_processes_fail(group->cluster, follow_all(group, follower, is_stuck, &own), &own);
  if (status != YK_OK && err && err->code == YK_OK) *err = own;
  return status;
}
