#include "server/engine_host.h"

#include <string.h>

/* Called and left with the mutex held, but loads without it. */
static void load(yk_engine_host *host)
{
  yk_engine *engine;
  yk_err err = YK_ERR_INIT;
  pthread_mutex_unlock(&host->mutex);
  yk_status status = yk_engine_create(&host->options, &engine, &err);
  if (status == YK_OK) status = yk_engine_set_profile(engine, host->profile_every, &err);
  if (status == YK_OK) yk_engine_set_trace(engine, host->trace);
  pthread_mutex_lock(&host->mutex);
  host->engine = engine;
  host->state = status == YK_OK ? YK_HOST_SERVING : YK_HOST_NO_ENGINE;
  host->failure = err;
  yk_ready_wake(host->ready);
}

/* Called and left with the mutex held, but destroys without it. */
static void unload(yk_engine_host *host)
{
  while (host->n_leases > 0) pthread_cond_wait(&host->cv, &host->mutex);
  yk_engine *engine = host->engine;
  host->engine = NULL;
  pthread_mutex_unlock(&host->mutex);
  bool all_freed = yk_engine_destroy(engine);
  pthread_mutex_lock(&host->mutex);
  host->is_stuck = host->is_stuck || !all_freed;
}

static void *keep(void *user)
{
  yk_engine_host *host = user;
  pthread_mutex_lock(&host->mutex);
  load(host);
  for (;;) {
    bool must_restart = host->restarts && host->state == YK_HOST_BROKEN;
    if (host->stopping) break;
    if (!must_restart) {
      pthread_cond_wait(&host->cv, &host->mutex);
      continue;
    }
    unload(host);
    host->state = YK_HOST_LOADING;
    load(host);
  }
  unload(host);
  host->state = YK_HOST_NO_ENGINE;
  pthread_mutex_unlock(&host->mutex);
  return NULL;
}

yk_status yk_engine_host_start(yk_engine_host *host, const yk_server_options *options, yk_ready *ready, yk_err *err)
{
  memset(host, 0, sizeof *host);
  host->options = options->engine;
  host->profile_every = options->profile_every;
  host->trace = options->trace;
  host->restarts = options->restarts_on_failure;
  host->ready = ready;
  host->failure = YK_ERR_INIT;
  pthread_mutex_init(&host->mutex, NULL);
  pthread_cond_init(&host->cv, NULL);
  int error = pthread_create(&host->thread, NULL, keep, host);
  host->has_thread = error == 0;
  return error ? yk_err_set(err, YK_E_INTERNAL, "cannot start a thread: %s", strerror(error)) : YK_OK;
}

bool yk_engine_host_stop(yk_engine_host *host)
{
  if (!host->ready) return true; /* not started */
  pthread_mutex_lock(&host->mutex);
  host->stopping = true;
  pthread_cond_signal(&host->cv);
  pthread_mutex_unlock(&host->mutex);
  if (host->has_thread) pthread_join(host->thread, NULL);
  pthread_cond_destroy(&host->cv);
  pthread_mutex_destroy(&host->mutex);
  return !host->is_stuck;
}

yk_engine *yk_engine_host_acquire(yk_engine_host *host)
{
  pthread_mutex_lock(&host->mutex);
  yk_engine *engine = host->state == YK_HOST_SERVING && !host->stopping ? host->engine : NULL;
  if (engine) host->n_leases++;
  pthread_mutex_unlock(&host->mutex);
  return engine;
}

void yk_engine_host_release(yk_engine_host *host)
{
  pthread_mutex_lock(&host->mutex);
  if (--host->n_leases == 0) pthread_cond_signal(&host->cv);
  pthread_mutex_unlock(&host->mutex);
}

void yk_engine_host_fail(yk_engine_host *host, const yk_err *failure)
{
  pthread_mutex_lock(&host->mutex);
  if (host->state == YK_HOST_SERVING) {
    host->state = YK_HOST_BROKEN;
    host->failure = *failure;
    pthread_cond_signal(&host->cv);
  }
  pthread_mutex_unlock(&host->mutex);
}

yk_host_state yk_engine_host_look(yk_engine_host *host, yk_err *why)
{
  pthread_mutex_lock(&host->mutex);
  yk_host_state state = host->state;
  if (why) *why = host->failure;
  pthread_mutex_unlock(&host->mutex);
  return state;
}
