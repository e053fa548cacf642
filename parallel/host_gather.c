#include "parallel/host_gather.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/spin.h"
#include "base/wait.h"

enum { SPIN_NS = 500000 }; /* longer than a rank usually lags */

/* A rank writes data while the mailbox is empty, rank 0 reads while it is full. */
typedef struct mailbox {
  void *data; /* [capacity] */
  size_t capacity;
  atomic_bool is_full; /* changes under mutex */
} mailbox;

struct yk_host_gather {
  int n_ranks;
  pthread_mutex_t mutex;
  pthread_cond_t cv_changed; /* a mailbox was filled or emptied, or the gather aborted */
  atomic_bool is_aborted;    /* changes under mutex */
  mailbox boxes[];           /* [n_ranks] */
};

yk_status yk_host_gather_create(int n_ranks, yk_host_gather **out, yk_err *err)
{
  yk_host_gather *g = calloc(1, sizeof *g + (size_t)n_ranks * sizeof *g->boxes);
  if (!g) return yk_err_set(err, YK_E_NOMEM, "no memory for the mailboxes of %d ranks", n_ranks);
  g->n_ranks = n_ranks;
  pthread_mutex_init(&g->mutex, NULL);
  yk_cond_init(&g->cv_changed);
  *out = g;
  return YK_OK;
}

void yk_host_gather_destroy(yk_host_gather *gather)
{
  if (!gather) return;
  for (int rank = 0; rank < gather->n_ranks; rank++) free(gather->boxes[rank].data);
  pthread_cond_destroy(&gather->cv_changed);
  pthread_mutex_destroy(&gather->mutex);
  free(gather);
}

void yk_host_gather_abort(yk_host_gather *gather)
{
  pthread_mutex_lock(&gather->mutex);
  atomic_store(&gather->is_aborted, true);
  pthread_cond_broadcast(&gather->cv_changed);
  pthread_mutex_unlock(&gather->mutex);
}

static void set_full(yk_host_gather *g, mailbox *box, bool is_full)
{
  pthread_mutex_lock(&g->mutex);
  atomic_store(&box->is_full, is_full);
  pthread_cond_broadcast(&g->cv_changed);
  pthread_mutex_unlock(&g->mutex);
}

static bool is_over(const yk_host_gather *g, const mailbox *box, bool is_full)
{
  return atomic_load(&box->is_full) == is_full || atomic_load(&g->is_aborted);
}

static yk_status wait_until(yk_host_gather *g, const mailbox *box, bool is_full, const yk_host_gather_watch *watch,
                            yk_err *err)
{
  const double watch_every_s = 0.02;
  for (yk_spin spin = {0}; !is_over(g, box, is_full);)
    if (!yk_spin_again(&spin, SPIN_NS)) break;
  while (!is_over(g, box, is_full)) {
    struct timespec deadline = yk_wait_deadline(watch_every_s);
    int waited = 0;
    pthread_mutex_lock(&g->mutex);
    while (!is_over(g, box, is_full) && waited != ETIMEDOUT)
      waited = pthread_cond_timedwait(&g->cv_changed, &g->mutex, &deadline);
    pthread_mutex_unlock(&g->mutex);
    if (waited == ETIMEDOUT && watch->check) YK_TRY(watch->check(watch->context, err));
  }
  if (!atomic_load(&g->is_aborted)) return YK_OK;
  return yk_err_set(err, YK_E_COMM, "communication was aborted because another rank failed");
}

static yk_status put(yk_host_gather *g, mailbox *box, const void *data, size_t n_bytes,
                     const yk_host_gather_watch *watch, yk_err *err)
{
  YK_TRY(wait_until(g, box, false, watch, err));
  if (n_bytes > box->capacity) {
    void *larger = realloc(box->data, n_bytes);
    if (!larger) return yk_err_set(err, YK_E_NOMEM, "no memory for a mailbox of %zu bytes", n_bytes);
    box->data = larger;
    box->capacity = n_bytes;
  }
  if (n_bytes > 0) memcpy(box->data, data, n_bytes);
  set_full(g, box, true);
  return YK_OK;
}

yk_status yk_host_gather_run(yk_host_gather *gather, int rank, const void *data, size_t n_bytes, void *all,
                             const yk_host_gather_watch *watch, yk_err *err)
{
  if (rank != 0) return put(gather, &gather->boxes[rank], data, n_bytes, watch, err);
  if (n_bytes > 0 && all != data) memmove(all, data, n_bytes);
  for (int r = 1; r < gather->n_ranks; r++) {
    mailbox *box = &gather->boxes[r];
    YK_TRY(wait_until(gather, box, true, watch, err));
    if (n_bytes > 0) memcpy((char *)all + (size_t)r * n_bytes, box->data, n_bytes);
    set_full(gather, box, false);
  }
  return YK_OK;
}
