#include "engine/machine/roll_call.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/model_identity.h"
#include "engine/machine/process_facts.h"
#include "engine/machine/settings_resolve.h"

static const double START_TIMEOUT_S = 120;
/* A CPU rank has no limit of a step, but a process sends heartbeats independently of its ranks. */
static const double SILENCE_LIMIT_S = 60;

static void log_report(const yk_log *log, yk_log_level level, char *report)
{
  for (char *line = report, *end; line && *line; line = end ? end + 1 : NULL) {
    end = strchr(line, '\n');
    if (end) *end = '\0';
    yk_log_text(log, level, line);
  }
}

static yk_cluster_options cluster_options(const yk_engine_options *o, const yk_settings *settings,
                                          const yk_listener *listener, const yk_log *log)
{
  return (yk_cluster_options){.process = o->process,
                              .n_processes = o->n_processes,
                              .world = settings->world,
                              .master_host = o->master_host,
                              .master_port = o->master_port ? o->master_port : YK_CLUSTER_PORT,
                              .listener = listener,
                              .key = o->process_key,
                              .allowed_hosts = o->process_hosts,
                              .n_allowed = o->n_process_hosts,
                              .start_timeout_s = o->start_timeout_s > 0 ? o->start_timeout_s : START_TIMEOUT_S,
                              .silence_limit_s =
                                  settings->step_timeout_s > 0 ? settings->step_timeout_s : SILENCE_LIMIT_S,
                              .log = log};
}

/* purpose: of a group, or NULL. identity: of the checkpoint. problem: why this process cannot take part; code YK_OK: it
 * can. */
static yk_status join(const yk_engine_options *o, const yk_settings *settings, const char *purpose,
                      const yk_listener *listener, const yk_log *log, uint32_t identity, const yk_err *problem,
                      yk_cluster **out, yk_err *err)
{
  char *report = NULL;
  yk_process_facts facts;
  yk_cluster_options cluster = cluster_options(o, settings, listener, log);
  YK_TRY(yk_process_facts_collect(o, settings, purpose, identity, &facts, err));
  cluster.facts = facts.facts;
  cluster.n_facts = facts.n;
  cluster.problem = problem->code == YK_OK ? NULL : problem->message;
  yk_status status = yk_cluster_join(&cluster, out, &report, err);
  /* One table of a failed roll call is enough where all processes write to one terminal. */
  if (status != YK_OK && !report)
    yk_log_write(log, YK_LOG_INFO, "network of this host: %s", yk_process_facts_value(&facts, YK_FACT_NETWORK));
  log_report(log, status == YK_OK ? YK_LOG_DEBUG : o->process == 0 ? YK_LOG_ERROR : YK_LOG_INFO, report);
  free(report);
  yk_process_facts_free(&facts);
  return status;
}

/* Values that the roll call itself needs. */
static yk_status check(const yk_engine_options *o, yk_err *err)
{
  if (o->n_processes > YK_CLUSTER_MAX_PROCESSES)
    return yk_err_set(err, YK_E_INVAL, "n_processes: expected 1 to %d, found %d", YK_CLUSTER_MAX_PROCESSES,
                      o->n_processes);
  if (o->process < 0 || o->process >= o->n_processes)
    return yk_err_set(err, YK_E_INVAL, "process: expected 0 to %d, found %d", o->n_processes - 1, o->process);
  if (!o->master_host || !o->master_host[0])
    return yk_err_set(err, YK_E_INVAL, "master_host: expected the address of process 0, found nothing");
  if (o->master_port < 0 || o->master_port > 65535)
    return yk_err_set(err, YK_E_INVAL, "master_port: expected 1 to 65535, found %d", o->master_port);
  if (!(o->start_timeout_s >= 0 && o->start_timeout_s <= 1e6))
    return yk_err_set(err, YK_E_INVAL, "start_timeout_s: expected 0 to 1e6, found %g", o->start_timeout_s);
  return YK_OK;
}

/* The ranks of a process that cannot take part, as given, so that the table shows no difference where there is none. */
static yk_world world_of_table(const yk_engine_options *o)
{
  const bool is_known = o->n_ranks >= 1 && o->n_ranks <= YK_MAX_RANKS && o->n_stages <= YK_MAX_RANKS;
  return (yk_world){.n_ranks = is_known ? o->n_ranks : o->n_processes,
                    .first_rank = o->process,
                    .n_local = 1,
                    .n_stages = is_known && o->n_stages > 0 ? o->n_stages : 1};
}

yk_status yk_roll_call_hold(const yk_engine_options *options, const yk_listener *listener, const yk_log *log,
                            const yk_err *known, yk_cluster **out, yk_err *err)
{
  yk_settings settings = {0};
  yk_err problem = YK_ERR_INIT;
  uint32_t identity = YK_HASH_START;
  *out = NULL;
  if (options->n_processes <= 1) return YK_OK;
  YK_TRY(check(options, err));
  if (yk_settings_devices(options, false, &settings, &problem) != YK_OK) settings.world = world_of_table(options);
  if (known) problem = *known;
  yk_model_identity(options->model_dir, &identity, problem.code == YK_OK ? &problem : NULL);
  yk_status status = join(options, &settings, NULL, listener, log, identity, &problem, out, err);
  if (status != YK_OK && problem.code != YK_OK && err) *err = problem;
  return status != YK_OK && problem.code != YK_OK ? problem.code : status;
}

yk_status yk_roll_call_hold_group(const yk_engine_options *options, const char *purpose, const yk_listener *listener,
                                  const yk_log *log, yk_cluster **out, yk_err *err)
{
  yk_settings settings = {0};
  yk_err problem = YK_ERR_INIT;
  uint32_t identity = YK_HASH_START;
  yk_engine_options alone = *options; /* chooses the kind of device and the time limit */
  *out = NULL;
  YK_TRY(check(options, err));
  alone.n_processes = alone.n_ranks = 1;
  alone.n_stages = 0;
  alone.device_ids = NULL;
  yk_settings_devices(&alone, false, &settings, &problem);
  settings.world =
      (yk_world){.n_ranks = options->n_processes, .first_rank = options->process, .n_local = 1, .n_stages = 1};
  if (options->model_dir) yk_model_identity(options->model_dir, &identity, problem.code == YK_OK ? &problem : NULL);
  yk_status status = join(options, &settings, purpose, listener, log, identity, &problem, out, err);
  if (status != YK_OK && problem.code != YK_OK && err) *err = problem;
  return status != YK_OK && problem.code != YK_OK ? problem.code : status;
}
