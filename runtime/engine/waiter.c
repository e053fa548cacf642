#define _GNU_SOURCE /* ppoll */

#include "engine/waiter.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"

struct yk_waiter {
  int event_fd; /* readable: a request was listed after a wait had found none */
  atomic_int n_owners;
  pthread_mutex_t mutex; /* guards the fields below */
  yk_waiter_node list;   /* a ring; this node is between last and first */
  bool is_armed;         /* the last wait found no request: the next push writes event_fd */
  bool is_signalled;     /* event_fd was written, or is about to be written, and has not been read since */
};

yk_status yk_waiter_create(yk_waiter **out, yk_err *err)
{
  *out = NULL;
  yk_waiter *waiter = calloc(1, sizeof *waiter);
  if (!waiter) return yk_err_set(err, YK_E_NOMEM, "no memory for a waiter");
  waiter->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (waiter->event_fd < 0) {
    yk_err_set(err, YK_E_IO, "no descriptor for a waiter: %s", strerror(errno));
    free(waiter);
    return YK_E_IO;
  }
  atomic_init(&waiter->n_owners, 1);
  pthread_mutex_init(&waiter->mutex, NULL);
  waiter->list.prev = waiter->list.next = &waiter->list;
  waiter->is_armed = true;
  *out = waiter;
  return YK_OK;
}

void yk_waiter_share(yk_waiter *waiter)
{
  atomic_fetch_add(&waiter->n_owners, 1);
}

void yk_waiter_free(yk_waiter *waiter)
{
  if (!waiter || atomic_fetch_sub(&waiter->n_owners, 1) > 1) return;
  close(waiter->event_fd);
  pthread_mutex_destroy(&waiter->mutex);
  free(waiter);
}

int yk_waiter_fd(const yk_waiter *waiter)
{
  return waiter->event_fd;
}

static void unlink_node(yk_waiter_node *node)
{
  node->prev->next = node->next;
  node->next->prev = node->prev;
  node->prev = node->next = NULL;
}

/* The descriptor is written after unlocking, so that a woken thread finds the mutex free. */
void yk_waiter_push(yk_waiter *waiter, yk_waiter_node *node)
{
  const uint64_t one = 1;
  pthread_mutex_lock(&waiter->mutex);
  if (!node->next) {
    node->prev = waiter->list.prev;
    node->next = &waiter->list;
    node->prev->next = node->next->prev = node;
  }
  bool must_write = waiter->is_armed;
  waiter->is_armed = false;
  waiter->is_signalled |= must_write;
  pthread_mutex_unlock(&waiter->mutex);
  if (must_write && write(waiter->event_fd, &one, sizeof one) < 0) return; /* full: readable already */
}

void yk_waiter_remove(yk_waiter *waiter, yk_waiter_node *node)
{
  pthread_mutex_lock(&waiter->mutex);
  if (node->next) unlink_node(node);
  pthread_mutex_unlock(&waiter->mutex);
}

/* The first listed request. False: the list is empty, and the next push writes the descriptor. A write in progress may
 * leave the descriptor readable once without a request; is_signalled stays set, and the next call reads the
 * descriptor. */
static bool take(yk_waiter *waiter, yk_request **request, void **user)
{
  pthread_mutex_lock(&waiter->mutex);
  yk_waiter_node *first = waiter->list.next;
  bool is_listed = first != &waiter->list;
  waiter->is_armed = !is_listed;
  if (is_listed) {
    if (request) *request = first->request;
    if (user) *user = first->user;
    unlink_node(first);
  } else if (waiter->is_signalled) {
    uint64_t n_writes;
    waiter->is_signalled = read(waiter->event_fd, &n_writes, sizeof n_writes) < 0;
  }
  pthread_mutex_unlock(&waiter->mutex);
  return is_listed;
}

/* Wait for the descriptor. deadline_ns 0: no limit. Returns whether time is left for another check. */
static bool wait_for_event(const yk_waiter *waiter, int64_t deadline_ns)
{
  struct pollfd event = {.fd = waiter->event_fd, .events = POLLIN};
  if (deadline_ns == 0) {
    poll(&event, 1, -1); /* interrupted by a signal: check again */
    return true;
  }
  int64_t left_ns = deadline_ns - yk_clock_now_ns();
  if (left_ns <= 0) return false;
  struct timespec left = {(time_t)(left_ns / 1000000000), (long)(left_ns % 1000000000)};
  ppoll(&event, 1, &left, NULL);
  return true;
}

yk_status yk_waiter_wait(yk_waiter *waiter, double timeout_s, yk_request **request, void **user, yk_err *err)
{
  if (request) *request = NULL;
  if (isnan(timeout_s)) return yk_err_set(err, YK_E_INVAL, "timeout_s: expected a number, found nan");
  if (take(waiter, request, user)) return YK_OK;
  if (timeout_s == 0) return YK_E_AGAIN;
  bool forever = timeout_s < 0 || timeout_s > 1e9;
  int64_t deadline_ns = forever ? 0 : yk_clock_now_ns() + (int64_t)(timeout_s * 1e9);
  for (bool has_time = true; has_time;) {
    has_time = wait_for_event(waiter, deadline_ns);
    if (take(waiter, request, user)) return YK_OK;
  }
  return YK_E_AGAIN;
}
