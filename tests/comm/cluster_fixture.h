/* cluster_fixture.h - the processes of a run as threads of a test: a cluster has no state outside its struct. */
#ifndef TESTS_COMM_CLUSTER_FIXTURE_H
#define TESTS_COMM_CLUSTER_FIXTURE_H

#include "parallel/cluster/cluster.h"

typedef struct cluster_party {
  yk_cluster_options options;
  yk_listener listener; /* of process 0 */
  yk_cluster *cluster;  /* NULL: did not join */
  char *report;
  yk_status status;
  yk_err err;
} cluster_party;

/* cluster_parties - options of n_processes processes with the given numbers of ranks, on a free port of host. */
void cluster_parties(cluster_party *parties, int n_processes, const int *ranks, const char *host);

/* cluster_join_all - join all parties [n], each in its thread. */
void cluster_join_all(cluster_party *parties, int n);

/* cluster_leave_all - leave in order, process 0 last to return; frees reports. */
void cluster_leave_all(cluster_party *parties, int n);

#endif
