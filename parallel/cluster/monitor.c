/* monitor.c - the thread of a cluster: heartbeats, failures of other processes, connections for links. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "parallel/cluster/state.h"

enum { POLLED = 1 + YK_CLUSTER_MAX_PROCESSES + YK_DOOR_POLLED };

void yk_cluster_wake_monitor(yk_cluster *cluster)
{
  const uint64_t one = 1;
  ssize_t written = write(cluster->wake_fd, &one, sizeof one);
  (void)written; /* full: it wakes anyway */
}

void yk_control_queue(yk_control *control, yk_frame_type type, const void *body, size_t n_bytes)
{
  const yk_frame head = yk_frame_of(type, n_bytes);
  if (control->n_out + sizeof head + n_bytes > sizeof control->out) return;
  memcpy(control->out + control->n_out, &head, sizeof head);
  if (n_bytes > 0) memcpy(control->out + control->n_out + sizeof head, body, n_bytes);
  control->n_out += sizeof head + n_bytes;
}

void yk_control_flush(yk_control *control)
{
  while (control->n_out > 0) {
    ssize_t sent = send(control->fd, control->out, control->n_out, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return;
    control->n_out -= (size_t)sent;
    memmove(control->out, control->out + sent, control->n_out);
  }
}

static void fail_with(yk_cluster *c, int process, const char *what)
{
  yk_err failure = YK_ERR_INIT;
  failure.rank = c->peers[process].first_rank;
  yk_err_set(&failure, YK_E_COMM, "%s %s", c->names[process], what);
  yk_cluster_fail(c, &failure);
}

static void end_control(yk_cluster *c, int process)
{
  pthread_mutex_lock(&c->mutex);
  close(c->controls[process].fd);
  c->controls[process].fd = -1;
  pthread_cond_broadcast(&c->cv_changed);
  pthread_mutex_unlock(&c->mutex);
}

static void adopt_failure(yk_cluster *c, const void *body, size_t n_bytes)
{
  yk_bytes from = {.at = body, .end = (const unsigned char *)body + n_bytes};
  yk_err failure = YK_ERR_INIT;
  failure.code = (yk_status)yk_take_int(&from, YK_E_AGAIN);
  failure.rank = yk_take_int(&from, YK_MAX_RANKS) - 1;
  yk_take_text(&from, failure.message, sizeof failure.message);
  if (from.failed) yk_err_set(&failure, YK_E_COMM, "a process has failed");
  yk_cluster_fail(c, &failure);
}

static void note_leaving(yk_cluster *c, int process)
{
  pthread_mutex_lock(&c->mutex);
  c->controls[process].has_left = true;
  const bool is_early = c->process == 0 && !c->is_leaving;
  pthread_cond_broadcast(&c->cv_changed);
  pthread_mutex_unlock(&c->mutex);
  if (is_early) fail_with(c, process, "has left the run");
}

/* Handles the whole messages that have arrived. Returns false if a message does not belong to a heartbeat
 * connection. */
static bool handle_messages(yk_cluster *c, int process)
{
  yk_control *control = &c->controls[process];
  yk_frame head;
  while (control->n_in >= sizeof head) {
    memcpy(&head, control->in, sizeof head);
    if (yk_frame_check(&head, (yk_frame_type)head.type, YK_FRAME_BEAT, YK_FRAME_MAX_FAILURE, NULL) != YK_OK)
      return false;
    const size_t n_bytes = sizeof head + (size_t)head.n_bytes;
    if (control->n_in < n_bytes) return true;
    if (head.type == YK_FRAME_FAILURE)
      adopt_failure(c, control->in + sizeof head, (size_t)head.n_bytes);
    else if (head.type == YK_FRAME_LEAVE)
      note_leaving(c, process);
    else if (head.type != YK_FRAME_BEAT)
      return false;
    control->n_in -= n_bytes;
    memmove(control->in, control->in + n_bytes, control->n_in);
  }
  return true;
}

static void read_control(yk_cluster *c, int process)
{
  yk_control *control = &c->controls[process];
  for (;;) {
    ssize_t n = recv(control->fd, control->in + control->n_in, sizeof control->in - control->n_in, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return;
    if (n <= 0) {
      if (!control->has_left) fail_with(c, process, "has ended: its connection was closed");
      end_control(c, process);
      return;
    }
    control->heard_ns = yk_clock_now_ns();
    control->n_in += (size_t)n;
    if (handle_messages(c, process)) continue;
    fail_with(c, process, "sent a message other than a heartbeat");
    end_control(c, process);
    return;
  }
}

static void beat(yk_cluster *c)
{
  pthread_mutex_lock(&c->mutex);
  for (int p = 0; p < c->n_processes; p++) {
    if (c->controls[p].fd < 0) continue;
    if (c->controls[p].n_out == 0) yk_control_queue(&c->controls[p], YK_FRAME_BEAT, NULL, 0);
    yk_control_flush(&c->controls[p]);
  }
  pthread_mutex_unlock(&c->mutex);
}

static void find_silent(yk_cluster *c)
{
  char what[96];
  const int64_t now_ns = yk_clock_now_ns();
  snprintf(what, sizeof what, "has been silent for %.1f s: it is stopped, or cannot be reached",
           (double)c->silence_ns * 1e-9);
  for (int p = 0; p < c->n_processes; p++)
    if (c->controls[p].fd >= 0 && !c->controls[p].has_left && now_ns - c->controls[p].heard_ns > c->silence_ns)
      fail_with(c, p, what);
}

static int fill_polls(yk_cluster *c, struct pollfd *polls)
{
  int n = 0;
  polls[n++] = (struct pollfd){.fd = c->wake_fd, .events = POLLIN};
  pthread_mutex_lock(&c->mutex);
  for (int p = 0; p < c->n_processes; p++) {
    short events = c->controls[p].n_out > 0 ? POLLIN | POLLOUT : POLLIN;
    polls[n++] = (struct pollfd){.fd = c->controls[p].fd, .events = events}; /* -1: ignored */
  }
  pthread_mutex_unlock(&c->mutex);
  return n;
}

static void serve_door(yk_cluster *c, const struct pollfd *polls, int n_polls)
{
  yk_arrival arrivals[YK_DOOR_PENDING];
  int n = yk_door_serve(c->door, polls, n_polls, arrivals, NULL);
  for (int i = 0; i < n; i++) yk_cluster_take_arrival(c, &arrivals[i]);
}

static bool is_stopped(yk_cluster *c)
{
  pthread_mutex_lock(&c->mutex);
  bool stopped = c->is_stopped;
  pthread_mutex_unlock(&c->mutex);
  return stopped;
}

/* If this process itself was stopped, its peers get another silence limit to be heard. */
static void forgive(yk_cluster *c, int64_t since_ns)
{
  if (yk_clock_now_ns() - since_ns < c->silence_ns / 2) return;
  for (int p = 0; p < c->n_processes; p++) c->controls[p].heard_ns = yk_clock_now_ns();
}

static void *monitor(void *context)
{
  yk_cluster *c = context;
  const int64_t every_ns = c->silence_ns / 5;
  int64_t beaten_ns = 0, looked_ns = yk_clock_now_ns();
  while (!is_stopped(c)) {
    struct pollfd polls[POLLED];
    uint64_t woken;
    const int n_peers = fill_polls(c, polls);
    const int n_door = yk_door_poll(c->door, polls + n_peers);
    const int64_t left_ns = beaten_ns + every_ns - yk_clock_now_ns();
    poll(polls, (nfds_t)(n_peers + n_door), left_ns > 0 ? (int)(left_ns / 1000000) + 1 : 0);
    if (polls[0].revents && read(c->wake_fd, &woken, sizeof woken) < 0) continue;
    for (int p = 0; p < c->n_processes; p++)
      if (c->controls[p].fd >= 0 && polls[1 + p].revents) read_control(c, p);
    serve_door(c, polls + n_peers, n_door);
    forgive(c, looked_ns);
    looked_ns = yk_clock_now_ns();
    if (looked_ns - beaten_ns >= every_ns) {
      beaten_ns = looked_ns;
      beat(c);
    } else {
      pthread_mutex_lock(&c->mutex);
      for (int p = 0; p < c->n_processes; p++)
        if (c->controls[p].fd >= 0) yk_control_flush(&c->controls[p]);
      pthread_mutex_unlock(&c->mutex);
    }
    find_silent(c);
  }
  return NULL;
}

yk_status yk_cluster_start_monitor(yk_cluster *c, yk_err *err)
{
  for (int p = 0; p < c->n_processes; p++) c->controls[p].heard_ns = yk_clock_now_ns();
  if (pthread_create(&c->monitor, NULL, monitor, c) != 0)
    return yk_err_set(err, YK_E_NOMEM, "cannot start the thread that watches other processes");
  c->has_monitor = true;
  return YK_OK;
}

void yk_cluster_stop_monitor(yk_cluster *c)
{
  if (!c->has_monitor) return;
  pthread_mutex_lock(&c->mutex);
  c->is_stopped = true;
  pthread_mutex_unlock(&c->mutex);
  yk_cluster_wake_monitor(c);
  pthread_join(c->monitor, NULL);
  c->has_monitor = false;
}
