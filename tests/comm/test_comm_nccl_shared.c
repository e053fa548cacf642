/* Two ranks that share a GPU, without NCCL: the conformance suite over stores into each other's slots, and messages
 * between pipeline stages, in one process; the sums of two processes, over slots that they open to each other, with a
 * GPU each if there are two. In one process only small sums: the kernels of both ranks must fit on the GPU together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/cluster_fixture.h"
#include "comm/gpu_fixture.h"
#include "parallel/cluster/wire_tcp.h"
#include "parallel/comm_auto.h"
#include "yoke/process.h"

enum { HIDDEN = 4096, MAX_ROWS = 2048, N_RANKS = 2, TIMES = 20 };

static const yk_comm_auto_options options = {.max_rows = MAX_ROWS, .hidden = HIDDEN, .step_limit_s = 2};

static bool open_stages(int n_stages, int n_ranks, yk_dtype dtype, yk_device **devs, yk_comm **comms)
{
  yk_err err = YK_ERR_INIT;
  yk_world world = yk_world_of_process(n_ranks);
  const yk_exchange alone = yk_exchange_alone();
  world.n_stages = n_stages;
  if (!open_gpus_of(1, n_ranks, dtype, devs)) return false;
  if (yk_comm_auto_create(&world, &alone, NULL, devs, &options, comms, &err) == YK_OK) return true;
  printf("%s\n", err.message);
  abort();
}

static bool open_shared(int n_ranks, yk_dtype dtype, yk_device **devs, yk_comm **comms)
{
  return open_stages(1, n_ranks, dtype, devs, comms);
}

static double round_once(int n_ranks, comm_shape shape)
{
  (void)n_ranks, (void)shape;
  return 1;
}

/* ---- Two processes ----------------------------------------------------------------------------------------------- */

/* A two-shot sum. */
static int sum_floats(yk_comm *comm, yk_device *dev)
{
  enum { N = 2 << 20 };
  uint16_t *values = malloc(N * sizeof *values);
  void *data;
  if (!values || dev->ops->alloc(dev, N * sizeof *values, &data, NULL) != YK_OK) return 30;
  for (int32_t i = 0; i < N; i++) yk_dtype_store(YK_F16, values, (size_t)i, (float)((comm->rank + 1) * (i % 500)));
  if (dev->ops->upload(dev, data, values, N * sizeof *values, NULL) != YK_OK) return 31;
  if (comm->ops->all_reduce(comm, data, N, YK_F16, NULL) != YK_OK) return 32;
  if (dev->ops->download(dev, values, data, N * sizeof *values, NULL) != YK_OK) return 33;
  for (int32_t i = 0; i < N; i++)
    if (yk_dtype_load(YK_F16, values, (size_t)i) != (float)(3 * (i % 500))) return 34;
  dev->ops->free(dev, data);
  free(values);
  return 0;
}

/* Sums, a one-sided gather into rank 0's memory, and one over the host. Returns the number of the check that failed, or
 * 0. */
