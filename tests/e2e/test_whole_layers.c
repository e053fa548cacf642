/* test_whole_layers.c - a model on a device that runs all layers of a dense model as one operation: the answers have
 * the bits of a device that runs the layers' operations one by one, and each step that the device takes runs so. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "e2e/engine_fixture.h"
#include "each_case.h"
#include "kernels/device.h"

/* ---- A CPU device with the operation ----------------------------------------------------------------------------- */

enum { MOST_KV_TOKENS = 24, MOST_ELEMENTS = 4096, ATTENTION_NS = 300000 /* at least, in a timed step */ };
static atomic_int is_offered, fails; /* the operation; its next run */
static atomic_int n_layers, n_created, n_destroyed, n_runs, n_linears_destroyed, n_destroyed_late;
static const yk_device_ops *plain_ops;
static yk_device_ops whole_ops;

struct yk_decode_layers {
  yk_decode_layers_spec spec;
  yk_decode_layer *layers;
};

yk_status __real_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err);
yk_status __wrap_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err);

static yk_status create(yk_device *dev, const yk_decode_layers_spec *spec, yk_decode_layers **out, yk_err *err)
{
  (void)dev, (void)err;
  if (!atomic_load(&is_offered)) return YK_OK;
  const size_t n_bytes = (size_t)spec->n_layers * sizeof *spec->layers;
  yk_decode_layers *layers = malloc(sizeof *layers);
  if (!layers) abort();
  *layers = (yk_decode_layers){.spec = *spec, .layers = malloc(n_bytes)};
  if (!layers->layers) abort();
  memcpy(layers->layers, spec->layers, n_bytes);
  atomic_store(&n_layers, spec->n_layers);
  atomic_fetch_add(&n_created, 1);
  *out = layers;
  return YK_OK;
}

static void destroy(yk_device *dev, yk_decode_layers *layers)
{
  (void)dev;
  atomic_fetch_add(&n_destroyed, 1);
  atomic_fetch_add(&n_destroyed_late, atomic_load(&n_linears_destroyed) > 0);
  free(layers->layers);
  free(layers);
}

static void linear_destroy(yk_device *dev, yk_linear *linear)
{
  atomic_fetch_add(&n_linears_destroyed, 1);
  plain_ops->linear_destroy(dev, linear);
}

static bool takes(yk_device *dev, const yk_decode_layers *layers, const yk_batch *batch)
{
  (void)dev, (void)layers;
  return batch->n_tokens == 1 && batch->n_seqs == 1 && batch->max_kv_tokens <= MOST_KV_TOKENS && !batch->adapters;
}

/* y = rms_norm(x, w) of one row. */
static yk_status norm_row(yk_device *dev, const yk_decode_layers_spec *spec, void *y, const void *x, const void *w,
                          yk_err *err)
{
  const yk_rms_norm_args args = {
      .y = y, .x = x, .w = w, .x_stride = spec->hidden, .n_rows = 1, .hidden = spec->hidden, .eps = spec->norm_eps};
  return plain_ops->rms_norm(dev, &args, err);
}

static yk_status multiply(yk_device *dev, const yk_linear *linear, const void *x, void *y, yk_err *err)
{
  const yk_linear_args args = {.x = x, .y = y, .n_tokens = 1, .y_stride = MOST_ELEMENTS};
  return plain_ops->linear_forward(dev, linear, &args, err);
}

static yk_status add_row(yk_device *dev, const yk_decode_layers_spec *spec, void *residual, const void *partial,
                         yk_err *err)
{
  const yk_add_norm_args args = {.residual = residual,
                                 .partials = {partial},
                                 .n_partials = 1,
                                 .n_rows = 1,
                                 .hidden = spec->hidden,
                                 .alpha = spec->alpha};
  return plain_ops->add_norm(dev, &args, err);
}

