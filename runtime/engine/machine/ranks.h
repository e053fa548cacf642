/* ranks.h - the devices, communicators, models and worker threads of one engine, driven together.
 * Owner: the engine. Thread: one at a time (the creating thread, then the engine thread). */
#ifndef YK_ENGINE_MACHINE_RANKS_H
#define YK_ENGINE_MACHINE_RANKS_H

#include "engine/machine/settings.h"
#include "model/model.h"

typedef struct yk_ranks yk_ranks;

/* yk_ranks_create - open the devices, connect them, start the threads. Errors: YK_E_CAPACITY (more ranks than devices),
 *   YK_E_DEVICE, YK_E_COMM, YK_E_NOMEM. */
yk_status yk_ranks_create(const yk_settings *settings, yk_ranks **out, yk_err *err);

/* yk_ranks_load - build every rank's model, all ranks in parallel. progress: called from rank 0's
 *   thread with the bytes loaded so far over all ranks; may be NULL. */
yk_status yk_ranks_load(yk_ranks *ranks, const yk_checkpoint *checkpoint,
                        void (*progress)(void *user, int64_t done_bytes), void *user, yk_err *err);

/* yk_ranks_loaded_bytes - device bytes of the weights on all ranks. */
int64_t yk_ranks_loaded_bytes(const yk_ranks *ranks);

/* yk_ranks_begin - start a step on every rank. yk_ranks_wait must follow; the step must not change until then. */
void yk_ranks_begin(yk_ranks *ranks, const yk_step *step);

/* yk_ranks_wait - wait for the step. timeout_s: as for yk_rank_group_wait. After an error every later step fails with
 *   the same error. */
yk_status yk_ranks_wait(yk_ranks *ranks, double timeout_s, yk_err *err);

/* yk_ranks_read_expert_rows - rows of each expert since the models were loaded: [layers with experts, experts]. Between
 *   steps. timeout_s and errors: as for yk_ranks_wait. */
yk_status yk_ranks_read_expert_rows(yk_ranks *ranks, int64_t *rows, double timeout_s, yk_err *err);

/* yk_ranks_profile - a rank's profile of the last timed step. Between steps. */
const yk_step_profile *yk_ranks_profile(const yk_ranks *ranks, int rank);

/* yk_ranks_destroy - stop the threads and free everything. Returns false if a rank or a thread of the communicator
 *   hangs: memory that it may still use, including the last step, must not be freed during the life of the process.
 *   NULL is allowed. */
bool yk_ranks_destroy(yk_ranks *ranks);

#endif
