/* step_builder.h - turn what the scheduler chose into the step that the ranks run. Owner and thread: the engine's. */
#ifndef YK_ENGINE_STEP_BUILDER_H
#define YK_ENGINE_STEP_BUILDER_H

#include "engine/scheduler.h"
#include "model/step.h"

typedef struct yk_step_builder yk_step_builder;

/* yk_step_builder_create - memory for the largest step, so that building one never allocates. Errors: YK_E_NOMEM. */
yk_status yk_step_builder_create(const yk_device_limits *limits, yk_step_builder **out, yk_err *err);
void yk_step_builder_destroy(yk_step_builder *builder);

/* yk_step_builder_build - the step of these items.
 *   The wanted rows of an item are its rows from seq->wanted_from on; results come in the same order. The step is the
 *   builder's own and valid until the next build, what ranks write to step->sampled until the one after that. */
const yk_step *yk_step_builder_build(yk_step_builder *builder, const yk_scheduled *items, int32_t n_items,
                                     bool is_timed);

#endif
