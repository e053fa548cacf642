/* waiter.h - the requests of one waiter that have unread output, in order of arrival. */
#ifndef YK_ENGINE_WAITER_H
#define YK_ENGINE_WAITER_H

#include "yoke/requests.h"

/* A request's node in the list; next NULL: not listed. Guarded by the waiter's mutex. */
typedef struct yk_waiter_node {
  struct yk_waiter_node *prev, *next;
  yk_request *request;
  void *user;
} yk_waiter_node;

/* yk_waiter_share - add an owner. yk_waiter_free drops an owner; the last drop frees the waiter. Any thread. */
void yk_waiter_share(yk_waiter *waiter);

/* yk_waiter_push - list a request unless it is listed. Any thread; may be called under the request's mutex. */
void yk_waiter_push(yk_waiter *waiter, yk_waiter_node *node);

/* yk_waiter_remove - call before a request is freed: no wait that begins later returns the request. */
void yk_waiter_remove(yk_waiter *waiter, yk_waiter_node *node);

#endif
