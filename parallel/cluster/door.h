/* door.h - connections that arrive at a listening socket, until they have proven that they have the key, and the other
 * end of that handshake. Never blocks on a peer: a connection that sends garbage, too much, or sends no message in time
 * is refused and logged, and does not disturb other connections. */
#ifndef YK_PARALLEL_CLUSTER_DOOR_H
#define YK_PARALLEL_CLUSTER_DOOR_H

#include <poll.h>

#include "base/log.h"
#include "base/strbuf.h"
#include "parallel/cluster/proof.h"
#include "parallel/cluster/sockets.h"

enum { YK_DOOR_PENDING = 96, YK_DOOR_POLLED = YK_DOOR_PENDING + 1 };

typedef struct yk_door yk_door;

/* A connection whose proof is right. The taker sends accept or refuse. */
typedef struct yk_arrival {
  int fd; /* blocking, the taker's */
  char peer[YK_ADDRESS_BYTES];
  unsigned char mac[YK_MAC_BYTES]; /* this end's proof */
  void *body;                      /* [n_bytes] the peer's message; the taker frees it */
  size_t n_bytes;
} yk_arrival;

/* The secret, and the addresses that may connect. */
typedef struct yk_door_rule {
  yk_secret secret;          /* not owned */
  bool any_address;          /* false: this machine and allowed addresses only */
  const yk_address *allowed; /* [n_allowed], not owned */
  int n_allowed;
} yk_door_rule;

/* yk_door_create - fd: a listening, non-blocking socket, taken over, on failure too. log: not owned.
 *   Errors: YK_E_NOMEM. */
yk_status yk_door_create(int fd, const yk_door_rule *rule, const yk_log *log, yk_door **out, yk_err *err);
void yk_door_destroy(yk_door *door);
int yk_door_port(const yk_door *door);

/* yk_door_set_rule - for connections that arrive from now on; drops those that are pending. */
void yk_door_set_rule(yk_door *door, const yk_door_rule *rule);

/* yk_door_poll - fills polls [YK_DOOR_POLLED] with the descriptors that the door waits for. Returns their number. */
int yk_door_poll(yk_door *door, struct pollfd *polls);

/* yk_door_serve - after poll: serves the ready descriptors without blocking. Returns the number of arrivals
 *   [YK_DOOR_PENDING]. polls [n_polls]: as filled by yk_door_poll. Refusals are logged and added to refused, one line
 *   each. */
int yk_door_serve(yk_door *door, const struct pollfd *polls, int n_polls, yk_arrival *arrivals, yk_strbuf *refused);

/* yk_arrival_accept - sends accept to the peer. Errors: YK_E_COMM. */
yk_status yk_arrival_accept(const yk_arrival *arrival, yk_err *err);
/* yk_arrival_refuse - sends the reason to the peer, logs it, and closes the connection. */
void yk_arrival_refuse(yk_arrival *arrival, const char *why, const yk_log *log, yk_strbuf *refused);

/* The reason of a refusal by a run that has failed: its processes may hold a new roll call soon. */
#define YK_REFUSED_FOR_NOW "the run is ending"

/* yk_knock - the client's end: prove the key on a new connection and send the body.
 *   Errors: YK_E_COMM (refused, with the reason of the other end), YK_E_AGAIN (YK_REFUSED_FOR_NOW, or the connection
 *   ended without a reason), YK_E_TIMEOUT. */
yk_status yk_knock(int fd, yk_secret secret, const void *body, size_t n_bytes, int64_t deadline_ns, yk_err *err);

#endif
