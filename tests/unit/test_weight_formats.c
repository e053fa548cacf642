/* The loader's tables of formats and packings are complete. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "loader/integers/dequantise.h"
#include "loader/integers/format.h"
#include "loader/integers/packing.h"

static void every_format_has_its_functions(void **state)
{
  (void)state;
  for (yk_weight_format format = 0; format < YK_N_WEIGHT_FORMATS; format++) {
    const yk_loader_format *row = yk_loader_format_of(format);
    const yk_weight_traits *traits = yk_weight_traits_of(format);
    assert_non_null(row);
    assert_true(row->is_ready && row->repacked_bytes && row->repack && row->to_floats);
    assert_true(traits->name && traits->name[0]);
    assert_int_equal(yk_weight_is_quantised(format), format != YK_WEIGHT_PLAIN);
    for (yk_weight_format other = 0; other < format; other++)
      assert_string_not_equal(traits->name, yk_weight_traits_of(other)->name);
  }
}

static void every_packing_names_its_tensors(void **state)
{
  (void)state;
  for (yk_packing packing = 0; packing < YK_N_PACKINGS; packing++) {
    const yk_packing_row *row = yk_packing_row_of(packing);
    assert_non_null(row);
    assert_non_null(row->wishes);
    assert_true(!row->begin == !row->read);
    assert_true(!row->names.weight == !row->names.scales);
    if (row->names.weight && strcmp(row->names.weight, "weight") == 0) assert_non_null(row->marks); /* as of floats */
  }
}

/* Bytes of the tensors, from shapes and types of the table. */
static void bytes_follow_from_shapes(void **state)
{
  (void)state;
  static const struct {
    yk_weight_format format;
    yk_packing packing;
    yk_packing_sizes sizes;
  } cases[] = {{YK_WEIGHT_AWQ, YK_PACKING_AWQ_GEMM, {256 * 64 / 2, 2 * 64 / 2, 2 * 64 * 2}},
               {YK_WEIGHT_AWQ, YK_PACKING_AWQ_GEMV_FAST, {256 * 64 / 2, 8 * 64 * 2, 8 * 64 * 2}},
               {YK_WEIGHT_AWQ, YK_PACKING_GPTQ, {256 * 64 / 2, 2 * 64 / 2, 2 * 64 * 2}},
               {YK_WEIGHT_INT8, YK_PACKING_GPTQ, {256 * 64, 2 * 64, 2 * 64 * 2}},
               {YK_WEIGHT_INT8, YK_PACKING_COMPRESSED, {256 * 64, 2 * 64, 2 * 64 * 2}},
               {YK_WEIGHT_FP8, YK_PACKING_BLOCKS, {256 * 64, 2 * 64 * 2, 2 * 2 * 2}},
               {YK_WEIGHT_INT8, YK_PACKING_ROWS, {256 * 64, 2 * 64 * 2, 2 * 64 * 2}},
               {YK_WEIGHT_AWQ, YK_PACKING_BYTES, {256 * 64, 0, 2 * 64 * 2}},
               {YK_WEIGHT_FP4, YK_PACKING_NVFP4, {256 * 64 / 2, 0, 2 * 64}},
               {YK_WEIGHT_FP8, YK_PACKING_MXFP8, {256 * 64, 0, 2 * 64}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const yk_weight_view view = {.format = cases[i].format,
                                 .packing = cases[i].packing,
                                 .k = 256,
                                 .n = 64,
                                 .group = 128,
                                 .group_n = 32,
                                 .dtype = YK_F16};
    const yk_packing_sizes found = yk_packing_bytes(&view), *expected = &cases[i].sizes;
    if (found.weight != expected->weight || found.zeros != expected->zeros || found.scales != expected->scales)
      fail_msg("packing %d: found %lld, %lld, %lld", (int)cases[i].packing, (long long)found.weight,
               (long long)found.zeros, (long long)found.scales);
  }
}

static void floats_are_read_as_they_are(void **state)
{
  (void)state;
  enum { K = 5, N = 3, STRIDE = 4 };
  char bytes[1 + K * N * 2]; /* files do not align their data */
  float found[2 * STRIDE];
  yk_err err = YK_ERR_INIT;
  for (int i = 0; i < K * N; i++) {
    uint16_t element = yk_f32_to_bf16((float)i);
    memcpy(bytes + 1 + 2 * i, &element, sizeof element);
  }
  const yk_weight_view view = {.format = YK_WEIGHT_PLAIN, .k = K, .n = N, .dtype = YK_BF16, .plain = bytes + 1};
  const yk_weight_slice slice = {1, 4, 1, 3};
  assert_int_equal(yk_dequantise(&view, &slice, found, STRIDE, &err), YK_OK);
  for (int n = 0; n < 2; n++)
    for (int k = 0; k < 3; k++) assert_float_equal(found[n * STRIDE + k], (n + 1) * K + k + 1, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_format_has_its_functions), cmocka_unit_test(every_packing_names_its_tensors),
      cmocka_unit_test(bytes_follow_from_shapes), cmocka_unit_test(floats_are_read_as_they_are)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
