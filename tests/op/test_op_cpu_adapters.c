/* test_op_cpu_adapters.c - low-rank adapters of linear layers on the CPU device: against float64, and the same bits
 * beside other rows. */
#include "op/op_cpu_target.h"
#include "op/op_reference.h"

enum { K = 37, N = 45, RANK = 5, N_ROWS = 60, N_ADAPTERS = 3 };

/* Two parts of N outputs, each with a matrix of its own and adapters; adapter 2 changes the second part alone. */
typedef struct layer {
  float weight[2][N * K], bias[N];
  float a[N_ADAPTERS][2][RANK * K], b[N_ADAPTERS][2][RANK * N];
  int32_t rank[N_ADAPTERS][2];
} layer;

static float scale_of(int adapter)
{
  return 0.5f + (float)adapter;
}

static void fill(layer *l, op_random *random)
{
  for (int part = 0; part < 2; part++) {
    for (int i = 0; i < N * K; i++) l->weight[part][i] = (float)op_normal(random) / 6;
    for (int adapter = 0; adapter < N_ADAPTERS; adapter++) {
      l->rank[adapter][part] = adapter == 1 && part == 0 ? 0 : RANK - adapter;
      for (int i = 0; i < RANK * K; i++) l->a[adapter][part][i] = (float)op_normal(random) / 6;
      for (int i = 0; i < RANK * N; i++) l->b[adapter][part][i] = (float)op_normal(random);
    }
  }
  for (int i = 0; i < N; i++) l->bias[i] = (float)op_normal(random);
}

static yk_linear *make(yk_device *dev, const layer *l, bool is_gated)
{
  yk_linear_spec spec = {
      .n_parts = 2, .n_matrices = 1, .max_tokens = N_ROWS, .n_adapters = N_ADAPTERS, .adapter_rank = RANK};
  if (is_gated) spec.activation = (yk_activation){.kind = YK_ACTIVATION_SILU, .is_gated = true};
  for (int part = 0; part < 2; part++)
    spec.parts[part] = (yk_linear_part){
        .weight = {.k = K, .n = N, .dtype = YK_F32, .plain = l->weight[part], .bias = l->bias, .bias_dtype = YK_F32},
        .k = {0, K},
        .n = {0, N},
        .use_bias = part == 0};
  yk_linear *linear;
  op_ok(dev->ops->linear_create(dev, &spec, &linear, &err));
  for (int adapter = 0; adapter < N_ADAPTERS; adapter++) {
    yk_linear_adapter parts[2];
    for (int part = 0; part < 2; part++)
      parts[part] = (yk_linear_adapter){.a = l->a[adapter][part],
                                        .b = l->b[adapter][part],
                                        .rank = l->rank[adapter][part],
                                        .scale = scale_of(adapter)};
    op_ok(dev->ops->linear_adapt(dev, linear, adapter + 1, parts, &err));
  }
  return linear;
}

static double expected_of(const layer *l, int part, int adapter, const double *x, int n)
{
  double sum = part == 0 ? (double)l->bias[n] : 0;
  for (int k = 0; k < K; k++) sum += x[k] * (double)l->weight[part][n * K + k];
  for (int r = 0; adapter > 0 && r < l->rank[adapter - 1][part]; r++) {
    double product = 0;
    for (int k = 0; k < K; k++) product += x[k] * (double)l->a[adapter - 1][part][r * K + k];
    sum += (double)scale_of(adapter - 1) * product * (double)l->b[adapter - 1][part][r * N + n];
  }
  return sum;
}

static void check_row(const layer *l, bool is_gated, int adapter, const double *x, const float *y)
{
  static const yk_activation silu = {.kind = YK_ACTIVATION_SILU, .is_gated = true};
  for (int n = 0; n < N; n++) {
    const double first = expected_of(l, 0, adapter, x, n), second = expected_of(l, 1, adapter, x, n);
    const double at_0 = is_gated ? op_activated(&silu, first, second) : first;
    assert_true(fabs((double)y[n] - at_0) < 1e-4 * (1 + fabs(at_0)));
    if (!is_gated) assert_true(fabs((double)y[N + n] - second) < 1e-4 * (1 + fabs(second)));
  }
}

static void run(yk_device *dev, const yk_linear *linear, const float *x, float *y, int width, const int32_t *adapters)
{
  const yk_linear_args args = {.x = x, .y = y, .n_tokens = N_ROWS, .y_stride = width, .adapters = adapters};
  op_ok(dev->ops->linear_forward(dev, linear, &args, &err));
}

static void check_layer(const op_target *target, bool is_gated)
{
  static layer l;
  static float x[N_ROWS * K], mixed[N_ROWS * 2 * N], other[N_ROWS * 2 * N];
  static double x64[N_ROWS * K];
  op_random random = {.seed = 7};
  int32_t adapters[N_ROWS], same[N_ROWS];
  const int width = is_gated ? N : 2 * N;
  fill(&l, &random);
  for (int i = 0; i < N_ROWS * K; i++) x64[i] = (double)(x[i] = (float)op_normal(&random));
  for (int i = 0; i < N_ROWS; i++) adapters[i] = i * 7 % (N_ADAPTERS + 1);
  yk_device *dev = op_device_new(target, YK_F32, 2, 16);
  yk_linear *linear = make(dev, &l, is_gated);
  run(dev, linear, x, mixed, width, adapters);
  for (int i = 0; i < N_ROWS; i++) check_row(&l, is_gated, adapters[i], x64 + i * K, mixed + i * width);
  for (int adapter = 0; each_case(adapter, adapter <= N_ADAPTERS); adapter++) {
    for (int i = 0; i < N_ROWS; i++) same[i] = adapter;
    run(dev, linear, x, other, width, adapter == 0 ? NULL : same);
    for (int i = 0; i < N_ROWS; i++)
      if (adapters[i] == adapter)
        assert_memory_equal(other + i * width, mixed + i * width, (size_t)width * sizeof *mixed);
  }
  dev->ops->linear_destroy(dev, linear);
  dev->ops->destroy(dev);
}

static void check_both(const op_target *target)
{
  check_layer(target, false);
  check_layer(target, true);
}

static void test_rows_with_and_without_adapters(void **state)
{
  (void)state;
  for_each_cpu_target(check_both);
}

static void check_refusals(const op_target *target)
{
  static layer l;
  op_random random = {.seed = 7};
  fill(&l, &random);
  yk_device *dev = op_device_new(target, YK_F32, 1, 16);
  yk_linear *linear = make(dev, &l, false);
  yk_linear_adapter parts[2] = {{.rank = RANK + 1, .a = l.a[0][0], .b = l.b[0][0]}, {0}};
  yk_err err = YK_ERR_INIT;
  assert_int_equal(dev->ops->linear_adapt(dev, linear, 1, parts, &err), YK_E_INVAL);
  yk_err_clear(&err);
  parts[0].rank = 0;
  assert_int_equal(dev->ops->linear_adapt(dev, linear, N_ADAPTERS + 1, parts, &err), YK_E_INVAL);
  yk_err_clear(&err);
  assert_int_equal(dev->ops->linear_adapt(dev, linear, 0, parts, &err), YK_E_INVAL);
  dev->ops->linear_destroy(dev, linear);
  dev->ops->destroy(dev);
}

static void test_refusals(void **state)
{
  (void)state;
  for_each_cpu_target(check_refusals);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows_with_and_without_adapters),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
