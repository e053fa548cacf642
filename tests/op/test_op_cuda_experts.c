/* test_op_cuda_experts.c - a mixture of experts' operations on a GPU. */
#include "each_case.h"
#include "op/op_cuda_mixture.h"
#include "op/op_cuda_paths.h"

static void test_routing(void **state)
{
  (void)state;
  check_routes(&cuda_target);
}

static void test_routers(void **state)
{
  (void)state;
  check_routers(&cuda_target, N_GPU_DTYPES);
  for (int d = 0; d < N_GPU_DTYPES; d++) check_router_companies(&cuda_target, gpu_dtypes[d]);
}

static void test_combination(void **state)
{
  (void)state;
  check_combines(&cuda_target, N_GPU_DTYPES);
}

/* The GEMM for 4 bits with groups of 128 and of 32, then the one for 16 bits: plain weights, and groups that the packed
 * form does not support. The sixth has a tail of K. Then come 8-bit integers and floats, with groups of 128 and of 32,
 * and one scale per column; and 4 and 8 bits with groups of 64 and 32 whose inputs end within a K tile. The last four
 * are 4-bit floats in groups of 32 and 16. */
static const linear_case grouped_cases[] = {
    {.parts = {{384, 80, 128, YK_F16, {128, 384}, {0, 80}, 128, true}}, .n_parts = 1},
    {.parts = {{256, 96, 128, YK_F16, {0, 256}, {8, 72}, 128, true},
               {256, 96, 128, YK_F16, {0, 256}, {16, 80}, 128, false}},
     .n_parts = 2,
     .activation = YK_GATED_SILU},
    {.parts = {{160, 64, 32, YK_F16, {0, 160}, {0, 64}, 32, false}}, .n_parts = 1},
    {.parts = {{72, 48, 0, YK_BF16, {0, 72}, {3, 48}, 0, true}}, .n_parts = 1},
    {.parts = {{64, 48, 16, YK_F16, {0, 64}, {0, 24}, 16, true}, {64, 48, 16, YK_F16, {0, 64}, {24, 48}, 16, false}},
     .n_parts = 2,
     .activation = YK_GATED_SILU},
    {.parts = {{160, 264, 160, YK_F16, {0, 160}, {0, 264}, 160, false}}, .n_parts = 1},
    {.parts = {{384, 80, 128, YK_F32, {128, 384}, {0, 80}, 128, true, true, true}}, .n_parts = 1},
    {.parts = {{256, 96, 256, YK_F32, {0, 256}, {8, 72}, 256, true, true, false},
               {256, 96, 256, YK_F32, {0, 256}, {16, 80}, 256, false, true, false}},
     .n_parts = 2,
     .activation = YK_GATED_SILU},
    {.parts = {{160, 64, 32, YK_F32, {0, 160}, {0, 64}, 32, false, true, true}}, .n_parts = 1},
    {.parts = {{416, 88, 128, YK_F32, {0, 416}, {0, 88}, 128, true, true, false, true}}, .n_parts = 1},
    {.parts = {{256, 96, 128, YK_F32, {0, 256}, {8, 72}, 128, true, true, false, true},
               {256, 96, 128, YK_F32, {0, 256}, {16, 80}, 128, false, true, false, true}},
     .n_parts = 2,
     .activation = YK_GATED_SILU},
    {.parts = {{448, 264, 64, YK_F16, {128, 448}, {0, 264}, 64, true}}, .n_parts = 1},
    {.parts = {{320, 96, 64, YK_F16, {0, 320}, {8, 72}, 64, true},
               {320, 96, 64, YK_F16, {0, 320}, {16, 80}, 64, false}},
     .n_parts = 2,
     .activation = YK_GATED_SILU},
    {.parts = {{416, 80, 32, YK_F16, {0, 416}, {0, 80}, 32, true}}, .n_parts = 1},
    {.parts = {{288, 72, 32, YK_F16, {0, 288}, {0, 64}, 32, false}, {288, 72, 32, YK_F16, {0, 288}, {8, 72}, 32, true}},
     .n_parts = 2,
     .activation = YK_GATED_SILU},
    {.parts = {{352, 88, 32, YK_F32, {0, 352}, {0, 88}, 32, true, true, false, true}}, .n_parts = 1},
    {.parts = {{416, 264, 32, YK_F32, {0, 416}, {0, 264}, 32, true, true, .is_fp4 = true}}, .n_parts = 1},
    {.parts = {{288, 96, 32, YK_F32, {0, 288}, {8, 72}, 32, true, true, .is_fp4 = true},
               {288, 96, 32, YK_F32, {0, 288}, {16, 80}, 32, true, true, .is_fp4 = true}},
     .n_parts = 2,
     .activation = {YK_ACTIVATION_CLAMPED_SWIGLU, true, 1.702f, 0.7f}},
    {.parts = {{352, 88, 16, YK_F32, {0, 352}, {0, 88}, 16, true, true, .is_fp4 = true}}, .n_parts = 1},
    {.parts = {{320, 96, 16, YK_F32, {0, 320}, {8, 72}, 16, true, true, .is_fp4 = true},
               {320, 96, 16, YK_F32, {0, 320}, {16, 80}, 16, false, true, .is_fp4 = true}},
     .n_parts = 2,
     .activation = YK_GATED_SILU},
};
enum { N_GROUPED_CASES = sizeof grouped_cases / sizeof *grouped_cases };

