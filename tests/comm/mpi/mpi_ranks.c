/* One process of several that mpirun starts: joins the others, sums over ranks of all processes over MPI and over TCP,
 * and compares every bit with ranks of its own that are threads of this process. Process p has p + 1 ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "comm/rank_sums.h"
#include "parallel/cluster/wire_tcp.h"
#include "parallel/mpi/mpi_start.h"

enum { MAX_PROCESSES = 4, MAX_RANKS = MAX_PROCESSES * (MAX_PROCESSES + 1) / 2 };

static yk_mpi mpi;
static yk_world world;

static void start(void)
{
  yk_err err = YK_ERR_INIT;
  if (yk_mpi_start(NULL, &mpi, &err) != YK_OK) {
    printf("refused: %s\n", err.message);
    exit(3);
  }
  const int p = mpi.place.process, n = mpi.place.n_processes;
  if (n > MAX_PROCESSES) exit(2);
  world = (yk_world){.n_ranks = n * (n + 1) / 2, .first_rank = p * (p + 1) / 2, .n_local = p + 1, .n_stages = 1};
}

static yk_cluster *join(void)
{
  const yk_cluster_options options = {.process = mpi.place.process,
                                      .n_processes = mpi.place.n_processes,
                                      .world = world,
                                      .master_host = mpi.master_host,
                                      .master_port = mpi.master_port,
                                      .listener = mpi.place.process == 0 ? &mpi.listener : NULL,
                                      .key = mpi.key,
                                      .start_timeout_s = 60,
                                      .silence_limit_s = 60};
  yk_cluster *cluster = NULL;
  char *report;
  yk_err err = YK_ERR_INIT;
  yk_cluster_join(&options, &cluster, &report, &err);
  assert_string_equal(err.message, "");
  free(report);
  return cluster;
}

static void compare(rank_sum *own, rank_sum *whole, yk_comm **own_comms, yk_comm **whole_comms)
{
  static const int32_t row_counts[] = {1, 7, RANK_SUM_ROWS};
  for (size_t i = 0; i < sizeof row_counts / sizeof *row_counts; i++) {
    rank_sums_run(own, world.first_rank, world.n_local, own_comms, row_counts[i]);
    rank_sums_run(whole, 0, world.n_ranks, whole_comms, row_counts[i]);
    for (int rank = 0; rank < world.n_local; rank++)
      assert_true(rank_sums_equal(&own[rank], &whole[world.first_rank + rank]));
  }
}

static void sums_have_the_bits_of_one_process(void **state)
{
  (void)state;
  const yk_device_limits limits = {.max_tokens = 64, .max_seqs = 64, .max_model_tokens = 64, .vocab = 64};
  const yk_world all = yk_world_of_process(world.n_ranks);
  yk_device *devs[MAX_RANKS];
  yk_comm *own[MAX_RANKS], *whole[MAX_RANKS];
  rank_sum *sums = calloc(2 * MAX_RANKS, sizeof *sums);
  yk_cluster *cluster = join();
  yk_mpi_wires_context context;
  assert_true(mpi.place.any_thread);
  const yk_wires transports[] = {yk_mpi_wires(&mpi, cluster, &context), yk_cluster_wires(cluster)};
  for (int rank = 0; rank < world.n_ranks; rank++)
    assert_int_equal(yk_cpu_device_create(YK_F32, 1, &limits, &devs[rank], NULL), YK_OK);
  assert_int_equal(yk_comm_local_create(&all, devs, whole, NULL), YK_OK);
  for (size_t t = 0; t < sizeof transports / sizeof *transports; t++) {
    yk_device **own_devs = devs + world.first_rank;
    assert_int_equal(yk_comm_processes_create(&world, &transports[t], own_devs, own, NULL), YK_OK);
    compare(sums, sums + MAX_RANKS, own, whole);
    for (int rank = 0; rank < world.n_local; rank++) own[rank]->ops->destroy(own[rank]);
  }
  for (int rank = 0; rank < world.n_ranks; rank++) {
    whole[rank]->ops->destroy(whole[rank]);
    devs[rank]->ops->destroy(devs[rank]);
  }
  yk_cluster_message message;
  if (mpi.place.process != 0) assert_int_equal(yk_cluster_receive(cluster, 0, &message, NULL), YK_OK); /* the end */
  yk_cluster_leave(cluster, 60);
  free(sums);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(sums_have_the_bits_of_one_process)};
  if (!getenv("OMPI_COMM_WORLD_SIZE") && !getenv("PMIX_RANK") && !getenv("PMI_RANK")) return 2;
  start();
  int n_failed = cmocka_run_group_tests(tests, NULL, NULL);
  if (n_failed == 0) yk_mpi_end(&mpi);
  return n_failed;
}