static yk_status attend(yk_device *dev, const yk_decode_layers_spec *spec, const yk_decode_layer *layer,
                        const yk_batch *batch, void *qkv, void *y, yk_err *err)
{
  const yk_head_layout heads = {.n_q_heads = spec->n_q_heads,
                                .n_kv_heads = spec->n_kv_heads,
                                .head_dim = spec->head_dim,
                                .q_per_kv = spec->n_q_heads / spec->n_kv_heads};
  const yk_qk_rope_kv_args rope = {.qkv = qkv,
                                   .heads = heads,
                                   .q_norm_w = layer->q_norm_w,
                                   .k_norm_w = layer->k_norm_w,
                                   .norm_eps = spec->norm_eps,
                                   .rope = spec->rope,
                                   .kv = layer->kv,
                                   .batch = batch};
  const yk_attention_args attention = {
      .y = y, .qkv = qkv, .heads = heads, .kv = layer->kv, .scale = spec->attention_scale, .batch = batch};
  YK_TRY(plain_ops->qk_rope_kv(dev, &rope, err));
  return plain_ops->attention(dev, &attention, err);
}

/* In a timed step: the part begins. */
static void stamp(yk_device *dev, int64_t *stamps, yk_decode_part part)
{
  if (stamps) assert_int_equal(plain_ops->timestamp(dev, stamps + part, NULL), YK_OK);
}

/* a, b: rows of MOST_ELEMENTS. stamps: of the layer, or NULL. */
static yk_status run_layer(yk_device *dev, const yk_decode_layers_spec *spec, const yk_decode_layer *layer,
                           const yk_decode_layers_args *args, int64_t *stamps, void *a, void *b, yk_err *err)
{
  YK_TRY(norm_row(dev, spec, a, args->residual, layer->input_norm_w, err));
  stamp(dev, stamps, YK_DECODE_PART_QKV);
  YK_TRY(multiply(dev, layer->qkv, a, b, err));
  stamp(dev, stamps, YK_DECODE_PART_ATTENTION);
  YK_TRY(attend(dev, spec, layer, args->batch, b, a, err));
  if (stamps) nanosleep(&(struct timespec){.tv_nsec = ATTENTION_NS}, NULL);
  stamp(dev, stamps, YK_DECODE_PART_O);
  YK_TRY(multiply(dev, layer->o, a, b, err));
  stamp(dev, stamps, YK_DECODE_PART_SUM_OF_O);
  YK_TRY(add_row(dev, spec, args->residual, b, err));
  YK_TRY(norm_row(dev, spec, a, args->residual, layer->post_norm_w, err));
  stamp(dev, stamps, YK_DECODE_PART_GATE_UP);
  YK_TRY(multiply(dev, layer->gate_up, a, b, err));
  stamp(dev, stamps, YK_DECODE_PART_DOWN);
  YK_TRY(multiply(dev, layer->down, b, a, err));
  stamp(dev, stamps, YK_DECODE_PART_SUM_OF_DOWN);
  return add_row(dev, spec, args->residual, a, err);
}

static yk_status run(yk_device *dev, const yk_decode_layers *layers, const yk_decode_layers_args *args, yk_err *err)
{
  const yk_decode_layers_spec *spec = &layers->spec;
  float *a = calloc(MOST_ELEMENTS, sizeof *a), *b = calloc(MOST_ELEMENTS, sizeof *b);
  yk_status status = YK_OK;
  if (!a || !b) abort();
  atomic_fetch_add(&n_runs, 1);
  if (atomic_load(&fails)) status = yk_err_set(err, YK_E_DEVICE, "made to fail");
  for (int32_t i = 0; i < spec->n_layers && status == YK_OK; i++)
    status = run_layer(dev, spec, &layers->layers[i], args,
                       args->stamps ? args->stamps + (size_t)i * YK_DECODE_N_PARTS : NULL, a, b, err);
  if (spec->final_norm_w && status == YK_OK)
    status = norm_row(dev, spec, args->y, args->residual, spec->final_norm_w, err);
  free(a);
  free(b);
  return status;
}