/* 8-bit weights with quantised inputs. */
static const linear_case grouped_w8a8_cases[] = {
    {.parts = {{384, 200, 384, YK_F32, {0, 384}, {0, 200}, 384, true, true, .inputs = YK_INPUTS_PER_TOKEN}},
     .n_parts = 1},
    {.parts = {{320, 152, 320, YK_F32, {0, 320}, {8, 152}, 320, true, true, .inputs = YK_INPUTS_PER_TOKEN},
               {320, 144, 320, YK_F32, {0, 320}, {0, 144}, 320, false, true, .inputs = YK_INPUTS_PER_TOKEN}},
     .n_parts = 2,
     .activation = YK_GATED_SILU},
    {.parts = {{100, 37, 100, YK_F32, {0, 100}, {0, 37}, 100, true, true, .inputs = YK_INPUTS_PER_TOKEN}},
     .n_parts = 1},
    {.parts = {{136, 21, 136, YK_F32, {0, 136}, {0, 21}, 136, false, true, .inputs = YK_INPUTS_PER_TOKEN},
               {136, 21, 136, YK_F32, {0, 136}, {0, 21}, 136, false, true, .inputs = YK_INPUTS_PER_TOKEN}},
     .n_parts = 2,
     .activation = YK_GATED_SILU},
    /* Thread blocks have several output tiles, with few slots and then with many. */
    {.parts = {{128, 12800, 128, YK_F32, {0, 128}, {0, 12800}, 128, false, true, .inputs = YK_INPUTS_PER_TOKEN}},
     .n_parts = 1},
};
enum { N_GROUPED_W8A8_CASES = sizeof grouped_w8a8_cases / sizeof *grouped_w8a8_cases };

/* Allowed difference of a row's two results: kernels for many rows round weights, those for few do not. */
static double tolerance_of(yk_dtype dtype, const linear_case *shape)
{
  if (shape->parts[0].inputs != YK_INPUTS_FLOAT) return 0.0;
  return (shape->activation.is_gated ? 14.0 : 7.0) * op_unit_roundoff(dtype);
}

static void test_grouped_layers(void **state)
{
  (void)state;
  for (int c = 0; c < N_GROUPED_CASES; c++)
    for (int d = 0; d < N_GPU_DTYPES; d++)
      check_linear_grouped(&cuda_target, gpu_dtypes[d], &grouped_cases[c], (c + d) % 2 == 0,
                           tolerance_of(gpu_dtypes[d], &grouped_cases[c]));
}

/* Products of integers: bit for bit. Whole K tiles and a tail, rows of y with and without a partial vector, more rows
 * of W than a tile has. */
static void test_grouped_w8a8(void **state)
{
  (void)state;
  for (int c = 0; c < N_GROUPED_W8A8_CASES; c++)
    for (int i = 0; i < N_GPU_DTYPES * N_CUDA_PATHS; i++) {
      yk_dtype dtype = gpu_dtypes[i % N_GPU_DTYPES];
      check_linear_grouped(cuda_paths[i / N_GPU_DTYPES], dtype, &grouped_w8a8_cases[c], (c + i) % 2 == 0, 0.0);
      check_grouped_row(cuda_paths[i / N_GPU_DTYPES], dtype, &grouped_w8a8_cases[c], 0.0);
    }
}

