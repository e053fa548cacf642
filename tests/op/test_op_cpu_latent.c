/* test_op_cpu_latent.c - latent attention on the CPU device, every instruction set. */
#include "op/op_cases_latent.h"
#include "op/op_cpu_target.h"

enum { N_DTYPES = TEST_IS_SANITIZED ? 1 : 3 }; /* float16 is the first */

static void check_table(const op_target *target)
{
  check_latent_table(target, N_DTYPES, true);
}

static void check_faults(const op_target *target)
{
  check_latent_faults(target, YK_F16);
}

static void check_growth(const op_target *target)
{
  check_latent_growth(target, latent_shapes, N_LATENT_SHAPES, true);
}

static void test_growing_scores(void **state)
{
  (void)state;
  for_each_cpu_target(check_growth);
}

static void test_table(void **state)
{
  (void)state;
  for_each_cpu_target(check_table);
}

static void check_new_tokens(const op_target *target)
{
  check_latent_new_tokens(target, N_DTYPES, true);
}

static void test_new_tokens_behind_a_long_call(void **state)
{
  (void)state;
  for_each_cpu_target(check_new_tokens);
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  for_each_cpu_target(check_faults);
}

/* Any number of threads, and a separate row: the same bits. */
static void check_invariance(const op_target *target)
{
  const latent_shape *shape = &latent_shapes[3];
  yk_device *one = op_device_new(target, YK_F32, 1, 16), *three = op_device_new(target, YK_F32, 3, 16);
  latent_scene *l1 = latent_scene_new(one, shape, 8), *l3 = latent_scene_new(three, shape, 8);
  op_array y1 = run_latent_attention(one, l1), y3 = run_latent_attention(three, l3);
  assert_memory_equal(y1.bytes, y3.bytes, y1.n * sizeof(float));
  int32_t row = l1->s.n_tokens - 2, seq = l1->s.seq_of_row[row], starts[2] = {0, 1},
          kv_tokens = l1->s.positions[row] + 1;
  yk_batch whole = l1->s.batch;
  l1->s.batch.n_tokens = l1->s.batch.n_seqs = l1->s.batch.max_rows_per_seq = 1;
  l1->s.batch.positions = whole.positions + row;
  l1->s.batch.kv_slots = whole.kv_slots + row;
  l1->s.batch.block_tables = whole.block_tables + seq * l1->s.stride;
  l1->s.batch.row_starts = starts;
  l1->s.batch.kv_tokens = &kv_tokens;
  op_array_send(one, &l1->rows); /* the earlier call has rotated q */
  void *rows = l1->rows.dev;
  int32_t n_tokens = l1->s.n_tokens;
  l1->rows.dev = (char *)rows + row * l1->stride * (int64_t)sizeof(float);
  l1->s.n_tokens = 1;
  op_array alone = run_latent_attention(one, l1);
  assert_memory_equal(alone.bytes, (char *)y1.bytes + (size_t)row * (y1.n / (size_t)n_tokens) * sizeof(float),
                      alone.n * sizeof(float));
  l1->rows.dev = rows;
  l1->s.n_tokens = n_tokens;
  l1->s.batch = whole;
  op_array_free(one, &y1);
  op_array_free(three, &y3);
  op_array_free(one, &alone);
  latent_scene_free(one, l1);
  latent_scene_free(three, l3);
  one->ops->destroy(one);
  three->ops->destroy(three);
}

static void test_rows_do_not_depend_on_their_batch(void **state)
{
  (void)state;
  for_each_cpu_target(check_invariance);
}

static void test_too_wide_heads_are_refused(void **state)
{
  (void)state;
  const op_target best = {.name = "best", .create = cpu_target_create, .variant = yk_cpu_simd_best()};
  yk_device *dev = op_device_new(&best, YK_F32, 1, 16);
  yk_err err = YK_ERR_INIT;
  yk_latent_attention_args args = {.layout = {1, 8, 16, 1020, 8}};
  assert_int_equal(dev->ops->latent_attention(dev, &args, &err), YK_E_UNSUPPORTED);
  assert_non_null(strstr(err.message, "at most 1024"));
  args.layout = (yk_latent_layout){1, 1030, 16, 100, 8};
  assert_int_equal(dev->ops->latent_attention(dev, &args, &err), YK_E_UNSUPPORTED);
  dev->ops->destroy(dev);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_table),
      cmocka_unit_test(test_growing_scores),
      cmocka_unit_test(test_new_tokens_behind_a_long_call),
      cmocka_unit_test(test_planted_faults_are_seen),
      cmocka_unit_test(test_rows_do_not_depend_on_their_batch),
      cmocka_unit_test(test_too_wide_heads_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
