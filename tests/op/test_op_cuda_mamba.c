/* test_op_cuda_mamba.c - Mamba2 on a GPU, against float64. */
#include "each_case.h"
#include "op/op_cases_mamba.h"
#include "op/op_cuda_target.h"

/* States are float32; y is rounded once. */
static mamba_errors tolerance_of(yk_dtype dtype)
{
  return (mamba_errors){op_unit_roundoff(dtype) + 3e-5, 2e-5, 2e-5};
}

static void test_table(void **state)
{
  (void)state;
  for (int d = 0; d < N_GPU_DTYPES; d++)
    for (int i = 0; each_case((size_t)i, i < N_MAMBA_SHAPES); i++) {
      const mamba_errors tolerance = tolerance_of(gpu_dtypes[d]);
      check_mamba(&cuda_target, gpu_dtypes[d], &mamba_shapes[i], 10 + (uint32_t)i, &tolerance);
    }
}

/* Sequences of many rows take chunks on tensor cores. There x, b, c, the state that is multiplied, the products of c
 * and b, and y before its gate are rounded to the activation type. A term of a state has three roundings, of x, of x
 * times its weight and of b, and the terms of an element add up to several times its size. */
static mamba_errors chunk_tolerance_of(yk_dtype dtype)
{
  const double roundoff = op_unit_roundoff(dtype), of_states = 3.0 * 4.0 * roundoff;
  return (mamba_errors){24.0 * roundoff, of_states, of_states};
}

static const mamba_shape long_shapes[] = {
    {{1, 1, 64, 128}, false, 1, {{64, YK_STATE_ZERO, -1, 0, 0}}}, /* x has odd rows: token by token */
    {{1, 2, 64, 128}, false, 1, {{16, YK_STATE_ZERO, -1, 0, 0}}},
    {{1, 2, 64, 128}, true, 1, {{64, YK_STATE_KEEP, -1, 0, 0}}},
    {{1, 2, 64, 128}, true, 1, {{150, YK_STATE_KEEP, 1, 86, 42}}},
    {{2, 3, 64, 128}, true, 3, {{200, YK_STATE_KEEP, 0, 128, 64}, {1, 2, -1, 0, 0}, {16, YK_STATE_KEEP, -1, 0, 7}}},
    {{2, 8, 64, 128},
     true,
     5,
     {{70, YK_STATE_KEEP, 1, 1, 63},
      {15, YK_STATE_ZERO, -1, 0, 0},
      {33, 0, 2, 32, 96},
      {129, YK_STATE_ZERO, 3, 64, 0},
      {1, YK_STATE_KEEP, -1, 0, 9}}},
    {{4, 8, 64, 128},
     true,
     5,
     {{40, YK_STATE_KEEP, 1, 30, 34},
      {16, YK_STATE_ZERO, -1, 0, 0},
      {65, 0, 2, 64, 0},
      {20, YK_STATE_ZERO, -1, 0, 0},
      {30, YK_STATE_KEEP, -1, 0, 9}}}, /* more thread blocks than multiprocessors */
};
enum { N_LONG_SHAPES = sizeof long_shapes / sizeof *long_shapes };

static void test_chunks(void **state)
{
  (void)state;
  for (int d = 0; d < N_GPU_DTYPES; d++)
    for (int i = 0; each_case((size_t)i, i < N_LONG_SHAPES); i++) {
      const mamba_errors tolerance = chunk_tolerance_of(gpu_dtypes[d]);
      check_mamba(&cuda_target, gpu_dtypes[d], &long_shapes[i], 30 + (uint32_t)i, &tolerance);
    }
}

