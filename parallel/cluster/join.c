/* join.c - the roll call: how the processes of a run find each other and decide together whether the run starts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/clock.h"
#include "parallel/cluster/state.h"

enum { GRACE_S = 2, RETRY_MS = 100, MAX_ALLOWED = 256 };

static int64_t seconds_from_now(double seconds)
{
  return yk_clock_now_ns() + (int64_t)(seconds * 1e9);
}

static yk_secret secret_of(const yk_cluster *c)
{
  return (yk_secret){.bytes = c->key, .n_bytes = strlen(c->key)};
}

static void host_name(char name[YK_ROLL_HOST_BYTES])
{
  if (gethostname(name, YK_ROLL_HOST_BYTES) != 0) snprintf(name, YK_ROLL_HOST_BYTES, "unknown");
  name[YK_ROLL_HOST_BYTES - 1] = 0;
}

static yk_status check_options(const yk_cluster_options *o, yk_err *err)
{
  if (o->n_processes < 1 || o->n_processes > YK_CLUSTER_MAX_PROCESSES)
    return yk_err_set(err, YK_E_INVAL, "number of processes: expected 1 to %d, found %d", YK_CLUSTER_MAX_PROCESSES,
                      o->n_processes);
  if (o->process < 0 || o->process >= o->n_processes)
    return yk_err_set(err, YK_E_INVAL, "number of this process: expected 0 to %d, found %d", o->n_processes - 1,
                      o->process);
  const bool has_listener = o->process == 0 && (o->listener || o->n_processes == 1);
  if (!has_listener && (!o->master_host || !o->master_host[0]))
    return yk_err_set(err, YK_E_INVAL, "the address of process 0 is missing");
  if (!has_listener && (o->master_port < 1 || o->master_port > 65535))
    return yk_err_set(err, YK_E_INVAL, "port of process 0: expected 1 to 65535, found %d", o->master_port);
  if (o->n_facts < 0 || o->n_facts > YK_CLUSTER_MAX_FACTS)
    return yk_err_set(err, YK_E_INVAL, "facts of a process: expected 0 to %d, found %d", YK_CLUSTER_MAX_FACTS,
                      o->n_facts);
  if (!(o->start_timeout_s > 0) || !(o->silence_limit_s > 0))
    return yk_err_set(err, YK_E_INVAL, "start timeout and silence limit: expected more than 0 s, found %g and %g",
                      o->start_timeout_s, o->silence_limit_s);
  return YK_OK;
}

/* This process's entry as a message, with its purpose in front. */
static yk_status write_own(const yk_cluster_options *options, int port, yk_strbuf *to, yk_err *err)
{
  char host[YK_ROLL_HOST_BYTES];
  host_name(host);
  yk_put_u32(to, YK_PURPOSE_ENTRY);
  yk_roll_write_entry(to, options, host, port);
  return to->failed ? yk_err_set(err, YK_E_NOMEM, "no memory for the roll call") : YK_OK;
}

static yk_status read_entry(const void *body, size_t n_bytes, yk_roll_entry **out, yk_err *err)
{
  yk_bytes from = {.at = body, .end = (const unsigned char *)body + n_bytes};
  const uint32_t purpose = yk_take_u32(&from);
  if (purpose == YK_PURPOSE_LINK)
    return yk_err_set(err, YK_E_COMM, "it is a process of another run, and this run has not started yet");
  if (purpose != YK_PURPOSE_ENTRY) return yk_err_set(err, YK_E_COMM, "its message is malformed");
  return yk_roll_read_entry(from.at, (size_t)(from.end - from.at), out, err);
}

/* ---- process 0 ---- */

typedef struct roll_call {
  yk_cluster *c;
  yk_roll_entry *entries[YK_CLUSTER_MAX_PROCESSES];
  yk_strbuf refused;
  int64_t deadline_ns;
} roll_call;

