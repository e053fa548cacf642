/* request_owner.h - what the engine does for the sequence of a request: describe its rows, take their results, end
 * it. */
#ifndef YK_ENGINE_REQUEST_OWNER_H
#define YK_ENGINE_REQUEST_OWNER_H

#include "engine/sequence.h"

extern const yk_sequence_owner yk_request_owner;

#endif
