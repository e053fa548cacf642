/* hand_out.h - distribute the results of a computed step to its sequences. */
#ifndef YK_ENGINE_HAND_OUT_H
#define YK_ENGINE_HAND_OUT_H

#include "engine/engine_internal.h"

/* yk_hand_out - pass the results of a computed and committed step to the step's sequences.
 *   A sequence with a row that could not be sampled fails alone: its blocks that are not marked sound are withdrawn,
 *   and sequences that share such a block are computed again. All other sequences continue unchanged. Engine thread. */
void yk_hand_out(yk_engine *engine, const yk_scheduled *items, int32_t n_items, const yk_step *step);

#endif
