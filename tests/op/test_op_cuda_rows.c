/* test_op_cuda_rows.c - memory, embedding, norms and gather on a GPU. */
#include "each_case.h"
#include "op/op_cases_rows.h"
#include "op/op_cuda_target.h"

static void test_memory(void **state)
{
  (void)state;
  check_memory(&cuda_target);
}

static void check_shape(yk_dtype dtype, int32_t rows, int32_t hidden)
{
  check_embed(&cuda_target, dtype, rows, hidden, 0, OP_VOCAB);
  check_embed(&cuda_target, dtype, rows, hidden, 8, 16);
  check_embed(&cuda_target, dtype, rows, hidden, OP_VOCAB, 0);
  check_gather(&cuda_target, dtype, rows, hidden);
  for (int in_place = 0; in_place < 2; in_place++)
    expect_below(&cuda_target, "rms_norm", dtype, rows, hidden,
                 rms_norm_error(&cuda_target, dtype, rows, hidden, in_place, OP_RIGHT), norm_tolerance(dtype));
  for (int32_t n_partials = 1; n_partials <= 8; n_partials += 3) {
    add_norm_errors errors =
        add_norm_error(&cuda_target, dtype, rows, hidden, n_partials, n_partials != 4, 0, OP_RIGHT);
    expect_below(&cuda_target, "add_norm residual", dtype, rows, hidden, errors.residual,
                 op_unit_roundoff(dtype) + 0x1p-21);
    expect_below(&cuda_target, "add_norm", dtype, rows, hidden, errors.y,
                 n_partials == 4 ? 0.0 : norm_tolerance(dtype));
  }
}

static void test_rows(void **state)
{
  (void)state;
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    for (size_t h = 0; each_case(h, h < sizeof row_hiddens / sizeof *row_hiddens); h++)
      check_shape(gpu_dtypes[d], 3, row_hiddens[h]);
    check_shape(gpu_dtypes[d], 40, 4096);
    check_shape(gpu_dtypes[d], 1, 24512);
  }
}

static void test_norms_of_sums_and_gains(void **state)
{
  (void)state;
  check_residual_gain(&cuda_target);
  check_result_norms(&cuda_target);
  result_norm_error(&cuda_target, YK_F16, 1, 24512, 1, true, 0, OP_RIGHT); /* the longest row can be launched */
}

static void test_logit_caps(void **state)
{
  (void)state;
  check_logit_cap(&cuda_target);
}

static void test_row_norms(void **state)
{
  (void)state;
  check_row_norms(&cuda_target);
}

static void test_layer_inputs(void **state)
{
  (void)state;
  check_layer_inputs(&cuda_target);
}

static void test_few_rows(void **state)
{
  (void)state;
  static const int32_t hiddens[] = {1, 20, 256, 2051};
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    for (size_t h = 0; each_case(h, h < sizeof hiddens / sizeof *hiddens); h++)
      check_shape(gpu_dtypes[d], 2, hiddens[h]);
    check_shape(gpu_dtypes[d], 1, 24512);
  }
}

static void test_planted_faults_are_seen(void **state)
{
  (void)state;
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    yk_dtype dtype = gpu_dtypes[d];
    double norm = 5.0 * norm_tolerance(dtype), sum = 5.0 * op_unit_roundoff(dtype);
    assert_true(rms_norm_error(&cuda_target, dtype, 3, 80, false, OP_NO_NORM_WEIGHT) > norm);
    assert_true(rms_norm_error(&cuda_target, dtype, 3, 80, false, OP_NO_EPS) > norm);
    assert_true(add_norm_error(&cuda_target, dtype, 3, 80, 4, true, 0, OP_NO_RESIDUAL).residual > sum);
    assert_true(add_norm_error(&cuda_target, dtype, 3, 80, 4, true, 0, OP_NO_ALPHA).residual > sum);
    assert_true(add_norm_error(&cuda_target, dtype, 3, 80, 4, true, 0, OP_LOST_PARTIAL).residual > sum);
    assert_true(add_norm_error(&cuda_target, dtype, 3, 80, 4, true, 0, OP_NO_NORM_WEIGHT).y > norm);
  }
}

