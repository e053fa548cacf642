/* The host's part of communicators whose device data a library moves: barriers, gathers and shares among ranks of one
 * process and of two, which are clusters in threads of this program. */
#include "parallel/host_group.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include "comm/cluster_fixture.h"
#include "each_case.h"
#include "parallel/cluster/wire_tcp.h"

enum { N_RANKS = 5, MOST_PROCESSES = 2, N_ROUNDS = 50, N_VALUES = 3 };

/* A process of the run, and its ranks' group. */
typedef struct process {
  cluster_party *party; /* NULL: there is one process */
  yk_host_group *group;
  int n_local;
  yk_status status;
} process;

static cluster_party parties[MOST_PROCESSES];
static process processes[MOST_PROCESSES];

static void *open_group(void *context)
{
  process *p = context;
  p->status = yk_host_group_create(N_RANKS, p->n_local, &p->group, NULL);
  if (p->status != YK_OK || !p->party) return NULL;
  const yk_wires wires = yk_cluster_wires(p->party->cluster);
  yk_remote *remote = NULL;
  p->status = yk_remote_create(&p->party->options.world, &wires, 0, "test", &remote, NULL);
  if (p->status == YK_OK) yk_host_group_connect(p->group, remote);
  return NULL;
}

static void open_groups(int n_processes)
{
  const int ranks[MOST_PROCESSES] = {n_processes == 1 ? N_RANKS : 2, N_RANKS - 2};
  pthread_t threads[MOST_PROCESSES];
  if (n_processes > 1) {
    cluster_parties(parties, n_processes, ranks, "127.0.0.1");
    cluster_join_all(parties, n_processes);
  }
  for (int i = 0; i < n_processes; i++) {
    processes[i] = (process){.party = n_processes > 1 ? &parties[i] : NULL, .n_local = ranks[i]};
    assert_int_equal(pthread_create(&threads[i], NULL, open_group, &processes[i]), 0);
  }
  for (int i = 0; i < n_processes; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(processes[i].status, YK_OK);
  }
}

static void close_groups(int n_processes)
{
  for (int i = 0; i < n_processes; i++) yk_host_group_destroy(processes[i].group);
  if (n_processes > 1) cluster_leave_all(parties, n_processes);
}

/* A rank in its thread. */
typedef struct member_thread {
  yk_host_member member;
  pthread_t thread;
  bool is_wrong; /* a value differs, or a rank has left a barrier too early */
  yk_status status;
  yk_err err;
} member_thread;

static atomic_int n_arrivals; /* of all ranks at the barriers of run_rounds */

static bool differs(const int32_t *all, int round)
{
  for (int i = 0; i < N_RANKS * N_VALUES; i++)
    if (all[i] != round * 100 + i) return true;
  return false;
}

static yk_status run_round(member_thread *t, int round)
{
  const int rank = t->member.rank;
  int32_t shared[N_RANKS * N_VALUES], gathered[N_RANKS * N_VALUES], own[N_VALUES];
  for (int i = 0; i < N_VALUES; i++) own[i] = round * 100 + rank * N_VALUES + i;
  YK_TRY(yk_host_group_share(&t->member, own, sizeof own, shared, &t->err));
  YK_TRY(yk_host_group_gather(&t->member, own, sizeof own, gathered, &t->err));
  t->is_wrong |= differs(shared, round) || (rank == 0 && differs(gathered, round));
  atomic_fetch_add(&n_arrivals, 1);
  YK_TRY(yk_host_group_barrier(&t->member, &t->err));
  t->is_wrong |= atomic_load(&n_arrivals) < (round + 1) * N_RANKS;
  return YK_OK;
}

static void *run_rounds(void *context)
{
  member_thread *t = context;
  for (int round = 0; round < N_ROUNDS && t->status == YK_OK; round++) t->status = run_round(t, round);
  return NULL;
}

static void *wait_for_all(void *context)
{
  member_thread *t = context;
  t->status = yk_host_group_barrier(&t->member, &t->err);
  return NULL;
}

/* Starts ranks [first, N_RANKS). */
static void start(member_thread *threads, int first, void *(*run)(void *), yk_mailbox_watch watch)
{
  int rank = 0;
  for (process *p = processes; rank < N_RANKS; p++)
    for (int i = 0; i < p->n_local; i++, rank++) {
      threads[rank] = (member_thread){.member = {p->group, rank, watch}, .err = YK_ERR_INIT};
      if (rank >= first) assert_int_equal(pthread_create(&threads[rank].thread, NULL, run, &threads[rank]), 0);
    }
}

static void join(member_thread *threads, int first)
{
  for (int rank = first; rank < N_RANKS; rank++) pthread_join(threads[rank].thread, NULL);
}

static void ranks_exchange_host_data(void **state)
{
  (void)state;
  for (int n = 1; each_case(n, n <= MOST_PROCESSES); n++) {
    member_thread threads[N_RANKS];
    open_groups(n);
    atomic_store(&n_arrivals, 0);
    start(threads, 0, run_rounds, (yk_mailbox_watch){NULL, NULL});
    join(threads, 0);
    for (int rank = 0; rank < N_RANKS; rank++) {
      assert_int_equal(threads[rank].status, YK_OK);
      assert_false(threads[rank].is_wrong);
    }
    close_groups(n);
  }
}

/* Rank 0 never arrives. */
static void an_abort_ends_every_wait(void **state)
{
  (void)state;
  for (int n = 1; each_case(n, n <= MOST_PROCESSES); n++) {
    member_thread threads[N_RANKS];
    open_groups(n);
    start(threads, 1, wait_for_all, (yk_mailbox_watch){NULL, NULL});
    for (int i = 0; i < n; i++) yk_host_group_abort(processes[i].group);
    join(threads, 1);
    for (int rank = 1; rank < N_RANKS; rank++) assert_int_equal(threads[rank].status, YK_E_COMM);
    for (int i = 0; i < n; i++) assert_true(yk_host_group_is_aborted(processes[i].group, NULL));
    close_groups(n);
  }
}

static yk_status find_missing(void *context, yk_err *err)
{
  (void)context;
  return yk_err_set(err, YK_E_TIMEOUT, "rank 0 is missing");
}

static void a_watch_ends_a_wait(void **state)
{
  (void)state;
  member_thread threads[N_RANKS];
  open_groups(1);
  start(threads, 1, wait_for_all, (yk_mailbox_watch){find_missing, NULL});
  join(threads, 1);
  for (int rank = 1; rank < N_RANKS; rank++) {
    assert_int_equal(threads[rank].status, YK_E_TIMEOUT);
    assert_string_equal(threads[rank].err.message, "rank 0 is missing");
  }
  close_groups(1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_exchange_host_data),
                                     cmocka_unit_test(an_abort_ends_every_wait), cmocka_unit_test(a_watch_ends_a_wait)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
