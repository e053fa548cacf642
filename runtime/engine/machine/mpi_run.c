#include "engine/machine/mpi_run.h"

#include <stdlib.h>

#include "parallel/mpi/mpi_start.h"

struct yk_mpi_run {
  yk_mpi mpi;
  yk_mpi_wires_context context;
  yk_wires wires;
};

yk_status yk_mpi_run_start(yk_engine_options *options, yk_mpi_run **out, yk_err *err)
{
  *out = NULL;
  if (!options->starts_by_mpi) return YK_OK;
  yk_mpi_run *run = calloc(1, sizeof *run);
  if (!run) return yk_err_set(err, YK_E_NOMEM, "no memory for a process of MPI");
  yk_status status = yk_mpi_start(options->master_host, &run->mpi, err);
  if (status != YK_OK) {
    free(run);
    return status;
  }
  options->n_processes = run->mpi.place.n_processes;
  options->process = run->mpi.place.process;
  options->local_process = run->mpi.place.on_host;
  options->master_host = run->mpi.master_host;
  options->master_port = run->mpi.master_port;
  options->process_key = run->mpi.key;
  *out = run;
  return YK_OK;
}

const yk_listener *yk_mpi_run_listener(const yk_mpi_run *run)
{
  return run && run->mpi.place.process == 0 ? &run->mpi.listener : NULL;
}

const yk_wires *yk_mpi_run_wires(yk_mpi_run *run, yk_cluster *cluster)
{
  if (!run || !cluster || !run->mpi.place.any_thread) return NULL;
  run->wires = yk_mpi_wires(&run->mpi, cluster, &run->context);
  return &run->wires;
}

void yk_mpi_run_end(yk_mpi_run *run, bool in_order)
{
  if (!run) return;
  if (in_order) yk_mpi_end(&run->mpi);
  free(run);
}
