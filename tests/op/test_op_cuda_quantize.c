/* Quantisation on a GPU: the tensors equal the CPU's, bit for bit, for every type, group and shape; weights that cannot
 * be quantised are found; the inputs of a search equal the CPU's within the rounding of GEMMs. */
#include "base/checked.h"
#include "each_case.h"
#include "op/op_cuda_target.h"

/* A weight and its tensors in host memory. */
typedef struct sample {
  yk_awq_floats weight;
  void *w;
  float *n_scales, *k_scales, *limits;
} sample;

/* Many weights are ties, or near the ends of their type; whole groups have one sign. */
static float draw(op_random *random, int64_t which)
{
  float w = 2.0f * (float)op_uniform(random) - 1.0f;
  switch (which) {
  case 1: return fabsf(w) * 1e-3f;
  case 2: return (float)(int)(w * 8) / 8.0f;
  case 3: return w * 1e-6f;
  case 4: return -fabsf(w);
  case 5: return 0.0f;
  case 6: return w * 30000.0f;
  default: return w;
  }
}

static sample sample_make(yk_dtype dtype, int64_t n, int64_t k, int64_t group, uint32_t seed)
{
  op_random random = {.seed = seed};
  sample s = {.weight = {.dtype = dtype, .n = n, .k = k, .group = group}};
  size_t count = (size_t)(n * k), n_groups = (size_t)(k / group);
  s.w = malloc(count * yk_dtype_bytes(dtype));
  s.n_scales = malloc((size_t)n * sizeof(float));
  s.k_scales = malloc((size_t)k * sizeof(float));
  s.limits = malloc((size_t)n * n_groups * sizeof(float));
  assert_true(s.w && s.n_scales && s.k_scales && s.limits);
  for (size_t i = 0; i < count; i++) yk_dtype_store(dtype, s.w, i, draw(&random, (int64_t)i / group % 9));
  for (int64_t i = 0; i < n; i++) s.n_scales[i] = 0.3f + (float)op_uniform(&random);
  for (int64_t i = 0; i < k; i++) s.k_scales[i] = 0.3f + 2.0f * (float)op_uniform(&random);
  for (size_t i = 0; i < (size_t)n * n_groups; i++) s.limits[i] = 0.2f + 2.0f * (float)op_uniform(&random);
  s.weight.w = s.w;
  return s;
}

static void sample_free(sample *s)
{
  free(s->w);
  free(s->n_scales);
  free(s->k_scales);
  free(s->limits);
}

/* ---- Device memory ----------------------------------------------------------------------------------------------- */

static void *device_memory(yk_device *dev, int64_t n_bytes)
{
  void *memory = NULL;
  op_ok(dev->ops->alloc(dev, (size_t)n_bytes, &memory, &err));
  return memory;
}

static const void *sent(yk_device *dev, const void *from, int64_t n_bytes)
{
  if (!from) return NULL;
  void *to = device_memory(dev, n_bytes);
  op_ok(dev->ops->upload(dev, to, from, (size_t)n_bytes, &err));
  return to;
}

static void fetch(yk_device *dev, void *to, const void *from, int64_t n_bytes)
{
  op_ok(dev->ops->download(dev, to, from, (size_t)n_bytes, &err));
}

static yk_awq_floats send_weight(yk_device *dev, const yk_awq_floats *weight)
{
  yk_awq_floats sent_weight = *weight;
  int64_t n_groups = weight->k / weight->group;
  sent_weight.w = sent(dev, weight->w, weight->n * weight->k * (int64_t)yk_dtype_bytes(weight->dtype));
  sent_weight.n_scales = sent(dev, weight->n_scales, weight->n * 4);
  sent_weight.k_scales = sent(dev, weight->k_scales, weight->k * 4);
  sent_weight.limits = sent(dev, weight->limits, weight->n * n_groups * 4);
  return sent_weight;
}

static void free_weight(yk_device *dev, const yk_awq_floats *weight)
{
  const void *const parts[] = {weight->w, weight->n_scales, weight->k_scales, weight->limits};
  for (size_t i = 0; i < 4; i++) dev->ops->free(dev, (void *)parts[i]);
}

/* ---- Words ------------------------------------------------------------------------------------------------------- */

/* The three tensors, one after the other. */
static int64_t tensors_bytes(const yk_awq_floats *weight)
{
  return weight->n * weight->k / 2 + weight->n * (weight->k / weight->group) * 5 / 2;
}

