/* remote_profiles.h - profiles of timed steps of the ranks of other processes, for process 0. Owner: yk_ranks. */
#ifndef YK_ENGINE_MACHINE_REMOTE_PROFILES_H
#define YK_ENGINE_MACHINE_REMOTE_PROFILES_H

#include "model/model.h"
#include "parallel/cluster/cluster.h"

typedef struct yk_remote_profiles yk_remote_profiles;

/* yk_remote_profiles_create - in every process. cluster: not owned. Errors: YK_E_NOMEM. */
yk_status yk_remote_profiles_create(yk_cluster *cluster, yk_remote_profiles **out, yk_err *err);
void yk_remote_profiles_destroy(yk_remote_profiles *profiles); /* NULL is allowed */

/* yk_remote_profiles_gather - every process calls this function after a timed step. models: of its ranks, in order.
 *   Errors: YK_E_COMM, YK_E_NOMEM. */
yk_status yk_remote_profiles_gather(yk_remote_profiles *profiles, yk_model *const *models, yk_err *err);

/* yk_remote_profiles_of - process 0: the gathered profile of a rank of another process, until the next gather. Times of
 *   the host's clock are those of process 0's host: on another host, a forward is taken to end when rank 0's does.
 *   Names of operations are static. Before the first gather the profile is empty. */
const yk_step_profile *yk_remote_profiles_of(const yk_remote_profiles *profiles, int rank);

#endif