static void test_wrong_arguments_are_refused(void **state)
{
  (void)state;
  yk_device_limits good = {.max_tokens = 1, .max_seqs = 1, .max_model_tokens = 1, .vocab = 1}, bad = good;
  bad.vocab = 0;
  yk_device *dev = NULL;
  yk_err refusal = YK_ERR_INIT, other = YK_ERR_INIT;
  assert_int_equal(yk_cuda_device_create(0, YK_F16, &bad, &dev, &refusal), YK_E_INVAL);
  assert_non_null(strstr(refusal.message, "vocab"));
  assert_int_equal(yk_cuda_device_create(0, YK_F32, &good, &dev, &other), YK_E_UNSUPPORTED);
  assert_non_null(strstr(other.message, "float32"));
  assert_int_equal(yk_cuda_device_create(yk_cuda_device_count(), YK_F16, &good, &dev, NULL), YK_E_INVAL);
  assert_int_equal(yk_cuda_device_create(-1, YK_F16, &good, &dev, NULL), YK_E_INVAL);
  assert_null(dev);
  op_ok(yk_cuda_device_create(0, YK_F16, &good, &dev, &err));
  assert_string_equal(dev->ops->name, "cuda");
  dev->ops->destroy(dev);
}

static void test_gpus_describe_themselves(void **state)
{
  (void)state;
  yk_cuda_device_info info;
  op_ok(yk_cuda_device_query(0, &info, &err));
  assert_true(strlen(info.name) > 0);
  assert_int_equal(strlen(info.uuid), 40);
  assert_true(info.free_bytes > 0 && info.free_bytes <= info.total_bytes);
  assert_true(info.compute_major >= 8);
  assert_int_equal(yk_cuda_device_query(99, &info, NULL), YK_E_INVAL);
}

/* Uploads larger than all staging slots together; the source changes immediately after the call. */
static void test_uploads_may_outrun_the_copy(void **state)
{
  (void)state;
  enum { N = 9 << 20, N_ROUNDS = 5 };
  yk_device *dev = op_device_new(&cuda_target, YK_F16, 1, 16);
  int32_t *source = malloc(N * sizeof *source), *found = malloc(N * sizeof *found);
  void *ptr[N_ROUNDS];
  for (int32_t round = 0; round < N_ROUNDS; round++) {
    op_ok(dev->ops->alloc(dev, N * sizeof *source, &ptr[round], &err));
    for (int32_t i = 0; i < N; i++) source[i] = i ^ round << 24;
    op_ok(dev->ops->upload(dev, ptr[round], source, N * sizeof *source, &err));
  }
  for (int32_t round = 0; round < N_ROUNDS; round++) {
    op_ok(dev->ops->download(dev, found, ptr[round], N * sizeof *found, &err));
    for (int32_t i = 0; i < N; i++)
      if (found[i] != (i ^ round << 24)) fail_msg("round %d, word %d: found %d", round, i, found[i]);
    dev->ops->free(dev, ptr[round]);
  }
  free(source);
  free(found);
  dev->ops->destroy(dev);
}

int main(void)
{
  int gate = gpu_gate(1);
  if (gate != GPU_GO) return gate;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_memory),
      cmocka_unit_test(test_rows),
      cmocka_unit_test(test_norms_of_sums_and_gains),
      cmocka_unit_test(test_logit_caps),
      cmocka_unit_test(test_row_norms),
      cmocka_unit_test(test_layer_inputs),
      cmocka_unit_test(test_planted_faults_are_seen),
      cmocka_unit_test(test_wrong_arguments_are_refused),
      cmocka_unit_test(test_gpus_describe_themselves),
      cmocka_unit_test(test_uploads_may_outrun_the_copy),
  };
  const struct CMUnitTest small[] = {cmocka_unit_test(test_memory),
                                     cmocka_unit_test(test_few_rows),
                                     cmocka_unit_test(test_norms_of_sums_and_gains),
                                     cmocka_unit_test(test_logit_caps),
                                     cmocka_unit_test(test_row_norms),
                                     cmocka_unit_test(test_layer_inputs)};
  return gpu_is_small() ? cmocka_run_group_tests(small, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
