/* wire_mpi.c - data of ranks between processes over MPI: a communicator of MPI for each wire, so that the messages of
 * one wire meet in order and no others. MPI does not report that a process has died: the cluster's heartbeats do. */
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/spin.h"
#include "parallel/mpi/mpi_start.h"

enum { SPIN_NS = 500000, MAX_NUMBER = 32767 };

typedef struct mpi_wire {
  yk_wire base;
  const yk_mpi_wires_context *context;
  void *group;
  atomic_bool is_aborted;
} mpi_wire;

static const yk_mpi_functions *functions_of(const mpi_wire *w)
{
  return w->context->mpi->functions;
}

static yk_status begin_messages(mpi_wire *w, const yk_wire_message *send, const yk_wire_message *receive, yk_err *err)
{
  const yk_mpi_functions *mpi = functions_of(w);
  for (int p = 0; p < w->base.n_processes; p++) {
    if (p == w->base.self) continue;
    for (int i = 0; i < receive[p].n_pieces; i++)
      YK_TRY(mpi->receive(w->group, p, receive[p].pieces[i].iov_base, receive[p].pieces[i].iov_len, err));
    for (int i = 0; i < send[p].n_pieces; i++)
      YK_TRY(mpi->send(w->group, p, send[p].pieces[i].iov_base, send[p].pieces[i].iov_len, err));
  }
  return YK_OK;
}

/* Whether the wait must end. */
static yk_status check_wire(mpi_wire *w, yk_err *err)
{
  YK_TRY(yk_cluster_check(w->context->cluster, err));
  if (!atomic_load(&w->is_aborted)) return YK_OK;
  return yk_err_set(err, YK_E_COMM, "communication was aborted because another rank failed");
}

/* MPI has no wait that could be ended, so the thread polls, with pauses once others need the processor. */
static yk_status mpi_swap(yk_wire *wire, yk_wire_message *send, yk_wire_message *receive, yk_err *err)
{
  mpi_wire *w = (mpi_wire *)wire;
  bool is_done = false, is_spinning = true;
  yk_spin spin = {0};
  YK_TRY(check_wire(w, err));
  YK_TRY(begin_messages(w, send, receive, err));
  for (;;) {
    YK_TRY(functions_of(w)->test(w->group, &is_done, err));
    if (is_done) return YK_OK;
    YK_TRY(check_wire(w, err));
    is_spinning = is_spinning && yk_spin_again(&spin, SPIN_NS);
    if (!is_spinning) {
      const struct timespec pause = {.tv_nsec = 50000};
      nanosleep(&pause, NULL);
    }
  }
}

static void mpi_abort(yk_wire *wire)
{
  mpi_wire *w = (mpi_wire *)wire;
  if (atomic_exchange(&w->is_aborted, true)) return;
  yk_err failure = YK_ERR_INIT;
  yk_err_set(&failure, YK_E_COMM, "communication was aborted because a rank failed");
  yk_cluster_abort(w->context->cluster, &failure);
}

static void mpi_destroy(yk_wire *wire)
{
  mpi_wire *w = (mpi_wire *)wire;
  functions_of(w)->close(w->group);
  free(w);
}

/* A number by which MPI distinguishes concurrent openings; equal tags give equal numbers. */
static int number_of(const char *tag)
{
  unsigned number = 5381;
  for (; *tag; tag++) number = number * 33 + (unsigned char)*tag;
  return (int)(number % MAX_NUMBER);
}

static yk_status mpi_open(void *context, const int *processes, int n, const char *tag, yk_wire **out, yk_err *err)
{
  static const yk_wire_ops ops = {.name = "mpi", .swap = mpi_swap, .abort = mpi_abort, .destroy = mpi_destroy};
  const yk_mpi_wires_context *c = context;
  mpi_wire *w = calloc(1, sizeof *w);
  if (!w) return yk_err_set(err, YK_E_NOMEM, "no memory for a wire");
  w->base = (yk_wire){.ops = &ops, .n_processes = n};
  w->context = c;
  for (int i = 0; i < n; i++)
    if (processes[i] == c->mpi->place.process) w->base.self = i;
  yk_status status = c->mpi->functions->open(processes, n, number_of(tag), &w->group, err);
  if (status == YK_OK)
    *out = &w->base;
  else
    free(w);
  return status;
}

yk_wires yk_mpi_wires(yk_mpi *mpi, yk_cluster *cluster, yk_mpi_wires_context *context)
{
  const int n = yk_cluster_n_processes(cluster);
  *context = (yk_mpi_wires_context){.mpi = mpi, .cluster = cluster};
  for (int p = 0; p < n; p++) {
    const yk_world world = yk_cluster_world(cluster, p);
    context->first_ranks[p] = world.first_rank;
    context->first_ranks[n] = world.n_ranks;
  }
  return (yk_wires){.process = yk_cluster_process(cluster),
                    .n_processes = n,
                    .first_ranks = context->first_ranks,
                    .n_communicators = &context->n_communicators,
                    .open = mpi_open,
                    .context = context};
}