yk_status __wrap_yk_cpu_device_create(yk_dtype dtype, int n_threads, const yk_device_limits *limits, yk_device **out,
                                      yk_err *err)
{
  YK_TRY(__real_yk_cpu_device_create(dtype, n_threads, limits, out, err));
  plain_ops = (*out)->ops;
  whole_ops = *plain_ops;
  whole_ops.linear_destroy = linear_destroy;
  whole_ops.decode_layers_create = create;
  whole_ops.decode_layers_takes = takes;
  whole_ops.decode_layers_run = run;
  whole_ops.decode_layers_destroy = destroy;
  (*out)->ops = &whole_ops;
  return YK_OK;
}

/* ---- Models ------------------------------------------------------------------------------------------------------ */

enum { VOCAB = 96, N_PROMPTS = 3, OUTPUT = 12 };

typedef struct whole_model {
  const char *name;
  yk_dtype_choice dtype;
  int n_ranks, n_stages;
  yk_kv_cache_choice kv_cache;
  bool is_whole; /* its layers can run as one operation */
} whole_model;

static const whole_model models[] = {
    {"qwen3", YK_DTYPE_F32, 1, 1, YK_KV_CACHE_AUTO, true},
    {"qwen2_no_window", YK_DTYPE_F16, 1, 1, YK_KV_CACHE_AUTO, true}, /* biases */
    {"qwen3", YK_DTYPE_BF16, 2, 2, YK_KV_CACHE_AUTO, true},          /* stages of one rank each */
    {"granite", YK_DTYPE_F32, 1, 1, YK_KV_CACHE_AUTO, true},         /* a factor on every result, one on embeddings */
    {"glm", YK_DTYPE_F32, 1, 1, YK_KV_CACHE_AUTO, true},             /* a part of each head rotates */
    {"qwen3", YK_DTYPE_F32, 2, 1, YK_KV_CACHE_AUTO, false},
    {"qwen3", YK_DTYPE_F32, 1, 1, YK_KV_CACHE_INT8, false},
    {"qwen2", YK_DTYPE_F32, 1, 1, YK_KV_CACHE_AUTO, false},      /* a window */
    {"glm4", YK_DTYPE_F32, 1, 1, YK_KV_CACHE_AUTO, false},       /* norms of results */
    {"moe_qwen3", YK_DTYPE_F32, 1, 1, YK_KV_CACHE_AUTO, false},  /* the second of 3 layers is dense */
    {"gemma4_e2b", YK_DTYPE_F32, 1, 1, YK_KV_CACHE_AUTO, false}, /* norms of results, and embeddings of layers */
};
enum { N_MODELS = sizeof models / sizeof *models };

static yk_engine *open_model(const whole_model *model, bool offers)
{
  yk_engine_options options = fixture_options(model->name, model->n_ranks);
  options.device = YK_DEVICE_CPU; /* also if the environment has chosen another device */
  options.n_ranks = model->n_ranks;
  options.n_stages = model->n_stages;
  options.dtype = model->dtype;
  options.kv_cache_dtype = model->kv_cache;
  atomic_store(&is_offered, offers);
  atomic_store(&fails, 0);
  atomic_store(&n_created, 0);
  atomic_store(&n_destroyed, 0);
  atomic_store(&n_runs, 0);
  atomic_store(&n_linears_destroyed, 0);
  atomic_store(&n_destroyed_late, 0);
  return fixture_open(&options);
}

static int prompt_size(int i)
{
  return 1 + 9 * i;
}

static yk_request *submit(yk_engine *engine, int i)
{
  int32_t ids[64];
  const int32_t n_ids = prompt_size(i);
  fixture_prompt((uint32_t)i, VOCAB, ids, n_ids);
  yk_request_options request = fixture_request(engine, ids, (size_t)n_ids, OUTPUT);
  request.sampling.n_prompt_logprobs = 0;
  return fixture_submit(engine, &request);
}

