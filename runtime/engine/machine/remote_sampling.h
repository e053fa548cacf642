/* remote_sampling.h - sampling in another process than process 0: with pipeline stages the first rank of the last stage
 * samples. Process 0 sends the arrays for sampling after a step's message, and takes the results. Owner: yk_ranks. */
#ifndef YK_ENGINE_MACHINE_REMOTE_SAMPLING_H
#define YK_ENGINE_MACHINE_REMOTE_SAMPLING_H

#include "engine/machine/settings.h"
#include "model/step.h"
#include "parallel/cluster/cluster.h"

typedef struct yk_remote_sampling yk_remote_sampling;

/* yk_remote_sampling_create - in every process; *out is NULL if the sampling rank is in process 0. Connects process 0
 *   with the process that samples. Errors: YK_E_COMM, YK_E_TIMEOUT, YK_E_NOMEM. */
yk_status yk_remote_sampling_create(const yk_settings *settings, yk_cluster *cluster, yk_remote_sampling **out,
                                    yk_err *err);
void yk_remote_sampling_destroy(yk_remote_sampling *sampling); /* NULL is allowed */

/* yk_remote_sampling_process - the process that samples. */
int yk_remote_sampling_process(const yk_remote_sampling *sampling);

/* yk_remote_sampling_has_arrays - whether the arrays for sampling of such a step are sent: not those of a plain one. */
bool yk_remote_sampling_has_arrays(const yk_step *step);

/* yk_remote_sampling_keep - in the process that samples: copies the block of a step, whose message is about to go.
 *   Errors: YK_E_NOMEM. */
yk_status yk_remote_sampling_keep(yk_remote_sampling *sampling, const yk_step *step, yk_err *err);

/* yk_remote_sampling_complete - in the process that samples: from a step whose block has only the arrays for ranks, and
 *   the other arrays [n_bytes] if it has any and was kept, the whole step with room for its answer, valid until the
 *   next call.
 *   Errors: YK_E_COMM (another size than the counts say), YK_E_NOMEM. */
yk_status yk_remote_sampling_complete(yk_remote_sampling *sampling, yk_step *step, const void *arrays, size_t n_bytes,
                                      yk_err *err);

/* yk_remote_sampling_give - the answer of the completed step, to process 0. Errors: YK_E_COMM. */
yk_status yk_remote_sampling_give(yk_remote_sampling *sampling, const yk_step *step, yk_err *err);

/* yk_remote_sampling_take - in process 0: the answer of the oldest step that has not been taken. timeout_s <= 0: waits
 *   for ever. Errors: YK_E_TIMEOUT, YK_E_COMM. */
yk_status yk_remote_sampling_take(yk_remote_sampling *sampling, const yk_step *step, double timeout_s, yk_err *err);

#endif
