#include "parallel/host_gather.h"

#include <stdlib.h>
#include <string.h>

/* The mailbox of rank 0 is not used. */
struct yk_host_gather {
  int n_ranks;
  yk_mailbox boxes[]; /* [n_ranks] */
};

yk_status yk_host_gather_create(int n_ranks, yk_host_gather **out, yk_err *err)
{
  yk_host_gather *g = calloc(1, sizeof *g + (size_t)n_ranks * sizeof *g->boxes);
  if (!g) return yk_err_set(err, YK_E_NOMEM, "no memory for the mailboxes of %d ranks", n_ranks);
  g->n_ranks = n_ranks;
  for (int rank = 0; rank < n_ranks; rank++) yk_mailbox_init(&g->boxes[rank]);
  *out = g;
  return YK_OK;
}

void yk_host_gather_destroy(yk_host_gather *gather)
{
  if (!gather) return;
  for (int rank = 0; rank < gather->n_ranks; rank++) yk_mailbox_destroy(&gather->boxes[rank]);
  free(gather);
}

void yk_host_gather_abort(yk_host_gather *gather)
{
  for (int rank = 0; rank < gather->n_ranks; rank++) yk_mailbox_abort(&gather->boxes[rank]);
}

yk_status yk_host_gather_run(yk_host_gather *gather, int rank, const void *data, size_t n_bytes, void *all,
                             const yk_mailbox_watch *watch, yk_err *err)
{
  if (rank != 0) return yk_mailbox_put(&gather->boxes[rank], data, n_bytes, watch, err);
  if (n_bytes > 0 && all != data) memmove(all, data, n_bytes);
  for (int r = 1; r < gather->n_ranks; r++)
    YK_TRY(yk_mailbox_take(&gather->boxes[r], (char *)all + (size_t)r * n_bytes, n_bytes, watch, err));
  return YK_OK;
}
