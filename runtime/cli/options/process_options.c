#include "cli/options/process_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static yk_status add_host(void *user, const char *text, yk_err *err)
{
  yk_process_options *options = user;
  if (!text[0]) return yk_err_set(err, YK_E_INVAL, "expected a host, found nothing");
  const char **hosts = realloc(options->hosts, (size_t)(options->n_hosts + 1) * sizeof *hosts);
  if (!hosts) return yk_err_set(err, YK_E_NOMEM, "no memory for %d hosts", options->n_hosts + 1);
  hosts[options->n_hosts++] = text;
  options->hosts = hosts;
  return YK_OK;
}

void yk_process_options_init(yk_process_options *options)
{
  *options = (yk_process_options){.n = 1, .master_port = 29500, .start_timeout_s = 120};
}

void yk_process_options_free(yk_process_options *options)
{
  free(options->hosts);
}

void yk_process_options_fill(yk_process_options *o, yk_option *rows)
{
  const yk_option table[YK_PROCESS_OPTIONS] = {
      {"nnodes", NULL, YK_OPTION_INT, &o->n, "N",
       .help = "processes that the ranks are divided among, on one host or several; mpirun and torchrun set it",
       .min = 1, .max = YK_MAX_RANKS, .given = &o->n_given, .heading = "Several processes"},
      {"node-rank", "r", YK_OPTION_INT, &o->process, "R",
       .help = "number of this process; 0 has the command, the others follow it", .max = YK_MAX_RANKS - 1,
       .given = &o->process_given},
      {"master-addr", NULL, YK_OPTION_STRING, &o->master_host, "HOST", .help = "address of process 0", .fallback = ""},
      {"master-port", NULL, YK_OPTION_INT, &o->master_port, "PORT", .help = "port of process 0", .min = 1, .max = 65535,
       .given = &o->port_given},
      {"headless", NULL, YK_OPTION_FLAG, &o->is_headless, .help = "this is not process 0, as in vLLM"},
      {"start-timeout", NULL, YK_OPTION_NUMBER, &o->start_timeout_s, "SECONDS", .help = "for all processes to be there",
       .max = 86400, .above_min = true},
      {"process-host", NULL, YK_OPTION_CALL, o, "HOST...",
       .help = "other hosts whose processes may join without a key; YOKE_CLUSTER_KEY is one for any host",
       .fallback = "none", .parse = add_host, .takes_several = true},
  };
  memcpy(rows, table, sizeof table);
}

bool yk_process_options_has(const yk_process_options *options, const yk_option *option)
{
  const char *first = (const char *)options, *value = option->value;
  return value >= first && value < first + sizeof *options;
}

/* ---- Launchers --------------------------------------------------------------------------------------------------- */

static const char *variable(const char *name)
{
  const char *value = getenv(name);
  return value && value[0] ? value : NULL;
}

/* The first of these variables that is set, which must hold a number; NULL ends the names. No variable: *out stays. */
static yk_status read_number(const char *const *names, long min, long max, int *out, yk_err *err)
{
  for (; *names; names++) {
    char *end;
    const char *text = variable(*names);
    if (!text) continue;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || *end || value < min || value > max)
      return yk_err_set(err, YK_E_INVAL, "%s: expected %ld to %ld, found \"%.80s\"", *names, min, max, text);
    *out = (int)value;
    return YK_OK;
  }
  return YK_OK;
}

