/* yk_quantize: the handling of each tensor, in checkpoints of every naming; runs that are stopped anywhere and resumed
 * give the same bytes; models that cannot be quantised, and directories that cannot be resumed, are refused by name. */
#include "unit/quantize_fixture.h"

#include <sys/stat.h>

#include "base/json_tree.h"
#include "each_case.h"
#include "kernels/cpu/cpu_awq.h"
#include "loader/model/linear_names.h"
#include "quantize/quantize_plan.h"

/* ---- Names ------------------------------------------------------------------------------------------------------- */

static void test_names(void **state)
{
  (void)state;
  static const struct {
    yk_weight_kind kind;
    const char *name;
  } cases[] = {
      {YK_KIND_LINEAR, "model.layers.0.self_attn.q_proj.weight"},
      {YK_KIND_LINEAR, "model.layers.12.self_attn.o_proj.weight"},
      {YK_KIND_LINEAR, "model.layers.3.self_attn.qkv_proj.weight"},
      {YK_KIND_LINEAR, "model.layers.0.mlp.down_proj.weight"},
      {YK_KIND_LINEAR, "model.layers.0.mlp.gate_up_proj.weight"},
      {YK_KIND_LINEAR, "model.layers.60.self_attn.kv_a_proj_with_mqa.weight"},
      {YK_KIND_LINEAR, "model.layers.60.self_attn.kv_b_proj.weight"},
      {YK_KIND_LINEAR, "model.layers.60.self_attn.q_a_proj.weight"},
      {YK_KIND_LINEAR, "model.layers.60.self_attn.q_b_proj.weight"},
      {YK_KIND_LINEAR, "model.layers.7.mlp.experts.127.gate_proj.weight"},
      {YK_KIND_LINEAR, "model.layers.7.mlp.shared_experts.up_proj.weight"},
      {YK_KIND_LINEAR, "model.layers.7.mlp.shared_expert.down_proj.weight"},
      {YK_KIND_LINEAR, "model.layers.7.block_sparse_moe.experts.3.w2.weight"},
      {YK_KIND_GATE, "model.layers.7.mlp.gate.weight"},
      {YK_KIND_GATE, "model.layers.7.mlp.shared_expert_gate.weight"},
      {YK_KIND_GATE, "model.layers.7.block_sparse_moe.gate.weight"},
      {YK_KIND_GATE, "model.layers.7.router.proj.weight"},
      {YK_KIND_GATE, "model.language_model.layers.7.per_layer_input_gate.weight"},
      {YK_KIND_LINEAR, "model.layers.7.experts.11.down_proj.weight"},
      {YK_KIND_OTHER, "model.layers.7.mlp.gate.e_score_correction_bias"},
      {YK_KIND_OTHER, "model.layers.0.self_attn.q_proj.bias"},
      {YK_KIND_OTHER, "model.layers.0.input_layernorm.weight"},
      {YK_KIND_OTHER, "model.layers.0.self_attn.q_norm.weight"},
      {YK_KIND_OTHER, "model.layers.0.self_attn.kv_a_layernorm.weight"},
      {YK_KIND_OTHER, "model.layers.0.self_attn.rotary_emb.inv_freq"},
      {YK_KIND_OTHER, "model.embed_tokens.weight"},
      {YK_KIND_OTHER, "lm_head.weight"},
      {YK_KIND_OTHER, "model.norm.weight"},
      {YK_KIND_OTHER, "model.layers.self_attn.q_proj.weight"},
      {YK_KIND_OTHER, "model.layers.5"},
      {YK_KIND_UNKNOWN, "model.layers.61.eh_proj.weight"},
      {YK_KIND_UNKNOWN, "model.layers.7.mlp.experts.gate_proj.weight"},
      {YK_KIND_UNKNOWN, "model.layers.7.mlp.experts.3.w1.weight"},
      {YK_KIND_UNKNOWN, "model.layers.0.self_attn.q_proj.lora_A.weight"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++)
    if (yk_weight_kind_of(cases[i].name) != cases[i].kind) fail_msg("%s", cases[i].name);
}

/* ---- Quantised checkpoints --------------------------------------------------------------------------------------- */

/* The quantised layer is close to the original: half a scale, and a scale itself is a fifteenth of a spread of at most
 * 1. */
static void check_layer(const yk_shards *shards, const drawn *tensor)
{
  char module[128], name[160];
  snprintf(module, sizeof module, "%.*s", (int)(strlen(tensor->name) - 7), tensor->name);
  const char *const suffixes[] = {"qweight", "qzeros", "scales"};
  const int64_t rows[] = {tensor->k, tensor->k / 32, tensor->k / 32},
                columns[] = {tensor->n / 8, tensor->n / 8, tensor->n};
  const yk_tensor *found[3];
  for (int i = 0; i < 3; i++) {
    snprintf(name, sizeof name, "%s.%s", module, suffixes[i]);
    found[i] = yk_shards_find(shards, name, NULL);
    if (!found[i]) fail_msg("no %s", name);
    assert_int_equal(found[i]->dtype, i < 2 ? YK_TENSOR_I32 : YK_TENSOR_F16);
    assert_int_equal(found[i]->shape[0], rows[i]);
    assert_int_equal(found[i]->shape[1], columns[i]);
  }
  assert_null(yk_shards_find(shards, tensor->name, NULL));
  for (int64_t n = 0; n < tensor->n; n++)
    for (int64_t k = 0; k < tensor->k; k++) {
      uint16_t half;
      memcpy(&half, (const char *)found[2]->data + 2 * (k / 32 * tensor->n + n), 2);
      float q = (float)awq_value(found[0]->data, tensor->n, k, n);
      float made = yk_f16_to_f32(half) * (q - (float)awq_value(found[1]->data, tensor->n, k / 32, n));
      float was = drawn_value(tensor, n * tensor->k + k);
      if (fabsf(made - was) > 0.036f) fail_msg("%s: (%d, %d): %g became %g", module, (int)n, (int)k, was, made);
    }
}

static void check_config(const model *m, const char *kept)
{
  json_t *config = NULL, *expected = NULL;
  size_t n_bytes;
  yk_err err = YK_ERR_INIT;
  char *text = NULL, wanted[1024];
  read_out(m, "config.json", &text, &n_bytes);
  assert_non_null(strstr(text, "\"rms_norm_eps\": 1e-06")); /* as in the source */
  snprintf(wanted, sizeof wanted,
           "{\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 32, \"zero_point\": true, \"version\": \"gemm\", "
           "\"modules_to_not_convert\": %s}",
           kept);
  expect_ok("config", yk_tree_parse("config", text, n_bytes, &config, &err), &err);
  expect_ok("wanted", yk_tree_parse("wanted", wanted, strlen(wanted), &expected, &err), &err);
  const json_t *found = json_object_get(config, "quantization_config");
  if (!json_equal(found, expected)) fail_msg("expected %s, found %s", wanted, text);
  assert_string_equal(json_string_value(json_object_get(config, "model_type")), "mixtral");
  json_decref(config);
  json_decref(expected);
  free(text);
}

static void test_mixtral(void **state)
{
  (void)state;
  model m = model_make(INT64_MAX);
  recorder r = {.n_left = -1};
  yk_quantize_options options = options_for(&m, &r);
  yk_quantize_report report;
  yk_shards *shards, *before;
  yk_err err = YK_ERR_INIT;
  expect_ok("quantise", yk_quantize(&options, &report, &err), &err);
  assert_int_equal(report.n_quantised, 4);
  assert_int_equal(report.n_kept, 3);
  assert_int_equal(report.n_shards, 1);
  expect_words("warnings", "model.layers.1.self_attn.q_proj.weight (1 modules|model.layers.1.eh_proj.weight (1 tensors",
               r.warnings);
  check_config(&m, "[\"lm_head\", \"model.layers.0.block_sparse_moe.gate\", \"model.layers.1.eh_proj\", "
                   "\"model.layers.1.self_attn.q_proj\"]");
  assert_true(has_out(&m, "generation_config.json") && has_out(&m, "chat_template.jinja"));
  assert_false(has_out(&m, "README.md") || has_out(&m, "quantize.part") || has_out(&m, "model.safetensors.index.json"));
  expect_ok("open", yk_shards_open(m.out, &options.log, &shards, &err), &err);
  expect_ok("open", yk_shards_open(m.from.path, &options.log, &before, &err), &err);
  for (size_t i = 0; i < N_TENSORS; i++) {
    const yk_tensor *kept = yk_shards_find(shards, mixtral[i].name, NULL);
    if (!kept) {
      check_layer(shards, &mixtral[i]);
      continue;
    }
    const yk_tensor *source = yk_shards_find(before, mixtral[i].name, NULL);
    assert_int_equal(kept->n_bytes, source->n_bytes);
    assert_memory_equal(kept->data, source->data, source->n_bytes);
  }
  assert_int_equal(yk_shards_count(shards), N_TENSORS + 2 * 4);
  yk_shards_close(shards);
  yk_shards_close(before);
  model_remove(&m);
}

/* Names to keep are whole parts of modules' names; the modules are written; lm_head need not exist. */
static void test_keep(void **state)
{
  (void)state;
  static const drawn tied[] = {{"model.layers.0.mlp.down_proj.weight", YK_TENSOR_F16, 64, 64},
                               {"model.layers.0.mlp.gate_proj.weight", YK_TENSOR_F16, 64, 64},
                               {"model.layers.0.mlp.up_proj.weight", YK_TENSOR_F16, 64, 64},
                               {"model.layers.1.mlp.down_proj.weight", YK_TENSOR_F16, 64, 64},
                               {"model.layers.10.mlp.down_proj.weight", YK_TENSOR_F16, 64, 64},
                               {"model.layers.2.mlp.down_proj.weight", YK_TENSOR_F16, 64, 64},
                               {"model.layers.2.mlp.experts.0.up_proj.weight", YK_TENSOR_F16, 64, 64},
                               {"model.layers.2.mlp.experts.1.up_proj.weight", YK_TENSOR_F16, 64, 64},
                               {"model.layers.3.mlp.experts.0.up_proj.weight", YK_TENSOR_F16, 64, 64},
                               {"model.layers.3.mlp.experts.1.up_proj.weight", YK_TENSOR_F16, 64, 64}};
  static const char *const keep[] = {"lm_head", "0.mlp.gate_proj", "layers.1.", "layers.2", "experts.1"},
                           *const parts[] = {"gate_p", "ayers.1", "mlp.gate", "layers.4", "."};
  const size_t n_tied = sizeof tied / sizeof *tied;
  model m = {.from = temp_dir_make(), .to = out_dir_make()};
  recorder r = {.n_left = -1};
  snprintf(m.out, sizeof m.out, "%s/out", m.to.path);
  write_model(&m.from, tied, n_tied, INT64_MAX);
  write_text(&m.from, "config.json", "{\"model_type\": \"mixtral\", \"rms_norm_eps\": 1e-06}");
  yk_quantize_options options = options_for(&m, &r);
  yk_quantize_report report;
  yk_err err = YK_ERR_INIT;
  options.n_keep = 1;
  for (size_t i = 0; each_case(i, i < sizeof parts / sizeof *parts); i++) {
    options.keep = parts + i;
    expect_refused(parts[i], &options, YK_E_INVAL, parts[i]);
  }
  options.keep = keep;
  options.n_keep = 5;
  expect_ok("quantise", yk_quantize(&options, &report, &err), &err);
  assert_int_equal(report.n_quantised, 4);
  assert_int_equal(report.n_kept, 6);
  check_config(&m, "[\"lm_head\", \"model.layers.0.mlp.gate_proj\", \"model.layers.1.mlp.down_proj\", "
                   "\"model.layers.2.mlp.down_proj\", \"model.layers.2.mlp.experts\", "
                   "\"model.layers.3.mlp.experts.1.up_proj\"]");
  model_remove(&m);
}

/* The layer's words equal those of the outputs from `first` on of a tensor with all experts. */
static void check_expert(const model *m, const char *source, const char *module, int64_t first, int64_t n)
{
  yk_shards *before, *after;
  yk_cpu_pool *pool;
  uint32_t words[64 * 64 / 8], zeros[64 * 2 / 8];
  uint16_t scales[64 * 2];
  char name[160];
  expect_ok("open", yk_shards_open(m->from.path, &(yk_log){0}, &before, NULL), NULL);
  expect_ok("open", yk_shards_open(m->out, &(yk_log){0}, &after, NULL), NULL);
  expect_ok("pool", yk_cpu_pool_create(1, &pool, NULL), NULL);
  const yk_tensor *all = yk_shards_find(before, source, NULL);
  yk_awq_floats weight = {.dtype = yk_quantize_dtype(all), .n = n, .k = all->shape[2], .group = 32};
  weight.w = (const char *)all->data + first * weight.k * 2;
  assert_int_equal(yk_awq_quantize(pool, &weight, &(yk_awq_tensors){words, zeros, scales}), -1);
  const char *const suffixes[] = {"qweight", "qzeros", "scales"};
  const void *const expected[] = {words, zeros, scales};
  for (int i = 0; i < 3; i++) {
    snprintf(name, sizeof name, "%s.%s", module, suffixes[i]);
    const yk_tensor *found = yk_shards_find(after, name, NULL);
    if (!found) fail_msg("no %s", name);
    assert_int_equal(found->shape[1], i < 2 ? n / 8 : n);
    assert_memory_equal(found->data, expected[i], found->n_bytes);
  }
  assert_null(yk_shards_find(after, source, NULL));
  yk_cpu_pool_destroy(pool);
  yk_shards_close(before);
  yk_shards_close(after);
}

/* Experts that are one tensor become separate layers; routers and latent attention's norms are kept. */
static void test_experts(void **state)
{
  (void)state;
  static const drawn tensors[] = {
      {"model.layers.0.block_sparse_moe.experts.down_proj", YK_TENSOR_F16, 64, 32},
      {"model.layers.0.block_sparse_moe.experts.gate_up_proj", YK_TENSOR_F16, 64, 64},
      {"model.layers.0.block_sparse_moe.gate.weight", YK_TENSOR_F16, 8, 64},
      {"model.layers.1.mlp.experts.down_proj", YK_TENSOR_BF16, 64, 32},
      {"model.layers.1.mlp.experts.gate_up_proj", YK_TENSOR_BF16, 64, 64},
      {"model.layers.1.mlp.gate.weight", YK_TENSOR_BF16, 8, 64},
      {"model.layers.1.self_attn.kv_a_layernorm.weight", YK_TENSOR_BF16, 64, 0},
      {"model.layers.1.self_attn.kv_a_proj_with_mqa.weight", YK_TENSOR_BF16, 40, 64},
      {"model.layers.1.self_attn.kv_b_proj.weight", YK_TENSOR_BF16, 64, 32},
      {"model.layers.1.self_attn.q_a_proj.weight", YK_TENSOR_BF16, 32, 64},
      {"model.layers.1.self_attn.q_b_proj.weight", YK_TENSOR_BF16, 64, 32},
  };
  static const char *const keep[] = {"mlp.experts.1.up_proj", "kv_b_proj"};
  model m = {.from = temp_dir_make(), .to = out_dir_make()};
  recorder r = {.n_left = -1};
  yk_quantize_report report;
  yk_shards *after;
  yk_err err = YK_ERR_INIT;
  snprintf(m.out, sizeof m.out, "%s/out", m.to.path);
  write_model(&m.from, tensors, sizeof tensors / sizeof *tensors, 20000);
  write_text(&m.from, "config.json", "{\"hidden_size\": 64}");
  yk_quantize_options options = options_for(&m, &r);
  options.keep = keep;
  options.n_keep = 2;
  expect_ok("quantise", yk_quantize(&options, &report, &err), &err);
  assert_int_equal(report.n_quantised, 2 * 3 * N_EXPERTS - 1 + 3);
  assert_int_equal(report.n_kept, 2 + 2);
  const char *const mixtral_gate_up = tensors[1].name, *const gate_up = tensors[4].name;
  check_expert(&m, mixtral_gate_up, "model.layers.0.block_sparse_moe.experts.0.w1", 0, 32);
  check_expert(&m, mixtral_gate_up, "model.layers.0.block_sparse_moe.experts.1.w3", 96, 32);
  check_expert(&m, tensors[0].name, "model.layers.0.block_sparse_moe.experts.1.w2", 64, 64);
  check_expert(&m, gate_up, "model.layers.1.mlp.experts.2.gate_proj", 128, 32);
  check_expert(&m, gate_up, "model.layers.1.mlp.experts.2.up_proj", 160, 32);
  check_expert(&m, tensors[3].name, "model.layers.1.mlp.experts.2.down_proj", 128, 64);
  expect_ok("open", yk_shards_open(m.out, &options.log, &after, &err), &err);
  const yk_tensor *kept = yk_shards_find(after, "model.layers.1.mlp.experts.1.up_proj.weight", NULL);
  assert_non_null(kept);
  assert_int_equal(kept->n_bytes, 2 * 32 * 64);
  assert_non_null(yk_shards_find(after, "model.layers.1.self_attn.kv_b_proj.weight", NULL));
  assert_non_null(yk_shards_find(after, "model.layers.1.self_attn.q_a_proj.qweight", NULL));
  assert_non_null(yk_shards_find(after, "model.layers.0.block_sparse_moe.gate.weight", NULL));
  yk_shards_close(after);
  write_text(&m.from, "config.json", "{\"hidden_size\": 128}");
  snprintf(m.out, sizeof m.out, "%s/other", m.to.path);
  expect_refused("transposed", &options, YK_E_UNSUPPORTED, "down_proj|hidden_size 128|[3, 64, 32]");
  write_text(&m.from, "config.json", "{}");
  expect_refused("no size", &options, YK_E_FORMAT, "config.json: key \"hidden_size\" is missing");
  write_text(&m.from, "config.json", "{\"hidden_size\": 64, \"model_type\": \"mixtral\"}");
  expect_refused("names of no Mixtral", &options, YK_E_UNSUPPORTED, "layers.1.mlp.experts.down_proj|block_sparse_moe");
  assert_int_not_equal(access(m.out, F_OK), 0);
  model_remove(&m);
}

/* ---- Resuming ---------------------------------------------------------------------------------------------------- */

/* Stopped at every call of progress and resumed until it is complete: the bytes of an uninterrupted run. */
static void test_stopped_and_resumed(void **state)
{
  (void)state;
  static const char *const files[] = {"model-00001-of-00003.safetensors",
                                      "model-00002-of-00003.safetensors",
                                      "model-00003-of-00003.safetensors",
                                      "model.safetensors.index.json",
                                      "config.json",
                                      "generation_config.json",
                                      "chat_template.jinja"};
  model whole = model_make(24000), m = whole;
  recorder r = {.n_left = -1};
  yk_quantize_options options = options_for(&whole, &r);
  yk_quantize_report report;
  yk_err err = YK_ERR_INIT;
  expect_ok("in one go", yk_quantize(&options, &report, &err), &err);
  assert_int_equal(report.n_shards, 3);
  for (int stop = 0, n_cancelled = 1; n_cancelled > 0; stop += 3) {
    snprintf(m.out, sizeof m.out, "%s/stopped-%d", m.to.path, stop);
    options = options_for(&m, &r);
    options.n_cpu_threads = 1 + stop % 3;
    for (n_cancelled = 0;; n_cancelled++) {
      r.n_left = n_cancelled == 0 ? stop : stop + 8; /* else a large tensor would never be finished */
      yk_status status = yk_quantize(&options, &report, &err);
      if (status == YK_OK) break;
      expect_error("stopped", YK_E_CANCELLED, "stopped", status, &err);
      assert_false(has_out(&m, "config.json"));
    }
    assert_int_equal(report.n_shards_done, 3);
    if (n_cancelled > 0 && stop > 6) assert_true(report.n_shards_before > 0);
    for (size_t i = 0; each_case(i, i < sizeof files / sizeof *files); i++) expect_same_file(&whole, &m, files[i]);
  }
  model_remove(&whole);
}

/* Several ranks write the same files, also if the stopped run had a rank that the next run lacks. */
static void test_ranks(void **state)
{
  (void)state;
  static const char *const files[] = {"model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                      "model-00003-of-00003.safetensors", "config.json"};
  model one = model_make(24000), m = one;
  recorder r = {.n_left = -1};
  yk_quantize_options options = options_for(&one, &r);
  yk_quantize_report report;
  yk_err err = YK_ERR_INIT;
  expect_ok("one", yk_quantize(&options, &report, &err), &err);
  for (int stop = 0; stop < 3; stop++) {
    snprintf(m.out, sizeof m.out, "%s/ranks-%d", m.to.path, stop);
    options = options_for(&m, &r);
    options.n_ranks = 4;
    r.n_left = stop;
    yk_status status = yk_quantize(&options, &report, &err);
    if (status != YK_OK) expect_error("stopped", YK_E_CANCELLED, "stopped", status, &err);
    r.n_left = -1;
    options.n_ranks = 2;
    if (status != YK_OK) expect_ok("again", yk_quantize(&options, &report, &err), &err);
    assert_int_equal(report.n_shards_done, 3);
    for (size_t i = 0; each_case(i, i < sizeof files / sizeof *files); i++) expect_same_file(&one, &m, files[i]);
    assert_false(has_out(&m, "quantize.part"));
  }
  options.n_ranks = YK_MAX_RANKS + 1;
  expect_refused("ranks", &options, YK_E_INVAL, "n_ranks|65");
  model_remove(&one);
}

/* An unfinished directory can only be resumed with the options that it was begun with. */
static void test_other_run(void **state)
{
  (void)state;
  model m = model_make(24000);
  recorder r = {0};
  yk_quantize_options options = options_for(&m, &r), other = options;
  const char *const keep[] = {"k_proj"};
  stop_after(&options, &r, 4);
  other.group_size = 64;
  expect_refused("group", &other, YK_E_IO, "out|another group size");
  other = options;
  other.keep = keep;
  other.n_keep = 1;
  expect_refused("keep", &other, YK_E_IO, "another modules to keep");
  write_text(&m.from, "generation_config.json", "{\"do_sample\": true}");
  expect_refused("source", &options, YK_E_IO, "another source");
  write_text(&m.from, "generation_config.json", "{\"do_sample\": false}");
  char part[128]; /* as after a crash, before a shard is moved to its place */
  snprintf(part, sizeof part, "%s/quantize.part/0/model.safetensors", m.out);
  FILE *left = fopen(part, "w");
  assert_non_null(left);
  fclose(left);
  yk_quantize_report report;
  yk_err err = YK_ERR_INIT;
  expect_ok("as it was", yk_quantize(&options, &report, &err), &err);
  expect_refused("finished", &options, YK_E_IO, "expected an empty directory|found");
  model_remove(&m);
}

/* ---- Refusals ---------------------------------------------------------------------------------------------------- */

static void test_source_refused(void **state)
{
  (void)state;
  static const struct {
    const char *what, *file, *text;
    yk_status code;
    const char *words;
  } cases[] = {
      {"quantised", "config.json", "{\"quantization_config\": {\"quant_method\": \"gptq\"}}", YK_E_UNSUPPORTED,
       "config.json|quantised checkpoint (gptq)"},
      {"compressed", "config.json", "{\"compression_config\": {}}", YK_E_UNSUPPORTED, "compression_config"},
      {"a list", "config.json", "[]", YK_E_FORMAT, "expected an object"},
      {"no JSON", "config.json", "{", YK_E_FORMAT, "config.json"},
      {"settings", "quantize_config.json", "{}", YK_E_UNSUPPORTED, "quantize_config.json"},
      {"index", "model.safetensors.index.json", "{\"weight_map\": {\"a\": \"../b\"}}", YK_E_FORMAT, "../b"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    model m = model_make(24000);
    recorder r = {.n_left = -1};
    yk_quantize_options options = options_for(&m, &r);
    write_text(&m.from, cases[i].file, cases[i].text);
    expect_refused(cases[i].what, &options, cases[i].code, cases[i].words);
    assert_int_not_equal(access(m.out, F_OK), 0); /* nothing was begun */
    model_remove(&m);
  }
}

typedef struct cut {
  char path[256];
  off_t n_bytes;
} cut;

static bool cut_source(void *user, const char *what, int64_t done, int64_t total)
{
  const cut *c = user;
  (void)what;
  (void)done;
  (void)total;
  assert_int_equal(truncate(c->path, c->n_bytes), 0);
  return true;
}

/* A source that is cut after it was opened, by a byte of its last page, where no signal is raised: no shard is kept. */
static void test_source_shrinks(void **state)
{
  (void)state;
  model m = model_make(INT64_MAX);
  recorder r = {.n_left = -1};
  yk_quantize_options options = options_for(&m, &r);
  struct stat info;
  cut c;
  snprintf(c.path, sizeof c.path, "%s/model.safetensors", m.from.path);
  assert_int_equal(stat(c.path, &info), 0);
  c.n_bytes = info.st_size - 1;
  options.progress = cut_source;
  options.progress_user = &c;
  expect_refused("cut", &options, YK_E_IO, "model.safetensors: the file was truncated");
  assert_false(has_out(&m, "model.safetensors"));
  model_remove(&m);
}

static void expect_tensors_refused(const char *what, const drawn *tensors, size_t n, yk_status code, const char *words)
{
  model m = {.from = temp_dir_make(), .to = out_dir_make()};
  recorder r = {.n_left = -1};
  snprintf(m.out, sizeof m.out, "%s/out", m.to.path);
  if (n > 0) write_model(&m.from, tensors, n, INT64_MAX);
  write_text(&m.from, "config.json", "{}");
  yk_quantize_options options = options_for(&m, &r);
  expect_refused(what, &options, code, words);
  model_remove(&m);
}

static void test_tensors_refused(void **state)
{
  (void)state;
  const drawn packed[] = {{"model.layers.0.mlp.up_proj.qweight", YK_TENSOR_F16, 8, 32}};
  const drawn fp8[] = {{"model.layers.0.mlp.up_proj.weight_scale_inv", YK_TENSOR_F16, 8, 32}};
  const drawn ints[] = {{"model.layers.0.mlp.up_proj.weight", YK_TENSOR_I16, 8, 32}};
  const drawn none[] = {{"transformer.h.0.attn.weight", YK_TENSOR_F16, 8, 32}};
  const drawn narrow[] = {{"model.layers.0.mlp.up_proj.weight", YK_TENSOR_F16, 8, 48}};
  expect_tensors_refused("no weights", NULL, 0, YK_E_IO, "model.safetensors");
  expect_tensors_refused("packed", packed, 1, YK_E_UNSUPPORTED, "up_proj.qweight|quantised");
  expect_tensors_refused("fp8", fp8, 1, YK_E_UNSUPPORTED, "weight_scale_inv|quantised");
  expect_tensors_refused("integers", ints, 1, YK_E_UNSUPPORTED, "up_proj.weight|I16");
  expect_tensors_refused("other names", none, 1, YK_E_UNSUPPORTED, "expected linear layers");
  expect_tensors_refused("no group fits", narrow, 1, YK_E_UNSUPPORTED, "groups of 32");
}

/* A NaN is named, and the shards before it are kept. */
static void test_nan(void **state)
{
  (void)state;
  model m = model_make(24000);
  recorder r = {.n_left = -1};
  yk_quantize_options options = options_for(&m, &r);
  yk_shards *shards;
  const char *file;
  expect_ok("open", yk_shards_open(m.from.path, &options.log, &shards, NULL), NULL);
  const yk_tensor *tensor = yk_shards_find(shards, "model.layers.0.self_attn.o_proj.weight", &file);
  char path[256], name[64];
  size_t n_bytes;
  snprintf(path, sizeof path, "%s/%s", m.from.path, file);
  snprintf(name, sizeof name, "%s", file);
  char *image, *found = NULL;
  expect_ok("read", yk_file_read(path, 1 << 24, &image, &n_bytes, NULL), NULL);
  for (size_t i = 0; i + tensor->n_bytes <= n_bytes && !found; i++)
    if (memcmp(image + i, tensor->data, tensor->n_bytes) == 0) found = image + i;
  assert_non_null(found);
  yk_shards_close(shards);
  memcpy(found + 2 * (5 * 64 + 40), &(uint16_t){0x7FC0}, 2); /* output 5, input 40 */
  write_file(&m.from, name, image, n_bytes);
  expect_refused("NaN", &options, YK_E_FORMAT, "o_proj.weight|output 5, inputs 32 to 63|finite");
  assert_true(has_out(&m, "model-00001-of-00003.safetensors"));
  assert_false(has_out(&m, "quantize.part/0/model.safetensors.part"));
  free(image);
  model_remove(&m);
}

static void test_options_refused(void **state)
{
  (void)state;
  model m = model_make(INT64_MAX);
  recorder r = {.n_left = -1};
  const yk_quantize_options good = options_for(&m, &r);
  yk_quantize_options bad = good;
  const char *const nothing[] = {""}, *const absent[] = {"layers.9"};
  bad.model_dir = NULL;
  expect_refused("no model", &bad, YK_E_INVAL, "model_dir");
  bad = good;
  bad.out_dir = NULL;
  expect_refused("no output", &bad, YK_E_INVAL, "out_dir");
  bad = good;
  bad.group_size = 48;
  expect_refused("group", &bad, YK_E_INVAL, "group_size|48");
  bad = good;
  bad.method = (yk_quantize_method)7;
  expect_refused("method", &bad, YK_E_INVAL, "method");
  bad = good;
  bad.n_keep = 1;
  expect_refused("keep", &bad, YK_E_INVAL, "keep");
  bad.keep = nothing;
  expect_refused("keep nothing", &bad, YK_E_INVAL, "keep");
  bad.keep = absent;
  expect_refused("keep absent", &bad, YK_E_INVAL, "layers.9");
  bad = good;
  bad.method = YK_QUANTIZE_AWQ;
  expect_refused("no text", &bad, YK_E_INVAL, "calibration");
  bad.calibration = "text";
  bad.calibration_bytes = 4;
  bad.calibration_tokens = 3;
  expect_refused("few tokens", &bad, YK_E_INVAL, "calibration_tokens");
  bad = good;
  bad.out_dir = m.from.path;
  expect_refused("over itself", &bad, YK_E_IO, "expected an empty directory");
  bad.out_dir = "/dev/null";
  expect_refused("a device", &bad, YK_E_IO, "/dev/null");
  bad.out_dir = "/nonexistent/out";
  expect_refused("no parent", &bad, YK_E_IO, "/nonexistent/out");
  model_remove(&m);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_mixtral),
      cmocka_unit_test(test_keep),
      cmocka_unit_test(test_experts),
      cmocka_unit_test(test_ranks),
      cmocka_unit_test(test_stopped_and_resumed),
      cmocka_unit_test(test_other_run),
      cmocka_unit_test(test_source_refused),
      cmocka_unit_test(test_source_shrinks),
      cmocka_unit_test(test_tensors_refused),
      cmocka_unit_test(test_nan),
      cmocka_unit_test(test_options_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