static int use_ends(yk_comm *comm, yk_device *dev)
{
  const yk_comm_ops *ops = comm->ops;
  static int32_t found[2][1024];
  void *data, *opened[N_RANKS];
  if (yk_comm_auto_route(comm, 1) != YK_P2P_ONE_SHOT || yk_comm_auto_route(comm, 1024) != YK_P2P_TWO_SHOT) return 1;
  if (dev->ops->alloc(dev, sizeof found, &data, NULL) != YK_OK) return 2;
  for (int32_t n = 0; n < TIMES; n++) {
    for (int32_t i = 0; i < 1024; i++) found[0][i] = (comm->rank + 1) * (i + n);
    if (dev->ops->upload(dev, data, found[0], sizeof found[0], NULL) != YK_OK) return 3;
    if (ops->all_reduce_i32(comm, data, 1024, YK_REDUCE_SUM, NULL) != YK_OK) return 4;
    if (dev->ops->download(dev, found[0], data, sizeof found[0], NULL) != YK_OK) return 5;
    for (int32_t i = 0; i < 1024; i++)
      if (found[0][i] != 3 * (i + n)) return 6;
  }
  if (ops->open_memories(comm, comm->rank == 0 ? data : NULL, opened, NULL) != YK_OK || !opened[0] || opened[1])
    return 7;
  for (int32_t i = 0; i < 1024; i++) found[0][i] = 7 * i + comm->rank;
  if (dev->ops->upload(dev, (char *)opened[0] + comm->rank * sizeof found[0], found[0], sizeof found[0], NULL) != YK_OK)
    return 8;
  if (ops->await_writes(comm, NULL) != YK_OK) return 9;
  if (dev->ops->download(dev, found, data, sizeof found, NULL) != YK_OK) return 10;
  for (int32_t i = 0; i < 1024 && comm->rank == 0; i++)
    if (found[0][i] != 7 * i || found[1][i] != 7 * i + 1) return 11;
  const int32_t mine = 5 + comm->rank;
  int32_t all[N_RANKS] = {0};
  if (ops->gather_host(comm, &mine, sizeof mine, all, NULL) != YK_OK) return 12;
  if (comm->rank == 0 && (all[0] != 5 || all[1] != 6)) return 13;
  if (ops->barrier(comm, NULL) != YK_OK) return 14;
  dev->ops->free(dev, data);
  return 0;
}

static int run_process(cluster_party *party)
{
  yk_device *dev;
  yk_comm *comm;
  yk_err err = YK_ERR_INIT;
  const yk_device_limits limits = {.max_tokens = 64, .max_seqs = 64, .max_model_tokens = 64, .vocab = 64};
  cluster_join_all(party, 1);
  if (!party->cluster) return 20;
  const int ordinal = party->options.process % yk_cuda_device_count();
  if (yk_cuda_device_create(ordinal, YK_F16, &limits, &dev, &err) != YK_OK) return 22;
  const yk_exchange exchange = yk_cluster_exchange(party->cluster);
  const yk_wires wires = yk_cluster_wires(party->cluster);
  if (yk_comm_auto_create(&party->options.world, &exchange, &wires, &dev, &options, &comm, &err) != YK_OK) {
    fprintf(stderr, "%s\n", err.message);
    return 21;
  }
  int failed = use_ends(comm, dev);
  if (failed == 0) failed = sum_floats(comm, dev);
  close_gpus(1, &dev, &comm);
  cluster_leave_all(party, 1);
  return failed;
}

/* Neither process has used a GPU before the fork. */
static void two_processes_open_each_others_slots(void **state)
{
  (void)state;
  static const int ranks[N_RANKS] = {1, 1};
  cluster_party parties[N_RANKS];
  int status = 0;
  cluster_parties(parties, N_RANKS, ranks, "127.0.0.1");
  pid_t pid = fork();
  if (pid == 0) _exit(run_process(&parties[1]));
  assert_int_equal(run_process(&parties[0]), 0);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* Returns the number of GPUs, queried in another process. */
static int count_gpus(void)
{
  int status = 0;
  pid_t pid = fork();
  if (pid == 0) _exit(yk_cuda_device_count());
  return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

int main(void)
{
  yk_process_init();
  const char *required = getenv("YOKE_REQUIRE_GPU");
  if (count_gpus() == 0) {
    printf("skipped, no device\n");
    return required && required[0] != '0' ? 1 : 77;
  }
  const struct CMUnitTest own[] = {cmocka_unit_test(two_processes_open_each_others_slots)};
  const comm_fixture fixture = {.name = "shared GPU",
                                .open = open_shared,
                                .open_stages = open_stages,
                                .close = close_gpus,
                                .max_ranks = N_RANKS,
                                .rounding_steps = round_once,
                                .whole_packets = true,
                                .opens_slowly = true,
                                .step_limit_s = options.step_limit_s};
  return cmocka_run_group_tests_name("shared GPU: processes", own, NULL, NULL) + comm_conformance_run(&fixture);
}
