#include "server/request_id.h"

#include <stdio.h>
#include <string.h>

#include "server/server_internal.h"

static bool is_usable(const char *id)
{
  size_t n = 0;
  for (; id[n]; n++)
    if (n == YK_REQUEST_ID_BYTES - 1 || id[n] < '!' || id[n] > '~') return false;
  return n > 0;
}

void yk_request_id_choose(yk_exchange *x, const char *clients)
{
  yk_server *server = x->server;
  x->has_clients_id = clients && is_usable(clients);
  if (x->has_clients_id)
    memcpy(x->request_id, clients, strlen(clients) + 1);
  else
    snprintf(x->request_id, sizeof x->request_id, "%016llx%016llx", (unsigned long long)server->id_base,
             (unsigned long long)server->n_requests++);
}