static yk_status resolve_allowed(yk_cluster *c, const yk_cluster_options *options, yk_door_rule *rule, yk_err *err)
{
  c->allowed = calloc(MAX_ALLOWED, sizeof *c->allowed);
  if (!c->allowed) return yk_err_set(err, YK_E_NOMEM, "no memory for the addresses of allowed hosts");
  int n = 0;
  for (int i = 0; i < options->n_allowed; i++) {
    const char *why;
    int found = yk_resolve(options->allowed_hosts[i], 0, c->allowed + n, MAX_ALLOWED - n, &why);
    if (found == 0)
      return yk_err_set(err, YK_E_INVAL, "allowed host %s: %s", options->allowed_hosts[i],
                        n == MAX_ALLOWED ? "more addresses than 256" : why);
    n += found;
  }
  *rule = (yk_door_rule){.secret = secret_of(c), .any_address = c->key[0] != 0, .allowed = c->allowed, .n_allowed = n};
  return YK_OK;
}

static void log_listening(const yk_cluster *c, const yk_cluster_options *options, int fd)
{
  yk_address address = {0};
  socklen_t length = sizeof address;
  char text[YK_ADDRESS_BYTES];
  getsockname(fd, (struct sockaddr *)&address, &length);
  yk_address_text(&address, true, text);
  if (c->key[0]) {
    yk_log_write(c->log, YK_LOG_INFO, "cluster: listening on %s for processes with the key", text);
    return;
  }
  yk_strbuf hosts = YK_STRBUF_INIT;
  for (int i = 0; i < options->n_allowed; i++) yk_strbuf_append_fmt(&hosts, ", %s", options->allowed_hosts[i]);
  yk_log_write(c->log, YK_LOG_WARN,
               "cluster: listening on %s without a key (YOKE_CLUSTER_KEY): connections are taken from this machine%s",
               text, hosts.data ? hosts.data : " alone");
  yk_strbuf_free(&hosts);
}

/* With a key on all addresses, since the master address may belong to a gateway or resolve to loopback here. */
static yk_status open_door_0(yk_cluster *c, const yk_cluster_options *options, yk_err *err)
{
  int fd = -1;
  yk_door_rule rule;
  if (options->listener)
    fd = options->listener->fd;
  else if (c->key[0])
    YK_TRY(yk_listen_at(NULL, c->master_port, &fd, err));
  else
    YK_TRY(yk_listen_host(c->master_host, c->master_port, &fd, err));
  yk_status status = resolve_allowed(c, options, &rule, err);
  if (status != YK_OK) {
    close(fd);
    return status;
  }
  log_listening(c, options, fd);
  return yk_door_create(fd, &rule, c->log, &c->door, err);
}

/* Errors: why the process cannot be taken into this run. */
static yk_status check_entry(const roll_call *r, const yk_roll_entry *entry, yk_err *err)
{
  const int n = r->c->n_processes;
  if (entry->process == 0 || entry->process >= n)
    return yk_err_set(err, YK_E_COMM, "process %d of %d on %s: this run has processes 0 to %d, and process 0 is here",
                      entry->process, entry->n_processes, entry->host, n - 1);
  const yk_roll_entry *other = r->entries[entry->process];
  if (other)
    return yk_err_set(err, YK_E_COMM, "process %d on %s (pid %d): the number is taken by %s (pid %d, %s)",
                      entry->process, entry->host, entry->pid, other->host, other->pid, other->address);
  return YK_OK;
}

static void take_entry(roll_call *r, yk_arrival *arrival)
{
  yk_roll_entry *entry = NULL;
  yk_err err = YK_ERR_INIT;
  yk_status status = read_entry(arrival->body, arrival->n_bytes, &entry, &err);
  if (status == YK_OK) status = check_entry(r, entry, &err);
  if (status == YK_OK) status = yk_arrival_accept(arrival, &err);
  if (status != YK_OK) {
    free(entry);
    yk_arrival_refuse(arrival, err.message, r->c->log, &r->refused);
    return;
  }
  yk_address peer = {0};
  socklen_t length = sizeof peer;
  getpeername(arrival->fd, (struct sockaddr *)&peer, &length);
  yk_address_text(&peer, false, entry->address);
  free(arrival->body);
  r->entries[entry->process] = entry;
  r->c->controls[entry->process].fd = arrival->fd;
  yk_log_write(r->c->log, YK_LOG_INFO, "cluster: process %d of %d is here: host %s, %s", entry->process,
               r->c->n_processes, entry->host, entry->address);
}

