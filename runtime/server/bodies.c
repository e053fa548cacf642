#include "server/bodies.h"

#include <malloc.h>

#include "server/server_internal.h"

enum { TRIMMED_BODY_BYTES = 1 << 20, LARGE_BLOCK_BYTES = 1 << 20, RETRY_AFTER_S = 1 };

void yk_bodies_start(void)
{
  mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES);
}

bool yk_bodies_take(yk_exchange *x, size_t n_bytes)
{
  yk_server *server = x->server;
  size_t limit = (size_t)server->options.max_held_body_bytes;
  bool is_small = x->held_bytes + n_bytes <= YK_SMALL_BODY_BYTES;
  if (!is_small && server->held_bytes + n_bytes > limit) {
    yk_bodies_give_back(x);
    yk_reply_refuse(&x->reply, 503, NULL, "bodies of other requests take %zu of at most %zu bytes; try again later",
                    server->held_bytes, limit);
    x->reply.retry_after_s = RETRY_AFTER_S;
    return false;
  }
  server->held_bytes += n_bytes;
  x->held_bytes += n_bytes;
  return true;
}

void yk_bodies_give_back(yk_exchange *x)
{
  x->server->held_bytes -= x->held_bytes;
  x->held_bytes = 0;
}

void yk_bodies_trim(const yk_exchange *x)
{
  if (x->held_bytes >= TRIMMED_BODY_BYTES) malloc_trim(0);
}
