/* wire_tcp.h - data of ranks between the processes of a cluster over TCP: one connection for each pair of processes of
 * a wire. */
#ifndef YK_PARALLEL_CLUSTER_WIRE_TCP_H
#define YK_PARALLEL_CLUSTER_WIRE_TCP_H

#include "parallel/cluster/cluster.h"
#include "parallel/wire.h"

/* yk_cluster_wires - the transport of a cluster; valid while the cluster is. */
yk_wires yk_cluster_wires(yk_cluster *cluster);

#endif
