/* engine_host.h - the engine behind the server: loaded while the port is open already, and loaded again in place after
 * a rank has failed, where that is wanted.
 *
 * Who uses the engine holds a lease. After a failure nobody gets a new one; the engine is destroyed when the last lease
 * has been given back, so that nothing is freed under a reader. */
#ifndef YK_SERVER_ENGINE_HOST_H
#define YK_SERVER_ENGINE_HOST_H

#include <pthread.h>

#include "server/ready.h"
#include "server/server_options.h"

typedef enum yk_host_state {
  YK_HOST_LOADING, /* for the first time, or again */
  YK_HOST_SERVING,
  YK_HOST_BROKEN,   /* a rank has failed */
  YK_HOST_NO_ENGINE /* loading has failed: there is nothing to wait for */
} yk_host_state;

typedef struct yk_engine_host {
  yk_engine_options options;
  int32_t profile_every;
  yk_trace *trace;
  bool restarts;   /* after a failure */
  yk_ready *ready; /* woken when the state changes */
  pthread_t thread;
  bool has_thread;
  pthread_mutex_t mutex; /* guards what follows */
  pthread_cond_t cv;     /* stopping, broken, or the last lease was given back */
  yk_host_state state;
  yk_engine *engine; /* while SERVING, and BROKEN until it is destroyed */
  int n_leases;
  bool stopping;
  bool is_stuck;  /* an engine could not be freed wholly */
  yk_err failure; /* why BROKEN, LOADING again or NO_ENGINE */
} yk_engine_host;

/* yk_engine_host_start - begin to load. The struct must not move; options are copied, what they point to is not.
 *   Errors: YK_E_INTERNAL. */
yk_status yk_engine_host_start(yk_engine_host *host, const yk_server_options *options, yk_ready *ready, yk_err *err);

/* yk_engine_host_stop - destroy the engine once every lease has been given back; waits for a load that has begun.
 *   Returns whether all that there have been were freed: see yk_engine_destroy. */
bool yk_engine_host_stop(yk_engine_host *host);

/* yk_engine_host_acquire - a lease, while the engine serves, else NULL. Any thread. */
yk_engine *yk_engine_host_acquire(yk_engine_host *host);
void yk_engine_host_release(yk_engine_host *host);

/* yk_engine_host_fail - the engine has failed: no more leases, and a new engine where that is wanted. */
void yk_engine_host_fail(yk_engine_host *host, const yk_err *failure);

/* yk_engine_host_look - the present state. *why (may be NULL): the failure behind it, where there is one. */
yk_host_state yk_engine_host_look(yk_engine_host *host, yk_err *why);

#endif
