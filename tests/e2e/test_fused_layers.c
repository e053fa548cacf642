/* test_fused_layers.c - a model on a device whose linear layers norm their inputs, and add their results to the
 * residual, where the model permits that: the answers have the bits of a device that runs these operations one by one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "e2e/engine_fixture.h"
#include "each_case.h"
#include "kernels/device.h"

/* ---- A CPU device that fuses ------------------------------------------------------------------------------------- */

enum { FUSES_NORMS = 1, FUSES_SUMS = 2, FUSES_IN_EVERY_OTHER_CALL = 4 };
static atomic_int fused;  /* a sum of these modes */
static atomic_int hidden; /* of the model; 0: nothing is fused */
static atomic_int n_calls, n_norms, n_sums;
static const yk_device_ops *plain_ops;
static yk_device_ops fusing_ops;

yk_status __real_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err);
yk_status __wrap_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err);

static bool linear_fuses(yk_device *dev, const yk_linear *linear, const yk_linear_args *args)
{
  (void)dev, (void)linear;
  assert_true(args->norm_w || args->adds);
  const int mode = atomic_load(&fused);
  if (!atomic_load(&hidden) || ((mode & FUSES_IN_EVERY_OTHER_CALL) && atomic_fetch_add(&n_calls, 1) % 2)) return false;
  return (!args->norm_w || (mode & FUSES_NORMS)) && (!args->adds || (mode & FUSES_SUMS));
}

static yk_status linear_forward(yk_device *dev, const yk_linear *linear, const yk_linear_args *args, yk_err *err)
{
  const size_t n_bytes = (size_t)args->n_tokens * (size_t)atomic_load(&hidden) * yk_dtype_bytes(dev->dtype);
  char *rows = malloc(2 * n_bytes + 1), *normed = rows, *result = rows + n_bytes;
  assert_non_null(rows);
  yk_linear_args plain = *args;
  yk_status status = YK_OK;
  plain.norm_w = NULL;
  plain.adds = false;
  if (args->norm_w) {
    const yk_rms_norm_args norm = {.y = normed,
                                   .x = args->x,
                                   .w = args->norm_w,
                                   .x_stride = hidden,
                                   .n_rows = args->n_tokens,
                                   .hidden = hidden,
                                   .eps = args->norm_eps};
    atomic_fetch_add(&n_norms, 1);
    plain.x = normed;
    status = plain_ops->rms_norm(dev, &norm, err);
  }
  if (args->adds) {
    assert_int_equal(args->y_stride, hidden);
    plain.y = result;
  }
  if (status == YK_OK) status = plain_ops->linear_forward(dev, linear, &plain, err);
  if (args->adds && status == YK_OK) {
    const yk_add_norm_args sum = {.residual = args->y,
                                  .partials = {result},
                                  .n_partials = 1,
                                  .n_rows = args->n_tokens,
                                  .hidden = hidden,
                                  .alpha = args->alpha};
    atomic_fetch_add(&n_sums, 1);
    status = plain_ops->add_norm(dev, &sum, err);
  }
  free(rows);
  return status;
}

yk_status __wrap_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err)
{
  YK_TRY(__real_yk_cpu_device_create(dtype, n_threads, limits, out, err));
  plain_ops = (*out)->ops;
  fusing_ops = *plain_ops;
  fusing_ops.linear_fuses = linear_fuses;
  fusing_ops.linear_forward = linear_forward;
  (*out)->ops = &fusing_ops;
  return YK_OK;
}

/* ---- Models ------------------------------------------------------------------------------------------------------ */

enum { VOCAB = 96, N_PROMPTS = 4, OUTPUT = 12 };

/* n_norms, n_sums: how many of one step may run in linear layers. */
typedef struct fused_model {
  const char *name;
  yk_dtype_choice dtype;
  int n_stages; /* of one rank each, so that no all-reduce follows a layer */
  int n_norms, n_sums;
} fused_model;

static const fused_model models[] = {
    {"qwen3", YK_DTYPE_F32, 1, 3, 4},      /* the norm of layer 0 follows the embedding */
    {"qwen2", YK_DTYPE_F16, 1, 5, 6},      /* 3 layers; biases */
    {"qwen3", YK_DTYPE_BF16, 2, 2, 4},     /* the norm of a stage's first layer follows the embedding or a message */
    {"granite", YK_DTYPE_F32, 1, 3, 4},    /* a factor on every result */
    {"glm4", YK_DTYPE_F32, 1, 0, 0},       /* norms of results */
    {"moe_qwen3", YK_DTYPE_F32, 1, 2, 2},  /* the second of 3 layers is dense; mixtures norm their inputs themselves */
    {"gemma4_e2b", YK_DTYPE_F32, 1, 0, 0}, /* norms of results, and embeddings of layers */
};
enum { N_MODELS = sizeof models / sizeof *models };

static void generate(const fused_model *model, int mode, answer *answers)
{
  yk_engine_options options = fixture_options(model->name, model->n_stages);
  options.device = YK_DEVICE_CPU; /* also if the environment has chosen another device */
  options.n_ranks = options.n_stages = model->n_stages;
  options.dtype = model->dtype;
  atomic_store(&hidden, 0);
  yk_engine *engine = fixture_open(&options);
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  atomic_store(&fused, mode);
  atomic_store(&n_norms, 0);
  atomic_store(&n_sums, 0);
  atomic_store(&hidden, info.hidden_size);
  yk_request *requests[N_PROMPTS];
  for (uint32_t i = 0; i < N_PROMPTS; i++) {
    int32_t ids[64];
    const int32_t n_ids = 1 + 9 * (int32_t)i;
    fixture_prompt(i, VOCAB, ids, n_ids);
    yk_request_options request = fixture_request(engine, ids, (size_t)n_ids, OUTPUT);
    request.sampling.n_prompt_logprobs = 0;
    requests[i] = fixture_submit(engine, &request);
  }
  for (uint32_t i = 0; i < N_PROMPTS; i++) fixture_read(requests[i], &answers[i]);
  fixture_close(engine);
}

/* Both counts are multiples of those of a step, by the same number of steps. */
static void check_counts(const fused_model *model)
{
  assert_int_equal(n_norms * model->n_sums, n_sums * model->n_norms);
  assert_int_equal(n_norms > 0, model->n_norms > 0);
  assert_int_equal(n_sums > 0, model->n_sums > 0);
}

static void fused_layers_have_the_bits_of_separate_ones(void **state)
{
  (void)state;
  for (int m = 0; each_case(m, m < N_MODELS); m++) {
    answer expected[N_PROMPTS], found[N_PROMPTS];
    generate(&models[m], 0, expected);
    assert_true(n_norms == 0 && n_sums == 0);
    for (int mode = 1; mode <= (FUSES_SUMS | FUSES_NORMS | FUSES_IN_EVERY_OTHER_CALL); mode++) {
      generate(&models[m], mode, found);
      for (int i = 0; i < N_PROMPTS; i++) {
        assert_same_answer(&found[i], &expected[i]);
        assert_same_numbers(found[i].prompt_logprobs, expected[i].prompt_logprobs, (size_t)expected[i].n_prompt);
      }
      if (mode == (FUSES_NORMS | FUSES_SUMS)) check_counts(&models[m]);
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(fused_layers_have_the_bits_of_separate_ones)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
