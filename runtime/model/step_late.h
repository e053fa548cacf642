/* step_late.h - data of a step that rank 0 needs only for sampling, and that the engine may fill while the ranks
 * compute.
 *
 * The engine thread begins the step, fills the late arrays of its block and signals. Rank 0 waits for the signal just
 * before sampling, after the work for the layers and lm_head is on its device's stream. Owner: the owner of the
 * step. */
#ifndef YK_MODEL_STEP_LATE_H
#define YK_MODEL_STEP_LATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct yk_step_late {
  pthread_mutex_t mutex;
  pthread_cond_t cv_filled;
  bool is_filled; /* under mutex */
} yk_step_late;

void yk_step_late_init(yk_step_late *late);
void yk_step_late_destroy(yk_step_late *late);

/* yk_step_late_expect - a step with late arrays is about to begin. Thread: the engine's. */
void yk_step_late_expect(yk_step_late *late);

/* yk_step_late_fill - the arrays are filled, and do not change until the step has ended. Thread: the engine's. */
void yk_step_late_fill(yk_step_late *late);

/* yk_step_late_await - wait until the arrays are filled or the rank is stopped. is_stopped: polled every few
 *   milliseconds. Errors: YK_E_COMM after the rank was stopped. Thread: rank 0's. */
yk_status yk_step_late_await(yk_step_late *late, const atomic_bool *is_stopped, yk_err *err);

#endif
