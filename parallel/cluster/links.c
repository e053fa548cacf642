/* links.c - connections between two processes for a purpose. The process with the larger number connects. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/wait.h"
#include "parallel/cluster/state.h"

static void write_link(yk_strbuf *to, const yk_cluster *c, const char *tag)
{
  yk_put_u32(to, YK_PURPOSE_LINK);
  yk_strbuf_append(to, c->run_id, YK_RUN_ID_BYTES);
  yk_put_u32(to, (uint32_t)c->process);
  yk_put_text(to, tag);
}

/* Returns a free entry of the list of links, under the mutex; NULL: no memory. */
static yk_link *place(yk_cluster *c)
{
  for (int i = 0; i < c->n_links; i++)
    if (c->links[i].fd < 0) return &c->links[i];
  yk_link *larger = realloc(c->links, (size_t)(c->n_links + 1) * sizeof *larger);
  if (!larger) return NULL;
  c->links = larger;
  return &c->links[c->n_links++];
}

/* Returns an error if the cluster has failed, so that no link outlives the failure. */
static yk_status add_link(yk_cluster *c, const yk_link *link, yk_err *err)
{
  pthread_mutex_lock(&c->mutex);
  yk_link *at = c->has_failed ? NULL : place(c);
  if (at) *at = *link;
  pthread_cond_broadcast(&c->cv_changed);
  pthread_mutex_unlock(&c->mutex);
  if (at) return YK_OK;
  close(link->fd);
  YK_TRY(yk_cluster_check(c, err));
  return yk_err_set(err, YK_E_NOMEM, "no memory for a connection");
}

/* Errors: why the connection is no link of this run. */
static yk_status read_link(const yk_cluster *c, const yk_arrival *arrival, yk_link *out, yk_err *err)
{
  yk_bytes from = {.at = arrival->body, .end = (const unsigned char *)arrival->body + arrival->n_bytes};
  const uint32_t purpose = yk_take_u32(&from);
  if (purpose == YK_PURPOSE_ENTRY && atomic_load(&c->has_failed))
    return yk_err_set(err, YK_E_AGAIN, YK_REFUSED_FOR_NOW);
  if (purpose == YK_PURPOSE_ENTRY) return yk_err_set(err, YK_E_COMM, "the run has already started");
  const void *run_id = yk_take(&from, YK_RUN_ID_BYTES);
  *out = (yk_link){.fd = arrival->fd, .process = yk_take_int(&from, YK_CLUSTER_MAX_PROCESSES)};
  yk_take_text(&from, out->tag, sizeof out->tag);
  if (purpose != YK_PURPOSE_LINK || from.failed || from.at != from.end)
    return yk_err_set(err, YK_E_COMM, "its message is malformed");
  if (memcmp(run_id, c->run_id, YK_RUN_ID_BYTES) != 0)
    return yk_err_set(err, YK_E_COMM, "it is a process of another run");
  if (out->process <= c->process || out->process >= c->n_processes)
    return yk_err_set(err, YK_E_COMM, "process %d connects to process %d", out->process, c->process);
  return YK_OK;
}

void yk_cluster_take_arrival(yk_cluster *c, yk_arrival *arrival)
{
  yk_link link;
  yk_err err = YK_ERR_INIT;
  yk_status status = read_link(c, arrival, &link, &err);
  if (status == YK_OK) status = yk_arrival_accept(arrival, &err);
  if (status != YK_OK) {
    yk_arrival_refuse(arrival, err.message, status == YK_E_AGAIN ? NULL : c->log, NULL);
    return;
  }
  yk_set_up(link.fd);
  free(arrival->body);
  add_link(c, &link, NULL);
}

static yk_status await_link(yk_cluster *c, int process, const char *tag, int *fd, yk_err *err)
{
  const struct timespec deadline = yk_wait_deadline(c->start_timeout_s);
  *fd = -1;
  pthread_mutex_lock(&c->mutex);
  for (bool in_time = true; in_time && *fd < 0 && !c->has_failed;) {
    for (int i = 0; i < c->n_links && *fd < 0; i++) {
      yk_link *link = &c->links[i];
      if (link->fd < 0 || link->is_taken || link->process != process || strcmp(link->tag, tag) != 0) continue;
      link->is_taken = true;
      *fd = link->fd;
    }
    if (*fd < 0) in_time = pthread_cond_timedwait(&c->cv_changed, &c->mutex, &deadline) != ETIMEDOUT;
  }
  pthread_mutex_unlock(&c->mutex);
  if (*fd >= 0) return YK_OK;
  YK_TRY(yk_cluster_check(c, err));
  return yk_err_set(err, YK_E_TIMEOUT, "%s has not connected for \"%s\" within %.0f s", c->names[process], tag,
                    c->start_timeout_s);
}

static yk_status open_link(yk_cluster *c, int process, const char *tag, int *fd, yk_err *err)
{
  const char *host = process == 0 ? c->master_host : c->peers[process].address;
  const int port = process == 0 ? c->master_port : c->peers[process].port;
  const int64_t deadline_ns = yk_clock_now_ns() + (int64_t)(c->start_timeout_s * 1e9);
  YK_TRY(yk_connect(host, port, deadline_ns, fd, err));
  yk_strbuf body = YK_STRBUF_INIT;
  write_link(&body, c, tag);
  const yk_secret secret = {.bytes = c->key, .n_bytes = strlen(c->key)};
  yk_status status = body.failed ? yk_err_set(err, YK_E_NOMEM, "no memory for a connection")
                                 : yk_knock(*fd, secret, body.data, body.length, deadline_ns, err);
  yk_strbuf_free(&body);
  if (status != YK_OK) {
    close(*fd);
    return status;
  }
  yk_link link = {.fd = *fd, .process = process, .is_taken = true};
  snprintf(link.tag, sizeof link.tag, "%s", tag);
  return add_link(c, &link, err);
}

yk_status yk_cluster_link(yk_cluster *c, int process, const char *tag, int *fd, yk_err *err)
{
  if (process > c->process) return await_link(c, process, tag, fd, err);
  yk_err why = YK_ERR_INIT;
  yk_status status = open_link(c, process, tag, fd, &why);
  if (status == YK_OK) return YK_OK;
  yk_err_prefix(&why, "for \"%s\" of %s", tag, c->names[c->process]);
  return yk_cluster_lost(c, process, &why, err); /* the failure of the cluster, if there is one, is the reason */
}

void yk_cluster_unlink(yk_cluster *c, int fd)
{
  pthread_mutex_lock(&c->mutex);
  for (int i = 0; i < c->n_links; i++)
    if (c->links[i].fd == fd) {
      close(fd);
      c->links[i].fd = -1;
    }
  pthread_mutex_unlock(&c->mutex);
}
