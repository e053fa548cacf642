/* The algorithm of an all-reduce, and whether the slots hold its data: the thread blocks' shards are counted as the
 * kernels count them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "each_case.h"
#include "parallel/p2p/p2p_sizes.h"

enum { KIB = 1024, MIB = 1024 * 1024, PACKET = 16 };

/* Packets that block 0, which has the most rows, gets from one source. */
static int64_t largest_block(int64_t n_rows, int64_t row_bytes, int n_ranks, yk_p2p_route route)
{
  int64_t n_items = route == YK_P2P_TWO_SHOT ? (n_rows + n_ranks - 1) / n_ranks : n_rows;
  int64_t n_blocks = n_items < YK_P2P_BLOCKS ? n_items : YK_P2P_BLOCKS;
  return (n_items + n_blocks - 1) / n_blocks * (row_bytes / PACKET);
}

static void expect_fits(const yk_p2p_layout *layout, int64_t n_rows, int64_t row_bytes, int n_ranks, yk_p2p_route route)
{
  if (route == YK_P2P_NONE) return;
  int64_t capacity = route == YK_P2P_ONE_SHOT ? layout->one_shot_packets : layout->two_shot_packets;
  assert_true(largest_block(n_rows, row_bytes, n_ranks, route) <= capacity);
}

static void the_route_follows_the_size(void **state)
{
  (void)state;
  for (int n_ranks = 2; each_case(n_ranks, n_ranks <= 8); n_ranks++) {
    const int64_t row = 8 * KIB, crossover = n_ranks == 2 ? 2 * MIB : 512 * KIB;
    yk_p2p_options o = yk_p2p_options_for(n_ranks, 4096, row, 60);
    assert_int_equal(o.one_shot_bytes, crossover);
    assert_int_equal(o.max_bytes, 8 * MIB);
    assert_int_equal(yk_p2p_route_of_rows(&o, 1, row), YK_P2P_ONE_SHOT);
    assert_int_equal(yk_p2p_route_of_rows(&o, crossover / row, row), YK_P2P_ONE_SHOT);
    assert_int_equal(yk_p2p_route_of_rows(&o, crossover / row + 1, row), YK_P2P_TWO_SHOT);
    assert_int_equal(yk_p2p_route_of_rows(&o, 1024, row), YK_P2P_TWO_SHOT);
    assert_int_equal(yk_p2p_route_of_rows(&o, 1025, row), YK_P2P_NONE);
    int64_t cut;
    assert_int_equal(yk_p2p_route_of_array(&o, PACKET, &cut), YK_P2P_ONE_SHOT);
    assert_int_equal(yk_p2p_route_of_array(&o, crossover, &cut), YK_P2P_ONE_SHOT);
    assert_int_equal(yk_p2p_route_of_array(&o, crossover + PACKET, &cut), YK_P2P_TWO_SHOT);
    assert_int_equal(yk_p2p_route_of_array(&o, 8 * MIB, &cut), YK_P2P_TWO_SHOT);
    assert_int_equal(yk_p2p_route_of_array(&o, 8 * MIB + PACKET, &cut), YK_P2P_NONE);
  }
}

static void short_rows_cross_sooner_on_two_ranks(void **state)
{
  (void)state;
  for (int n_ranks = 2; each_case(n_ranks, n_ranks <= 4); n_ranks++)
    for (int64_t max_rows = 256; max_rows <= 4096; max_rows *= 16) { /* few rows also have slots for two-shot */
      const int64_t row = 4 * KIB, most = n_ranks == 2 ? 255 : 128;
      yk_p2p_options o = yk_p2p_options_for(n_ranks, max_rows, row, 60);
      assert_int_equal(yk_p2p_route_of_rows(&o, most, row), YK_P2P_ONE_SHOT);
      assert_int_equal(yk_p2p_route_of_rows(&o, most + 1, row), YK_P2P_TWO_SHOT);
      assert_true(yk_p2p_layout_of(&o, n_ranks).two_shot_packets > 0);
      if (max_rows == 256) continue;
      int64_t cut;
      yk_p2p_options longer = yk_p2p_options_for(n_ranks, max_rows, row + PACKET, 60);
      assert_int_equal(yk_p2p_route_of_rows(&longer, 256, row + PACKET),
                       n_ranks == 2 ? YK_P2P_ONE_SHOT : YK_P2P_TWO_SHOT);
      assert_int_equal(yk_p2p_route_of_array(&o, o.one_shot_bytes, &cut), YK_P2P_ONE_SHOT);
    }
}

static void more_rows_take_a_few_launches_of_equal_size(void **state)
{
  (void)state;
  const int64_t row = 8 * KIB;
  yk_p2p_options o = yk_p2p_options_for(4, 1 << 20, row, 60);
  assert_int_equal(yk_p2p_rows_at_once(&o, 1, row), 1);
  assert_int_equal(yk_p2p_rows_at_once(&o, 1024, row), 1024);
  assert_int_equal(yk_p2p_rows_at_once(&o, 1025, row), 513);
  assert_int_equal(yk_p2p_rows_at_once(&o, 2048, row), 1024);
  assert_int_equal(yk_p2p_rows_at_once(&o, 4096, row), 1024);
  assert_int_equal(yk_p2p_rows_at_once(&o, 4097, row), 0);
  assert_int_equal(yk_p2p_rows_at_once(&o, 1, row + 2), 0);
  assert_int_equal(yk_p2p_rows_at_once(&o, 0, row), 0);
  yk_p2p_options small = yk_p2p_options_for(4, 3, row, 60); /* capacity for the announced size */
  assert_int_equal(yk_p2p_rows_at_once(&small, 3, row), 3);
  yk_p2p_options none = yk_p2p_options_for(4, 64, 1001 * 2, 60);
  assert_int_equal(yk_p2p_rows_at_once(&none, 1, 1001 * 2), 0);
  assert_int_equal(yk_p2p_rows_at_once(&none, 1, 2000), 0);
}

