/* Activation-aware quantisation: the kept activations of a text, the effect of scales on weights, and the same bytes on
 * any number of threads and after interruptions. */
#include "unit/quantize_fixture.h"

#include "each_case.h"
#include "quantize/calibration.h"
#include "text/tokenizer.h"

/* The input of layer 0's attention is the normed embedding of the text's tokens, window after window. */
static void test_calibration(void **state)
{
  (void)state;
  enum { REPEATS = 30, K = 64 };
  model m = qwen2_make();
  recorder r = {.n_left = -1};
  yk_quantize_options options = awq_options_for(&m, &r);
  yk_quantize_run run = {.options = &options};
  yk_quantize_rank rank = {.run = &run};
  yk_calibration c;
  yk_checkpoint *checkpoint;
  yk_tokenizer *tokenizer;
  yk_weight_view embedding;
  yk_vector_view norm;
  yk_err err = YK_ERR_INIT;
  char text[REPEATS * sizeof calibration_text] = "";
  for (int i = 0; i < REPEATS; i++) strcat(text, calibration_text);
  options.calibration = text;
  options.calibration_bytes = strlen(text);
  options.calibration_tokens = 700;
  expect_ok("checkpoint", yk_checkpoint_open(m.from.path, &options.log, &checkpoint, &err), &err);
  const yk_device_limits limits = yk_calibration_limits(checkpoint);
  run.checkpoint = checkpoint;
  expect_ok("device", yk_cpu_device_create(YK_F32, 2, &limits, &rank.dev, &err), &err);
  expect_ok("calibrate", yk_calibrate(&rank, &c, &err), &err);
  expect_ok("tokenizer", yk_tokenizer_load(m.from.path, &tokenizer, &err), &err);
  expect_ok("embedding", yk_checkpoint_matrix(checkpoint, "model.embed_tokens", 1024, K, &embedding, &err), &err);
  expect_ok("norm", yk_checkpoint_vector(checkpoint, YK_ROLE_ATTENTION_NORM, 0, K, &norm, &err), &err);
  int32_t *ids;
  size_t n_ids, n_kept = 0;
  expect_ok("encode", yk_tokenizer_encode(tokenizer, text, strlen(text), true, &ids, &n_ids, &err), &err);
  assert_true(n_ids > 700);
  double sums[K] = {0};
  const yk_calibrated_input *input = yk_calibrated_input_of(&c, 0, YK_INPUT_QKV);
  for (int token = 0; token < 700; token++) {
    float x[K], squares = 0;
    for (int i = 0; i < K; i++) x[i] = yk_dtype_load(YK_BF16, embedding.plain, (size_t)(ids[token] * K + i));
    for (int i = 0; i < K; i++) squares += x[i] * x[i];
    bool is_kept = token * YK_CALIBRATION_ROWS / 700 != (token + 1) * YK_CALIBRATION_ROWS / 700;
    for (int i = 0; i < K; i++) {
      x[i] *= yk_dtype_load(YK_BF16, norm.data, (size_t)i) / sqrtf(squares / K + 1e-6f);
      sums[i] += fabs((double)x[i]);
      if (is_kept && fabsf(input->rows[n_kept * K + (size_t)i] - x[i]) > 1e-4f) fail_msg("token %d", token);
    }
    n_kept += is_kept;
  }
  assert_int_equal(c.n_rows, YK_CALIBRATION_ROWS);
  assert_int_equal(n_kept, YK_CALIBRATION_ROWS);
  for (int i = 0; i < K; i++)
    if (fabs(input->sums[i] / sums[i] - 1) > 1e-4) fail_msg("channel %d: %g, expected %g", i, input->sums[i], sums[i]);
  free(ids);
  yk_tokenizer_free(tokenizer);
  yk_calibration_free(&c);
  rank.dev->ops->destroy(rank.dev);
  yk_checkpoint_close(checkpoint);
  model_remove(&m);
}

/* Calibration and search give the same on any number of threads, interrupted in either and between shards. */
static void test_awq_stopped_and_resumed(void **state)
{
  (void)state;
  static const char *const files[] = {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                                      "config.json", "tokenizer.json"};
  static const int stops[] = {0, 1, 5, 40, 60, 84};
  model whole = qwen2_make(), m = whole;
  recorder r = {.n_left = -1};
  yk_quantize_options options = awq_options_for(&whole, &r);
  yk_quantize_report report;
  yk_err err = YK_ERR_INIT;
  expect_ok("in one go", yk_quantize(&options, &report, &err), &err);
  assert_int_equal(report.n_quantised, 7);
  for (size_t stop = 0; each_case(stop, stop < sizeof stops / sizeof *stops); stop++) {
    snprintf(m.out, sizeof m.out, "%s/stopped-%zu", m.to.path, stop);
    options = awq_options_for(&m, &r);
    options.n_cpu_threads = 1 + (int)stop % 3;
    stop_after(&options, &r, stops[stop]);
    if (has_out(&m, files[0])) {
      options.calibration_bytes--;
      expect_refused("another text", &options, YK_E_IO, "another calibration text");
      options.calibration_bytes++;
    }
    expect_ok("again", yk_quantize(&options, &report, &err), &err);
    for (size_t i = 0; each_case(i, i < sizeof files / sizeof *files); i++) expect_same_file(&whole, &m, files[i]);
  }
  model_remove(&whole);
}

