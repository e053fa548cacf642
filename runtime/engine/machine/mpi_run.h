/* mpi_run.h - a run whose processes MPI has started: their numbers, the address of process 0 and the transport between
 * CPU ranks come from MPI. */
#ifndef YK_ENGINE_MACHINE_MPI_RUN_H
#define YK_ENGINE_MACHINE_MPI_RUN_H

#include "parallel/cluster/cluster.h"
#include "parallel/wire.h"
#include "yoke/yoke.h"

typedef struct yk_mpi_run yk_mpi_run;

/* yk_mpi_run_start - with starts_by_mpi, start MPI and store the numbers, address and key of the processes in *options,
 *   which then points into *out; else *out is NULL. Once in a process. Errors: those of yk_mpi_start, YK_E_NOMEM. */
yk_status yk_mpi_run_start(yk_engine_options *options, yk_mpi_run **out, yk_err *err);

/* yk_mpi_run_listener - the socket on which process 0 listens, for the roll call; else NULL. */
const yk_listener *yk_mpi_run_listener(const yk_mpi_run *run);

/* yk_mpi_run_wires - MPI as the transport of a cluster; NULL if run is NULL, or if MPI does not serve several threads.
 *   Valid while run and cluster are. */
const yk_wires *yk_mpi_run_wires(yk_mpi_run *run, yk_cluster *cluster);

/* yk_mpi_run_end - free. in_order: the run has not failed, so that every process comes here, and MPI ends too; else
 *   the launcher ends the other processes. NULL is allowed. */
void yk_mpi_run_end(yk_mpi_run *run, bool in_order);

#endif
