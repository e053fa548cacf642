/* test_op_cpu_kv.c - an 8-bit KV cache on the CPU device, every instruction set. */
#include "op/op_cases_kv.h"
#include "op/op_cpu_target.h"

/* Decode, chunks, windows, ranges of heads that begin inside a KV group, many query heads per KV head. */
static void check_table(const op_target *target)
{
  static const int scenes[] = {2, 3, 4, 6, 7};
  for (int i = 0; i < 5; i++)
    check_code_cases(target, op_dtypes[i % 3], &scene_shapes[scenes[i]], 40 + (uint32_t)i,
                     attention_tolerance(target, op_dtypes[i % 3]));
}

static void test_table(void **state)
{
  (void)state;
  for_each_cpu_target(check_table);
}

static void check_unsound(const op_target *target)
{
  for (int d = 0; d < 3; d++)
    for (yk_kv_format format = YK_KV_INT8; format <= YK_KV_FP8; format++)
      for (int is_static = 0; is_static < 2; is_static++) check_unsound_token(target, op_dtypes[d], format, is_static);
}

static void test_unsound_tokens(void **state)
{
  (void)state;
  for_each_cpu_target(check_unsound);
}

static void check_faults(const op_target *target)
{
  check_code_faults(target, YK_F32, attention_tolerance(target, YK_F32));
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  for_each_cpu_target(check_faults);
}

/* All instruction sets and any number of threads write and return the same bits, except for attention's own rounding:
 * pages are equal, and rows equal those of a separate chunk. */
static void test_rows_do_not_depend_on_their_batch(void **state)
{
  (void)state;
  for (yk_kv_format format = YK_KV_INT8; format <= YK_KV_FP8; format++)
    for (int is_static = 0; is_static < 2; is_static++) {
      op_target target = {.name = "best", .create = cpu_target_create, .variant = yk_cpu_simd_best()};
      op_target portable = {.name = "portable", .create = cpu_target_create, .variant = yk_cpu_simd_find("portable")};
      yk_device *one = op_device_new(&target, YK_BF16, 1, 16), *three = op_device_new(&target, YK_BF16, 3, 16);
      yk_device *plain = op_device_new(&portable, YK_BF16, 1, 16);
      yk_device *const devs[] = {one, three, plain};
      scene s[3];
      code_cache c[3];
      op_array y[3];
      for (int i = 0; i < 3; i++) {
        s[i] = scene_new(devs[i], &scene_shapes[3], 5);
        c[i] = code_cache_new(devs[i], &s[i], format, is_static, 5);
        run_rope(devs[i], &s[i]);
        y[i] = run_attention(devs[i], &s[i]);
        for (int side = 0; side < 2; side++) assert_memory_equal(c[i].dev[side], c[0].dev[side], c[0].n_bytes);
      }
      assert_memory_equal(y[0].bytes, y[1].bytes, y[0].n * 2);
      int32_t row = s[0].row_starts[2] + 3, seq = 2, starts[2] = {0, 1}, kv_tokens = s[0].positions[row] + 1;
      yk_batch whole = s[0].batch;
      s[0].batch = (yk_batch){.n_tokens = 1,
                              .n_seqs = 1,
                              .max_rows_per_seq = 1,
                              .block_table_stride = whole.block_table_stride,
                              .positions = whole.positions + row,
                              .row_starts = starts,
                              .kv_tokens = &kv_tokens,
                              .block_tables = whole.block_tables + seq * s[0].stride};
      size_t row_bytes = y[0].n / (size_t)s[0].n_tokens * 2;
      void *qkv = s[0].qkv.dev;
      s[0].qkv.dev = (char *)qkv + (size_t)row * (s[0].qkv.n / (size_t)s[0].n_tokens) * 2;
      op_array alone = run_attention(one, &s[0]);
      assert_memory_equal(alone.bytes, (char *)y[0].bytes + (size_t)row * row_bytes, row_bytes);
      s[0].qkv.dev = qkv;
      s[0].batch = whole;
      op_array_free(one, &alone);
      for (int i = 0; i < 3; i++) {
        op_array_free(devs[i], &y[i]);
        code_cache_free(devs[i], &c[i]);
        scene_free(devs[i], &s[i]);
        devs[i]->ops->destroy(devs[i]);
      }
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_unsound_tokens),
      cmocka_unit_test(test_planted_faults_are_seen),
      cmocka_unit_test(test_rows_do_not_depend_on_their_batch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
