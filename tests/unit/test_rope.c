/* Rotary tables against transformers' own, and properties that no golden covers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "golden/rope_goldens.h"
#include "model/rope.h"

enum { N_GOLDENS = sizeof rope_goldens / sizeof *rope_goldens };
enum { N_TABLE_POSITIONS = 100001 }; /* the last golden position is 100000 */
enum { N_POSITIONS = sizeof rope_golden_positions / sizeof *rope_golden_positions };

static const double ulp = 0x1p-23; /* relative spacing of float32 */

static void frequencies_match(void **state)
{
  (void)state;
  for (size_t i = 0; i < N_GOLDENS; i++) {
    const rope_golden *golden = &rope_goldens[i];
    float inv_freq[YK_MAX_HEAD_DIM / 2];
    float scaling = yk_rope_frequencies(&golden->rope, golden->head_dim, N_TABLE_POSITIONS, inv_freq);
    if (fabs(scaling - golden->attention_scaling) > ulp * golden->attention_scaling)
      fail_msg("%s: scaling %.9g, expected %.9g", golden->name, (double)scaling, golden->attention_scaling);
    for (int pair = 0; pair < golden->head_dim / 2; pair++)
      if (fabs((double)inv_freq[pair] - golden->inv_freq[pair]) > 4 * ulp * golden->inv_freq[pair])
        fail_msg("%s: inv_freq[%d] %.9g, expected %.9g", golden->name, pair, (double)inv_freq[pair],
                 (double)golden->inv_freq[pair]);
  }
}

/* Most frequencies must be exactly equal: a wrong order of roundings would leave many nearly equal. */
static void most_frequencies_are_bit_equal(void **state)
{
  (void)state;
  int n = 0, equal = 0;
  for (size_t i = 0; i < N_GOLDENS; i++) {
    float inv_freq[YK_MAX_HEAD_DIM / 2];
    yk_rope_frequencies(&rope_goldens[i].rope, rope_goldens[i].head_dim, N_TABLE_POSITIONS, inv_freq);
    for (int pair = 0; pair < rope_goldens[i].head_dim / 2; pair++, n++)
      equal += inv_freq[pair] == rope_goldens[i].inv_freq[pair];
  }
  print_message("%d of %d frequencies are bit-equal\n", equal, n);
  assert_true(equal * 20 >= n * 19);
}

static void tables_match(void **state)
{
  (void)state;
  for (size_t i = 0; i < N_GOLDENS; i++) {
    const rope_golden *golden = &rope_goldens[i];
    int half = golden->head_dim / 2;
    float *table = malloc(yk_rope_table_floats(N_TABLE_POSITIONS, golden->head_dim) * sizeof *table);
    assert_non_null(table);
    yk_rope_table_fill(&golden->rope, golden->head_dim, golden->head_dim, N_TABLE_POSITIONS, table);
    for (int p = 0; p < N_POSITIONS; p++) {
      int position = rope_golden_positions[p];
      const float *row = table + (size_t)position * (size_t)golden->head_dim, *expected = golden->table + p * 2 * half;
      for (int j = 0; j < 2 * half; j++) {
        /* The last bit of a frequency, visible in the angle. */
        double tolerance = 4 * ulp + 2 * ulp * position * golden->inv_freq[j % half];
        if (!(fabs((double)row[j] - expected[j]) <= tolerance * golden->attention_scaling))
          fail_msg("%s: position %d %s[%d]: %.9g, expected %.9g", golden->name, position, j < half ? "cos" : "sin",
                   j % half, (double)row[j], (double)expected[j]);
      }
    }
    free(table);
  }
}

static void position_zero_is_the_identity(void **state)
{
  (void)state;
  yk_rope_config rope = {.type = YK_ROPE_DEFAULT, .theta = 10000, .factor = 1};
  float table[8];
  yk_rope_table_fill(&rope, 8, 8, 1, table);
  for (int i = 0; i < 4; i++) {
    assert_true(table[i] == 1);
    assert_true(table[4 + i] == 0);
  }
}

/* A head of 8 whose first 4 elements rotate: the picture in rope.h. Frequencies are those of a head of 4. */
static void a_part_of_a_head_rotates(void **state)
{
  (void)state;
  static const int32_t neighbours[8] = {0, 2, 4, 5, 1, 3, 6, 7}, halves[8] = {0, 1, 4, 5, 2, 3, 6, 7};
  yk_rope_config rope = {.type = YK_ROPE_DEFAULT, .theta = 10000, .factor = 1};
  float part[3 * 8], whole[3 * 4];
  for (int place = 0; place < 8; place++) {
    assert_int_equal(yk_rotary_element(8, 4, true, place), neighbours[place]);
    assert_int_equal(yk_rotary_element(8, 4, false, place), halves[place]);
    assert_int_equal(yk_rotary_element(8, 8, false, place), place);
  }
  yk_rope_table_fill(&rope, 8, 4, 3, part);
  yk_rope_table_fill(&rope, 4, 4, 3, whole);
  for (int position = 0; position < 3; position++)
    for (int i = 0; i < 4; i++) {
      assert_true(part[8 * position + i] == (i < 2 ? whole[4 * position + i] : 1));
      assert_true(part[8 * position + 4 + i] == (i < 2 ? whole[4 * position + 2 + i] : 0));
    }
}

/* Every element of a head has one position, for any number of rotated elements. */
static void places_are_a_permutation(void **state)
{
  (void)state;
  for (int head_dim = 2; head_dim <= 40; head_dim += 2)
    for (int rotary_dim = 2; rotary_dim <= head_dim; rotary_dim += 2)
      for (int interleaved = 0; interleaved < 2; interleaved++) {
        uint64_t seen = 0;
        for (int place = 0; place < head_dim; place++)
          seen |= UINT64_C(1) << yk_rotary_element(head_dim, rotary_dim, interleaved, place);
        assert_true(seen == (UINT64_C(1) << head_dim) - 1);
      }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(frequencies_match),
      cmocka_unit_test(most_frequencies_are_bit_equal),
      cmocka_unit_test(tables_match),
      cmocka_unit_test(position_zero_is_the_identity),
      cmocka_unit_test(a_part_of_a_head_rotates),
      cmocka_unit_test(places_are_a_permutation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
