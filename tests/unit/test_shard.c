/* Shards reassemble to the whole: every element once, in rank order, for every rank count and many odd sizes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "each_case.h"
#include "parallel/shard.h"

static void ranges_cover_everything_once(void **state)
{
  (void)state;
  for (int n_ranks = 1; each_case(n_ranks, n_ranks <= 8); n_ranks++)
    for (int64_t n = 1; n <= 300; n++)
      for (int64_t unit = 1; unit <= 64; unit *= 4) {
        int64_t end = 0, largest = 0, smallest = n;
        for (int rank = 0; rank < n_ranks; rank++) {
          yk_range r = yk_shard_range(n, unit, rank, n_ranks);
          assert_int_equal(r.begin, end);
          assert_true(r.end >= r.begin);
          if (r.end < n) assert_int_equal(r.end % unit, 0);
          end = r.end;
          int64_t units = (yk_range_size(r) + unit - 1) / unit;
          if (units > largest) largest = units;
          if (units < smallest) smallest = units;
        }
        assert_int_equal(end, n);
        assert_true(largest - smallest <= 1);
        assert_int_equal(yk_range_size(yk_shard_range(n, unit, 0, n_ranks)) >=
                             yk_range_size(yk_shard_range(n, unit, n_ranks - 1, n_ranks)),
                         1);
      }
}

static void heads_have_every_kv_head_they_read(void **state)
{
  (void)state;
  for (int n_ranks = 1; each_case(n_ranks, n_ranks <= 8); n_ranks++)
    for (int64_t n_kv = 1; n_kv <= 8; n_kv++)
      for (int64_t q_per_kv = 1; q_per_kv <= 8; q_per_kv++) {
        int64_t end = 0;
        for (int rank = 0; rank < n_ranks; rank++) {
          yk_shard_heads h = yk_shard_heads_of(n_kv * q_per_kv, n_kv, rank, n_ranks);
          assert_int_equal(h.q.begin, end);
          end = h.q.end;
          if (yk_range_size(h.q) == 0) {
            assert_int_equal(yk_range_size(h.kv), 0);
            continue;
          }
          assert_int_equal(h.kv.begin, h.q.begin / q_per_kv);
          assert_int_equal(h.kv.end, (h.q.end - 1) / q_per_kv + 1);
        }
        assert_int_equal(end, n_kv * q_per_kv);
      }
}

static void ffn_is_cut_at_groups_while_there_are_enough(void **state)
{
  (void)state;
  static const int64_t groups[] = {0, 16, 24, 32, 64, 128};
  for (int n_ranks = 1; each_case(n_ranks, n_ranks <= 8); n_ranks++)
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++)
      for (int64_t ffn = 8; ffn <= 2048; ffn += 8) {
        int64_t end = 0;
        int idle = 0;
        for (int rank = 0; rank < n_ranks; rank++) {
          yk_range r = yk_shard_ffn_of(ffn, groups[g], rank, n_ranks);
          assert_int_equal(r.begin, end);
          end = r.end;
          idle += yk_range_size(r) == 0;
          if (groups[g] && (ffn + groups[g] - 1) / groups[g] >= n_ranks)
            assert_int_equal(r.begin % groups[g] % (r.begin < ffn ? groups[g] : 1), 0);
        }
        assert_int_equal(end, ffn);
        if (ffn >= 8 * n_ranks) assert_int_equal(idle, 0); /* no rank is idle while there is a grain for each */
      }
}

/* Nemotron-3-Super's experts have 168 groups of 16 channels: 21 of them are no multiple of 32. */
static void ffn_is_cut_at_whole_inputs_of_gpus(void **state)
{
  (void)state;
  for (int rank = 0; each_case(rank, rank < 8); rank++)
    assert_int_equal(yk_range_size(yk_shard_ffn_of(2688, 16, rank, 8)), rank < 4 ? 352 : 320);
  assert_int_equal(yk_range_size(yk_shard_ffn_of(96, 16, 0, 6)), 16); /* too few: every rank gets a group */
  assert_int_equal(yk_range_size(yk_shard_ffn_of(96, 24, 1, 3)), 24);
  assert_int_equal(yk_range_size(yk_shard_ffn_of(192, 24, 1, 2)), 96);
}

/* Local group j of a regrouped shard must be within one source group, which makes it exact. */
static void local_groups_never_cross_a_source_group(void **state)
{
  (void)state;
  static const int64_t groups[] = {32, 64, 128, 96, 4096};
  for (size_t g = 0; g < 5; g++)
    for (int64_t begin = 0; begin < 400; begin += 4)
      for (int64_t size = 4; size < 400; size += 12) {
        yk_range k = {begin, begin + size};
        int64_t local = yk_shard_group(k, groups[g]);
        assert_true(local >= 1);
        for (int64_t row = 0; row < size; row++) {
          int64_t first_of_group = begin + row / local * local;
          assert_int_equal(first_of_group / groups[g], (begin + row) / groups[g]);
        }
      }
}

static void regrouping_takes_the_coarsest_grain(void **state)
{
  (void)state;
  assert_int_equal(yk_shard_group((yk_range){0, 256}, 128), 128);
  assert_int_equal(yk_shard_group((yk_range){128, 300}, 128), 128);
  assert_int_equal(yk_shard_group((yk_range){64, 300}, 128), 64);
  assert_int_equal(yk_shard_group((yk_range){96, 300}, 128), 32);
  assert_int_equal(yk_shard_group((yk_range){16, 96}, 128), 80); /* all within one group */
  assert_int_equal(yk_shard_group((yk_range){60, 300}, 128), 4);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(ranges_cover_everything_once),
                                     cmocka_unit_test(heads_have_every_kv_head_they_read),
                                     cmocka_unit_test(ffn_is_cut_at_groups_while_there_are_enough),
                                     cmocka_unit_test(ffn_is_cut_at_whole_inputs_of_gpus),
                                     cmocka_unit_test(local_groups_never_cross_a_source_group),
                                     cmocka_unit_test(regrouping_takes_the_coarsest_grain)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
