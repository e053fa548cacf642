#include "parallel/exchange.h"

#include <string.h>

static yk_status gather_alone(const yk_exchange *exchange, const void *mine, size_t n_bytes, void *all, yk_err *err)
{
  (void)exchange;
  (void)err;
  memcpy(all, mine, n_bytes);
  return YK_OK;
}

yk_exchange yk_exchange_alone(void)
{
  return (yk_exchange){.n_processes = 1, .all_gather = gather_alone};
}
