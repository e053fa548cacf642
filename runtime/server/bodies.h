/* bodies.h - the memory of requests' bodies: a limit on all that are held at a time, which are those that arrive or are
 * being prepared. Behind that a request keeps its tokens and little else. */
#ifndef YK_SERVER_BODIES_H
#define YK_SERVER_BODIES_H

#include <stdbool.h>

#include "server/exchange.h"

/* A body up to here is small: it is always taken, since connections are limited, so that a small request is served
 * beside large ones. */
enum { YK_SMALL_BODY_BYTES = 64 << 10 };

/* yk_bodies_start - before the first body: large blocks of this process go back to the system when they are freed,
 *   rather than make the allocator keep ever larger ones. */
void yk_bodies_start(void);

/* yk_bodies_take - n_bytes more of an exchange's body have come. False: all bodies together are too large, and the
 *   reply says so. Server thread. */
bool yk_bodies_take(yk_exchange *exchange, size_t n_bytes);

/* yk_bodies_give_back - the body of an exchange is held no more. Server thread. */
void yk_bodies_give_back(yk_exchange *exchange);

/* yk_bodies_trim - an exchange has been prepared: return what a large body took to the system. The worker's thread. */
void yk_bodies_trim(const yk_exchange *exchange);

#endif
