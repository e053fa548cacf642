/* slots.h - the rows of the devices' tables that running sequences use: token counts for sampling, and recurrent
 * states.
 *
 * A free slot may keep its holder: its recurrent states are valid until another memory takes the slot. Slots without a
 * holder are taken first, then the least recently used free slots. Owner and thread: the engine's. No locks. */
#ifndef YK_ENGINE_LOOP_SLOTS_H
#define YK_ENGINE_LOOP_SLOTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

struct yk_sequence_memory;

typedef struct yk_slots yk_slots;

/* yk_slots_create - n slots, all free. Errors: YK_E_NOMEM. */
yk_status yk_slots_create(int32_t n, yk_slots **out, yk_err *err);
void yk_slots_destroy(yk_slots *slots);

/* yk_slots_take - a free slot for a holder; -1: all are in use. *loser: the holder that the slot had, or NULL. */
int32_t yk_slots_take(yk_slots *slots, struct yk_sequence_memory *holder, struct yk_sequence_memory **loser);

/* yk_slots_retake - use the free slot of its holder again. */
void yk_slots_retake(yk_slots *slots, int32_t slot);

/* yk_slots_leave - a slot in use becomes free. keeps_holder: it is taken after all free slots left before. */
void yk_slots_leave(yk_slots *slots, int32_t slot, bool keeps_holder);

/* yk_slots_drop_holder - a free slot's holder no longer needs the slot. */
void yk_slots_drop_holder(yk_slots *slots, int32_t slot);

/* yk_slots_user - the holder of a slot in use; NULL for a free slot. */
struct yk_sequence_memory *yk_slots_user(const yk_slots *slots, int32_t slot);

#endif