/* A process that is gone again may be started once more. */
static void drop_gone(roll_call *r, int process)
{
  char byte;
  int fd = r->c->controls[process].fd;
  if (recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN) return;
  close(fd);
  r->c->controls[process].fd = -1;
  yk_log_write(r->c->log, YK_LOG_WARN, "cluster: process %d on %s is gone", process, r->entries[process]->host);
  yk_strbuf_append_fmt(&r->refused, "process %d on %s (pid %d) came and ended before the run started\n", process,
                       r->entries[process]->host, r->entries[process]->pid);
  free(r->entries[process]);
  r->entries[process] = NULL;
}

static bool is_complete(const roll_call *r)
{
  for (int p = 0; p < r->c->n_processes; p++)
    if (!r->entries[p]) return false;
  return true;
}

/* Waits for all processes. After the first conflict the wait is short, so that the table also shows other processes
 * that have arrived. */
static void gather_entries(roll_call *r)
{
  yk_cluster *c = r->c;
  bool is_sound = yk_roll_is_sound(r->entries, c->n_processes);
  if (!is_sound) r->deadline_ns = yk_min_i64(r->deadline_ns, seconds_from_now(GRACE_S));
  while (!is_complete(r)) {
    struct pollfd polls[YK_DOOR_POLLED + YK_CLUSTER_MAX_PROCESSES];
    yk_arrival arrivals[YK_DOOR_PENDING];
    const int n_door = yk_door_poll(c->door, polls);
    const int64_t left_ns = r->deadline_ns - yk_clock_now_ns();
    if (left_ns <= 0) return;
    for (int p = 0; p < c->n_processes; p++)
      polls[n_door + p] = (struct pollfd){.fd = c->controls[p].fd, .events = POLLIN};
    poll(polls, (nfds_t)(n_door + c->n_processes), (int)(yk_min_i64(left_ns, 1000000000) / 1000000) + 1);
    for (int p = 1; p < c->n_processes; p++)
      if (r->entries[p] && polls[n_door + p].revents) drop_gone(r, p);
    const int n = yk_door_serve(c->door, polls, n_door, arrivals, &r->refused);
    for (int i = 0; i < n; i++) take_entry(r, &arrivals[i]);
    if (!is_sound || n == 0 || yk_roll_is_sound(r->entries, c->n_processes)) continue;
    is_sound = false;
    r->deadline_ns = yk_min_i64(r->deadline_ns, seconds_from_now(GRACE_S));
  }
}

static yk_status send_decision(roll_call *r, const yk_roll_decision *decision, yk_err *err)
{
  yk_strbuf body = YK_STRBUF_INIT;
  yk_roll_write_decision(&body, decision);
  if (body.failed) return yk_err_set(err, YK_E_NOMEM, "no memory for the decision of the roll call");
  const yk_frame head = yk_frame_of(YK_FRAME_DECISION, body.length);
  const struct iovec piece = {.iov_base = body.data, .iov_len = body.length};
  for (int p = 1; p < r->c->n_processes; p++) { /* a process that is gone is found by its heartbeat */
    if (r->c->controls[p].fd < 0) continue;
    yk_send_all(r->c->controls[p].fd, &head, &piece, 1, seconds_from_now(GRACE_S), NULL);
    if (decision->result.code != YK_OK) shutdown(r->c->controls[p].fd, SHUT_WR);
  }
  yk_strbuf_free(&body);
  return YK_OK;
}

static yk_status decide(roll_call *r, char **report, yk_err *err)
{
  yk_roll_decision decision = {.result = YK_ERR_INIT};
  unsigned char nonce[YK_NONCE_BYTES];
  YK_TRY(yk_nonce(nonce, err));
  memcpy(decision.run_id, nonce, sizeof decision.run_id);
  yk_roll_decide(r->entries, r->c->n_processes, r->refused.data ? r->refused.data : "", &decision);
  *report = decision.report;
  YK_TRY(send_decision(r, &decision, err));
  if (decision.result.code != YK_OK) {
    if (err) *err = decision.result;
    return decision.result.code;
  }
  yk_cluster_name_peers(r->c, &decision);
  return YK_OK;
}

