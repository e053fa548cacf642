/* mpi_start.h - processes that MPI has started: their numbers, the address of process 0, and MPI as the transport
 * between CPU ranks. */
#ifndef YK_PARALLEL_MPI_MPI_START_H
#define YK_PARALLEL_MPI_MPI_START_H

#include "parallel/cluster/cluster.h"
#include "parallel/mpi/plugin/plugin.h"
#include "parallel/wire.h"

enum { YK_MPI_HOST_BYTES = 256, YK_MPI_KEY_BYTES = 65 };

/* A process of an MPI run. The struct must outlive the cluster that is joined with its addresses and key. */
typedef struct yk_mpi {
  const yk_mpi_functions *functions;
  yk_mpi_place place;
  yk_listener listener;                /* of process 0, for yk_cluster_options */
  char master_host[YK_MPI_HOST_BYTES]; /* "localhost" if all processes are on one host */
  int master_port;
  char key[YK_MPI_KEY_BYTES]; /* of this run alone: made by process 0, given to the others through MPI */
} yk_mpi;

/* yk_mpi_start - load the plug-in, start MPI and agree on an address and a key. Call once per process, before any other
 *   thread runs. master_host: process 0's, in place of its host name (the network to use), or NULL. Errors:
 *   YK_E_UNSUPPORTED (no plug-in; another MPI than it was built with, named; a launcher of another MPI), YK_E_COMM,
 *   YK_E_IO. */
yk_status yk_mpi_start(const char *master_host, yk_mpi *out, yk_err *err);

/* yk_mpi_end - finalises MPI, which waits for all processes: only after a run without failure. After a failure the
 *   process exits without this call, and mpirun ends the other processes. */
void yk_mpi_end(yk_mpi *mpi);

/* yk_mpi_wires - MPI as transport for the processes of a cluster, which has as many processes as MPI has started;
 *   MPI's threads must be usable (place.any_thread), else take yk_cluster_wires. *context: filled by the call; it, mpi
 *   and cluster must outlive the wires. A failure of the cluster ends every wait; an abort of a wire fails the
 *   cluster. */
typedef struct yk_mpi_wires_context {
  yk_mpi *mpi;
  yk_cluster *cluster;
  int first_ranks[YK_CLUSTER_MAX_PROCESSES + 1];
  unsigned n_communicators;
} yk_mpi_wires_context;
yk_wires yk_mpi_wires(yk_mpi *mpi, yk_cluster *cluster, yk_mpi_wires_context *context);

#endif
