#include "parallel/world.h"

yk_world yk_world_of_process(int n_ranks)
{
  return (yk_world){.n_ranks = n_ranks, .n_local = n_ranks, .n_stages = 1};
}

yk_status yk_world_check(const yk_world *w, yk_err *err)
{
  if (w->n_ranks < 1 || w->n_ranks > YK_MAX_RANKS)
    return yk_err_set(err, YK_E_INVAL, "number of ranks: expected 1 to %d, found %d", YK_MAX_RANKS, w->n_ranks);
  if (w->n_local < 1 || w->n_local > w->n_ranks)
    return yk_err_set(err, YK_E_INVAL, "ranks of this process: expected 1 to %d, found %d", w->n_ranks, w->n_local);
  if (w->first_rank < 0 || w->first_rank > w->n_ranks - w->n_local)
    return yk_err_set(err, YK_E_INVAL, "first rank of this process: expected 0 to %d, found %d",
                      w->n_ranks - w->n_local, w->first_rank);
  if (w->n_stages < 1 || w->n_ranks % w->n_stages != 0)
    return yk_err_set(err, YK_E_INVAL, "pipeline stages: expected a divisor of %d ranks, found %d", w->n_ranks,
                      w->n_stages);
  return YK_OK;
}
