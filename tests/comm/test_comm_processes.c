/* Ranks of several processes: the conformance suite over TCP, and the bits of one process. The processes are clusters
 * in threads of this program, except where one is to die. */
#include "comm/conformance.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/cluster_fixture.h"
#include "comm/rank_sums.h"
#include "each_case.h"
#include "parallel/cluster/wire_tcp.h"
#include "sanitized.h"
#include "yoke/process.h"

enum { MAX_PROCESSES = 3 };

/* The processes after the open ends: the fixture's functions have no context. */
static cluster_party parties[MAX_PROCESSES];
static int n_parties;

typedef struct creation {
  cluster_party *party;
  int n_stages;
  yk_device **devs;
  yk_comm **comms;
  yk_status status;
} creation;

static void *create_ends(void *context)
{
  creation *c = context;
  yk_world world = c->party->options.world;
  const yk_wires wires = yk_cluster_wires(c->party->cluster);
  world.n_stages = c->n_stages;
  c->status = yk_comm_processes_create(&world, &wires, c->devs + world.first_rank, c->comms + world.first_rank, NULL);
  return NULL;
}

/* Distributes ranks unevenly: 1 to the first process, 2 to the second, all others to the third. */
static bool open_divided(int n_stages, int n_ranks, yk_dtype dtype, yk_device **devs, yk_comm **comms)
{
  const yk_device_limits limits = {.max_tokens = 64, .max_seqs = 64, .max_model_tokens = 64, .vocab = 64};
  const int ranks[MAX_PROCESSES] = {1, n_ranks > 2 ? 2 : n_ranks - 1, n_ranks - 3};
  creation creations[MAX_PROCESSES];
  pthread_t threads[MAX_PROCESSES];
  for (int rank = 0; rank < n_ranks; rank++)
    if (yk_cpu_device_create(dtype, 1, &limits, &devs[rank], NULL) != YK_OK) return false;
  n_parties = n_ranks > 3 ? 3 : n_ranks > 1 ? 2 : 1;
  cluster_parties(parties, n_parties, ranks, "127.0.0.1");
  cluster_join_all(parties, n_parties);
  for (int p = 0; p < n_parties; p++) {
    if (!parties[p].cluster) return false;
    creations[p] = (creation){.party = &parties[p], .n_stages = n_stages, .devs = devs, .comms = comms};
    if (pthread_create(&threads[p], NULL, create_ends, &creations[p]) != 0) return false;
  }
  bool opens = true;
  for (int p = 0; p < n_parties; p++) {
    pthread_join(threads[p], NULL);
    opens = opens && creations[p].status == YK_OK;
  }
  return opens;
}

static bool open_one_stage(int n_ranks, yk_dtype dtype, yk_device **devs, yk_comm **comms)
{
  return open_divided(1, n_ranks, dtype, devs, comms);
}

static void close_ends(int n_ranks, yk_device **devs, yk_comm **comms)
{
  for (int rank = 0; rank < n_ranks; rank++) {
    comms[rank]->ops->destroy(comms[rank]);
    devs[rank]->ops->destroy(devs[rank]);
  }
}

static void close_divided(int n_ranks, yk_device **devs, yk_comm **comms)
{
  close_ends(n_ranks, devs, comms);
  cluster_leave_all(parties, n_parties);
}

static double round_once(int n_ranks, comm_shape shape)
{
  (void)n_ranks, (void)shape;
  return 1;
}

/* ---- the bits of one process ---- */

enum { N_RANKS = 5 };

static void several_processes_give_the_bits_of_one(void **state)
{
  (void)state;
  static const int32_t row_counts[] = {1, 7, RANK_SUM_ROWS};
  yk_device *devs[2][N_RANKS];
  yk_comm *comms[2][N_RANKS];
  const yk_world whole = yk_world_of_process(N_RANKS);
  const yk_device_limits limits = {.max_tokens = 64, .max_seqs = 64, .max_model_tokens = 64, .vocab = 64};
  rank_sum *ranks = calloc(2 * N_RANKS, sizeof *ranks);
  for (int rank = 0; rank < N_RANKS; rank++)
    assert_int_equal(yk_cpu_device_create(YK_F32, 1, &limits, &devs[0][rank], NULL), YK_OK);
  assert_int_equal(yk_comm_local_create(&whole, devs[0], comms[0], NULL), YK_OK);
  assert_true(open_one_stage(N_RANKS, YK_F32, devs[1], comms[1]));
  for (size_t i = 0; each_case(i, i < sizeof row_counts / sizeof *row_counts); i++) {
    for (int k = 0; k < 2; k++) rank_sums_run(ranks + (ptrdiff_t)k * N_RANKS, 0, N_RANKS, comms[k], row_counts[i]);
    for (int rank = 0; rank < N_RANKS; rank++) assert_true(rank_sums_equal(&ranks[N_RANKS + rank], &ranks[rank]));
  }
  close_ends(N_RANKS, devs[0], comms[0]);
  close_divided(N_RANKS, devs[1], comms[1]);
  free(ranks);
}

