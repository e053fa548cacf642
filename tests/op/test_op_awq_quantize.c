/* Quantisation to AWQ's 4-bit integers: bit for bit the numpy result of the definition, on any number of threads.
 * Scales, limits and rounding errors are compared with plain loops. Weights that cannot be quantised are named. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/rng.h"
#include "each_case.h"
#include "kernels/cpu/cpu_awq.h"
#include "loader/safetensors/safetensors.h"
#include "op/awq_values.h"

static yk_cpu_pool *pool_make(int n_threads)
{
  yk_cpu_pool *pool;
  assert_int_equal(yk_cpu_pool_create(n_threads, &pool, NULL), YK_OK);
  return pool;
}

/* ---- Goldens ----------------------------------------------------------------------------------------------------- */

static const yk_tensor *find(const yk_safetensors *file, const char *name, const char *suffix)
{
  char wanted[64];
  snprintf(wanted, sizeof wanted, "%s.%s", name, suffix);
  for (size_t i = 0; i < yk_safetensors_count(file); i++)
    if (strcmp(yk_safetensors_at(file, i)->name, wanted) == 0) return yk_safetensors_at(file, i);
  fail_msg("no golden %s", wanted);
  return NULL;
}

static yk_dtype dtype_of(const yk_tensor *tensor)
{
  return tensor->dtype == YK_TENSOR_F16 ? YK_F16 : tensor->dtype == YK_TENSOR_BF16 ? YK_BF16 : YK_F32;
}

static void check_golden(const yk_safetensors *file, const char *name, int n_threads)
{
  const yk_tensor *w = find(file, name, "w"), *qweight = find(file, name, "qweight");
  const yk_tensor *qzeros = find(file, name, "qzeros"), *scales = find(file, name, "scales");
  yk_awq_floats weight = {.w = w->data, .dtype = dtype_of(w), .n = w->shape[0], .k = w->shape[1]};
  weight.group = weight.k / scales->shape[0];
  yk_awq_tensors out = {malloc(qweight->n_bytes), malloc(qzeros->n_bytes), malloc(scales->n_bytes)};
  yk_cpu_pool *pool = pool_make(n_threads);
  assert_int_equal(yk_awq_quantize(pool, &weight, &out), -1);
  if (memcmp(out.scales, scales->data, scales->n_bytes) != 0) fail_msg("%s: scales", name);
  if (memcmp(out.qzeros, qzeros->data, qzeros->n_bytes) != 0) fail_msg("%s: zeros", name);
  if (memcmp(out.qweight, qweight->data, qweight->n_bytes) != 0) fail_msg("%s: q", name);
  yk_cpu_pool_destroy(pool);
  free(out.qweight);
  free(out.qzeros);
  free(out.scales);
}

static void test_goldens(void **state)
{
  (void)state;
  static const char *const names[] = {"f16_g32", "bf16_g64", "f32_g128", "f16_all", "f32_all"};
  yk_safetensors *file;
  yk_err err = YK_ERR_INIT;
  if (yk_safetensors_open(YOKE_TESTS_DIR "/golden/quantize/rtn.safetensors", &file, &err) != YK_OK)
    fail_msg("%s", err.message);
  for (size_t i = 0; each_case(i, i < sizeof names / sizeof *names); i++)
    for (int n_threads = 1; n_threads <= 3; n_threads++) check_golden(file, names[i], n_threads);
  yk_safetensors_close(file);
}

/* ---- Scales, limits, errors -------------------------------------------------------------------------------------- */

enum { N = 16, K = 192, GROUP = 64, GROUPS = K / GROUP, ROWS = 24 };

typedef struct fixture {
  float w[N * K], n_scales[N], k_scales[K], limits[N * GROUPS], rows[ROWS * K];
  yk_awq_floats weight;
} fixture;

static fixture *fixture_make(void)
{
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  for (int i = 0; i < N * K; i++) f->w[i] = (float)yk_rng_uniform(1, 0, (uint32_t)i) - 0.5f;
  for (int i = 0; i < N * K; i += 29) f->w[i] *= 4.0f;
  for (int i = 0; i < N; i++) f->n_scales[i] = 0.5f + (float)yk_rng_uniform(2, 0, (uint32_t)i);
  for (int i = 0; i < K; i++) f->k_scales[i] = 0.5f + 2.0f * (float)yk_rng_uniform(3, 0, (uint32_t)i);
  for (int i = 0; i < ROWS * K; i++) f->rows[i] = 2.0f * (float)yk_rng_uniform(4, 0, (uint32_t)i) - 1.0f;
  f->weight = (yk_awq_floats){.w = f->w, .dtype = YK_F32, .n = N, .k = K, .group = GROUP};
  return f;
}

