/* mailbox.h - one message at a time from one thread of this process to another, copied in and copied out.
 *
 * The sender copies its data into the mailbox and continues; it waits only while the previous message is still there.
 * Owner: a communicator or a host gather. */
#ifndef YK_PARALLEL_MAILBOX_H
#define YK_PARALLEL_MAILBOX_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/status.h"

typedef struct yk_mailbox {
  pthread_mutex_t mutex;
  pthread_cond_t cv_changed; /* filled, emptied or aborted */
  void *data;                /* [capacity]; the sender's while the mailbox is empty, the receiver's while it is full */
  size_t capacity;
  atomic_bool is_full, is_aborted; /* change under mutex */
} yk_mailbox;

/* Called every few milliseconds by a thread that waits; an error ends the wait, with that error. */
typedef struct yk_mailbox_watch {
  yk_status (*check)(void *context, yk_err *err); /* may be NULL */
  void *context;
} yk_mailbox_watch;

void yk_mailbox_init(yk_mailbox *box);
void yk_mailbox_destroy(yk_mailbox *box);

/* yk_mailbox_put, yk_mailbox_take - send data [n_bytes]; receive a message of the same size into data [n_bytes].
 *   Errors: YK_E_COMM once aborted, YK_E_NOMEM (put), the watch's. Thread: the sender's; the receiver's. */
yk_status yk_mailbox_put(yk_mailbox *box, const void *data, size_t n_bytes, const yk_mailbox_watch *watch, yk_err *err);
yk_status yk_mailbox_take(yk_mailbox *box, void *data, size_t n_bytes, const yk_mailbox_watch *watch, yk_err *err);

/* yk_mailbox_abort - every present and later put and take fails. Never blocks for long. Thread: any. */
void yk_mailbox_abort(yk_mailbox *box);

#endif