static yk_status hold_roll_call(yk_cluster *c, const yk_cluster_options *options, char **report, yk_err *err)
{
  yk_strbuf own = YK_STRBUF_INIT;
  roll_call r = {.c = c, .deadline_ns = seconds_from_now(options->start_timeout_s)};
  yk_status status = write_own(options, 0, &own, err);
  if (status == YK_OK) status = read_entry(own.data, own.length, &r.entries[0], err);
  if (status == YK_OK) {
    snprintf(r.entries[0]->address, sizeof r.entries[0]->address, "%.63s", c->master_host);
    gather_entries(&r);
    status = decide(&r, report, err);
  }
  for (int p = 0; p < c->n_processes; p++) free(r.entries[p]);
  yk_strbuf_free(&r.refused);
  yk_strbuf_free(&own);
  return status;
}

/* ---- the others ---- */

/* Other processes connect to the address that reaches process 0. */
static yk_status open_door_here(yk_cluster *c, int fd, yk_err *err)
{
  yk_address own = {0};
  socklen_t length = sizeof own;
  int listening;
  if (getsockname(fd, (struct sockaddr *)&own, &length) != 0)
    return yk_err_set(err, YK_E_IO, "own address: %s", strerror(errno));
  YK_TRY(yk_listen_at(&own, 0, &listening, err));
  const yk_door_rule rule = {.secret = secret_of(c), .any_address = c->key[0] != 0};
  return yk_door_create(listening, &rule, c->log, &c->door, err);
}

/* One attempt. YK_E_AGAIN: process 0 is not there yet. */
static yk_status knock_once(yk_cluster *c, const yk_cluster_options *options, int64_t deadline_ns, yk_err *err)
{
  int fd;
  yk_err why = YK_ERR_INIT;
  if (yk_connect(c->master_host, c->master_port, yk_min_i64(deadline_ns, seconds_from_now(5)), &fd, &why) != YK_OK)
    return yk_err_set(err, YK_E_AGAIN, "%s", why.message);
  yk_strbuf own = YK_STRBUF_INIT;
  yk_status status = c->door ? YK_OK : open_door_here(c, fd, err);
  if (status == YK_OK) status = write_own(options, yk_door_port(c->door), &own, err);
  if (status == YK_OK) status = yk_knock(fd, secret_of(c), own.data, own.length, deadline_ns, err);
  yk_strbuf_free(&own);
  if (status == YK_OK)
    c->controls[0].fd = fd;
  else
    close(fd);
  return status;
}

static yk_status reach_process_0(yk_cluster *c, const yk_cluster_options *options, yk_err *err)
{
  const int64_t deadline_ns = seconds_from_now(options->start_timeout_s);
  char logged[YK_ERR_MESSAGE_BYTES] = "";
  for (;;) {
    yk_err why = YK_ERR_INIT;
    yk_status status = knock_once(c, options, deadline_ns, &why);
    if (status == YK_E_AGAIN && strcmp(why.message, logged) != 0) {
      memcpy(logged, why.message, sizeof logged);
      yk_log_write(c->log, YK_LOG_INFO, "cluster: waiting up to %.0f s for process 0: %s", options->start_timeout_s,
                   logged);
    }
    if (status == YK_OK) return YK_OK;
    if (status != YK_E_AGAIN)
      return yk_err_set(err, status, "roll call: process 0 at %s, port %d: %s", c->master_host, c->master_port,
                        why.message);
    if (yk_clock_now_ns() + (int64_t)RETRY_MS * 1000000 > deadline_ns)
      return yk_err_set(err, YK_E_TIMEOUT, "roll call: no process 0 within %.0f s: %s", options->start_timeout_s,
                        why.message);
    poll(NULL, 0, RETRY_MS);
  }
}

