/* engine_host.h - the engine behind the server: loaded while the port is already open, and, if so configured, loaded
 * again in place after a rank has failed.
 *
 * Users of the engine hold a lease. After a failure no new lease is given; the engine is destroyed when the last lease
 * has been returned, so that no reader uses freed memory. */
#ifndef YK_SERVER_ENGINE_HOST_H
#define YK_SERVER_ENGINE_HOST_H

#include <pthread.h>

#include "server/ready.h"
#include "server/server_options.h"

typedef enum yk_host_state {
  YK_HOST_LOADING, /* first load, or reload */
  YK_HOST_SERVING,
  YK_HOST_BROKEN,   /* a rank has failed */
  YK_HOST_NO_ENGINE /* loading has failed for good */
} yk_host_state;

typedef struct yk_engine_host {
  yk_engine_options options;
  int32_t profile_every;
  yk_trace *trace;
  bool restarts;   /* load again after a failure */
  yk_ready *ready; /* woken when the state changes */
  pthread_t thread;
  bool has_thread;
  pthread_mutex_t mutex; /* guards all following fields */
  pthread_cond_t cv;     /* signals stopping, BROKEN, and the return of the last lease */
  yk_host_state state;
  yk_engine *engine; /* while SERVING, and BROKEN until it is destroyed */
  int n_leases;
  bool stopping;
  bool is_stuck;  /* an engine could not be freed completely */
  yk_err failure; /* cause of BROKEN, of a reload, or of NO_ENGINE */
} yk_engine_host;

/* yk_engine_host_start - begin to load. The struct must not move; the options are copied, but not the memory that they
 *   point to. Errors: YK_E_INTERNAL. */
yk_status yk_engine_host_start(yk_engine_host *host, const yk_server_options *options, yk_ready *ready, yk_err *err);

/* yk_engine_host_stop - destroy the engine when every lease has been returned; waits for a load that has begun. Returns
 *   whether every engine was freed: see yk_engine_destroy. */
bool yk_engine_host_stop(yk_engine_host *host);

/* yk_engine_host_acquire - a lease if the engine serves, else NULL. Any thread. */
yk_engine *yk_engine_host_acquire(yk_engine_host *host);
void yk_engine_host_release(yk_engine_host *host);

/* yk_engine_host_fail - the engine has failed: give no more leases, and load a new engine if so configured. */
void yk_engine_host_fail(yk_engine_host *host, const yk_err *failure);

/* yk_engine_host_look - the present state. *why (may be NULL): the failure that caused the state, if there is one. */
yk_host_state yk_engine_host_look(yk_engine_host *host, yk_err *why);

#endif
