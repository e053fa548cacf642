/* ranks.h - the devices, communicators, models and worker threads of one engine, driven together.
 *
 * With a cluster (yk_ranks_create), every process has an object for its own ranks. Process 0 sends each step to the
 * followers (step_message.h), which run the step with yk_ranks_follow; when the step ends on its own ranks, process 0
 * collects the followers' answers. The first failure of any rank of any process, or of a process, ends the work of all.
 *
 * Owner: the engine, or yk_engine_follow. Thread: one at a time (the creating thread, then the engine
 * thread), except yk_ranks_check. */
#ifndef YK_ENGINE_MACHINE_RANKS_H
#define YK_ENGINE_MACHINE_RANKS_H

#include "engine/machine/adapters.h"
#include "engine/machine/settings.h"
#include "model/model.h"
#include "parallel/cluster/cluster.h"

typedef struct yk_ranks yk_ranks;

/* yk_ranks_create - open the devices, connect them, start the threads.
 *   cluster: the processes that have the world's ranks, which outlives the object; NULL: one process.
 *   Errors: YK_E_CAPACITY (more ranks than devices), YK_E_DEVICE, YK_E_COMM, YK_E_NOMEM. */
yk_status yk_ranks_create(const yk_settings *settings, yk_cluster *cluster, yk_ranks **out, yk_err *err);

/* yk_ranks_load - build every rank's model, all ranks in parallel; returns once all processes have done so. adapters:
 *   become numbers 1 and up, and are not kept. progress: called from the first rank's thread with the bytes loaded so
 *   far over this process's ranks; may be NULL. */
yk_status yk_ranks_load(yk_ranks *ranks, const yk_checkpoint *checkpoint, const yk_open_adapters *adapters,
                        void (*progress)(void *user, int64_t done_bytes), void *user, yk_err *err);

/* yk_ranks_loaded_bytes - device bytes of the weights on all ranks of this process. */
int64_t yk_ranks_loaded_bytes(const yk_ranks *ranks);

/* yk_ranks_adapt - loads an adapter with this number on every rank, after the steps that have begun, none of which may
 *   use the number. One process. timeout_s: limit of each of these steps, as for yk_ranks_wait; to load the adapter at
 *   least ten minutes, since files may lie on a slow disk. Errors: those of yk_model_adapt, after which the ranks work
 *   without the adapter; or the ranks' failure. */
yk_status yk_ranks_adapt(yk_ranks *ranks, const yk_adapter *adapter, int32_t number, double timeout_s, yk_err *err);

/* yk_ranks_begin - start a step on every rank, after the steps begun before: at most one for each pipeline stage. A
 *   yk_ranks_wait must follow; the step must not change until then. */
void yk_ranks_begin(yk_ranks *ranks, const yk_step *step);

/* yk_ranks_send_late - the late arrays of the last step that has begun are filled. Must follow every yk_ranks_begin. */
void yk_ranks_send_late(yk_ranks *ranks, const yk_step *step);

/* yk_ranks_wait - wait for the oldest step that has not been waited for. timeout_s: as for yk_rank_group_wait. After an
 *   error every later step fails with the same error. */
yk_status yk_ranks_wait(yk_ranks *ranks, double timeout_s, yk_err *err);

/* yk_ranks_follow - in a process other than process 0: wait for the next message of process 0, and run its step.
 *   timeout_s: limit of the wait. *is_end: the engine of process 0 has ended in order. Errors: YK_E_AGAIN
 *   (no message), the failure that ends the run. */
yk_status yk_ranks_follow(yk_ranks *ranks, double timeout_s, bool *is_end, yk_err *err);

/* yk_ranks_check - YK_OK, or the failure of another process, which may be seen before the next step. Thread: any. */
yk_status yk_ranks_check(const yk_ranks *ranks, yk_err *err);

/* yk_ranks_read_expert_rows - rows of each expert since the models were loaded: [layers with experts, experts], n in
 *   all. Steps that have begun end first. timeout_s and errors: as for yk_ranks_wait. */
yk_status yk_ranks_read_expert_rows(yk_ranks *ranks, int64_t *rows, size_t n, double timeout_s, yk_err *err);

/* yk_ranks_profile - a rank's profile of the last timed step, in process 0 of any rank. Between steps. */
const yk_step_profile *yk_ranks_profile(const yk_ranks *ranks, int rank);

/* yk_ranks_destroy - stop the threads and free everything. Returns false if a rank or a thread of the communicator
 *   hangs: memory that it may still use, including the last step, must not be freed during the life of the process.
 *   NULL is allowed. */
bool yk_ranks_destroy(yk_ranks *ranks);

#endif
