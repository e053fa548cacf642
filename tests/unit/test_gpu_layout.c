/* What linear layers take on a GPU, worked out without one: bytes as the packed layout says, parts fused where they can
 * be.                                                                                                                */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "kernels/cuda/cuda_layout.h"

enum {
  UNIT = 16 * 128 / 2,
  GROUP = 16 * 4
}; /* bytes of the nibbles of 16 columns by 128 inputs, and of a group's scales */

static yk_linear_part part_of(yk_weight_format format, int64_t k, int64_t n, int64_t group)
{
  return (yk_linear_part){.weight = {.format = format, .k = k, .n = n, .group = group, .dtype = YK_F16},
                          .k = {0, k},
                          .n = {0, n},
                          .group_local = group};
}

static void packed_bytes(void **state)
{
  (void)state;
  const struct {
    int64_t k, n, group, n_units, n_groups;
  } cases[] = {
      {8192, 1024, 128, 64 * 64, 1},    /* a group of scales a unit */
      {8192, 1024, 64, 64 * 64, 2},     /* two */
      {8192, 1024, 32, 64 * 64, 4},     /* four */
      {8192, 1024, 8192, 64 * 64, 1},   /* one group over all inputs, repeated in each unit */
      {3584, 1024, 512, 28 * 64, 1},    /* so are long ones */
      {160, 8, 32, 2, 4},               /* both sides are filled up to whole units */
      {28672, 8192, 128, 224 * 512, 1}, /* more than 2^26 weights */
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    yk_linear_spec spec = {.parts = {part_of(YK_WEIGHT_AWQ, cases[i].k, cases[i].n, cases[i].group)}, .n_parts = 1};
    int64_t expected = cases[i].n_units * (UNIT + cases[i].n_groups * GROUP);
    assert_int_equal(yk_cuda_linear_bytes(&spec), (expected + 255) / 256 * 256);
  }
}

static void parts_of_one_kind_are_one_product(void **state)
{
  (void)state;
  yk_cuda_product products[YK_MAX_LINEAR_PARTS];
  int n_products;
  yk_linear_spec spec = {.parts = {part_of(YK_WEIGHT_AWQ, 256, 128, 128), part_of(YK_WEIGHT_AWQ, 256, 64, 128),
                                   part_of(YK_WEIGHT_PLAIN, 256, 64, 0)},
                         .n_parts = 3};
  spec.parts[1].use_bias = true;
  int64_t n_bytes = yk_cuda_linear_lay_out(&spec, YK_BF16, products, &n_products);
  int64_t packed = 2 * 12 * (UNIT + GROUP), bias = 192 * 4; /* whole 256 bytes each */
  assert_int_equal(n_products, 2);
  assert_true(products[0].is_packed && products[0].has_bias && !products[1].is_packed && !products[1].has_bias);
  assert_int_equal(products[0].n, 192);
  assert_int_equal(products[0].bias, packed);
  assert_int_equal(products[1].first_column, 192);
  assert_int_equal(products[1].weights, packed + bias);
  assert_int_equal(n_bytes, packed + bias + 256 * 64 * 2);
  assert_int_equal(yk_cuda_linear_bytes(&spec), n_bytes);
}

/* What the packed products do not take is kept in 16 bits: results in float32, groups below 32, columns cut inside a
 * word.                                                                                                              */
static void other_slices_stay_plain(void **state)
{
  (void)state;
  yk_linear_spec spec = {.parts = {part_of(YK_WEIGHT_AWQ, 256, 128, 128)}, .n_parts = 1, .f32_output = true};
  assert_int_equal(yk_cuda_linear_bytes(&spec), 256 * 128 * 2);
  spec.f32_output = false;
  assert_int_equal(yk_cuda_linear_bytes(&spec), 2 * 8 * (UNIT + GROUP));
  spec.parts[0].n.end = 124;
  assert_int_equal(yk_cuda_linear_bytes(&spec), 256 * 124 * 2);
  spec.parts[0].n.end = 128;
  spec.parts[0].k = (yk_range){16, 112};
  spec.parts[0].group_local = 16;
  assert_int_equal(yk_cuda_linear_bytes(&spec), 96 * 128 * 2);
  spec.parts[0].n.end = 0; /* a rank that owns nothing */
  assert_int_equal(yk_cuda_linear_bytes(&spec), 0);
}

static void a_tied_lm_head_takes_nothing(void **state)
{
  (void)state;
  yk_linear_spec spec = {.parts = {part_of(YK_WEIGHT_PLAIN, 256, 512, 0)}, .n_parts = 1, .f32_output = true};
  assert_int_equal(yk_cuda_linear_bytes(&spec), 256 * 512 * 2);
  spec.parts[0].is_resident = true;
  assert_int_equal(yk_cuda_linear_bytes(&spec), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(packed_bytes),
      cmocka_unit_test(parts_of_one_kind_are_one_product),
      cmocka_unit_test(other_slices_stay_plain),
      cmocka_unit_test(a_tied_lm_head_takes_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
