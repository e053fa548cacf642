/* machine_network.c - the network between processes, by the transport that carries the rows of CPU ranks. */
#include "tools/machine_network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engine/machine/processes.h"
#include "engine/machine/roll_call.h"
#include "engine/machine/settings_resolve.h"
#include "parallel/cluster/wire_tcp.h"

enum { END_S = 10 /* for process 0 to end */ };
enum { PINGS = 64, PING_BYTES = 8, STREAM_BYTES = 4 << 20, STREAMS = 4 };

/* Result of a pair, as it is exchanged. */
typedef struct pair_times {
  double latency_us[3], bytes_per_s[3]; /* median, low, high */
} pair_times;

/* A connection of two processes. */
typedef struct pair {
  yk_wire *wire;
  int other; /* in the wire: 0 or 1 */
  void *buffer;
} pair;

/* ---- The processes ----------------------------------------------------------------------------------------------- */

yk_status yk_machine_join(const yk_machine_options *options, yk_machine_group *out, yk_err *err)
{
  const yk_machine_processes *p = &options->processes;
  yk_engine_options engine = yk_engine_options_defaults();
  *out = (yk_machine_group){0};
  if (p->n < 2 && !p->starts_by_mpi) return YK_OK;
  engine.device = options->device;
  engine.n_processes = p->n;
  engine.process = p->process;
  engine.starts_by_mpi = p->starts_by_mpi;
  engine.master_host = p->master_host;
  engine.master_port = p->master_port;
  engine.process_key = p->key;
  engine.process_hosts = p->hosts;
  engine.n_process_hosts = p->n_hosts;
  engine.start_timeout_s = p->start_timeout_s;
  engine.log = p->log;
  YK_TRY(yk_mpi_run_start(&engine, &out->mpi, err));
  return yk_roll_call_hold_group(&engine, "bench machine", yk_mpi_run_listener(out->mpi), &p->log, &out->cluster, err);
}

void yk_machine_leave(yk_machine_group *group, bool in_order)
{
  yk_cluster_message end;
  if (!yk_machine_is_first(group) && in_order) /* a follower that leaves before process 0 fails the run */
    yk_cluster_receive(group->cluster, END_S, &end, NULL);
  if (group->cluster && !in_order) yk_processes_fail(group->cluster, YK_E_CANCELLED, NULL);
  yk_processes_leave(group->cluster);
  yk_mpi_run_end(group->mpi, in_order);
  *group = (yk_machine_group){0};
}

bool yk_machine_is_first(const yk_machine_group *group)
{
  return !group->cluster || yk_cluster_process(group->cluster) == 0;
}

/* ---- A pair ------------------------------------------------------------------------------------------------------ */

/* One message of n_bytes, to the other process or from it. */
static yk_status pass(const pair *p, bool sends, size_t n_bytes, yk_err *err)
{
  struct iovec piece = {p->buffer, n_bytes};
  yk_wire_message send[2] = {{0}}, receive[2] = {{0}};
  (sends ? send : receive)[p->other] = (yk_wire_message){&piece, 1};
  return p->wire->ops->swap(p->wire, send, receive, err);
}

/* n messages of n_bytes one way, each answered by a small one if it is a ping, else the last one. Returns seconds. */
static yk_status exchange(const pair *p, bool is_first, int n, size_t n_bytes, bool is_ping, double *seconds,
                          yk_err *err)
{
  const int64_t begin_ns = yk_clock_now_ns();
  for (int i = 0; i < n; i++) {
    YK_TRY(pass(p, is_first, n_bytes, err));
    if (is_ping || i + 1 == n) YK_TRY(pass(p, !is_first, PING_BYTES, err));
  }
  *seconds = yk_clock_seconds_since(begin_ns);
  return YK_OK;
}

static void keep(double out[3], double *values, int n)
{
  const yk_spread spread = yk_spread_of(values, n);
  out[0] = spread.median;
  out[1] = spread.low;
  out[2] = spread.high;
}