/* As many columns of x as inputs, fewer, and enough that rows are not whole vectors: for every kind of weights. */
static void test_grouped_orders(void **state)
{
  (void)state;
  for (int c = 0; c < N_GROUPED_CASES; c++)
    for (int d = 0; d < N_GPU_DTYPES; d++) {
      const linear_case *shape = &grouped_cases[c];
      const int64_t k = yk_range_size(shape->parts[0].k_slice), sizes[] = {k, k - 16, k + 5};
      if (!shape->parts[0].group || shape->parts[0].is_fp8 || shape->parts[0].is_fp4) continue; /* no groups to sort */
      check_grouped_order(&cuda_target, gpu_dtypes[d], shape, sizes[(c + d) % 3], c % 2 == 0,
                          tolerance_of(gpu_dtypes[d], shape));
    }
}

/* Rows of which no two fit in a GPU's shared memory. */
static void test_grouped_orders_of_long_rows(void **state)
{
  (void)state;
  const linear_case *shape = &grouped_cases[0];
  check_grouped_order(&cuda_target, YK_BF16, shape, 77001, true, tolerance_of(YK_BF16, shape));
}

/* The layer forwarded with capacity for max_slots: y [n_slots]. */
static op_array forward(yk_device *dev, const grouped_layer *layer, int32_t n_slots, int32_t max_slots)
{
  const linear_run *run = &layer->runs[0];
  op_array y = op_array_new(dev, dev->dtype, (size_t)(max_slots * run->y_stride));
  const yk_grouped_args args = {.x = run->x.dev,
                                .n_rows = n_slots,
                                .starts = layer->starts,
                                .max_slots = max_slots,
                                .y = y.dev,
                                .y_stride = run->y_stride,
                                .staging = layer->staging};
  op_ok(op_parts_of(dev).grouped(dev, layer->linear, &args, &err));
  op_array_fetch(dev, &y);
  y.n = (size_t)(n_slots * run->y_stride);
  return y;
}

/* The tile depends only on the capacity for slots: all tiles give the same result, and the same bits again. One of the
 * matrices has no slots, then another one; or the third has all slots. */
static void check_tiles(yk_dtype dtype, const linear_case *shape, int32_t each, bool to_one)
{
  static const int32_t capacities[] = {N_GROUPED_MATRICES - 1,  5 * N_GROUPED_MATRICES,   36 * N_GROUPED_MATRICES,
                                       64 * N_GROUPED_MATRICES, 130 * N_GROUPED_MATRICES, 170 * N_GROUPED_MATRICES};
  yk_device *dev = op_device_new(&cuda_target, dtype, 1, 16);
  const int32_t spread[N_GROUPED_MATRICES + 1] = {0, each, each, 2 * each, 4 * each - 1, 4 * each};
  const int32_t third[N_GROUPED_MATRICES + 1] = {0, 0, 0, 4 * each, 4 * each, 4 * each};
  const int32_t *starts = to_one ? third : spread, n_slots = 4 * each;
  op_array first = {0};
  grouped_layer layer = grouped_layer_new(dev, shape, n_slots, 190, starts, 170 * N_GROUPED_MATRICES);
  for (size_t r = 0; each_case(r, r < sizeof capacities / sizeof *capacities); r++) {
    const int32_t capacity = capacities[r];
    if (capacity < n_slots) continue;
    op_array y = forward(dev, &layer, n_slots, capacity), again = forward(dev, &layer, n_slots, capacity);
    assert_memory_equal(again.bytes, y.bytes, y.n * yk_dtype_bytes(dtype));
    if (!first.n) first = forward(dev, &layer, n_slots, capacity);
    double error = op_error(y.values, first.values, y.n);
    if (!(error <= tolerance_of(dtype, shape)))
      fail_msg("capacity for %d slots: error %.3g, tolerance %.3g", capacity, error, tolerance_of(dtype, shape));
    op_array_free(dev, &y);
    op_array_free(dev, &again);
  }
  grouped_layer_free(dev, &layer);
  op_array_free(dev, &first);
  dev->ops->destroy(dev);
}

