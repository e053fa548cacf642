/* call_off.c - the end of a run of several processes whose process 0 fails before it has an engine. */
#include "engine/machine/mpi_run.h"
#include "engine/machine/processes.h"
#include "engine/machine/roll_call.h"
#include "engine/machine/settings_resolve.h"

void yk_engine_call_off(const yk_engine_options *options, const yk_err *why)
{
  yk_engine_options own;
  yk_mpi_run *mpi = NULL;
  yk_cluster *cluster = NULL;
  if (yk_engine_options_read(options, &own, NULL) != YK_OK) return;
  if (own.n_processes <= 1 || own.process != 0) return;
  const yk_log silent = {0}; /* the caller reports the reason */
  own.log = silent;
  if (yk_mpi_run_start(&own, &mpi, NULL) != YK_OK) return;
  yk_roll_call_hold(&own, yk_mpi_run_listener(mpi), &silent, why, &cluster, NULL);
  yk_mpi_run_end(mpi, false);
}
