/* bodies.h - memory of requests' bodies: a limit on the sum of all bodies that are being received or prepared. A
 * prepared request no longer has its body, but its tokens and little else. */
#ifndef YK_SERVER_BODIES_H
#define YK_SERVER_BODIES_H

#include <stdbool.h>

#include "server/exchange.h"

/* Bodies of at most this size are accepted beyond the limit, so that large requests do not keep small ones out; the
 * number of connections limits their sum. */
enum { YK_SMALL_BODY_BYTES = 64 << 10 };

/* yk_bodies_start - before the first body: freed large blocks of this process return to the system, so that the
 *   allocator does not keep ever larger ones. */
void yk_bodies_start(void);

/* yk_bodies_take - n_bytes more of an exchange's body have arrived. False: the bodies together are too large, and the
 *   reply is the refusal. Server thread. */
bool yk_bodies_take(yk_exchange *exchange, size_t n_bytes);

/* yk_bodies_give_back - releases the memory of an exchange's body. Server thread. */
void yk_bodies_give_back(yk_exchange *exchange);

/* yk_bodies_trim - an exchange has been prepared: return the memory that a large body used to the system. The worker's
 *   thread. */
void yk_bodies_trim(const yk_exchange *exchange);

#endif
