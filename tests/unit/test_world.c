/* The world: refusals, and the division of ranks into groups, stages and processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "parallel/exchange.h"
#include "parallel/p2p/p2p_sizes.h"
#include "parallel/world.h"

static void test_bad_worlds_are_refused(void **state)
{
  (void)state;
  static const struct {
    yk_world world;
    const char *message;
  } cases[] = {{{0, 0, 0, 1}, "number of ranks: expected 1 to 64, found 0"},
               {{65, 0, 65, 1}, "number of ranks: expected 1 to 64, found 65"},
               {{4, 0, 0, 1}, "ranks of this process: expected 1 to 4, found 0"},
               {{4, 0, 5, 1}, "ranks of this process: expected 1 to 4, found 5"},
               {{4, 3, 2, 1}, "first rank of this process: expected 0 to 2, found 3"},
               {{4, -1, 2, 1}, "first rank of this process: expected 0 to 2, found -1"},
               {{4, 0, 4, 3}, "pipeline stages: expected a divisor of 4 ranks, found 3"},
               {{4, 0, 4, 0}, "pipeline stages: expected a divisor of 4 ranks, found 0"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    yk_err err = YK_ERR_INIT;
    assert_int_equal(yk_world_check(&cases[i].world, &err), YK_E_INVAL);
    assert_string_equal(err.message, cases[i].message);
  }
}

/* Every division of up to 64 ranks: a rank is in one process, in one group of consecutive ranks, numbered from 0. */
static void test_every_rank_has_one_place(void **state)
{
  (void)state;
  for (int n_ranks = 1; n_ranks <= YK_MAX_RANKS; n_ranks++)
    for (int n_stages = 1; n_stages <= n_ranks; n_stages++)
      for (int n_processes = 1; n_processes <= n_ranks; n_processes++) {
        if (n_ranks % n_stages || n_ranks % n_processes) continue;
        int n_local = n_ranks / n_processes, group_size = n_ranks / n_stages, found = 0;
        for (int first = 0; first < n_ranks; first += n_local) {
          const yk_world w = {n_ranks, first, n_local, n_stages};
          assert_int_equal(yk_world_check(&w, NULL), YK_OK);
          assert_int_equal(yk_world_group_size(&w), group_size);
          for (int rank = 0; rank < n_ranks; rank++) {
            found += yk_world_is_local(&w, rank);
            assert_int_equal(yk_world_stage_of(&w, rank) * group_size + yk_world_group_rank(&w, rank), rank);
          }
          assert_true(yk_world_is_whole(&w) == (n_processes == 1));
        }
        assert_int_equal(found, n_ranks);
      }
}

static void test_alone(void **state)
{
  (void)state;
  const yk_world w = yk_world_of_process(7);
  const yk_exchange alone = yk_exchange_alone();
  int32_t mine = 42, all[1] = {0};
  assert_int_equal(yk_world_check(&w, NULL), YK_OK);
  assert_true(yk_world_is_whole(&w));
  assert_int_equal(yk_world_group_size(&w), 7);
  assert_int_equal(alone.all_gather(&alone, &mine, sizeof mine, all, NULL), YK_OK);
  assert_int_equal(all[0], 42);
}

/* Kernels that hold a pointer to each peer are not chosen for more ranks than they support. */
static void test_peer_kernels_have_a_limit(void **state)
{
  (void)state;
  for (int n_ranks = 2; n_ranks <= YK_MAX_RANKS; n_ranks++) {
    yk_p2p_options options = yk_p2p_options_for(n_ranks, 64, 8192, 1);
    assert_true((options.max_bytes > 0) == (n_ranks <= YK_P2P_MAX_RANKS));
    assert_true((yk_p2p_rows_at_once(&options, 1, 8192) > 0) == (n_ranks <= YK_P2P_MAX_RANKS));
    assert_true((yk_p2p_layout_of(&options, n_ranks).n_bytes > 0) == (n_ranks <= YK_P2P_MAX_RANKS));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_bad_worlds_are_refused),
      cmocka_unit_test(test_every_rank_has_one_place),
      cmocka_unit_test(test_alone),
      cmocka_unit_test(test_peer_kernels_have_a_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
