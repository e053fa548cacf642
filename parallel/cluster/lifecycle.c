/* lifecycle.c - creation, names, failure and end of a cluster. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/wait.h"
#include "parallel/cluster/state.h"

yk_status yk_listener_open(const char *host, int port, yk_listener *out, yk_err *err)
{
  YK_TRY(host ? yk_listen_host(host, port, &out->fd, err) : yk_listen_at(NULL, port, &out->fd, err));
  out->port = yk_port_of(out->fd);
  return YK_OK;
}

void yk_listener_close(yk_listener *listener)
{
  close(listener->fd);
}

yk_status yk_listener_hold(yk_listener *listener, yk_err *err)
{
  return yk_hold_port(&listener->fd, err);
}

yk_status yk_cluster_new(const yk_cluster_options *options, yk_cluster **out, yk_err *err)
{
  yk_cluster *c = calloc(1, sizeof *c);
  if (!c) return yk_err_set(err, YK_E_NOMEM, "no memory for %d processes", options->n_processes);
  c->process = options->process;
  c->n_processes = options->n_processes;
  c->world = options->world;
  c->start_timeout_s = options->start_timeout_s;
  c->silence_ns = (int64_t)(options->silence_limit_s * 1e9);
  c->log = options->log;
  c->key = strdup(options->key ? options->key : "");
  c->master_host = strdup(options->master_host ? options->master_host : "");
  c->master_port = options->master_port;
  c->failure = YK_ERR_INIT;
  pthread_mutex_init(&c->mutex, NULL);
  yk_cond_init(&c->cv_changed);
  for (int p = 0; p < YK_CLUSTER_MAX_PROCESSES; p++) c->controls[p].fd = c->commands[p] = c->exchanges[p] = -1;
  c->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (c->key && c->master_host && c->wake_fd >= 0) {
    *out = c;
    return YK_OK;
  }
  yk_cluster_free(c);
  return yk_err_set(err, YK_E_NOMEM, "no memory or no descriptor for a cluster");
}

void yk_cluster_free(yk_cluster *c)
{
  yk_cluster_stop_monitor(c);
  for (int i = 0; i < c->n_links; i++)
    if (c->links[i].fd >= 0) close(c->links[i].fd);
  for (int p = 0; p < YK_CLUSTER_MAX_PROCESSES; p++)
    if (c->controls[p].fd >= 0) close(c->controls[p].fd);
  yk_door_destroy(c->door);
  if (c->wake_fd >= 0) close(c->wake_fd);
  pthread_cond_destroy(&c->cv_changed);
  pthread_mutex_destroy(&c->mutex);
  free(c->links);
  free(c->received);
  free(c->allowed);
  free(c->key);
  free(c->master_host);
  free(c);
}

void yk_cluster_name_peers(yk_cluster *c, const yk_roll_decision *decision)
{
  memcpy(c->run_id, decision->run_id, sizeof c->run_id);
  memcpy(c->peers, decision->peers, sizeof c->peers);
  for (int p = 0; p < c->n_processes; p++) {
    const yk_roll_peer *peer = &c->peers[p];
    const int last = peer->first_rank + peer->n_local - 1;
    c->first_ranks[p] = peer->first_rank;
    c->first_ranks[p + 1] = last + 1;
    if (peer->n_local == 1)
      snprintf(c->names[p], sizeof c->names[p], "process %d (host %s, rank %d)", p, peer->host, last);
    else
      snprintf(c->names[p], sizeof c->names[p], "process %d (host %s, ranks %d-%d)", p, peer->host, peer->first_rank,
               last);
  }
}

int yk_cluster_process(const yk_cluster *cluster)
{
  return cluster->process;
}

int yk_cluster_n_processes(const yk_cluster *cluster)
{
  return cluster->n_processes;
}

yk_world yk_cluster_world(const yk_cluster *cluster, int process)
{
  yk_world world = cluster->world;
  world.first_rank = cluster->peers[process].first_rank;
  world.n_local = cluster->peers[process].n_local;
  return world;
}

int yk_cluster_process_of(const yk_cluster *cluster, int rank)
{
  int process = cluster->n_processes - 1;
  while (process > 0 && rank < cluster->peers[process].first_rank) process--;
  return process;
}

const char *yk_cluster_name(const yk_cluster *cluster, int process)
{
  return cluster->names[process];
}

const char *yk_cluster_host(const yk_cluster *cluster, int process)
{
  return cluster->peers[process].host;
}

/* Under the mutex. Peers get the failure before the ends of the connections. */
static void announce(yk_cluster *c)
{
  yk_strbuf body = YK_STRBUF_INIT;
  yk_put_u32(&body, c->failure.code);
  yk_put_u32(&body, (uint32_t)(c->failure.rank + 1));
  yk_put_text(&body, c->failure.message);
  for (int p = 0; p < c->n_processes && !body.failed; p++) {
    if (c->controls[p].fd < 0) continue;
    yk_control_queue(&c->controls[p], YK_FRAME_FAILURE, body.data, body.length);
    yk_control_flush(&c->controls[p]);
  }
  yk_strbuf_free(&body);
  for (int i = 0; i < c->n_links; i++)
    if (c->links[i].fd >= 0) shutdown(c->links[i].fd, SHUT_RDWR);
}