static yk_awq_found quantise(yk_device *dev, const yk_awq_floats *weight, void *tensors)
{
  yk_awq_floats on_device = send_weight(dev, weight);
  char *out = device_memory(dev, tensors_bytes(weight));
  int64_t zeros_at = weight->n * weight->k / 2, scales_at = zeros_at + weight->n * (weight->k / weight->group) / 2;
  yk_awq_quantize_args args = {
      .weight = on_device,
      .out = {(uint32_t *)(void *)out, (uint32_t *)(void *)(out + zeros_at), (uint16_t *)(void *)(out + scales_at)},
      .found = device_memory(dev, sizeof(yk_awq_found))};
  yk_awq_found found;
  op_ok(dev->ops->awq_quantize(dev, &args, &err));
  fetch(dev, tensors, out, tensors_bytes(weight));
  fetch(dev, &found, args.found, sizeof found);
  dev->ops->free(dev, out);
  dev->ops->free(dev, args.found);
  free_weight(dev, &on_device);
  return found;
}

static void expect_same(yk_device *cpu, yk_device *gpu, const yk_awq_floats *weight)
{
  char *a = malloc((size_t)tensors_bytes(weight)), *b = malloc((size_t)tensors_bytes(weight));
  assert_true(a && b);
  assert_int_equal(quantise(cpu, weight, a).first_bad, -1);
  assert_int_equal(quantise(gpu, weight, b).first_bad, -1);
  for (int64_t i = 0; i < tensors_bytes(weight); i++)
    if (a[i] != b[i])
      fail_msg("%s, %d x %d, groups of %d%s: byte %d of %d", yk_dtype_name(weight->dtype), (int)weight->n,
               (int)weight->k, (int)weight->group, weight->k_scales ? ", scaled" : "", (int)i,
               (int)tensors_bytes(weight));
  free(a);
  free(b);
}

static void test_words(void **state)
{
  (void)state;
  static const int64_t sizes[][3] = {{8, 32, 32},        {24, 96, 32},       {264, 192, 64},   {1000, 640, 32},
                                     {72, 384, 128},     {40, 640, 640},     {2600, 96, 96},   {16, 100, 100},
                                     {56, 37, 37},       {64, 128, 128},     {8, 8192, 64},    {512, 1024, 128},
                                     {8, 8, 8},          {520, 640, 32},     {328, 1280, 64},  {136, 5120, 5120},
                                     {72, 12288, 12288}, {64, 14336, 14336}, {3000, 512, 512}, {2056, 4096, 4096}};
  yk_device *cpu = NULL, *gpu = op_device_new(&cuda_target, YK_F16, 1, 16);
  const yk_device_limits limits = {.max_tokens = 1, .max_seqs = 1, .max_model_tokens = 1, .vocab = 1};
  op_ok(yk_cpu_device_create(YK_F32, 4, &limits, &cpu, &err));
  for (size_t i = 0; each_case(i, i < sizeof sizes / sizeof *sizes - (gpu_is_small() ? 1 : 0)); i++)
    for (int type = 0; type < 3; type++) {
      sample s = sample_make(op_dtypes[type], sizes[i][0], sizes[i][1], sizes[i][2], (uint32_t)i);
      expect_same(cpu, gpu, &s.weight);
      s.weight.n_scales = s.n_scales;
      s.weight.k_scales = s.k_scales;
      expect_same(cpu, gpu, &s.weight);
      s.weight.limits = s.limits;
      expect_same(cpu, gpu, &s.weight);
      sample_free(&s);
    }
  gpu->ops->destroy(gpu);
  cpu->ops->destroy(cpu);
}

/* Every pair of an 11-bit weight and an 11-bit scale that is a tie, or next to one. */
static void test_ties(void **state)
{
  (void)state;
  enum { N = 1024, K = 64 };
  yk_device *cpu = NULL, *gpu = op_device_new(&cuda_target, YK_F16, 1, 16);
  const yk_device_limits limits = {.max_tokens = 1, .max_seqs = 1, .max_model_tokens = 1, .vocab = 1};
  op_ok(yk_cpu_device_create(YK_F32, 4, &limits, &cpu, &err));
  uint16_t *w = malloc(sizeof(uint16_t) * N * K);
  assert_non_null(w);
  for (int row = 0; row < N; row++) { /* whose scale is approximately 1 + row / 1024 */
    float scale = 1.0f + (float)row / 1024.0f;
    for (int i = 0; i < K; i++) {
      float half = (float)(i / 4 % 15) + 0.5f;
      w[row * K + i] = (uint16_t)(yk_f32_to_f16(half * scale) + i % 4 - 1);
    }
    w[row * K] = yk_f32_to_f16(0.0f);
    w[row * K + 1] = w[row * K + 33] = yk_f32_to_f16(15.0f * scale);
  }
  yk_awq_floats weight = {.w = w, .dtype = YK_F16, .n = N, .k = K, .group = 32};
  expect_same(cpu, gpu, &weight);
  free(w);
  gpu->ops->destroy(gpu);
  cpu->ops->destroy(cpu);
}