static const char *const torch_sizes[] = {"WORLD_SIZE", NULL}, *const torch_ranks[] = {"RANK", NULL};
static const char *const torch_ports[] = {"MASTER_PORT", NULL};
static const char *const mpi_sizes[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", NULL};
static const char *const mpi_ranks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", NULL};
static const char *const slurm_sizes[] = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", NULL}; /* set together with
                                                                                          * PMIX_RANK */
static const char *const local_ranks[] = {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                                          "SLURM_LOCALID", NULL};

/* torchrun's own store has the port of MASTER_PORT while it runs the processes: the next port is theirs. */
static yk_status apply_torch(const yk_process_options *options, yk_engine_options *engine, yk_err *err)
{
  const char *has_store = variable("TORCHELASTIC_USE_AGENT_STORE");
  YK_TRY(read_number(torch_sizes, 1, YK_MAX_RANKS, &engine->n_processes, err));
  YK_TRY(read_number(torch_ranks, 0, YK_MAX_RANKS - 1, &engine->process, err));
  YK_TRY(read_number(torch_ports, 1, 65534, &engine->master_port, err));
  if (engine->process >= engine->n_processes)
    return yk_err_set(err, YK_E_INVAL, "RANK: expected 0 to %d, since WORLD_SIZE is %d, found %d",
                      engine->n_processes - 1, engine->n_processes, engine->process);
  if (has_store && strcmp(has_store, "True") == 0) engine->master_port++;
  if (options->port_given) engine->master_port = options->master_port;
  engine->master_host = options->master_host ? options->master_host : variable("MASTER_ADDR");
  return YK_OK;
}

static yk_status apply_mpi(const yk_process_options *options, yk_engine_options *engine, yk_err *err)
{
  const char *const *sizes = variable("OMPI_COMM_WORLD_SIZE") || variable("PMI_SIZE") ? mpi_sizes : slurm_sizes;
  YK_TRY(read_number(sizes, 1, YK_MAX_RANKS, &engine->n_processes, err));
  YK_TRY(read_number(mpi_ranks, 0, YK_MAX_RANKS - 1, &engine->process, err));
  engine->starts_by_mpi = engine->n_processes > 1;
  engine->master_host = options->master_host; /* the network to use, where hosts have several */
  return YK_OK;
}

static yk_status apply_flags(const yk_process_options *options, yk_engine_options *engine, yk_err *err)
{
  engine->n_processes = options->n;
  engine->process = options->process;
  engine->master_host = options->master_host;
  if (options->process >= options->n)
    return yk_err_set(err, YK_E_INVAL, "--node-rank: expected 0 to %d, since --nnodes is %d, found %d", options->n - 1,
                      options->n, options->process);
  if (options->n > 1 && !options->process_given)
    return yk_err_set(err, YK_E_INVAL, "--nnodes: expected --node-rank with it, the number of this process");
  if (options->n > 1 && (!options->master_host || !options->master_host[0]))
    return yk_err_set(err, YK_E_INVAL, "--nnodes: expected --master-addr with it, the address of process 0");
  return YK_OK;
}

/* A process without the others is not the one of several that these options describe. */
static yk_status check_single(const yk_process_options *options, yk_err *err)
{
  if (options->process > 0)
    return yk_err_set(err, YK_E_INVAL, "--node-rank: expected --nnodes with it, found %d alone", options->process);
  if (options->master_host)
    return yk_err_set(err, YK_E_INVAL, "--master-addr: expected --nnodes with it, found %s alone",
                      options->master_host);
  return YK_OK;
}

yk_status yk_process_options_apply(const yk_process_options *options, yk_engine_options *engine, yk_err *err)
{
  bool is_mpi = variable("OMPI_COMM_WORLD_RANK") || variable("PMIX_RANK") || variable("PMI_RANK");
  engine->master_port = options->master_port;
  engine->start_timeout_s = options->start_timeout_s;
  engine->process_key = variable("YOKE_CLUSTER_KEY");
  engine->process_hosts = options->hosts;
  engine->n_process_hosts = options->n_hosts;
  if (options->n_given)
    YK_TRY(apply_flags(options, engine, err));
  else if (variable("WORLD_SIZE") && variable("RANK") && variable("MASTER_ADDR") && variable("MASTER_PORT"))
    YK_TRY(apply_torch(options, engine, err));
  else if (is_mpi)
    YK_TRY(apply_mpi(options, engine, err));
  else
    YK_TRY(check_single(options, err));
  if (options->is_headless && engine->process == 0)
    return yk_err_set(err, YK_E_INVAL, "--headless: expected --node-rank 1 or more, found process 0");
  return read_number(local_ranks, 0, YK_MAX_RANKS - 1, &engine->local_process, err);
}
