#include "parallel/mailbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/spin.h"
#include "base/wait.h"

enum { SPIN_NS = 500000 }; /* longer than a rank usually lags */

void yk_mailbox_init(yk_mailbox *box)
{
  *box = (yk_mailbox){.data = NULL};
  pthread_mutex_init(&box->mutex, NULL);
  yk_cond_init(&box->cv_changed);
}

void yk_mailbox_destroy(yk_mailbox *box)
{
  free(box->data);
  pthread_cond_destroy(&box->cv_changed);
  pthread_mutex_destroy(&box->mutex);
}

static void set(yk_mailbox *box, atomic_bool *flag, bool value)
{
  pthread_mutex_lock(&box->mutex);
  atomic_store(flag, value);
  pthread_cond_broadcast(&box->cv_changed);
  pthread_mutex_unlock(&box->mutex);
}

void yk_mailbox_abort(yk_mailbox *box)
{
  set(box, &box->is_aborted, true);
}

static bool is_over(const yk_mailbox *box, bool is_full)
{
  return atomic_load(&box->is_full) == is_full || atomic_load(&box->is_aborted);
}

static yk_status wait_until(yk_mailbox *box, bool is_full, const yk_mailbox_watch *watch, yk_err *err)
{
  const double watch_every_s = 0.02;
  for (yk_spin spin = {0}; !is_over(box, is_full);)
    if (!yk_spin_again(&spin, SPIN_NS)) break;
  while (!is_over(box, is_full)) {
    struct timespec deadline = yk_wait_deadline(watch_every_s);
    int waited = 0;
    pthread_mutex_lock(&box->mutex);
    while (!is_over(box, is_full) && waited != ETIMEDOUT)
      waited = pthread_cond_timedwait(&box->cv_changed, &box->mutex, &deadline);
    pthread_mutex_unlock(&box->mutex);
    if (waited == ETIMEDOUT && watch->check) YK_TRY(watch->check(watch->context, err));
  }
  if (!atomic_load(&box->is_aborted)) return YK_OK;
  return yk_err_set(err, YK_E_COMM, "communication was aborted because another rank failed");
}

yk_status yk_mailbox_put(yk_mailbox *box, const void *data, size_t n_bytes, const yk_mailbox_watch *watch, yk_err *err)
{
  YK_TRY(wait_until(box, false, watch, err));
  if (n_bytes > box->capacity) {
    void *larger = realloc(box->data, n_bytes);
    if (!larger) return yk_err_set(err, YK_E_NOMEM, "no memory for a mailbox of %zu bytes", n_bytes);
    box->data = larger;
    box->capacity = n_bytes;
  }
  if (n_bytes > 0) memcpy(box->data, data, n_bytes);
  set(box, &box->is_full, true);
  return YK_OK;
}

yk_status yk_mailbox_take(yk_mailbox *box, void *data, size_t n_bytes, const yk_mailbox_watch *watch, yk_err *err)
{
  YK_TRY(wait_until(box, true, watch, err));
  if (n_bytes > 0) memcpy(data, box->data, n_bytes);
  set(box, &box->is_full, false);
  return YK_OK;
}
