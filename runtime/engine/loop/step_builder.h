/* step_builder.h - turn what the scheduler chose into the step that the ranks run. Owner and thread: the engine's.
 *
 *   reserve      for a sequence that is to be scheduled: memory for what its rows may add to a step
 *   build        everything that the ranks compute with, and each row's sampling
 *   fill_late    once the ranks have begun: what rank 0 needs when it samples (step_late.h)
 *   release      the sequence will not run again
 *
 * So building a step never allocates. Not between build and the end of the step: reserve and release. */
#ifndef YK_ENGINE_LOOP_STEP_BUILDER_H
#define YK_ENGINE_LOOP_STEP_BUILDER_H

#include "engine/loop/scheduler.h"
#include "model/step.h"

typedef struct yk_step_builder yk_step_builder;

/* yk_step_builder_create - memory for the largest step of sequences without extras. Errors: YK_E_NOMEM. */
yk_status yk_step_builder_create(const yk_device_limits *limits, yk_step_builder **out, yk_err *err);
void yk_step_builder_destroy(yk_step_builder *builder);

/* yk_step_builder_reserve - memory for a sequence's extras in a step and its answer, beside those of all others that
 *   have reserved. Errors: YK_E_NOMEM, with nothing reserved. */
yk_status yk_step_builder_reserve(yk_step_builder *builder, const yk_step_extras *extras, yk_err *err);
void yk_step_builder_release(yk_step_builder *builder, const yk_step_extras *extras);

/* yk_step_builder_build - the step of these items, each of which has reserved its extras.
 *   The wanted rows of an item are its rows from seq->wanted_from on; results come in the same order. The step is the
 *   builder's own and valid until the next build, as are logits of its answer; what was sampled until the build after
 *   that. */
const yk_step *yk_step_builder_build(yk_step_builder *builder, const yk_scheduled *items, int32_t n_items,
                                     bool is_timed);

/* yk_step_builder_fill_late - fill the late arrays of the step that was built, and tell rank 0. The items' sequences
 *   must be as they were. */
void yk_step_builder_fill_late(yk_step_builder *builder);

#endif