static void rows_that_packets_do_not_fill_go_elsewhere(void **state)
{
  (void)state;
  yk_p2p_options o = yk_p2p_options_for(3, 64, 8 * KIB, 60);
  int64_t cut;
  assert_int_equal(yk_p2p_route_of_rows(&o, 1, 1000 * 2), YK_P2P_ONE_SHOT);
  assert_int_equal(yk_p2p_route_of_rows(&o, 1, 1001 * 2), YK_P2P_NONE);
  assert_int_equal(yk_p2p_route_of_rows(&o, 1, 16 * KIB), YK_P2P_NONE); /* longer than announced */
  assert_int_equal(yk_p2p_route_of_array(&o, 1001 * 2, &cut), YK_P2P_NONE);
  assert_int_equal(yk_p2p_options_for(3, 64, 1001 * 2, 60).max_bytes, 0);
  assert_int_equal(yk_p2p_options_for(3, 64, 32 * KIB + PACKET, 60).max_bytes, 0);
  assert_int_equal(yk_p2p_options_for(1, 64, 8 * KIB, 60).max_bytes, 0);
  yk_p2p_options none = yk_p2p_options_for(3, 64, 1001 * 2, 60);
  assert_int_equal(yk_p2p_layout_of(&none, 3).n_bytes, 0);
  assert_int_equal(yk_p2p_route_of_rows(&none, 1, 16), YK_P2P_NONE);
}

static void every_message_fits_its_slots(void **state)
{
  (void)state;
  const int64_t rows_of_model[] = {1, 2, 64, 500, 2048, 1 << 20};
  for (int n_ranks = 2; each_case(n_ranks, n_ranks <= 8); n_ranks++)
    for (int64_t row = PACKET; row <= YK_P2P_MAX_ROW_BYTES;
         row = row < 256 ? row + PACKET : row * 3 / PACKET / 2 * PACKET)
      for (int i = 0; i < 6; i++) {
        yk_p2p_options o = yk_p2p_options_for(n_ranks, rows_of_model[i], row, 60);
        yk_p2p_layout layout = yk_p2p_layout_of(&o, n_ranks);
        assert_true(layout.n_bytes > 0 && layout.n_bytes < 600 * MIB);
        for (int64_t n = 1; n <= o.max_bytes / row; n += n < 600 ? 1 : n / 7)
          expect_fits(&layout, n, row, n_ranks, yk_p2p_route_of_rows(&o, n, row));
        for (int64_t n_bytes = PACKET; n_bytes <= o.max_bytes;
             n_bytes += n_bytes < 4096 ? PACKET : n_bytes / 50 / PACKET * PACKET) {
          int64_t cut;
          yk_p2p_route route = yk_p2p_route_of_array(&o, n_bytes, &cut);
          assert_int_not_equal(route, YK_P2P_NONE);
          expect_fits(&layout, (n_bytes + cut - 1) / cut, cut, n_ranks, route);
        }
      }
}

static void a_rank_is_waited_for_less_long_than_a_step_may_take(void **state)
{
  (void)state;
  assert_int_equal(yk_p2p_options_for(2, 1, 16, 0).timeout_ms, 0);
  assert_int_equal(yk_p2p_options_for(2, 1, 16, 60).timeout_ms, 45000);
  assert_int_equal(yk_p2p_options_for(2, 1, 16, 1e-6).timeout_ms, 1); /* 0 would mean no limit */
  assert_true(yk_p2p_options_for(2, 1, 16, 1e9).timeout_ms > 0);
}

static void more_than_two_ranks_add_in_a_tree_through_slots(void **state)
{
  (void)state;
  for (int n_ranks = 1; each_case(n_ranks, n_ranks <= 8); n_ranks *= 2) {
    yk_err err = YK_ERR_INIT;
    assert_int_equal(yk_p2p_tree_check(n_ranks, true, &err), YK_OK);
    assert_int_equal(yk_p2p_tree_check(n_ranks, false, &err), n_ranks <= 2 ? YK_OK : YK_E_UNSUPPORTED);
    assert_true(n_ranks <= 2 || strstr(err.message, "access to each other's memory"));
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_route_follows_the_size),
                                     cmocka_unit_test(short_rows_cross_sooner_on_two_ranks),
                                     cmocka_unit_test(more_rows_take_a_few_launches_of_equal_size),
                                     cmocka_unit_test(rows_that_packets_do_not_fill_go_elsewhere),
                                     cmocka_unit_test(every_message_fits_its_slots),
                                     cmocka_unit_test(a_rank_is_waited_for_less_long_than_a_step_may_take),
                                     cmocka_unit_test(more_than_two_ranks_add_in_a_tree_through_slots)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
