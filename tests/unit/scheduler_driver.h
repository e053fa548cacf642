/* scheduler_driver.h - random submissions, steps, cancellations and preemptions of a scheduler without devices. After
 * each step: no block owned twice or lost, no block shared by sequences with different prefixes, row and slot budgets
 * kept, first come first served, every sequence's recurrent states those of its own tokens, and rounded as in a step of
 * the whole prompt if steps have enough space; at the end every sequence has finished. */
#ifndef TESTS_UNIT_SCHEDULER_DRIVER_H
#define TESTS_UNIT_SCHEDULER_DRIVER_H

#include "engine/loop/scheduler.h"

enum { SCHEDULER_MAX_SLOTS = 64, SCHEDULER_MAX_ENTRIES = 40, SCHEDULER_MAX_CONTEXT = 300 };

/* Within the constants above. */
typedef struct scheduler_limits {
  yk_device_limits step;
  yk_memory_rules rules;
} scheduler_limits;

/* scheduler_drive - 60 sequences of up to limits->step.max_model_tokens tokens. depth: most steps in flight, up to 4.
 *   some_fail: some rows give logits that are not finite. forgets: occasionally forgets published blocks. Fails the
 *   test that runs. */
yk_scheduler_counts scheduler_drive(uint64_t seed, const scheduler_limits *limits, int depth, int32_t n_blocks,
                                    bool some_fail, bool forgets);

#endif
