/* Weights are streamed in pieces, unchanged; floats become float16 if they are exactly representable. */
#include "unit/loader_fixture.h"

#include "convert/stream.h"
#include "each_case.h"

static yk_status put_to_buffer(void *buffer, const void *bytes, size_t n_bytes, yk_err *err)
{
  yk_strbuf_append(buffer, bytes, n_bytes);
  return ((yk_strbuf *)buffer)->failed ? yk_err_set(err, YK_E_NOMEM, "no memory") : YK_OK;
}

/* Weights of several pieces: of whole groups, and of one group that is longer than a piece. */
static void large_weights_go_in_pieces(void **state)
{
  (void)state;
  static const struct {
    int64_t k, n, group;
    int32_t out_group;
  } cases[] = {{1536, 16384, 128, 128}, {1024, 24576, 256, 64}, {1540, 16384, 1540, -1}};
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    int64_t k = cases[i].k, n = cases[i].n, n_groups = k / cases[i].group;
    size_t word_bytes = (size_t)(k * n / 2), zero_bytes = (size_t)(n_groups * n / 2);
    size_t scale_bytes = (size_t)(n_groups * n * 2);
    char *words = malloc(word_bytes), *zeros = malloc(zero_bytes), *scales = malloc(scale_bytes);
    assert_true(words && zeros && scales);
    for (size_t j = 0; j < word_bytes; j++) words[j] = (char)((uint32_t)j * 2654435761u >> 11);
    for (size_t j = 0; j < zero_bytes; j++) zeros[j] = (char)((uint32_t)j * 2654435761u >> 15);
    for (size_t j = 0; j < scale_bytes / 2; j++)
      ((uint16_t *)(void *)scales)[j] = (uint16_t)(0x2000 + ((uint32_t)j * 2654435761u >> 20));
    const yk_weight_view weight = {.format = YK_WEIGHT_AWQ,
                                   .k = k,
                                   .n = n,
                                   .group = cases[i].group,
                                   .dtype = YK_F16,
                                   .packing = YK_PACKING_AWQ_GEMM,
                                   .qweight = words,
                                   .qzeros = zeros,
                                   .scales = scales};
    yk_strbuf out = YK_STRBUF_INIT;
    yk_convert_stream stream = {.put = put_to_buffer, .file = &out};
    yk_err err = YK_ERR_INIT;
    expect_ok("put", yk_convert_put_int4(&stream, &weight, cases[i].out_group, NULL, &err), &err);
    size_t repeats = cases[i].out_group == -1 ? 1 : (size_t)(cases[i].group / cases[i].out_group);
    assert_int_equal(out.length, word_bytes + repeats * (zero_bytes + scale_bytes));
    assert_int_equal(out.length, stream.done_bytes);
    assert_memory_equal(out.data, words, word_bytes);
    for (size_t row = 0; row < (size_t)n_groups * repeats; row++) {
      const char *found = out.data + word_bytes + row * (size_t)n / 2;
      assert_memory_equal(found, zeros + row / repeats * (size_t)n / 2, (size_t)n / 2);
      found = out.data + word_bytes + repeats * zero_bytes + row * (size_t)n * 2;
      assert_memory_equal(found, scales + row / repeats * (size_t)n * 2, (size_t)n * 2);
    }
    yk_strbuf_free(&out);
    free(words);
    free(zeros);
    free(scales);
  }
}

static void scales_become_float16_where_they_are_exact(void **state)
{
  (void)state;
  enum { K = 32, N = 8, GROUP = 16 };
  char words[K * N / 2] = {0}, zeros[2 * N / 2] = {0};
  uint16_t scales[2 * N];
  for (int i = 0; i < 2 * N; i++) scales[i] = yk_f32_to_bf16((float)(i + 1) * 0x1p-8f);
  const yk_weight_view weight = {.format = YK_WEIGHT_AWQ,
                                 .k = K,
                                 .n = N,
                                 .group = GROUP,
                                 .dtype = YK_BF16,
                                 .packing = YK_PACKING_AWQ_GEMM,
                                 .qweight = words,
                                 .qzeros = zeros,
                                 .scales = scales};
  yk_strbuf out = YK_STRBUF_INIT;
  yk_convert_stream stream = {.put = put_to_buffer, .file = &out};
  yk_err err = YK_ERR_INIT;
  expect_ok("exact", yk_convert_put_int4(&stream, &weight, GROUP, "a.scales", &err), &err);
  for (int i = 0; i < 2 * N; i++) {
    uint16_t half;
    memcpy(&half, out.data + sizeof words + sizeof zeros + 2 * (size_t)i, 2);
    assert_true(yk_f16_to_f32(half) == (float)(i + 1) * 0x1p-8f);
  }
  scales[N + 3] = 0x4780; /* 65536 */
  expect_error("too large", YK_E_UNSUPPORTED, "a.scales: element 11, 65536, is not exact in float16",
               yk_convert_put_int4(&stream, &weight, GROUP, "a.scales", &err), &err);
  expect_ok("as they are", yk_convert_put_int4(&stream, &weight, GROUP, NULL, &err), &err);
  yk_strbuf_free(&out);
}

static void floats_become_float16_where_they_are_exact(void **state)
{
  (void)state;
  enum { N = 9000 };
  static float values[N];
  for (int i = 0; i < N; i++) values[i] = yk_f16_to_f32((uint16_t)(i * 3));
  yk_strbuf out = YK_STRBUF_INIT;
  yk_convert_stream stream = {.put = put_to_buffer, .file = &out};
  yk_err err = YK_ERR_INIT;
  expect_ok("exact", yk_convert_put_f16(&stream, "x", YK_F32, values, N, &err), &err);
  assert_int_equal(out.length, 2 * N);
  for (int i = 0; i < N; i++) assert_int_equal(((uint16_t *)(void *)out.data)[i], (uint16_t)(i * 3));
  values[8000] = 1.0f + 0x1p-11f;
  expect_error("too many digits", YK_E_UNSUPPORTED, "x: element 8000, 1.00048828, is not exact in float16",
               yk_convert_put_f16(&stream, "x", YK_F32, values, N, &err), &err);
  static const uint16_t large[] = {0x3F80, 0x4780}; /* bfloat16: 1, 65536 */
  expect_error("too large", YK_E_UNSUPPORTED, "x: element 1, 65536, is not exact",
               yk_convert_put_f16(&stream, "x", YK_BF16, large, 2, &err), &err);
  yk_strbuf_free(&out);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(large_weights_go_in_pieces),
      cmocka_unit_test(scales_become_float16_where_they_are_exact),
      cmocka_unit_test(floats_become_float16_where_they_are_exact),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
