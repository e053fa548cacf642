#include "server/suspension.h"

#include "server/server_internal.h"

void yk_exchange_suspend(yk_exchange *x)
{
  x->is_suspended = true;
  MHD_suspend_connection(x->mhd);
}

void yk_exchange_resume(yk_exchange *x)
{
  if (!x->is_suspended || !x->mhd) return;
  x->is_suspended = false;
  x->server->has_resumed = true;
  MHD_resume_connection(x->mhd);
}
