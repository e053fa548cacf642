/* step_builder.h - build the step that the ranks run from the scheduler's choice. Owner and thread: the engine's.
 *
 *   reserve      before a sequence is scheduled: memory for the data that its rows may add to a step build        the
 *   arrays that the ranks compute with, and each row's sampling parameters
 *   fill_late    once the ranks have begun: the data that rank 0 needs for sampling (step_late.h)
 *   release      the sequence will not run again
 *
 * Building a step therefore never allocates. Several steps may be in flight: ranks use their memory, which changes only
 * when a later step reuses it. */
#ifndef YK_ENGINE_LOOP_STEP_BUILDER_H
#define YK_ENGINE_LOOP_STEP_BUILDER_H

#include "base/cpu_pool.h"
#include "engine/loop/scheduler.h"
#include "model/step.h"

typedef struct yk_step_builder yk_step_builder;

/* yk_step_builder_create - memory for the largest steps of sequences without extras, depth of them in flight.
 *   hidden_size: of the hidden states that steps return; 0: no sequence returns one. Errors: YK_E_NOMEM. */
yk_status yk_step_builder_create(const yk_device_limits *limits, int32_t hidden_size, int depth, yk_step_builder **out,
                                 yk_err *err);
void yk_step_builder_destroy(yk_step_builder *builder);

/* yk_step_builder_reserve - memory for a sequence's extras in a step and its answer, in addition to all earlier
 *   reservations. Errors: YK_E_NOMEM, with nothing reserved. */
yk_status yk_step_builder_reserve(yk_step_builder *builder, const yk_step_extras *extras, yk_err *err);
void yk_step_builder_release(yk_step_builder *builder, const yk_step_extras *extras);

/* yk_step_builder_build - the step of these items, whose extras are all reserved, with the pool's copies.
 *   The wanted rows of an item are its rows from seq->wanted_from on; results are in the same order. The builder owns
 *   the step. The step, and logits and hidden states of its answer, are valid until depth further steps are built,
 *   sampled results until one more is. */
const yk_step *yk_step_builder_build(yk_step_builder *builder, const yk_scheduled *items, int32_t n_items,
                                     yk_memory_pool *pool, bool is_timed);

/* yk_step_builder_fill_late - fill the late arrays of the built step, and signal rank 0. The items' sequences must be
 *   unchanged since build. mask_threads: fill the masks of different rows; NULL: the caller alone. */
void yk_step_builder_fill_late(yk_step_builder *builder, yk_cpu_pool *mask_threads);

#endif
