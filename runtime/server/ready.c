#include "server/ready.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

yk_status yk_ready_init(yk_ready *ready, yk_err *err)
{
  memset(ready, 0, sizeof *ready);
  ready->end = &ready->first;
  ready->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (ready->event_fd < 0) return yk_err_set(err, YK_E_IO, "eventfd: %s", strerror(errno));
  pthread_mutex_init(&ready->mutex, NULL);
  return YK_OK;
}

void yk_ready_free(yk_ready *ready)
{
  if (ready->event_fd < 0) return;
  close(ready->event_fd);
  pthread_mutex_destroy(&ready->mutex);
}

/* Called with the mutex held, which it releases. */
static void release_and_wake(yk_ready *ready)
{
  bool must_write = ready->sleeps;
  ready->sleeps = false;
  pthread_mutex_unlock(&ready->mutex);
  const uint64_t one = 1;
  if (must_write && write(ready->event_fd, &one, sizeof one) < 0) return; /* counter full: already readable */
}

void yk_ready_push(yk_ready *ready, yk_ready_node *node)
{
  pthread_mutex_lock(&ready->mutex);
  if (!node->is_listed) {
    node->is_listed = true;
    node->next = NULL;
    *ready->end = node;
    ready->end = &node->next;
  }
  release_and_wake(ready);
}

void yk_ready_wake(yk_ready *ready)
{
  pthread_mutex_lock(&ready->mutex);
  ready->is_woken = true;
  release_and_wake(ready);
}

bool yk_ready_may_sleep(yk_ready *ready)
{
  pthread_mutex_lock(&ready->mutex);
  ready->sleeps = !ready->first && !ready->is_woken;
  bool sleeps = ready->sleeps;
  pthread_mutex_unlock(&ready->mutex);
  return sleeps;
}

void yk_ready_awake(yk_ready *ready)
{
  pthread_mutex_lock(&ready->mutex);
  ready->sleeps = false;
  pthread_mutex_unlock(&ready->mutex);
}

void yk_ready_take(yk_ready *ready)
{
  pthread_mutex_lock(&ready->mutex);
  ready->sleeps = ready->is_woken = false;
  yk_ready_node *last = NULL;
  for (yk_ready_node *node = ready->first; node; node = node->next) last = node;
  bool goes_on = last != NULL;
  while (goes_on) { /* only up to the present last node: nodes may be listed again and again meanwhile */
    yk_ready_node *node = ready->first;
    goes_on = node != last;
    ready->first = node->next;
    if (!ready->first) ready->end = &ready->first;
    node->is_listed = false;
    pthread_mutex_unlock(&ready->mutex);
    node->take(node);
    pthread_mutex_lock(&ready->mutex);
  }
  pthread_mutex_unlock(&ready->mutex);
}

bool yk_ready_is_listed(yk_ready *ready, const yk_ready_node *node)
{
  pthread_mutex_lock(&ready->mutex);
  bool is_listed = node->is_listed;
  pthread_mutex_unlock(&ready->mutex);
  return is_listed;
}
