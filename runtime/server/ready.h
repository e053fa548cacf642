/* ready.h - wakes the server thread: a list of nodes with news, filled by any thread.
 *
 * A push writes the eventfd only while the server thread sleeps, and then only the first push does: a step of the
 * engine with a token for each of a thousand streams costs the engine's thread one system call. */
#ifndef YK_SERVER_READY_H
#define YK_SERVER_READY_H

#include <pthread.h>
#include <stdbool.h>

#include "base/status.h"

typedef struct yk_ready_node {
  struct yk_ready_node *next;
  bool is_listed;                           /* guarded by the list's mutex */
  void (*take)(struct yk_ready_node *node); /* handles the news; called on the server thread */
} yk_ready_node;

typedef struct yk_ready {
  int event_fd;          /* readable: the server thread must wake */
  pthread_mutex_t mutex; /* guards all following fields */
  yk_ready_node *first, **end;
  bool sleeps;   /* the server thread waits, or is about to */
  bool is_woken; /* yk_ready_wake was called since the last take */
} yk_ready;

/* yk_ready_init - the struct must not move. Errors: YK_E_IO. */
yk_status yk_ready_init(yk_ready *ready, yk_err *err);
void yk_ready_free(yk_ready *ready);

/* yk_ready_push - list the node unless it is listed already. Any thread; never blocks for long. */
void yk_ready_push(yk_ready *ready, yk_ready_node *node);

/* yk_ready_wake - wake the server thread without a node. Any thread. */
void yk_ready_wake(yk_ready *ready);

/* Server thread only. */

/* yk_ready_may_sleep - call right before waiting for event_fd. False: there are nodes to take, do not wait. */
bool yk_ready_may_sleep(yk_ready *ready);

/* yk_ready_awake - the server thread no longer waits: pushes need not write event_fd. */
void yk_ready_awake(yk_ready *ready);

/* yk_ready_take - call take of every listed node, oldest first; take may free its own node and no other. */
void yk_ready_take(yk_ready *ready);

/* yk_ready_is_listed - whether a later yk_ready_take may still return the node. Call when no thread pushes the node any
 *   more. */
bool yk_ready_is_listed(yk_ready *ready, const yk_ready_node *node);

#endif