static void test_tiles_agree(void **state)
{
  (void)state;
  for (int d = 0; d < N_GPU_DTYPES; d++) {
    check_tiles(gpu_dtypes[d], &grouped_cases[0], 1, false);
    check_tiles(gpu_dtypes[d], &grouped_cases[0], 5, false);
    check_tiles(gpu_dtypes[d], &grouped_cases[1], 4, false);
    check_tiles(gpu_dtypes[d], &grouped_cases[5], 13, true);
    check_tiles(gpu_dtypes[d], &grouped_cases[0], 65, false);
    check_tiles(gpu_dtypes[d], &grouped_cases[6], 30, false);
    check_tiles(gpu_dtypes[d], &grouped_cases[7], 65, true);
    check_tiles(gpu_dtypes[d], &grouped_cases[9], 40, false);
    check_tiles(gpu_dtypes[d], &grouped_cases[10], 33, false);
    check_tiles(gpu_dtypes[d], &grouped_cases[11], 1, true);
    check_tiles(gpu_dtypes[d], &grouped_cases[11], 4, true);
    check_tiles(gpu_dtypes[d], &grouped_cases[11], 37, false);
    check_tiles(gpu_dtypes[d], &grouped_cases[12], 5, false);
    check_tiles(gpu_dtypes[d], &grouped_cases[12], 65, true);
    check_tiles(gpu_dtypes[d], &grouped_cases[13], 6, false);
    check_tiles(gpu_dtypes[d], &grouped_cases[14], 40, false);
    check_tiles(gpu_dtypes[d], &grouped_cases[8], 6, false);
    check_tiles(gpu_dtypes[d], &grouped_cases[15], 50, true);
    check_tiles(gpu_dtypes[d], &grouped_cases[16], 1, false);
    check_tiles(gpu_dtypes[d], &grouped_cases[16], 4, true);
    check_tiles(gpu_dtypes[d], &grouped_cases[17], 13, false);
    check_tiles(gpu_dtypes[d], &grouped_cases[17], 65, true);
    check_tiles(gpu_dtypes[d], &grouped_cases[18], 5, false);
    check_tiles(gpu_dtypes[d], &grouped_cases[19], 40, false);
    check_tiles(gpu_dtypes[d], &grouped_w8a8_cases[0], 5, false);
    check_tiles(gpu_dtypes[d], &grouped_w8a8_cases[1], 67, true);
  }
}

static void test_grouped_row(void **state)
{
  (void)state;
  for (int c = 0; c < N_GROUPED_CASES; c++)
    for (int d = 0; d < N_GPU_DTYPES; d++)
      check_grouped_row(&cuda_target, gpu_dtypes[d], &grouped_cases[c], tolerance_of(gpu_dtypes[d], &grouped_cases[c]));
}

/* Kernels for a single token, for few rows and for many, and the operations that they leave to others. Slots of a
 * single token are rounded only in separate kernels. */
static void test_mixture(void **state)
{
  (void)state;
  for (int c = 0; c < N_MIXTURE_CASES; c++)
    for (int d = 0; d < N_GPU_DTYPES; d++) check_cuda_mixture(&cuda_target, gpu_dtypes[d], &mixture_cases[c]);
}

/* ---- The plan ---------------------------------------------------------------------------------------------------- */

/* A mixture of 4-bit experts with a shared expert, all of whose shapes kernels for 9.0 support. */
static mixture_case planned_case(int32_t n_rows)
{
  return (mixture_case){n_rows, 2048, 256, 896, 128, 128, .has_gate = true};
}

/* One of 4-bit floats with biases, as gpt-oss has it on several ranks. */
static mixture_case planned_fp4_case(int32_t n_rows)
{
  return (mixture_case){
      n_rows, 2880, 352, 0, 32, 0, .is_fp4 = true, .has_bias = true, .has_router_bias = true, .is_clamped = true};
}

