/* request_owner.h - the engine's functions for the sequence of a request: describe its rows, take their results, finish
 * the request. */
#ifndef YK_ENGINE_REQUEST_OWNER_H
#define YK_ENGINE_REQUEST_OWNER_H

#include "engine/loop/sequence.h"

extern const yk_sequence_owner yk_request_owner;

/* yk_requests_deliver - pass the tokens that take_results left undelivered to their readers, so that decoding text and
 *   waking readers overlap with the next step of the ranks. Must be called before a request ends for any reason other
 *   than its own results. Engine thread. */
void yk_requests_deliver(yk_engine *engine);

#endif
