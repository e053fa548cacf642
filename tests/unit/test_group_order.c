/* Act order: every input of a share has one position, among inputs of its group, in the fewest bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/checked.h"
#include "each_case.h"
#include "loader/integers/group_order.h"

enum { K = 512, MAX_PLACES = 4 * K, MAX_GROUPS = K / 16 };

static uint32_t state = 1;

static int32_t below(int32_t n)
{
  state = state * 1664525u + 1013904223u;
  return (int32_t)((state >> 8) % (uint32_t)n);
}

typedef enum drawing { SHUFFLED, OF_ANY_SIZE, ALL_IN_ONE, N_DRAWINGS } drawing;

/* One byte after alignment, as in files. */
typedef struct g_index {
  char bytes[1 + 4 * K];
  int32_t groups[K];
} g_index;

static void draw(drawing how, int64_t k, int32_t group, g_index *g)
{
  for (int32_t i = 0; i < k; i++)
    g->groups[i] = how == SHUFFLED ? i / group : how == ALL_IN_ONE ? 1 : below((int32_t)k / group / 2) * 2;
  for (int32_t i = (int32_t)k - 1; i > 0; i--) {
    int32_t other = below(i + 1), swap = g->groups[i];
    g->groups[i] = g->groups[other], g->groups[other] = swap;
  }
  memcpy(g->bytes + 1, g->groups, sizeof g->groups);
}

static yk_weight_view view_of(const g_index *g, int64_t k, int64_t group)
{
  return (yk_weight_view){.k = k, .group = group, .act_order = true, .g_idx = g->bytes + 1};
}

/* The share's inputs, sorted by group, ascending within a group; their number. */
static int64_t sorted_share(const g_index *g, int64_t k, const yk_group_share *share, int32_t *sorted)
{
  int64_t place = 0, n = 0;
  for (int32_t group = 0; group < MAX_GROUPS; group++)
    for (int32_t input = 0; input < k; input++) {
      if (g->groups[input] != group) continue;
      int64_t at = share->of_sorted ? place : input;
      if (at >= share->begin && at < share->end) sorted[n++] = input;
      place++;
    }
  return n;
}

static int64_t bits_of(int64_t n, int64_t group, int element_bits)
{
  return n * element_bits + n / group * 40;
}

static void check_share(const g_index *g, int64_t k, int64_t group, const yk_group_share *share, int element_bits)
{
  yk_weight_view weight = view_of(g, k, group);
  weight.format = element_bits == 4 ? YK_WEIGHT_AWQ : YK_WEIGHT_INT8;
  int32_t sorted[K], inputs[MAX_PLACES + 1], groups[MAX_GROUPS * 4 + 1];
  yk_group_places places;
  yk_err err = YK_ERR_INIT;
  int64_t n = sorted_share(g, k, share, sorted), next = 0;
  assert_int_equal(n, share->end - share->begin);
  assert_int_equal(yk_group_order_measure(&weight, share, &places, &err), YK_OK);
  assert_true(places.group >= 16 && group % places.group == 0 && places.n % places.group == 0);
  assert_true(places.n <= MAX_PLACES);
  inputs[places.n] = groups[places.n / places.group] = -7;
  assert_int_equal(yk_group_order_fill(&weight, share, &places, inputs, groups, &err), YK_OK);
  assert_true(inputs[places.n] == -7 && groups[places.n / places.group] == -7);
  for (int64_t place = 0; place < places.n; place++) {
    if (inputs[place] < 0) continue;
    assert_int_equal(inputs[place], sorted[next++]);
    assert_int_equal(groups[place / places.group], g->groups[inputs[place]]);
  }
  assert_int_equal(next, n);
  for (int64_t local = 16; local <= group; local *= 2) { /* no other local group takes less */
    int64_t padded = 0;
    for (int64_t i = 0, end; i < n; i = end) {
      for (end = i; end < n && g->groups[sorted[end]] == g->groups[sorted[i]];) end++;
      padded += yk_round_up_i64(end - i, local);
    }
    assert_true(bits_of(places.n, places.group, element_bits) <= bits_of(padded, local, element_bits));
    if (local == places.group) assert_int_equal(places.n, padded);
  }
  const yk_group_places unpadded = {.n = n, .group = 1};
  assert_int_equal(yk_group_order_fill(&weight, share, &unpadded, inputs, NULL, &err), YK_OK);
  assert_memory_equal(inputs, sorted, (size_t)n * sizeof *sorted);
}

static void shares_are_sorted(void **unused)
{
  (void)unused;
  static const int64_t cuts[] = {0, 8, 20, 96, 100, 128, 256, 300, K};
  static g_index g;
  for (drawing how = 0; how < N_DRAWINGS; how++)
    for (int32_t group = 16; group <= 128; group *= 2) {
      draw(how, K, group, &g);
      for (size_t i = 0; each_case(i, i < sizeof cuts / sizeof *cuts); i++)
        for (size_t j = i; each_case(j, j < sizeof cuts / sizeof *cuts); j++)
          for (int of_sorted = 0; of_sorted < 2; of_sorted++) {
            const yk_group_share share = {cuts[i], cuts[j], of_sorted};
            check_share(&g, K, group, &share, j % 2 ? 4 : 8);
          }
    }
}

/* All inputs, and whole groups of the sorted ones, need no padding if groups have their nominal size. */
static void whole_groups_are_kept(void **unused)
{
  (void)unused;
  static g_index g;
  draw(SHUFFLED, K, 64, &g);
  const yk_weight_view weight = view_of(&g, K, 64);
  const yk_group_share shares[] = {{0, K, false}, {0, K, true}, {64, 192, true}, {448, K, true}};
  for (size_t i = 0; each_case(i, i < sizeof shares / sizeof *shares); i++) {
    yk_group_places places;
    yk_err err = YK_ERR_INIT;
    assert_int_equal(yk_group_order_measure(&weight, &shares[i], &places, &err), YK_OK);
    assert_int_equal(places.n, shares[i].end - shares[i].begin);
    assert_int_equal(places.group, 64);
  }
}

/* Sizes only: the same number of inputs in each group. */
static void without_data_shares_are_even(void **unused)
{
  (void)unused;
  const yk_weight_view weight = {.format = YK_WEIGHT_AWQ, .k = K, .group = 64, .act_order = true};
  const struct {
    yk_group_share share;
    yk_group_places places;
  } cases[] = {{{0, K, false}, {.n = K, .group = 64}},
               {{0, K / 2, false}, {.n = K / 2, .group = 32}},
               {{64, 192, true}, {.n = 128, .group = 64}},
               {{0, 72, false}, {.n = 8 * 16, .group = 16}},
               {{0, 260, false}, {.n = 384, .group = 32}}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_group_places places;
    yk_err err = YK_ERR_INIT;
    assert_int_equal(yk_group_order_measure(&weight, &cases[i].share, &places, &err), YK_OK);
    assert_int_equal(places.n, cases[i].places.n);
    assert_int_equal(places.group, cases[i].places.group);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(shares_are_sorted), cmocka_unit_test(whole_groups_are_kept),
                                     cmocka_unit_test(without_data_shares_are_even)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
