/* mpi_parent.h - processes of MPI whose children have the ranks. */
#ifndef YOKE_API_MPI_PARENT_H
#define YOKE_API_MPI_PARENT_H

#include <stdbool.h>

#include "yoke/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A process that MPI has started, and that starts a child with ranks: the child may end and be started again while the
 * MPI process continues. */
typedef struct yk_mpi_parent yk_mpi_parent;

/* yk_mpi_parent_start - starts MPI and agrees with the other processes on an address and a key. The environment then
 *   identifies each child: WORLD_SIZE, RANK, LOCAL_RANK, MASTER_ADDR, MASTER_PORT, YOKE_CLUSTER_KEY. They connect over
 *   TCP, without MPI. The port stays free for them until the end.
 *   master_host: as in yk_engine_options. Call it once, while there is one thread.
 *   Errors: YK_E_UNSUPPORTED (no MPI, or another one than Yoke was built with), YK_E_COMM, YK_E_IO, YK_E_NOMEM. */
yk_status yk_mpi_parent_start(const char *master_host, yk_mpi_parent **out, yk_err *err);

/* yk_mpi_parent_end - in_order: MPI ends, which waits for all processes; else the launcher ends the others once this
 *   process has ended. NULL is allowed. */
void yk_mpi_parent_end(yk_mpi_parent *parent, bool in_order);

#ifdef __cplusplus
}
#endif
#endif