static void test_refused(void **state)
{
  (void)state;
  static const struct {
    int64_t at;
    float value;
  } bad[] = {{9 * 192 + 70, NAN}, {9 * 192 + 63, -INFINITY}, {2 * 192 + 191, 1e6f}, {0, INFINITY}};
  static const int64_t groups[] = {64, 192};
  yk_device *cpu = NULL, *gpu = op_device_new(&cuda_target, YK_F16, 1, 16);
  const yk_device_limits limits = {.max_tokens = 1, .max_seqs = 1, .max_model_tokens = 1, .vocab = 1};
  op_ok(yk_cpu_device_create(YK_F32, 4, &limits, &cpu, &err));
  for (size_t i = 0; each_case(i, i < sizeof bad / sizeof *bad); i++)
    for (int type = 0; type < 3; type++)
      for (int which = 0; which < 4; which++) {
        char out[2][16 * 192];
        sample s = sample_make(op_dtypes[type], 16, 192, groups[which % 2], 1);
        yk_dtype_store(op_dtypes[type], s.w, (size_t)bad[i].at, bad[i].value);
        yk_dtype_store(op_dtypes[type], s.w, 15 * 192 + 3, NAN); /* a later weight: the first is reported */
        if (which > 1) s.weight.k_scales = s.k_scales;
        int64_t expected = quantise(cpu, &s.weight, out[0]).first_bad;
        assert_true(expected >= 0);
        assert_int_equal(quantise(gpu, &s.weight, out[1]).first_bad, expected);
        sample_free(&s);
      }
  sample s = sample_make(YK_F16, 16, 192, 48, 1);
  yk_awq_quantize_args args = {.weight = s.weight};
  yk_err err = YK_ERR_INIT;
  assert_int_equal(gpu->ops->awq_quantize(gpu, &args, &err), YK_E_UNSUPPORTED);
  if (!strstr(err.message, "found 48")) fail_msg("%s", err.message);
  sample_free(&s);
  gpu->ops->destroy(gpu);
  cpu->ops->destroy(cpu);
}

/* ---- The search -------------------------------------------------------------------------------------------------- */

static void test_observe(void **state)
{
  (void)state;
  enum { TOKENS = 37, TEXT = 50, KEPT = 16, K = 200, STRIDE = 208 };
  for (int type = 0; type < N_GPU_DTYPES; type++) {
    double sums[2][K];
    float kept[2][KEPT * K];
    for (int which = 0; which < 2; which++) {
      yk_device *dev = NULL;
      const yk_device_limits limits = {.max_tokens = 1, .max_seqs = 1, .max_model_tokens = 1, .vocab = 1};
      if (which == 0)
        op_ok(yk_cpu_device_create(gpu_dtypes[type], 2, &limits, &dev, &err));
      else
        dev = op_device_new(&cuda_target, gpu_dtypes[type], 1, 16);
      op_random random = {.seed = 5};
      op_array x = op_array_random(dev, gpu_dtypes[type], TOKENS * STRIDE, 1.0, &random);
      yk_awq_observe_args args = {.x = x.dev, .x_stride = STRIDE, .n_text = TEXT, .n_kept = KEPT, .k = K};
      args.sums = device_memory(dev, sizeof sums[0]);
      args.kept = device_memory(dev, sizeof kept[0]);
      const int32_t ends[] = {0, 20, TOKENS};
      for (int i = 0; i < 2; i++) { /* in two windows */
        args.first_token = ends[i];
        args.n_tokens = ends[i + 1] - ends[i];
        args.x = (const char *)x.dev + (size_t)ends[i] * STRIDE * 2;
        op_ok(dev->ops->awq_observe(dev, &args, &err));
      }
      fetch(dev, sums[which], args.sums, sizeof sums[0]);
      fetch(dev, kept[which], args.kept, sizeof kept[0]);
      dev->ops->free(dev, args.sums);
      dev->ops->free(dev, args.kept);
      op_array_free(dev, &x);
      dev->ops->destroy(dev);
    }
    assert_memory_equal(sums[0], sums[1], sizeof sums[0]);
    assert_memory_equal(kept[0], kept[1], sizeof kept[0]);
    assert_true(kept[0][0] != 0 && sums[0][K - 1] > 1);
  }
}