/* Calls the watch outside the mutex, which the caller holds and which is released. */
static void call_watch(yk_cluster *c)
{
  void (*on_failure)(void *, const yk_err *) = c->on_failure;
  void *context = c->watch_context;
  c->on_failure = NULL;
  c->is_calling_watch = on_failure != NULL;
  c->watch_caller = pthread_self();
  pthread_mutex_unlock(&c->mutex);
  if (!on_failure) return;
  on_failure(context, &c->failure);
  pthread_mutex_lock(&c->mutex);
  c->is_calling_watch = false;
  pthread_cond_broadcast(&c->cv_changed);
  pthread_mutex_unlock(&c->mutex);
}

void yk_cluster_fail(yk_cluster *c, const yk_err *failure)
{
  pthread_mutex_lock(&c->mutex);
  if (c->has_failed || c->is_leaving) {
    pthread_mutex_unlock(&c->mutex);
    return;
  }
  c->failure = *failure;
  if (c->failure.code == YK_OK) c->failure.code = YK_E_COMM;
  atomic_store(&c->has_failed, true);
  announce(c);
  pthread_cond_broadcast(&c->cv_changed);
  yk_cluster_wake_monitor(c);
  call_watch(c);
}

void yk_cluster_abort(yk_cluster *cluster, const yk_err *failure)
{
  yk_cluster_blame(cluster, cluster->process, failure);
}

void yk_cluster_blame(yk_cluster *cluster, int process, const yk_err *failure)
{
  yk_err named = *failure;
  yk_err_prefix(&named, "%s", cluster->names[process]);
  yk_cluster_fail(cluster, &named);
}

yk_status yk_cluster_check(yk_cluster *cluster, yk_err *err)
{
  if (!atomic_load(&cluster->has_failed)) return YK_OK;
  const yk_err *failure = &cluster->failure;
  if (err && err->code == YK_OK) *err = *failure;
  return failure->code;
}

yk_status yk_cluster_lost(yk_cluster *c, int process, const yk_err *why, yk_err *err)
{
  const double wait_s = 0.5;
  const struct timespec deadline = yk_wait_deadline(wait_s);
  pthread_mutex_lock(&c->mutex);
  while (!c->has_failed && !c->is_leaving && pthread_cond_timedwait(&c->cv_changed, &c->mutex, &deadline) != ETIMEDOUT)
    continue;
  pthread_mutex_unlock(&c->mutex);
  yk_err lost = YK_ERR_INIT;
  lost.rank = c->peers[process].first_rank;
  yk_err_set(&lost, YK_E_COMM, "connection with %s: %s", c->names[process], why->message);
  yk_cluster_fail(c, &lost);
  YK_TRY(yk_cluster_check(c, err));
  return yk_err_set(err, YK_E_COMM, "%s", lost.message); /* the run is ending */
}

void yk_cluster_watch(yk_cluster *c, void (*on_failure)(void *context, const yk_err *failure), void *context)
{
  pthread_mutex_lock(&c->mutex);
  while (c->is_calling_watch && !pthread_equal(c->watch_caller, pthread_self()))
    pthread_cond_wait(&c->cv_changed, &c->mutex);
  c->on_failure = on_failure;
  c->watch_context = context;
  if (on_failure && c->has_failed)
    call_watch(c);
  else
    pthread_mutex_unlock(&c->mutex);
}

/* Whether every other process has announced its end or is disconnected. Under the mutex. */
static bool all_have_left(const yk_cluster *c)
{
  for (int p = 0; p < c->n_processes; p++)
    if (c->controls[p].fd >= 0 && !c->controls[p].has_left) return false;
  return true;
}

/* Followers may leave as soon as they have it. */
static void send_end(const yk_cluster *c, double grace_s)
{
  const yk_frame end = yk_frame_of(YK_FRAME_END, 0);
  const int64_t deadline_ns = yk_clock_now_ns() + (int64_t)(grace_s * 1e9);
  for (int p = 1; p < c->n_processes && c->process == 0; p++)
    if (c->commands[p] >= 0) yk_send_all(c->commands[p], &end, NULL, 0, deadline_ns, NULL);
}

void yk_cluster_leave(yk_cluster *c, double grace_s)
{
  if (!c) return;
  const struct timespec deadline = yk_wait_deadline(grace_s);
  pthread_mutex_lock(&c->mutex);
  c->is_leaving = true;
  pthread_mutex_unlock(&c->mutex);
  if (!c->has_failed) send_end(c, grace_s);
  pthread_mutex_lock(&c->mutex);
  for (int p = 0; p < c->n_processes && !c->has_failed; p++) {
    if (c->controls[p].fd < 0) continue;
    yk_control_queue(&c->controls[p], YK_FRAME_LEAVE, NULL, 0);
    yk_control_flush(&c->controls[p]);
  }
  while (c->process == 0 && !c->has_failed && !all_have_left(c))
    if (pthread_cond_timedwait(&c->cv_changed, &c->mutex, &deadline) == ETIMEDOUT) break;
  pthread_mutex_unlock(&c->mutex);
  yk_cluster_free(c);
}
