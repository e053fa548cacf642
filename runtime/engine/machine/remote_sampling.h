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

/* yk_remote_sampling_has_arrays - whether process 0 sends arrays for sampling with this step: a plain step (is_plain)
 *   has none. */
bool yk_remote_sampling_has_arrays(const yk_step *step);

/* yk_remote_sampling_keep - in the process that samples: copies the block of a step, whose message is freed next.
 *   Errors: YK_E_NOMEM. */
yk_status yk_remote_sampling_keep(yk_remote_sampling *sampling, const yk_step *step, yk_err *err);

/* yk_remote_sampling_complete - in the process that samples: gives the step memory for its answer. If the step has
 *   arrays for sampling (yk_remote_sampling_has_arrays), its block, kept before, is completed by these arrays [n_bytes]
 *   and replaces step->block. All is valid until the next call.
 *   Errors: YK_E_COMM (n_bytes differs from the size by the step's counts), YK_E_NOMEM. */
yk_status yk_remote_sampling_complete(yk_remote_sampling *sampling, yk_step *step, const void *arrays, size_t n_bytes,
                                      yk_err *err);

/* yk_remote_sampling_give - send the answer of the completed step to process 0. Errors: YK_E_COMM. */
yk_status yk_remote_sampling_give(yk_remote_sampling *sampling, const yk_step *step, yk_err *err);

/* yk_remote_sampling_take - in process 0: the answer of the oldest step that has not been taken. timeout_s <= 0: waits
 *   for ever. Errors: YK_E_TIMEOUT, YK_E_COMM. */
yk_status yk_remote_sampling_take(yk_remote_sampling *sampling, const yk_step *step, double timeout_s, yk_err *err);

#endif