static yk_moe_plan plan_of(const op_target *target, const mixture_case *c, bool has_pending_norm, bool shares_maxima)
{
  yk_device *dev = op_device_new(target, YK_BF16, 1, 16);
  const mixture_shapes shapes = mixture_shapes_of(c);
  mixture_layers layers = mixture_layers_new(dev, c, &shapes);
  mixture_norm norm = mixture_norm_new(dev, c);
  yk_normed x = has_pending_norm ? mixture_pending(c, &norm) : (yk_normed){.rows = layers.router.x.dev};
  yk_mixture *mixture = mixture_new(dev, c, &layers);
  mixture->spec.sizes.shares_maxima = shares_maxima;
  void *scratch = route_memory(dev, (size_t)mixture->at.end);
  op_array y = op_array_new(dev, YK_BF16, (size_t)(c->n_rows * c->hidden));
  yk_partial partial = {.rows = y.dev};
  const yk_mixture_args args = {.x = &x,
                                .y = &partial,
                                .router_x = c->has_branches ? layers.shared_gate_up.x.dev : NULL,
                                .n_rows = c->n_rows,
                                .scratch = scratch};
  const yk_moe_forward f = yk_moe_forward_of(dev, mixture, &args);
  const yk_moe_plan plan = yk_moe_plan_of(&f, YK_MOE_FUSE_ALL);
  dev->ops->free(dev, scratch);
  dev->ops->mixture_destroy(dev, mixture);
  op_array_free(dev, &y);
  mixture_norm_free(dev, &norm);
  mixture_layers_free(dev, &layers);
  dev->ops->destroy(dev);
  return plan;
}

/* A single rank fuses the norm into the mixture; several ranks compute it in their all-reduce. */
static void test_plans(void **state)
{
  (void)state;
  static const struct {
    int32_t n_rows;
    int n_ranks;
    bool is_fp4;
    const char *text;
  } cases[] = {
      {1, 1, false,
       "1 row: norm apart, single token kernel, shared gate_up fused, shared down fused, combination in down"},
      {1, 2, false,
       "1 row: norm done, single token kernel, shared gate_up fused, shared down fused, combination in down"},
      {8, 1, false, "8 rows: norm in router, router kernel, shared gate_up fused, shared down fused, slots"},
      {8, 2, false, "8 rows: norm done, router kernel, shared gate_up fused, shared down fused, slots"},
      {64, 1, false, "64 rows: norm in router, router kernel, shared gate_up fused, shared down fused, slots"},
      {64, 2, false, "64 rows: norm done, router kernel, shared gate_up fused, shared down fused, slots"},
      {256, 1, false, "256 rows: norm apart, router kernel, shared gate_up apart, shared down apart, slots"},
      {256, 2, false, "256 rows: norm done, router kernel, shared gate_up apart, shared down apart, slots"},
      {1, 1, true,
       "1 row: norm apart, single token kernel, shared gate_up none, shared down none, combination in down"},
      {8, 1, true, "8 rows: norm apart, router kernel, shared gate_up none, shared down none, slots"},
      {8, 2, true, "8 rows: norm done, router kernel, shared gate_up none, shared down none, slots"},
  };
  yk_device *dev = op_device_new(&cuda_target, YK_F16, 1, 16);
  const bool is_hopper = yk_cuda_device_of(dev)->wna16.path == YK_GEMM_WGMMA;
  dev->ops->destroy(dev);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char text[160];
    const int32_t n_rows = cases[i].n_rows;
    const mixture_case c = cases[i].is_fp4 ? planned_fp4_case(n_rows) : planned_case(n_rows);
    const yk_moe_plan plan = plan_of(&cuda_target, &c, cases[i].n_ranks == 1, false);
    yk_moe_plan_print(&plan, text, sizeof text);
    printf("%s\n", text);
    if (is_hopper) assert_string_equal(text, cases[i].text);
  }
  const mixture_case one = planned_case(1);
  const yk_moe_plan before = plan_of(&mma_target, &one, false, false), cut = plan_of(&cuda_target, &one, false, true);
  assert_false(before.is_single_token || before.shared_down == YK_MOE_SHARED_FUSED);
  assert_int_equal(before.combination, YK_MOE_COMBINATION_APART);
  assert_false(cut.is_single_token); /* ranks exchange values between its GEMMs */
}

