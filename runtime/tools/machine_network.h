/* machine_network.h - the processes of a measurement, and the network between each two of them. */
#ifndef YK_TOOLS_MACHINE_NETWORK_H
#define YK_TOOLS_MACHINE_NETWORK_H

#include "engine/machine/mpi_run.h"
#include "tools/machine_run.h"

/* The processes of a measurement, connected. */
typedef struct yk_machine_group {
  yk_cluster *cluster; /* NULL: one process */
  yk_mpi_run *mpi;     /* that started them, or NULL */
} yk_machine_group;

/* yk_machine_join - connect the processes of the options. Every process calls this function, and yk_machine_leave after
 *   an error too. Errors: those of the roll call. */
yk_status yk_machine_join(const yk_machine_options *options, yk_machine_group *out, yk_err *err);

/* yk_machine_leave - in_order: after measurements without an error. */
void yk_machine_leave(yk_machine_group *group, bool in_order);

/* yk_machine_is_first - whether this process measures devices: process 0, or the only one. */
bool yk_machine_is_first(const yk_machine_group *group);

/* yk_machine_measure_networks - every process calls this function; adds all pairs to the report of each. One pair
 *   measures at a time. Errors: YK_E_COMM, YK_E_TIMEOUT, YK_E_NOMEM. */
yk_status yk_machine_measure_networks(yk_machine_run *run, const yk_machine_group *group, yk_err *err);

#endif
