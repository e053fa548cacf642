/* processes.h - the processes among which the ranks of a run are divided: values that all of them agree on at the
 * start, and their common failure. A run of one process has no cluster: NULL. roll_call.h connects the processes. */
#ifndef YK_ENGINE_MACHINE_PROCESSES_H
#define YK_ENGINE_MACHINE_PROCESSES_H

#include "parallel/cluster/cluster.h"

/* yk_processes_leave - end this process's part of the cluster in order, and free the cluster. NULL is allowed. */
void yk_processes_leave(yk_cluster *cluster);

/* yk_processes_fail - report this process's error (status, *err) to all processes. If the cluster has failed before,
 *   *err becomes the earlier failure instead, which explains this error. Returns the code of *err. status YK_OK or
 *   cluster NULL: changes nothing. */
yk_status yk_processes_fail(yk_cluster *cluster, yk_status status, yk_err *err);

/* yk_processes_smallest - every process calls this function with a value; *least: the least value, *process: the first
 *   process that has it. cluster NULL: value, 0. Errors: YK_E_COMM. */
yk_status yk_processes_smallest(yk_cluster *cluster, int64_t value, int64_t *least, int *process, yk_err *err);

/* yk_processes_barrier - returns once every process has called it. Errors: YK_E_COMM. */
yk_status yk_processes_barrier(yk_cluster *cluster, yk_err *err);

/* yk_processes_on_host - processes on this process's host, at least 1. */
int yk_processes_on_host(const yk_cluster *cluster);

/* yk_processes_share_host - whether all processes run on one host, and so have one clock. */
bool yk_processes_share_host(const yk_cluster *cluster);

#endif