/* Values of the words: element (n, k) of scale * (q - zero). */
static void dequantise(const yk_awq_tensors *in, float *out)
{
  for (int n = 0; n < N; n++)
    for (int k = 0; k < K; k++) {
      int group = k / GROUP;
      float scale = yk_f16_to_f32(in->scales[group * N + n]);
      out[n * K + k] = scale * ((float)awq_value(in->qweight, N, k, n) - (float)awq_value(in->qzeros, N, group, n));
    }
}

/* Scales and limits equal those of a weight that was multiplied and clamped beforehand; errors are those of the
 * words. */
static void test_scales_limits_errors(void **state)
{
  (void)state;
  fixture *f = fixture_make();
  uint32_t qweight[2][K * N / 8], qzeros[2][GROUPS * N / 8];
  uint16_t scales[2][GROUPS * N];
  static float before[N * K], made[N * K], errors[N * K];
  yk_cpu_pool *pool = pool_make(2);
  for (int i = 0; i < N * GROUPS; i++) f->limits[i] = 0.4f + 0.02f * (float)i;
  for (int n = 0; n < N; n++)
    for (int k = 0; k < K; k++) {
      float limit = f->limits[n * GROUPS + k / GROUP], w = f->w[n * K + k] * f->n_scales[n] * f->k_scales[k];
      before[n * K + k] = fminf(fmaxf(w, -limit), limit);
    }
  yk_awq_floats cut = f->weight, scaled = f->weight;
  cut.w = before;
  scaled.n_scales = f->n_scales;
  scaled.k_scales = f->k_scales;
  scaled.limits = f->limits;
  const yk_awq_tensors out[2] = {{qweight[0], qzeros[0], scales[0]}, {qweight[1], qzeros[1], scales[1]}};
  assert_int_equal(yk_awq_quantize(pool, &cut, &out[0]), -1);
  assert_int_equal(yk_awq_quantize(pool, &scaled, &out[1]), -1);
  assert_memory_equal(qweight[0], qweight[1], sizeof qweight[0]);
  assert_memory_equal(qzeros[0], qzeros[1], sizeof qzeros[0]);
  assert_memory_equal(scales[0], scales[1], sizeof scales[0]);
  assert_int_equal(yk_awq_errors(pool, &scaled, errors), -1);
  dequantise(&out[1], made);
  for (int i = 0; i < N * K; i++) {
    float expected = made[i] / f->n_scales[i / K] / f->k_scales[i % K] - f->w[i];
    if (fabsf(errors[i] - expected) > 1e-6f) fail_msg("error %d: %g, expected %g", i, errors[i], expected);
  }
  yk_cpu_pool_destroy(pool);
  free(f);
}

/* The loss of a limit, for one output and group, from the inputs themselves. */
static double loss_with(const fixture *f, int n, int group, float limit)
{
  float limits[N * GROUPS], errors[N * K];
  for (int i = 0; i < N * GROUPS; i++) limits[i] = limit;
  yk_awq_floats weight = f->weight;
  weight.limits = limits;
  yk_cpu_pool *pool = pool_make(1);
  assert_int_equal(yk_awq_errors(pool, &weight, errors), -1);
  yk_cpu_pool_destroy(pool);
  double loss = 0;
  for (int row = 0; row < ROWS; row++) {
    double sum = 0;
    for (int k = group * GROUP; k < (group + 1) * GROUP; k++)
      sum += (double)errors[n * K + k] * (double)f->rows[row * K + k];
    loss += sum * sum;
  }
  return loss / ROWS;
}

/* The chosen limit is on the grid, and no other limit of the grid is better. */
static void test_find_limits(void **state)
{
  (void)state;
  fixture *f = fixture_make();
  float *grams = malloc(sizeof(float) * GROUPS * GROUP * GROUP), limits[N * GROUPS];
  yk_cpu_pool *pool = pool_make(2);
  int n_cut = 0;
  yk_awq_grams(pool, f->rows, ROWS, K, GROUP, NULL, grams);
  assert_int_equal(yk_awq_find_limits(pool, &f->weight, grams, limits), -1);
  for (int n = 0; n < N; n++)
    for (int group = 0; group < GROUPS; group++) {
      float most = 0;
      for (int k = group * GROUP; k < (group + 1) * GROUP; k++) most = fmaxf(most, fabsf(f->w[n * K + k]));
      float found = limits[n * GROUPS + group];
      double loss = loss_with(f, n, group, found);
      n_cut += found < most;
      for (int i = 0; i < 10; i++) {
        double other = loss_with(f, n, group, most * (1.0f - (float)i / 20));
        if (other < loss * (1 - 1e-4)) fail_msg("output %d, group %d: limit %d is better", n, group, i);
      }
      if (found > most || found < 0.549f * most) fail_msg("output %d, group %d: limit %g of %g", n, group, found, most);
    }
  assert_true(n_cut > 0);
  yk_cpu_pool_destroy(pool);
  free(grams);
  free(f);
}