/* Mixtures that some kernels do not take, after a norm. */
static void test_plans_of_other_mixtures(void **state)
{
  (void)state;
  static const struct {
    mixture_case c;
    const char *text;
  } cases[] = {
      {{1, 2048, 256, 896, 128, 128, .is_plain = true},
       "1 row: norm apart, single token kernel, shared gate_up fused, shared down fused, combination in down"},
      {{8, 2048, 256, 896, 128, 128, .is_plain = true},
       "8 rows: norm in router, router kernel, shared gate_up apart, shared down fused, slots"},
      {{1, 2048, 256, 896, 128, 128, .latent = 512},
       "1 row: norm apart, router kernel, shared gate_up apart, shared down apart, combination in down"},
      {{8, 2048, 256, 896, 128, 128, .latent = 512},
       "8 rows: norm in router, router kernel, shared gate_up apart, shared down apart, combination apart"},
      {{1, 2048, 256, 896, 128, 128, .weighs_inputs = true},
       "1 row: norm apart, router kernel, shared gate_up apart, shared down apart, combination apart"},
      {{8, 2048, 256, 896, 128, 128, .weighs_inputs = true},
       "8 rows: norm in router, router kernel, shared gate_up apart, shared down apart, slots"},
      {{1, 2048, 256, 0, 128, 0, .has_branches = true},
       "1 row: norm apart, router kernel, shared gate_up none, shared down none, combination in down"},
      {{8, 2048, 256, 0, 128, 0, .has_branches = true},
       "8 rows: norm apart, router kernel, shared gate_up none, shared down none, slots"},
  };
  yk_device *dev = op_device_new(&cuda_target, YK_F16, 1, 16);
  const bool is_hopper = yk_cuda_device_of(dev)->wna16.path == YK_GEMM_WGMMA;
  dev->ops->destroy(dev);
  for (size_t i = 0; each_case(i, is_hopper && i < sizeof cases / sizeof *cases); i++) {
    char text[160];
    const yk_moe_plan plan = plan_of(&cuda_target, &cases[i].c, true, false);
    yk_moe_plan_print(&plan, text, sizeof text);
    assert_string_equal(text, cases[i].text);
  }
}

static void expect_refusal(yk_device *dev, const yk_linear_spec *spec, yk_status expected, const char *part)
{
  yk_linear *linear = NULL;
  yk_err refusal = YK_ERR_INIT;
  assert_int_equal(dev->ops->linear_create(dev, spec, &linear, &refusal), expected);
  if (!strstr(refusal.message, part)) fail_msg("\"%s\" does not have \"%s\"", refusal.message, part);
}

/* Layers that are not one GEMM of act, and rows of y that are not adjacent. */
static void test_refusals(void **state)
{
  (void)state;
  yk_device *dev = op_device_new(&cuda_target, YK_F16, 1, 16);
  linear_run run = linear_run_new(dev, &grouped_cases[0], 3, 5);
  yk_linear_spec spec = run.spec;
  yk_linear *linear = NULL;
  yk_err refusal = YK_ERR_INIT;
  spec.is_grouped = true;
  op_ok(dev->ops->linear_create(dev, &spec, &linear, &err));
  const yk_grouped_args args = {.x = run.x.dev, .n_rows = 1, .max_slots = 1, .y_stride = 88};
  assert_int_equal(op_parts_of(dev).grouped(dev, linear, &args, &refusal), YK_E_INVAL);
  assert_non_null(strstr(refusal.message, "rows of y 80 apart, found 88"));
  dev->ops->linear_destroy(dev, linear);
  spec.max_tokens = (1 << 20) + 1;
  expect_refusal(dev, &spec, YK_E_UNSUPPORTED, "at most 1048576 slots (rows times experts of a row), found 1048577");
  spec.max_tokens = run.spec.max_tokens;
  spec.f32_output = true;
  expect_refusal(dev, &spec, YK_E_UNSUPPORTED, "float32 output");
  spec.f32_output = false;
  spec.n_parts = 2;
  spec.parts[1] = spec.parts[0];
  spec.parts[1].as_16_bits = true;
  expect_refusal(dev, &spec, YK_E_UNSUPPORTED, "expected one GEMM, found 2");
  linear_run_free(dev, &run);
  dev->ops->destroy(dev);
}

int main(void)
{
  int gate = gpu_gate(1);
  if (gate != GPU_GO) return gate;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_routing),
      cmocka_unit_test(test_routers),
      cmocka_unit_test(test_combination),
      cmocka_unit_test(test_grouped_layers),
      cmocka_unit_test(test_tiles_agree),
      cmocka_unit_test(test_grouped_row),
      cmocka_unit_test(test_grouped_orders),
      cmocka_unit_test(test_grouped_orders_of_long_rows),
      cmocka_unit_test(test_refusals),
      cmocka_unit_test(test_grouped_w8a8),
      cmocka_unit_test(test_mixture),
      cmocka_unit_test(test_plans),
      cmocka_unit_test(test_plans_of_other_mixtures),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
