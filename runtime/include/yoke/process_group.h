/* process_group.h - engines one after the other on the processes of one run, each with a separate number of ranks and
 * processes, as in a scaling study. A run with one engine needs no group: yk_engine_create and yk_engine_follow connect
 * its processes. */
#ifndef YOKE_API_PROCESS_GROUP_H
#define YOKE_API_PROCESS_GROUP_H

#include "yoke/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_process_group yk_process_group;

/* yk_process_group_join - connect the processes of a run, all of which call this function.
 *   options: the processes, as for an engine, with device, model_dir and log; options of ranks are not used. Their
 *   strings and the log must outlive the group. purpose: equal in all processes, else the roll call fails; for
 *   instance a hash of the options from which engines are made.
 *   Errors: as yk_engine_create's in a run of several processes; YK_E_INVAL for a run of one. */
yk_status yk_process_group_join(const yk_engine_options *options, const char *purpose, yk_process_group **out,
                                yk_err *err);

/* yk_process_group_size - number of processes of the run. */
int yk_process_group_size(const yk_process_group *group);

/* yk_process_group_check - YK_OK, or the failure of a process, also of one that waits. Does not block. Thread: any. */
yk_status yk_process_group_check(yk_process_group *group, yk_err *err);

/* yk_process_group_create_engine - process 0: as yk_engine_create, on the processes 0 to options->n_processes - 1; the
 *   others wait. At most one engine at a time; yk_engine_destroy returns once the processes are free for the next one.
 *   number: of the engine, the caller's, for the other processes. The group's processes replace those of the options.
 *   Errors: those of yk_engine_create. Those of the options and of memory leave the group usable; YK_E_COMM of a lost
 *   process does not. */
yk_status yk_process_group_create_engine(yk_process_group *group, int64_t number, const yk_engine_options *options,
                                         yk_engine **out, yk_err *err);

/* The source of options in processes other than process 0. */
typedef struct yk_group_follower {
  /* The options of an engine of process 0, by its number: equal to those of process 0 as yk_engine_follow requires. */
  yk_status (*get_options)(void *user, int64_t number, yk_engine_options *out, yk_err *err);
  const char *(*stops)(void *user); /* as for yk_engine_follow; may be NULL */
  void *user;
} yk_group_follower;

/* yk_process_group_follow - another process than process 0: follow the engines of process 0 until process 0 leaves.
 *   is_stuck and errors: as for yk_engine_follow. Leave the group afterwards, unless is_stuck is set. */
yk_status yk_process_group_follow(yk_process_group *group, const yk_group_follower *follower, bool *is_stuck,
                                  yk_err *err);

/* yk_process_group_leave - free the group. failure: NULL or code YK_OK in order; else the other processes fail with it.
 *   No engine may be left. NULL is allowed. */
void yk_process_group_leave(yk_process_group *group, const yk_err *failure);

#ifdef __cplusplus
}
#endif
#endif