/* ---- Operations of the device ------------------------------------------------------------------------------------ */

/* The loss equals errors times rows, multiplied in plain loops. */
static void test_loss(void **state)
{
  (void)state;
  fixture *f = fixture_make();
  static float errors[N * K];
  float *scratch = calloc((size_t)yk_awq_scratch_floats(N, K, ROWS), sizeof(float));
  const yk_device_limits limits = {.max_tokens = ROWS, .max_seqs = 1, .max_model_tokens = 1, .vocab = 1};
  yk_awq_found found;
  yk_awq_loss_args args = {.weight = f->weight, .rows = f->rows, .n_rows = ROWS, .scratch = scratch, .found = &found};
  yk_cpu_pool *pool = pool_make(2);
  yk_device *dev;
  yk_err err = YK_ERR_INIT;
  double expected = 0;
  args.weight.k_scales = f->k_scales;
  assert_int_equal(yk_awq_errors(pool, &args.weight, errors), -1);
  for (int row = 0; row < ROWS; row++)
    for (int n = 0; n < N; n++) {
      double sum = 0;
      for (int k = 0; k < K; k++) sum += (double)errors[n * K + k] * (double)f->rows[row * K + k];
      expected += sum * sum;
    }
  assert_int_equal(yk_cpu_device_create(YK_F32, 2, &limits, &dev, NULL), YK_OK);
  assert_int_equal(dev->ops->awq_loss(dev, &args, NULL), YK_OK);
  assert_int_equal(found.first_bad, -1);
  assert_true(fabs(found.loss / expected - 1) < 1e-5);
  f->w[3 * K + 70] = NAN;
  assert_int_equal(dev->ops->awq_loss(dev, &args, NULL), YK_OK);
  assert_int_equal(found.first_bad, 3 * GROUPS + 1);
  dev->ops->destroy(dev);
  assert_int_equal(yk_cpu_device_create(YK_F16, 1, &limits, &dev, NULL), YK_OK);
  assert_int_equal(dev->ops->awq_loss(dev, &args, &err), YK_E_UNSUPPORTED);
  assert_non_null(strstr(err.message, "float32"));
  dev->ops->destroy(dev);
  yk_cpu_pool_destroy(pool);
  free(scratch);
  free(f);
}

/* ---- Weights that cannot be quantised ---------------------------------------------------------------------------- */

static void expect_refused(yk_cpu_pool *pool, fixture *f, float *at, float value, const char *words)
{
  uint32_t qweight[K * N / 8], qzeros[GROUPS * N / 8];
  uint16_t scales[GROUPS * N];
  const yk_awq_tensors out = {qweight, qzeros, scales};
  static float errors[N * K], limits[N * GROUPS];
  float *grams = calloc((size_t)GROUPS * GROUP * GROUP, sizeof(float)), kept = *at;
  yk_err err = YK_ERR_INIT;
  *at = value;
  yk_awq_found found = {.first_bad = yk_awq_quantize(pool, &f->weight, &out)};
  assert_int_equal(yk_awq_check(&f->weight, &found, &err), YK_E_FORMAT);
  if (!strstr(err.message, words)) fail_msg("expected \"%s\", found: %s", words, err.message);
  assert_int_equal(yk_awq_errors(pool, &f->weight, errors), found.first_bad);
  assert_int_equal(yk_awq_find_limits(pool, &f->weight, grams, limits), found.first_bad);
  *at = kept;
  free(grams);
}

static void test_refused(void **state)
{
  (void)state;
  fixture *f = fixture_make();
  yk_cpu_pool *pool = pool_make(2);
  f->w[15 * K + 3] = NAN; /* a later weight: the first is named */
  expect_refused(pool, f, &f->w[9 * K + 70], NAN, "output 9, inputs 64 to 127");
  expect_refused(pool, f, &f->w[9 * K + 63], -INFINITY, "output 9, inputs 0 to 63");
  expect_refused(pool, f, &f->w[2 * K + 191], 1e6f, "output 2, inputs 128 to 191");
  f->w[15 * K + 3] = 15 * 65504.0f; /* the largest value with a representable scale */
  uint32_t qweight[K * N / 8], qzeros[GROUPS * N / 8];
  uint16_t scales[GROUPS * N];
  f->w[15 * K + 4] = 0;
  const yk_awq_tensors out = {qweight, qzeros, scales};
  assert_int_equal(yk_awq_quantize(pool, &f->weight, &out), -1);
  assert_int_equal(scales[15], 0x7BFF);
  yk_cpu_pool_destroy(pool);
  free(f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_goldens), cmocka_unit_test(test_scales_limits_errors),
                                     cmocka_unit_test(test_find_limits), cmocka_unit_test(test_loss),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