static mamba_shape random_shape(op_random *random)
{
  mamba_shape shape = {.layout = {(int32_t)op_between(random, 1, 3), (int32_t)op_between(random, 1, 5), 64, 128},
                       .has_bias = op_uniform(random) < 0.5,
                       .n_seqs = (int32_t)op_between(random, 1, MAMBA_MAX_SEQS)};
  for (int i = 0; i < shape.n_seqs; i++) {
    mamba_seq *s = &shape.seqs[i];
    s->rows = op_uniform(random) < 0.4 ? 1 : (int32_t)op_between(random, 1, 80);
    s->earlier = (int32_t)op_between(random, 0, 100);
    s->load = (int32_t)op_between(random, 0, 2) - 2; /* zeros, the slot's state, entry 0 */
    s->save = i < 2 && op_uniform(random) < 0.7 ? i + 1 : -1;
    s->save_rows = (int32_t)op_between(random, 1, s->rows);
  }
  return shape;
}

static void test_random(void **state)
{
  (void)state;
  for (uint32_t i = 0; each_case(i, i < 16); i++) {
    op_random random = {.seed = 700 + i};
    const mamba_shape shape = random_shape(&random);
    const mamba_errors tolerance = chunk_tolerance_of(gpu_dtypes[i % 2]);
    check_mamba(&cuda_target, gpu_dtypes[i % 2], &shape, 90 + i, &tolerance);
  }
}

/* The same rows in one step, and in two that part at a multiple of 64 tokens, have the same bits. */
static void test_divisions(void **state)
{
  (void)state;
  static const mamba_shape whole = {{2, 4, 64, 128}, true, 1, {{150, YK_STATE_ZERO, -1, 0, 0}}};
  static const mamba_shape parts[] = {{{2, 4, 64, 128}, true, 1, {{64, YK_STATE_ZERO, -1, 0, 0}}},
                                      {{2, 4, 64, 128}, true, 1, {{86, YK_STATE_KEEP, -1, 0, 64}}}};
  yk_device *dev = op_device_new(&cuda_target, YK_BF16, 1, 16);
  mamba_scene s = mamba_scene_new(dev, &whole, 8);
  op_array y = op_array_new(dev, YK_BF16, mamba_y_size(&s)), again = op_array_new(dev, YK_BF16, mamba_y_size(&s));
  const size_t row = (size_t)yk_mamba_width(&s.layout) * 2, x_row = (size_t)yk_mamba_x_stride(&s.layout) * 2;
  mamba_step step = mamba_step_new(dev, &s);
  yk_mamba_args args = mamba_args(&s, &step, y.dev);
  op_ok(dev->ops->mamba(dev, &args, &err));
  op_array_fetch(dev, &y);
  mamba_step_free(dev, &step);
  for (int i = 0; i < 2; i++) {
    const size_t first = i == 0 ? 0 : (size_t)parts[0].seqs[0].rows;
    s.shape = &parts[i];
    s.row_starts[1] = parts[i].seqs[0].rows;
    step = mamba_step_new(dev, &s);
    args = mamba_args(&s, &step, (char *)again.dev + first * row);
    args.x = (const char *)s.x.dev + first * x_row;
    op_ok(dev->ops->mamba(dev, &args, &err));
    op_ok(dev->ops->sync(dev, &err));
    mamba_step_free(dev, &step);
  }
  op_array_fetch(dev, &again);
  assert_memory_equal(again.bytes, y.bytes, y.n * 2);
  op_array_free(dev, &y);
  op_array_free(dev, &again);
  mamba_scene_free(dev, &s);
  dev->ops->destroy(dev);
}

