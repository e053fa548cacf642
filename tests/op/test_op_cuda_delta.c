/* test_op_cuda_delta.c - gated delta nets on a GPU, against float64. */
#include "each_case.h"
#include "op/op_cases_delta.h"
#include "op/op_cuda_target.h"

/* States are float32; y is rounded once. */
static delta_errors tolerance_of(yk_dtype dtype)
{
  return (delta_errors){op_unit_roundoff(dtype) + 3e-5, 2e-5, 2e-5};
}

static void test_table(void **state)
{
  (void)state;
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    const delta_errors tolerance = tolerance_of(gpu_dtypes[d]);
    for (int i = 0; i < N_DELTA_SHAPES; i++)
      check_delta(&cuda_target, gpu_dtypes[d], &delta_shapes[i], 10 + (uint32_t)i, &tolerance);
  }
}

/* Sequences of many rows take chunks on tensor cores. There k, q, v, the state that is multiplied, and the deltas are
 * rounded to the activation type; the norm of y amplifies the errors of a row whose result is nearly 0. */
static delta_errors chunk_tolerance_of(yk_dtype dtype)
{
  const double roundoff = op_unit_roundoff(dtype);
  return (delta_errors){48.0 * roundoff, 6.0 * roundoff, 6.0 * roundoff};
}

static const delta_shape long_shapes[] = {
    {1, 1, 128, 128, false, 1, {{64, YK_STATE_ZERO, -1, 0, 0}}},
    {2, 3, 128, 128, false, 3, {{200, YK_STATE_KEEP, 0, 128, 64}, {1, 2, -1, 0, 0}, {16, YK_STATE_KEEP, -1, 0, 7}}},
    {1, 5, 128, 128, false, 1, {{64, YK_STATE_ZERO, -1, 0, 0}}}, /* more value heads than a thread block has at once */
    {1,
     1,
     128,
     128,
     false,
     2,
     {{37, YK_STATE_ZERO, -1, 0, 0}, {91, YK_STATE_KEEP, -1, 0, 50}}}, /* chunks begin anywhere */
    {3,
     2,
     128,
     128,
     true,
     5,
     {{70, YK_STATE_KEEP, 1, 1, 63},
      {15, YK_STATE_ZERO, -1, 0, 0},
      {33, 0, 2, 32, 96},
      {129, YK_STATE_ZERO, 3, 64, 0},
      {1, YK_STATE_KEEP, -1, 0, 9}}},
    {14,
     2,
     128,
     128,
     false,
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
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    const delta_errors tolerance = chunk_tolerance_of(gpu_dtypes[d]);
    for (int i = 0; i < N_LONG_SHAPES; i++)
      check_delta(&cuda_target, gpu_dtypes[d], &long_shapes[i], 30 + (uint32_t)i, &tolerance);
  }
}

static void random_shape(op_random *random, delta_shape *shape)
{
  *shape = (delta_shape){.n_keys = (int32_t)op_between(random, 1, 4),
                         .per_key = (int32_t)op_between(random, 1, 3),
                         .key_dim = 128,
                         .value_dim = 128,
                         .is_fused = op_uniform(random) < 0.5,
                         .n_seqs = (int32_t)op_between(random, 1, DELTA_MAX_SEQS)};
  for (int i = 0; i < shape->n_seqs; i++) {
    delta_seq *s = &shape->seqs[i];
    s->rows = op_uniform(random) < 0.4 ? 1 : (int32_t)op_between(random, 1, 80);
    s->earlier = (int32_t)op_between(random, 0, 100);
    s->load = (int32_t)op_between(random, 0, 2) - 2; /* zeros, the slot's state, entry 0 */
    s->save = i < 2 && op_uniform(random) < 0.7 ? i + 1 : -1;
    s->save_rows = (int32_t)op_between(random, 1, s->rows);
  }
}

static void test_random(void **state)
{
  (void)state;
  for (uint32_t i = 0; i < 16; i++) {
    op_random random = {.seed = 700 + i};
    delta_shape shape;
    random_shape(&random, &shape);
    const delta_errors tolerance = chunk_tolerance_of(gpu_dtypes[i % 2]);
    check_delta(&cuda_target, gpu_dtypes[i % 2], &shape, 90 + i, &tolerance);
  }
}

/* A recorded step, replayed with other states, and with padding in place of its last sequence. */
static void test_recorded(void **state)
{
  (void)state;
  static const delta_shape shape = {
      2,
      3,
      128,
      128,
      false,
      3,
      {{1, YK_STATE_KEEP, -1, 0, 0}, {1, YK_STATE_ZERO, -1, 0, 0}, {1, YK_STATE_KEEP, -1, 0, 0}}};
  yk_device *dev = op_device_new(&cuda_target, YK_F16, 1, 16);
  delta_scene s = delta_scene_new(dev, &shape, 3);
  delta_step step = delta_step_new(dev, &s);
  op_array y = op_array_new(dev, YK_F16, delta_y_size(&s));
  const yk_gated_delta_args args = delta_args(&s, &step, y.dev);
  const size_t n_floats = (size_t)yk_delta_state_floats(&s.layout);
  const delta_errors tolerance = tolerance_of(YK_F16);
  yk_graph *graph = NULL;
  op_ok(dev->ops->gated_delta(dev, &args, &err));
  delta_reference(&s, DELTA_RIGHT);
  op_ok(dev->ops->graph_begin(dev, &err));
  op_ok(dev->ops->gated_delta(dev, &args, &err));
  op_ok(dev->ops->graph_end(dev, &graph, &err));
  const int32_t padding = -1, rows[] = {0, 1, 2, 2};
  op_ok(dev->ops->upload(dev, step.arrays[1] + 2, &padding, sizeof padding, &err));
  op_ok(dev->ops->upload(dev, step.arrays[0], rows, sizeof rows, &err));
  for (int i = 0; i < 2; i++) {
    op_ok(dev->ops->graph_run(dev, graph, &err));
    double *last = malloc(n_floats * sizeof *last), *of_last = s.states.values + (size_t)s.slots[2] * n_floats;
    memcpy(last, of_last, n_floats * sizeof *last);
    delta_reference(&s, DELTA_RIGHT);
    memcpy(of_last, last, n_floats * sizeof *last);
    free(last);
  }
  op_array_fetch(dev, &y);
  assert_true(op_error(y.values, s.y, y.n * 2 / 3) <= tolerance.y);
  double *expected = malloc(s.states.n * sizeof *expected);
  memcpy(expected, s.states.values, s.states.n * sizeof *expected);
  op_array_fetch(dev, &s.states);
  assert_true(op_error(s.states.values, expected, s.states.n) <= tolerance.states);
  free(expected);
  dev->ops->graph_destroy(dev, graph);
  op_array_free(dev, &y);
  delta_step_free(dev, &step);
  delta_scene_free(dev, &s);
  dev->ops->destroy(dev);
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    const delta_errors tolerance = tolerance_of(gpu_dtypes[d]);
    check_delta_faults(&cuda_target, gpu_dtypes[d], &tolerance);
  }
}

int main(void)
{
  int gate = gpu_gate(1);
  if (gate != GPU_GO) return gate;
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_chunks),
                                     cmocka_unit_test(test_random), cmocka_unit_test(test_recorded),
                                     cmocka_unit_test(test_planted_faults_are_seen)};
  const struct CMUnitTest small[] = {cmocka_unit_test(test_table), cmocka_unit_test(test_chunks),
                                     cmocka_unit_test(test_recorded)};
  return gpu_is_small() ? cmocka_run_group_tests(small, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
