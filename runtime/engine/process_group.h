/* process_group.h - the parts of a group of processes that its engines use. */
#ifndef YK_ENGINE_PROCESS_GROUP_H
#define YK_ENGINE_PROCESS_GROUP_H

#include "engine/machine/mpi_run.h"
#include "parallel/cluster/cluster.h"
#include "yoke/process_group.h"

/* An engine's place in a group. */
typedef struct yk_group_place {
  yk_process_group *group;
  int64_t number;       /* of the engine */
  yk_listener listener; /* process 0: for the engine's roll call; fd -1: none */
} yk_group_place;

/* yk_process_group_begin - process 0: announce an engine; stores the processes and the address of its roll call in
 *   *options and *place. yk_process_group_end must follow, after an error too. Errors: YK_E_INVAL, YK_E_COMM, YK_E_IO
 *   (the address cannot be opened). */
yk_status yk_process_group_begin(yk_group_place *place, yk_engine_options *options, yk_err *err);

/* yk_process_group_end - process 0: wait until all processes are free of the engine. */
void yk_process_group_end(yk_process_group *group);

/* yk_process_group_mpi - the MPI run of the group, or NULL. */
yk_mpi_run *yk_process_group_mpi(const yk_process_group *group);

/* yk_engine_create_at - yk_engine_create; place: in a group, or NULL. */
yk_status yk_engine_create_at(const yk_engine_options *options, yk_group_place *place, yk_engine **out, yk_err *err);

/* yk_engine_follow_in - yk_engine_follow; group: or NULL. */
yk_status yk_engine_follow_in(const yk_engine_options *options, yk_process_group *group,
                              const char *(*stops)(void *user), void *user, bool *has_run, bool *is_stuck, yk_err *err);

#endif