/* A recorded step, replayed with other states, and with padding in place of its last sequence. */
static void test_recorded(void **state)
{
  (void)state;
  static const mamba_shape shape = {
      {2, 3, 64, 128},
      true,
      3,
      {{1, YK_STATE_KEEP, -1, 0, 0}, {1, YK_STATE_ZERO, -1, 0, 0}, {1, YK_STATE_KEEP, -1, 0, 0}}};
  yk_device *dev = op_device_new(&cuda_target, YK_F16, 1, 16);
  mamba_scene s = mamba_scene_new(dev, &shape, 3);
  mamba_step step = mamba_step_new(dev, &s);
  op_array y = op_array_new(dev, YK_F16, mamba_y_size(&s));
  const yk_mamba_args args = mamba_args(&s, &step, y.dev);
  const size_t n_floats = (size_t)yk_mamba_state_floats(&s.layout);
  const mamba_errors tolerance = tolerance_of(YK_F16);
  yk_graph *graph = NULL;
  op_ok(dev->ops->mamba(dev, &args, &err));
  mamba_reference(&s, MAMBA_RIGHT);
  op_ok(dev->ops->graph_begin(dev, &err));
  op_ok(dev->ops->mamba(dev, &args, &err));
  op_ok(dev->ops->graph_end(dev, &graph, &err));
  const int32_t padding = -1, rows[] = {0, 1, 2, 2};
  op_ok(dev->ops->upload(dev, step.arrays[1] + 2, &padding, sizeof padding, &err));
  op_ok(dev->ops->upload(dev, step.arrays[0], rows, sizeof rows, &err));
  double *last = s.states.values + (size_t)s.slots[2] * n_floats, *kept = malloc(n_floats * sizeof *kept);
  memcpy(kept, last, n_floats * sizeof *kept);
  for (int i = 0; i < 2; i++) {
    op_ok(dev->ops->graph_run(dev, graph, &err));
    mamba_reference(&s, MAMBA_RIGHT);
    memcpy(last, kept, n_floats * sizeof *kept);
  }
  op_array_fetch(dev, &y);
  assert_true(op_error(y.values, s.y, y.n * 2 / 3) <= tolerance.y);
  double *expected = malloc(s.states.n * sizeof *expected);
  memcpy(expected, s.states.values, s.states.n * sizeof *expected);
  op_array_fetch(dev, &s.states);
  assert_true(op_error(s.states.values, expected, s.states.n) <= tolerance.states);
  free(expected);
  free(kept);
  dev->ops->graph_destroy(dev, graph);
  op_array_free(dev, &y);
  mamba_step_free(dev, &step);
  mamba_scene_free(dev, &s);
  dev->ops->destroy(dev);
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    const mamba_errors tolerance = tolerance_of(gpu_dtypes[d]);
    check_mamba_faults(&cuda_target, gpu_dtypes[d], &tolerance);
  }
}

static void expect_refusal(yk_device *dev, yk_mamba_layout layout, const char *found)
{
  const yk_batch batch = {.n_tokens = 1, .n_seqs = 1};
  const yk_mamba_args args = {.layout = layout, .batch = &batch};
  yk_err refusal = YK_ERR_INIT;
  assert_int_equal(dev->ops->mamba(dev, &args, &refusal), YK_E_UNSUPPORTED);
  assert_non_null(strstr(refusal.message, found));
}

static void test_sizes_are_refused(void **state)
{
  (void)state;
  yk_device *dev = op_device_new(&cuda_target, YK_F16, 1, 16);
  expect_refusal(dev, (yk_mamba_layout){1, 1, 64, 24}, "found 64 and 24");
  expect_refusal(dev, (yk_mamba_layout){1, 1, 272, 128}, "found 272 and 128");
  expect_refusal(dev, (yk_mamba_layout){257, 1, 64, 128}, "at most 256 groups on a rank, found 257");
  dev->ops->destroy(dev);
}

int main(void)
{
  int gate = gpu_gate(1);
  if (gate != GPU_GO) return gate;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_table),
                                     cmocka_unit_test(test_chunks),
                                     cmocka_unit_test(test_random),
                                     cmocka_unit_test(test_divisions),
                                     cmocka_unit_test(test_recorded),
                                     cmocka_unit_test(test_planted_faults_are_seen),
                                     cmocka_unit_test(test_sizes_are_refused)};
  const struct CMUnitTest small[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_chunks),
                                     cmocka_unit_test(test_recorded)};
  return gpu_is_small() ? cmocka_run_group_tests(small, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
