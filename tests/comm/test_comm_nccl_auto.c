/* test_comm_nccl_auto.c - the conformance suite over the communicator that chooses between stores into peers' memory
 * and NCCL by size, and its choices, on as many GPUs as there are (at least two). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "comm/gpu_fixture.h"
#include "each_case.h"
#include "parallel/comm_auto.h"
#include "parallel/p2p/links_p2p.h"
#include "yoke/process.h"

enum { HIDDEN = 4096, MAX_ROWS = 2048 };
enum { MOST_BYTES = 8 << 20, MOST_LAUNCHES = 4 }; /* of one launch over peer pointers; of a sum of rows */
static const double step_limit_s = 2;

static void create(yk_device *const *devs, int n_ranks, int32_t hidden, yk_comm **comms)
{
  yk_comm_auto_options options = {.max_rows = MAX_ROWS, .hidden = hidden, .step_limit_s = step_limit_s};
  yk_err err = YK_ERR_INIT;
  const yk_world world = yk_world_of_process(n_ranks);
  const yk_exchange alone = yk_exchange_alone();
  if (yk_comm_auto_create(&world, &alone, NULL, devs, &options, comms, &err) == YK_OK) return;
  printf("%s\n", err.message);
  abort();
}

static bool open_auto(int n_ranks, yk_dtype dtype, yk_device **devs, yk_comm **comms)
{
  if (!open_gpus(n_ranks, dtype, devs)) return false;
  create(devs, n_ranks, HIDDEN, comms);
  return true;
}

static bool all_reach_each_other(int n_ranks)
{
  bool all = true, one = false;
  for (int from = 0; from < n_ranks; from++)
    for (int to = 0; to < n_ranks; to++)
      if (from != to) all = yk_p2p_link_query(from, to, &one, NULL) == YK_OK && one && all;
  return all;
}

static int n_gpus_tested;

/* NCCL rounds at each hop; other sums are rounded once. The tolerance is the looser of both, because a large array uses
 * NCCL while a sum of as many rows does not. */
static double rounding_steps(int n_ranks, comm_shape shape)
{
  int64_t row_bytes = shape.hidden * INT64_C(2);
  bool over_nccl = row_bytes % 16 != 0 || shape.n_rows * row_bytes > MOST_BYTES || !all_reach_each_other(n_ranks);
  return over_nccl ? n_ranks : 1;
}

static void the_way_follows_the_size(void **state)
{
  (void)state;
  for (int n_ranks = 2; each_case(n_ranks, n_ranks <= n_gpus_tested); n_ranks++) {
    if (n_ranks > 2 && n_ranks < n_gpus_tested) continue; /* opening ends takes long */
    const int64_t crossover = (n_ranks == 2 ? 2048 : 512) * 1024 / (HIDDEN * 2), most_rows = MOST_BYTES / (HIDDEN * 2);
    const bool reach = all_reach_each_other(n_ranks);
    yk_device *devs[COMM_TESTED_RANKS];
    yk_comm *comms[COMM_TESTED_RANKS];
    assert_true(open_gpus(n_ranks, YK_F16, devs));
    create(devs, n_ranks, HIDDEN, comms);
    for (int rank = 0; rank < n_ranks; rank++) {
      assert_int_equal(yk_comm_auto_route(comms[rank], 1), reach ? YK_P2P_ONE_SHOT : YK_P2P_NONE);
      assert_int_equal(yk_comm_auto_route(comms[rank], crossover), reach ? YK_P2P_ONE_SHOT : YK_P2P_NONE);
      assert_int_equal(yk_comm_auto_route(comms[rank], crossover + 1), reach ? YK_P2P_TWO_SHOT : YK_P2P_NONE);
      for (int64_t n_rows = most_rows; n_rows <= MOST_LAUNCHES * most_rows; n_rows += most_rows - 1)
        assert_int_equal(yk_comm_auto_route(comms[rank], n_rows), reach ? YK_P2P_TWO_SHOT : YK_P2P_NONE);
      assert_int_equal(yk_comm_auto_route(comms[rank], MOST_LAUNCHES * most_rows),
                       reach ? YK_P2P_TWO_SHOT : YK_P2P_NONE);
      assert_int_equal(yk_comm_auto_route(comms[rank], MOST_LAUNCHES * most_rows + 1), YK_P2P_NONE);
    }
    for (int rank = 0; rank < n_ranks; rank++) comms[rank]->ops->destroy(comms[rank]);
    create(devs, n_ranks, 1001, comms); /* not in whole packets: no slots at all, on the same devices */
    for (int rank = 0; rank < n_ranks; rank++) assert_int_equal(yk_comm_auto_route(comms[rank], 1), YK_P2P_NONE);
    close_gpus(n_ranks, devs, comms);
  }
}

int main(void)
{
  yk_process_init();
  int exit_code;
  n_gpus_tested = gpus_to_test(&exit_code);
  if (n_gpus_tested == 0) return exit_code;
  comm_fixture fixture = {.name = "auto",
                          .open = open_auto,
                          .close = close_gpus,
                          .max_ranks = n_gpus_tested,
                          .rounding_steps = rounding_steps,
                          .large_shapes = gpu_large_shapes,
                          .n_large_shapes = N_GPU_LARGE_SHAPES,
                          .opens_slowly = true,
                          .step_limit_s = all_reach_each_other(n_gpus_tested) ? step_limit_s : 0};
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_way_follows_the_size)};
  return cmocka_run_group_tests_name("auto: choice", tests, NULL, NULL) + comm_conformance_run(&fixture);
}
