/* request_owner.h - what the engine does for the sequence of a request: describe its rows, take their results, end
 * it. */
#ifndef YK_ENGINE_REQUEST_OWNER_H
#define YK_ENGINE_REQUEST_OWNER_H

#include "engine/loop/sequence.h"

extern const yk_sequence_owner yk_request_owner;

/* yk_requests_deliver - give readers the tokens that taking a step's results has left for later, so that the text and
 *   the telling are done while the ranks compute the next step. Must come before a request ends otherwise than by its
 *   own results. Engine thread. */
void yk_requests_deliver(yk_engine *engine);

#endif