/* The answers one after another, then together. */
static void generate(const whole_model *model, bool offers, answer *answers, int *n_alone)
{
  yk_engine *engine = open_model(model, offers);
  yk_request *requests[N_PROMPTS];
  for (int i = 0; i < N_PROMPTS; i++) fixture_read(submit(engine, i), &answers[i]);
  *n_alone = atomic_load(&n_runs);
  for (int i = 0; i < N_PROMPTS; i++) requests[i] = submit(engine, i);
  for (int i = 0; i < N_PROMPTS; i++) fixture_read(requests[i], &answers[N_PROMPTS + i]);
  const int n = atomic_load(&n_created);
  fixture_close(engine);
  assert_int_equal(atomic_load(&n_destroyed), n);
  assert_int_equal(n, offers && model->is_whole ? model->n_stages : 0);
  if (model->n_stages == 1) assert_int_equal(atomic_load(&n_destroyed_late), 0); /* else of another stage's layers */
}

/* Steps of one row and of at most MOST_KV_TOKENS tokens, when the prompts run one after another. */
static int steps_alone(void)
{
  int n = 0;
  for (int i = 0; i < N_PROMPTS; i++)
    for (int row = 0; row < OUTPUT; row++)
      n += (row > 0 || prompt_size(i) == 1) && prompt_size(i) + row <= MOST_KV_TOKENS;
  return n;
}

static void layers_as_one_operation_have_the_bits_of_separate_ones(void **state)
{
  (void)state;
  for (int m = 0; each_case(m, m < N_MODELS); m++) {
    static answer expected[2 * N_PROMPTS], found[2 * N_PROMPTS];
    int n_alone;
    generate(&models[m], false, expected, &n_alone);
    assert_int_equal(n_alone, 0);
    generate(&models[m], true, found, &n_alone);
    assert_int_equal(n_alone, models[m].is_whole ? steps_alone() * models[m].n_stages : 0);
    for (int i = 0; i < 2 * N_PROMPTS; i++) assert_same_answer(&found[i], &expected[i]);
  }
}

/* Runs prompts of one row, whose steps all run whole layers but for those after MOST_KV_TOKENS tokens. */
static void times_are_those_of_the_parts(void **state)
{
  (void)state;
  static const yk_time_part parts[] = {YK_TIME_GEMM_QKV,  YK_TIME_ATTENTION,     YK_TIME_GEMM_O, YK_TIME_GEMM_GATE_UP,
                                       YK_TIME_GEMM_DOWN, YK_TIME_OTHER_KERNELS, YK_TIME_LM_HEAD};
  yk_engine *engine = open_model(&models[0], true);
  yk_profile profile = {0};
  answer found;
  assert_int_equal(yk_engine_set_profile(engine, 1, NULL), YK_OK);
  fixture_read(submit(engine, 0), &found);
  assert_int_equal(atomic_load(&n_runs), OUTPUT);
  yk_engine_get_profile(engine, &profile);
  const double *parts_s = profile.decode.part_s[0];
  double sum_s = 0, attention_s = (double)profile.decode.n_steps * atomic_load(&n_layers) * ATTENTION_NS * 1e-9;
  assert_true(profile.decode.n_steps > 0);
  assert_true(parts_s[YK_TIME_ATTENTION] >= attention_s);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) assert_true(parts_s[parts[i]] > 0);
  for (int part = 0; part < YK_TIME_PARTS; part++) sum_s += parts_s[part];
  assert_true(fabs(sum_s - profile.decode.step_s) < 0.02 * profile.decode.step_s);
  fixture_close(engine);
}

static void failure_names_the_operation(void **state)
{
  (void)state;
  yk_engine *engine = open_model(&models[0], true);
  answer found;
  atomic_store(&fails, 1);
  fixture_read(submit(engine, 1), &found);
  assert_int_equal(found.finish, YK_FINISH_ERROR);
  if (!strstr(found.error.message, "rank 0, decode layers: made to fail")) fail_msg("%s", found.error.message);
  yk_engine_destroy(engine);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(layers_as_one_operation_have_the_bits_of_separate_ones),
                                     cmocka_unit_test(times_are_those_of_the_parts),
                                     cmocka_unit_test(failure_names_the_operation)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