enum { SEARCH_N = 2100, SEARCH_K = 256, SEARCH_GROUP = 64, SEARCH_ROWS = 48 };

typedef struct searched {
  double loss;
  float *limits; /* [SEARCH_N, SEARCH_K / SEARCH_GROUP] */
} searched;

static searched search(yk_device *dev, const yk_awq_floats *weight, const float *rows)
{
  yk_awq_floats on_device = send_weight(dev, weight);
  int64_t n_limits = weight->n * (weight->k / weight->group);
  float *scratch = device_memory(dev, 4 * yk_awq_scratch_floats(weight->n, weight->k, SEARCH_ROWS));
  float *grams = device_memory(dev, 4 * weight->k * weight->group), *limits = device_memory(dev, 4 * n_limits);
  const float *x = sent(dev, rows, 4 * SEARCH_ROWS * SEARCH_K);
  yk_awq_found *at = device_memory(dev, sizeof *at), found;
  searched out = {.limits = malloc(4 * (size_t)n_limits)};
  assert_non_null(out.limits);
  const yk_awq_loss_args loss = {on_device, x, SEARCH_ROWS, scratch, at};
  op_ok(dev->ops->awq_loss(dev, &loss, &err));
  fetch(dev, &found, at, sizeof found);
  assert_int_equal(found.first_bad, -1);
  out.loss = found.loss;
  const yk_awq_limits_args find = {on_device, x, SEARCH_ROWS, grams, scratch, limits, at};
  op_ok(dev->ops->awq_limits(dev, &find, &err));
  fetch(dev, &found, at, sizeof found);
  assert_int_equal(found.first_bad, -1);
  fetch(dev, out.limits, limits, 4 * n_limits);
  void *const buffers[] = {scratch, grams, limits, (void *)x, at};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) dev->ops->free(dev, buffers[i]);
  free_weight(dev, &on_device);
  return out;
}

/* Limits of the grid that are equally good to the last bits may be interchanged. */
static void test_search(void **state)
{
  (void)state;
  float *rows = malloc(sizeof(float) * SEARCH_ROWS * SEARCH_K);
  op_random random = {.seed = 9};
  yk_device *cpu = NULL, *gpu = op_device_new(&cuda_target, YK_BF16, 1, 16);
  const yk_device_limits limits = {.max_tokens = SEARCH_ROWS, .max_seqs = 1, .max_model_tokens = 1, .vocab = 1};
  assert_non_null(rows);
  op_ok(yk_cpu_device_create(YK_F32, 4, &limits, &cpu, &err));
  for (int i = 0; i < SEARCH_ROWS * SEARCH_K; i++) rows[i] = (float)op_normal(&random);
  for (int type = 0; type < 3; type++) {
    sample s = sample_make(op_dtypes[type], SEARCH_N, SEARCH_K, SEARCH_GROUP, 3);
    s.weight.k_scales = s.k_scales;
    searched a = search(cpu, &s.weight, rows), b = search(gpu, &s.weight, rows);
    int n_limits = SEARCH_N * (SEARCH_K / SEARCH_GROUP), n_other = 0, n_cut = 0;
    if (fabs(b.loss / a.loss - 1) > 1e-3) fail_msg("loss %g, expected %g", b.loss, a.loss);
    for (int i = 0; i < n_limits; i++) n_other += a.limits[i] != b.limits[i];
    for (int i = 1; i < n_limits; i++) n_cut += b.limits[i] < b.limits[0];
    if (n_other > n_limits / 100) fail_msg("%d of %d limits differ", n_other, n_limits);
    assert_true(n_cut > 0);
    free(a.limits);
    free(b.limits);
    sample_free(&s);
  }
  free(rows);
  gpu->ops->destroy(gpu);
  cpu->ops->destroy(cpu);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_words), cmocka_unit_test(test_ties),
                                     cmocka_unit_test(test_refused), cmocka_unit_test(test_observe),
                                     cmocka_unit_test(test_search)};
  int gate = gpu_gate(1);
  return gate != GPU_GO ? gate : cmocka_run_group_tests(tests, NULL, NULL);
}