/* q and k are not clipped: each weight is within half a scale of the weight with the norm's change. */
static void test_awq_scales(void **state)
{
  (void)state;
  model m = qwen2_make();
  recorder r = {.n_left = -1};
  yk_quantize_options options = awq_options_for(&m, &r);
  yk_quantize_report report;
  yk_shards *before, *after;
  yk_err err = YK_ERR_INIT;
  const char *const q = "model.layers.0.self_attn.q_proj", *const norm = "model.layers.0.input_layernorm.weight";
  int n_scaled = 0;
  char name[80];
  expect_ok("quantise", yk_quantize(&options, &report, &err), &err);
  expect_ok("open", yk_shards_open(m.from.path, &options.log, &before, &err), &err);
  expect_ok("open", yk_shards_open(m.out, &options.log, &after, &err), &err);
  const uint16_t *old_norm = yk_shards_find(before, norm, NULL)->data,
                 *new_norm = yk_shards_find(after, norm, NULL)->data;
  snprintf(name, sizeof name, "%s.weight", q);
  const uint16_t *weight = yk_shards_find(before, name, NULL)->data;
  snprintf(name, sizeof name, "%s.qweight", q);
  const void *words = yk_shards_find(after, name, NULL)->data;
  snprintf(name, sizeof name, "%s.qzeros", q);
  const void *zeros = yk_shards_find(after, name, NULL)->data;
  snprintf(name, sizeof name, "%s.scales", q);
  const uint16_t *scales = yk_shards_find(after, name, NULL)->data;
  for (int k = 0; k < 64; k++) {
    float ratio = yk_bf16_to_f32(old_norm[k]) / yk_bf16_to_f32(new_norm[k]);
    n_scaled += ratio != 1.0f;
    for (int n = 0; n < 64; n++) {
      float scale = yk_f16_to_f32(scales[k / 32 * 64 + n]), wanted = yk_bf16_to_f32(weight[n * 64 + k]) * ratio;
      float made = scale * ((float)awq_value(words, 64, k, n) - (float)awq_value(zeros, 64, k / 32, n));
      if (fabsf(made - wanted) > 0.51f * scale) fail_msg("(%d, %d): expected %g, found %g", n, k, wanted, made);
    }
  }
  assert_true(n_scaled > 32);
  yk_shards_close(before);
  yk_shards_close(after);
  model_remove(&m);
}

static void test_awq_refused(void **state)
{
  (void)state;
  model m = qwen2_make(), other = model_make(INT64_MAX);
  recorder r = {.n_left = -1};
  yk_quantize_options options = awq_options_for(&m, &r);
  options.calibration_bytes = 5;
  expect_refused("short", &options, YK_E_INVAL, "at least 16 tokens");
  options = awq_options_for(&m, &r);
  options.out_dir = other.out;
  options.calibration = "\xff";
  options.calibration_bytes = 1;
  expect_refused("no UTF-8", &options, YK_E_INVAL, "UTF-8");
  options = awq_options_for(&m, &r);
  snprintf(m.out, sizeof m.out, "%s/fourth", m.to.path);
  write_text(
      &m.from, "config.json",
      "{\"architectures\": [\"GlmForCausalLM\"], \"model_type\": \"glm\", \"head_dim\": 16, \"hidden_size\": 64, "
      "\"intermediate_size\": 96, \"num_hidden_layers\": 1, \"num_attention_heads\": 4, "
      "\"num_key_value_heads\": 4, \"vocab_size\": 1024, \"max_position_embeddings\": 256, "
      "\"rms_norm_eps\": 1e-06, \"torch_dtype\": \"bfloat16\", \"tie_word_embeddings\": true}");
  expect_refused("gate and up in one", &options, YK_E_UNSUPPORTED, "one tensor of gate and up");
  assert_int_not_equal(access(m.out, F_OK), 0); /* nothing was begun */
  options = awq_options_for(&other, &r);
  options.group_size = 64;
  snprintf(other.out, sizeof other.out, "%s/third", other.to.path);
  write_text(&other.from, "config.json", "{\"model_type\": \"phimoe\"}");
  expect_refused("architecture", &options, YK_E_UNSUPPORTED, "architecture|phimoe");
  model_remove(&m);
  model_remove(&other);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_calibration), cmocka_unit_test(test_awq_stopped_and_resumed),
                                     cmocka_unit_test(test_awq_scales), cmocka_unit_test(test_awq_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