/* ---- failures ---- */

static void ranks_must_be_those_of_the_roll_call(void **state)
{
  (void)state;
  yk_device *devs[4];
  yk_comm *comms[4], *others[4];
  yk_err err = YK_ERR_INIT;
  assert_true(open_one_stage(4, YK_F32, devs, comms));
  const yk_world world = {.n_ranks = 4, .first_rank = 0, .n_local = 2, .n_stages = 1};
  const yk_wires wires = yk_cluster_wires(parties[0].cluster);
  assert_int_equal(yk_comm_processes_create(&world, &wires, devs, others, &err), YK_E_INVAL);
  assert_non_null(strstr(err.message, "expected ranks 0 to 0 of 4, as in the roll call, found 0 to 1 of 4"));
  close_divided(4, devs, comms);
}

/* The only rank of a separate process, which is killed during an endless series of sums. */
static void sum_for_ever(cluster_party *party)
{
  const yk_device_limits limits = {.max_tokens = 64, .max_seqs = 64, .max_model_tokens = 64, .vocab = 64};
  yk_device *dev;
  yk_comm *comm;
  cluster_join_all(party, 1);
  if (!party->cluster || yk_cpu_device_create(YK_F32, 1, &limits, &dev, NULL) != YK_OK) _exit(2);
  const yk_wires wires = yk_cluster_wires(party->cluster);
  if (yk_comm_processes_create(&party->options.world, &wires, &dev, &comm, NULL) != YK_OK) _exit(3);
  float data[8] = {0};
  while (comm->ops->all_reduce(comm, data, 8, YK_F32, NULL) == YK_OK) continue;
  _exit(0);
}

/* If a peer dies within a sum, the error names the peer's process, not only a closed connection. */
static void a_process_that_dies_in_a_sum_is_named(void **state)
{
  (void)state;
  static const int ranks[2] = {1, 1};
  static const int signals[] = {SIGKILL, SIGSTOP};
  const yk_device_limits limits = {.max_tokens = 64, .max_seqs = 64, .max_model_tokens = 64, .vocab = 64};
  for (size_t i = 0; each_case(i, i < sizeof signals / sizeof *signals); i++) {
    yk_device *dev;
    yk_comm *comm;
    yk_err err = YK_ERR_INIT;
    float data[8] = {0};
    cluster_parties(parties, 2, ranks, "127.0.0.1");
    for (int p = 0; p < 2; p++) parties[p].options.silence_limit_s = i == 0 ? 60 : 1;
    pid_t pid = fork();
    if (pid == 0) sum_for_ever(&parties[1]);
    cluster_join_all(parties, 1);
    assert_non_null(parties[0].cluster);
    assert_int_equal(yk_cpu_device_create(YK_F32, 1, &limits, &dev, NULL), YK_OK);
    const yk_wires wires = yk_cluster_wires(parties[0].cluster);
    assert_int_equal(yk_comm_processes_create(&parties[0].options.world, &wires, &dev, &comm, NULL), YK_OK);
    for (int n = 0; n < 10; n++) assert_int_equal(comm->ops->all_reduce(comm, data, 8, YK_F32, NULL), YK_OK);
    assert_int_equal(kill(pid, signals[i]), 0);
    while (comm->ops->all_reduce(comm, data, 8, YK_F32, &err) == YK_OK) continue;
    assert_int_equal(err.code, YK_E_COMM);
    assert_int_equal(err.rank, 1);
    assert_non_null(strstr(err.message, "process 1 (host "));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    close_ends(1, &dev, &comm);
    cluster_leave_all(parties, 1);
  }
}

int main(void)
{
  yk_process_init();
  const struct CMUnitTest own[] = {cmocka_unit_test(a_process_that_dies_in_a_sum_is_named), /* first: it forks */
                                   cmocka_unit_test(several_processes_give_the_bits_of_one),
                                   cmocka_unit_test(ranks_must_be_those_of_the_roll_call)};
  const comm_fixture fixture = {.name = "processes",
                                .open = open_one_stage,
                                .open_stages = open_divided,
                                .close = close_divided,
                                .max_ranks = TEST_IS_SANITIZED ? 3 : 6,
                                .opens_slowly = true,
                                .rounding_steps = round_once};
  int n_failed = cmocka_run_group_tests(own, NULL, NULL);
  return n_failed + comm_conformance_run(&fixture);
}