static yk_status receive_decision(yk_cluster *c, yk_roll_decision *decision, yk_err *err)
{
  const int64_t deadline_ns = seconds_from_now(c->start_timeout_s + 2 * GRACE_S);
  const int fd = c->controls[0].fd;
  yk_frame head;
  YK_TRY(yk_receive_all(fd, &head, sizeof head, deadline_ns, err));
  YK_TRY(yk_frame_check(&head, YK_FRAME_DECISION, YK_FRAME_DECISION, YK_FRAME_MAX_DECISION, err));
  void *body = malloc((size_t)head.n_bytes + 1);
  if (!body) return yk_err_set(err, YK_E_NOMEM, "no memory for the decision of the roll call");
  yk_status status = yk_receive_all(fd, body, (size_t)head.n_bytes, deadline_ns, err);
  if (status == YK_OK) status = yk_roll_read_decision(body, (size_t)head.n_bytes, decision, err);
  free(body);
  return status;
}

static yk_status answer_roll_call(yk_cluster *c, const yk_cluster_options *options, char **report, yk_err *err)
{
  yk_roll_decision decision = {.result = YK_ERR_INIT};
  YK_TRY(reach_process_0(c, options, err));
  yk_status status = receive_decision(c, &decision, err);
  if (status != YK_OK) {
    yk_err_prefix(err, "roll call: process 0 at %s, port %d", c->master_host, c->master_port);
    return status;
  }
  *report = decision.report;
  if (decision.result.code != YK_OK) return yk_err_set(err, decision.result.code, "%s", decision.result.message);
  if (decision.n_peers != c->n_processes)
    return yk_err_set(err, YK_E_COMM, "roll call: expected %d processes, found %d", c->n_processes, decision.n_peers);
  yk_cluster_name_peers(c, &decision);
  return YK_OK;
}

/* A process without a key accepts connections from the machines of this run. */
static yk_status admit_peers(yk_cluster *c, yk_err *err)
{
  if (c->process == 0 || c->key[0]) return YK_OK;
  c->allowed = calloc((size_t)c->n_processes, sizeof *c->allowed);
  if (!c->allowed) return yk_err_set(err, YK_E_NOMEM, "no memory for addresses");
  int n = 0;
  for (int p = 1; p < c->n_processes; p++) {
    const char *why;
    n += yk_resolve(c->peers[p].address, 0, &c->allowed[n], 1, &why);
  }
  const yk_door_rule rule = {.secret = secret_of(c), .allowed = c->allowed, .n_allowed = n};
  yk_door_set_rule(c->door, &rule);
  return YK_OK;
}

static yk_status connect_all(yk_cluster *c, yk_err *err)
{
  YK_TRY(admit_peers(c, err));
  YK_TRY(yk_cluster_start_monitor(c, err));
  for (int p = 0; p < c->n_processes; p++) {
    if (p == c->process || (p != 0 && c->process != 0)) continue;
    YK_TRY(yk_cluster_link(c, p, "commands", &c->commands[p], err));
    YK_TRY(yk_cluster_link(c, p, "exchange", &c->exchanges[p], err));
  }
  return YK_OK;
}

static yk_status join(yk_cluster *c, const yk_cluster_options *options, char **report, yk_err *err)
{
  if (c->process == 0 && c->n_processes > 1) YK_TRY(open_door_0(c, options, err));
  YK_TRY(c->process == 0 ? hold_roll_call(c, options, report, err) : answer_roll_call(c, options, report, err));
  return c->n_processes > 1 ? connect_all(c, err) : YK_OK;
}

yk_status yk_cluster_join(const yk_cluster_options *options, yk_cluster **out, char **report, yk_err *err)
{
  yk_cluster *c = NULL;
  *report = NULL;
  yk_status status = check_options(options, err);
  if (status == YK_OK) status = yk_cluster_new(options, &c, err);
  const bool takes_listener = status == YK_OK && c->n_processes > 1 && c->process == 0;
  if (options->listener && !takes_listener) close(options->listener->fd);
  if (status != YK_OK) return status;
  status = join(c, options, report, err);
  if (status == YK_OK) {
    *out = c;
    return YK_OK;
  }
  yk_cluster_free(c);
  return status;
}