/* One repeat before the first is not counted. is_first: this process sends the stream. */
static yk_status measure_way(const pair *p, bool is_first, int n_repeats, pair_times *out, yk_err *err)
{
  double latencies[YK_MACHINE_MAX_REPEATS], rates[YK_MACHINE_MAX_REPEATS], seconds;
  for (int i = -1; i < n_repeats; i++) {
    YK_TRY(exchange(p, is_first, PINGS, PING_BYTES, true, &seconds, err));
    if (i >= 0) latencies[i] = seconds / (2 * PINGS) * 1e6;
    YK_TRY(exchange(p, is_first, STREAMS, STREAM_BYTES, false, &seconds, err));
    if (i >= 0) rates[i] = (double)STREAMS * STREAM_BYTES / seconds;
  }
  keep(out->latency_us, latencies, n_repeats);
  keep(out->bytes_per_s, rates, n_repeats);
  return YK_OK;
}

/* Both ways between processes one < other; called by these two. ways: from the first, from the second. */
static yk_status measure_pair(const yk_wires *wires, int one, int other, int n_repeats, pair_times ways[2], yk_err *err)
{
  const int processes[] = {one, other};
  char tag[32];
  pair p = {.other = wires->process == one ? 1 : 0, .buffer = calloc(1, STREAM_BYTES)};
  snprintf(tag, sizeof tag, "network %d %d", one, other);
  yk_status status = p.buffer ? wires->open(wires->context, processes, 2, tag, &p.wire, err)
                              : yk_err_set(err, YK_E_NOMEM, "no memory to measure a network");
  for (int way = 0; way < 2 && status == YK_OK; way++)
    status = measure_way(&p, wires->process == processes[way], n_repeats, &ways[way], err);
  if (p.wire) p.wire->ops->destroy(p.wire);
  free(p.buffer);
  return status;
}

/* ---- All pairs --------------------------------------------------------------------------------------------------- */

static void add_way(yk_machine_run *run, const yk_cluster *cluster, int from, int to, const char *transport,
                    const pair_times *times)
{
  yk_machine_report *report = run->report;
  yk_machine_network *network = &report->networks[report->n_networks++];
  *network = (yk_machine_network){.from = from,
                                  .to = to,
                                  .transport = transport,
                                  .latency_us = times->latency_us[0],
                                  .latency_us_low = times->latency_us[1],
                                  .latency_us_high = times->latency_us[2],
                                  .bytes_per_s = times->bytes_per_s[0],
                                  .bytes_per_s_low = times->bytes_per_s[1],
                                  .bytes_per_s_high = times->bytes_per_s[2]};
  snprintf(network->from_host, sizeof network->from_host, "%s", yk_cluster_host(cluster, from));
  snprintf(network->to_host, sizeof network->to_host, "%s", yk_cluster_host(cluster, to));
}

/* The measuring process's times reach all processes, which start the next pair together. */
static yk_status share_pair(yk_machine_run *run, yk_cluster *cluster, const yk_wires *wires, int one, int other,
                            const char *transport, yk_err *err)
{
  pair_times ways[2], all[YK_CLUSTER_MAX_PROCESSES][2];
  const yk_exchange all_processes = yk_cluster_exchange(cluster);
  memset(ways, 0, sizeof ways);
  if (wires->process == one || wires->process == other)
    YK_TRY(measure_pair(wires, one, other, run->options.n_repeats, ways, err));
  YK_TRY(all_processes.all_gather(&all_processes, ways, sizeof ways, all, err));
  add_way(run, cluster, one, other, transport, &all[one][0]);
  add_way(run, cluster, other, one, transport, &all[other][1]);
  return YK_OK;
}

yk_status yk_machine_measure_networks(yk_machine_run *run, const yk_machine_group *group, yk_err *err)
{
  yk_cluster *cluster = group->cluster;
  if (!cluster) return YK_OK;
  const int n = yk_cluster_n_processes(cluster);
  const yk_wires *by_mpi = yk_mpi_run_wires(group->mpi, cluster);
  const yk_wires wires = by_mpi ? *by_mpi : yk_cluster_wires(cluster);
  const char *transport = by_mpi ? "mpi" : "tcp";
  run->report->networks = calloc((size_t)n * (size_t)(n - 1), sizeof *run->report->networks);
  if (!run->report->networks) return yk_err_set(err, YK_E_NOMEM, "no memory for the networks of %d processes", n);
  for (int one = 0; one < n; one++)
    for (int other = one + 1; other < n; other++) YK_TRY(share_pair(run, cluster, &wires, one, other, transport, err));
  return YK_OK;
}
