/* hand_out.h - what a computed step means for each of its sequences. */
#ifndef YK_ENGINE_HAND_OUT_H
#define YK_ENGINE_HAND_OUT_H

#include "engine/engine_internal.h"

/* yk_hand_out - give the results of a step that was computed and committed to the sequences that it was made of.
 *   A sequence with a row that could not be sampled fails alone: its blocks that are not known to be sound are
 *   withdrawn, and sequences that share one are computed again. Everything else goes on as if the failed one had not
 *   been there. Engine thread. */
void yk_hand_out(yk_engine *engine, const yk_scheduled *items, int32_t n_items, const yk_step *step);

#endif
