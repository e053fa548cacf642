/* How tests read the AWQ packing, against a packer written from the order in which AutoAWQ stores columns. */
#include "op/awq_values.h"
#include "unit/loader_fixture.h"

#include "kernels/weight.h"

enum { ROWS = 5, COLUMNS = 24 };

/* Nibble i of a word holds column stored_column[i] of its eight. */
static const int stored_column[8] = {0, 2, 4, 6, 1, 3, 5, 7};

static uint8_t value_at(int row, int column)
{
  return (uint8_t)((row * 7 + column * 5 + column / 8) & 0xF);
}

/* One byte after alignment, as in a mapped file. */
static void pack(uint8_t *words)
{
  for (int row = 0; row < ROWS; row++)
    for (int block = 0; block < COLUMNS / 8; block++) {
      uint32_t word = 0;
      for (int i = 0; i < 8; i++) word |= (uint32_t)value_at(row, block * 8 + stored_column[i]) << 4 * i;
      memcpy(words + (row * (COLUMNS / 8) + block) * 4, &word, 4);
    }
}

static void get_reads_every_element(void **state)
{
  (void)state;
  uint8_t buffer[ROWS * COLUMNS / 2 + 1], *words = buffer + 1;
  pack(words);
  for (int row = 0; row < ROWS; row++)
    for (int column = 0; column < COLUMNS; column++)
      assert_int_equal(awq_value(words, COLUMNS, row, column), value_at(row, column));
}

/* A word spelt out by hand: columns 0..7 hold 0..7. */
static void known_word(void **state)
{
  (void)state;
  uint32_t word = 0x75316420;
  for (int column = 0; column < 8; column++) assert_int_equal(awq_value(&word, 8, 0, column), column);
  static const uint8_t nibble[8] = YK_AWQ_NIBBLE_OF_COLUMN;
  for (int i = 0; i < 8; i++) assert_int_equal(nibble[stored_column[i]], i);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(get_reads_every_element),
      cmocka_unit_test(known_word),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
