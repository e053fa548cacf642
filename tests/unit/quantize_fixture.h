/* quantize_fixture.h - shared by the tests of yk_quantize: small checkpoints of random numbers, calls that are
 * interrupted, and the contents of a directory. */
#ifndef YK_UNIT_QUANTIZE_FIXTURE_H
#define YK_UNIT_QUANTIZE_FIXTURE_H

#include <math.h>

#include "op/awq_values.h"
#include "unit/loader_fixture.h"

#include "base/dtype.h"
#include "base/file.h"
#include "base/rng.h"
#include "loader/safetensors/safetensors_write.h"
#include "loader/safetensors/shards.h"
#include "yoke/tools.h"
#include "yoke/yoke.h"

/* ---- A checkpoint ------------------------------------------------------------------------------------------------ */

typedef struct model {
  temp_dir from, to; /* `to` is in a separate folder */
  char out[80];
} model;

typedef struct drawn {
  const char *name;
  yk_tensor_dtype dtype;
  int64_t n, k; /* k 0: a vector */
} drawn;

static const drawn mixtral[] = {
    {"lm_head.weight", YK_TENSOR_F16, 32, 64},
    {"model.embed_tokens.weight", YK_TENSOR_F16, 32, 64},
    {"model.layers.0.block_sparse_moe.experts.0.w1.weight", YK_TENSOR_F16, 96, 64},
    {"model.layers.0.block_sparse_moe.experts.0.w2.weight", YK_TENSOR_F16, 64, 96},
    {"model.layers.0.block_sparse_moe.gate.weight", YK_TENSOR_F16, 8, 64},
    {"model.layers.0.input_layernorm.weight", YK_TENSOR_F16, 64, 0},
    {"model.layers.0.self_attn.k_proj.bias", YK_TENSOR_F32, 16, 0},
    {"model.layers.0.self_attn.k_proj.weight", YK_TENSOR_F32, 16, 64},
    {"model.layers.0.self_attn.o_proj.weight", YK_TENSOR_BF16, 64, 64},
    {"model.layers.1.eh_proj.weight", YK_TENSOR_F16, 64, 64},
    {"model.layers.1.self_attn.q_proj.weight", YK_TENSOR_F16, 12, 64}, /* outputs are no multiple of 8 */
};
enum { N_TENSORS = sizeof mixtral / sizeof *mixtral };

enum { N_EXPERTS = 3 };

/* Whether a tensor has a leading dimension for all experts of a layer. */
static inline bool has_experts(const drawn *tensor)
{
  return strstr(tensor->name, ".experts.down_proj") || strstr(tensor->name, ".experts.gate_up_proj");
}

/* Element i of a tensor: the same for the same name. */
static inline float drawn_value(const drawn *tensor, int64_t i)
{
  uint64_t name = 0;
  for (const char *c = tensor->name; *c; c++) name = name * 31 + (unsigned char)*c;
  return (float)yk_rng_uniform(name, (uint32_t)tensor->n, (uint32_t)i) - 0.5f;
}

static inline void put_drawn(yk_safetensors_writer *writer, const drawn *tensor)
{
  int64_t count = tensor->n * (tensor->k ? tensor->k : 1) * (has_experts(tensor) ? N_EXPERTS : 1);
  bool is_wide = tensor->dtype == YK_TENSOR_F32;
  size_t element = is_wide ? 4 : 2;
  char *bytes = malloc((size_t)count * element);
  yk_err err = YK_ERR_INIT;
  for (int64_t i = 0; i < count; i++) {
    float value = drawn_value(tensor, i);
    uint16_t half = tensor->dtype == YK_TENSOR_BF16 ? yk_f32_to_bf16(value) : yk_f32_to_f16(value);
    memcpy(bytes + (size_t)i * element, is_wide ? (void *)&value : (void *)&half, element);
  }
  expect_ok("put", yk_safetensors_writer_put(writer, bytes, (size_t)count * element, &err), &err);
  free(bytes);
}

static inline void write_model(const temp_dir *dir, const drawn *tensors, size_t n, int64_t shard_bytes)
{
  yk_tensor list[32] = {0};
  yk_safetensors_writer *writer;
  yk_err err = YK_ERR_INIT;
  for (size_t i = 0; i < n; i++)
    list[i] = (yk_tensor){.name = tensors[i].name,
                          .dtype = tensors[i].dtype,
                          .n_dims = tensors[i].k ? 2 : 1,
                          .shape = {tensors[i].n, tensors[i].k}};
  for (size_t i = 0; i < n; i++) {
    if (!has_experts(&tensors[i])) continue;
    list[i].n_dims = 3;
    memmove(list[i].shape + 1, list[i].shape, 2 * sizeof *list[i].shape);
    list[i].shape[0] = N_EXPERTS;
  }
  expect_ok("open", yk_safetensors_writer_open(dir->path, list, n, shard_bytes, &writer, &err), &err);
  for (size_t i = 0; i < n; i++) put_drawn(writer, &tensors[i]);
  expect_ok("finish", yk_safetensors_writer_finish(writer, &err), &err);
  yk_safetensors_writer_close(writer);
}

/* In memory if possible, because every file is synchronised. */
static inline temp_dir out_dir_make(void)
{
  temp_dir dir = {"/dev/shm/yoke-quantize-XXXXXX"};
  return mkdtemp(dir.path) ? dir : temp_dir_make();
}

static inline model model_make(int64_t shard_bytes)
{
  model m = {.from = temp_dir_make(), .to = out_dir_make()};
  snprintf(m.out, sizeof m.out, "%s/out", m.to.path);
  write_model(&m.from, mixtral, N_TENSORS, shard_bytes);
  write_text(&m.from, "config.json",
             "{\"model_type\": \"mixtral\", \"rms_norm_eps\": 1e-06, \"rope_theta\": 1000000.0}");
  write_text(&m.from, "generation_config.json", "{\"do_sample\": false}");
  write_text(&m.from, "chat_template.jinja", "{{ messages }}");
  write_text(&m.from, "README.md", "of the 16-bit model");
  return m;
}

static inline void remove_tree(const char *path)
{
  DIR *stream = opendir(path);
  if (!stream) return;
  for (struct dirent *entry; (entry = readdir(stream));) {
    char inner[512];
    snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
    if (entry->d_name[0] != '.' && unlink(inner) != 0) remove_tree(inner);
  }
  closedir(stream);
  assert_int_equal(rmdir(path), 0);
}

static inline void model_remove(model *m)
{
  remove_tree(m->from.path);
  remove_tree(m->to.path);
}

/* ---- Calls ------------------------------------------------------------------------------------------------------- */

typedef struct recorder {
  char warnings[1024];
  int n_left; /* calls of progress until it returns false; negative: never */
} recorder;

static inline void on_log(void *user, yk_log_level level, const char *message)
{
  recorder *r = user;
  size_t n = strlen(r->warnings);
  if (level <= YK_LOG_WARN) snprintf(r->warnings + n, sizeof r->warnings - n, "%s\n", message);
}

static inline bool on_progress(void *user, const char *what, int64_t done, int64_t total)
{
  recorder *r = user;
  assert_non_null(what);
  assert_true(done >= 0 && done <= total);
  return r->n_left < 0 || r->n_left-- > 0;
}

static inline yk_quantize_options options_for(const model *m, recorder *r)
{
  yk_quantize_options options;
  yk_quantize_options_init(&options);
  options.model_dir = m->from.path;
  options.out_dir = m->out;
  options.group_size = 32;
  options.device = YK_DEVICE_CPU;
  options.n_cpu_threads = 2;
  options.log = (yk_log){.level = YK_LOG_INFO, .write = on_log, .user = r};
  options.progress = on_progress;
  options.progress_user = r;
  return options;
}

static inline void read_out(const model *m, const char *name, char **text, size_t *n_bytes)
{
  char path[256];
  yk_err err = YK_ERR_INIT;
  snprintf(path, sizeof path, "%s/%s", m->out, name);
  expect_ok(name, yk_file_read(path, 1 << 24, text, n_bytes, &err), &err);
}

static inline bool has_out(const model *m, const char *name)
{
  char path[256];
  snprintf(path, sizeof path, "%s/%s", m->out, name);
  return access(path, F_OK) == 0;
}

static inline void expect_same_file(const model *a, const model *b, const char *name)
{
  size_t n_a, n_b;
  char *text_a = NULL, *text_b = NULL;
  read_out(a, name, &text_a, &n_a);
  read_out(b, name, &text_b, &n_b);
  if (n_a != n_b || memcmp(text_a, text_b, n_a) != 0) fail_msg("%s differs", name);
  free(text_a);
  free(text_b);
}

static inline void stop_after(const yk_quantize_options *options, recorder *r, int n)
{
  yk_quantize_report report;
  yk_err err = YK_ERR_INIT;
  r->n_left = n;
  expect_error("stopped", YK_E_CANCELLED, "stopped", yk_quantize(options, &report, &err), &err);
  r->n_left = -1;
}

static inline void expect_refused(const char *what, const yk_quantize_options *options, yk_status code,
                                  const char *words)
{
  yk_quantize_report report;
  yk_err err = YK_ERR_INIT;
  expect_error(what, code, words, yk_quantize(options, &report, &err), &err);
}

/* ---- A model that Yoke runs, and a text for it ------------------------------------------------------------------- */

static const drawn qwen2[] = {
    {"model.embed_tokens.weight", YK_TENSOR_BF16, 1024, 64},
    {"model.layers.0.input_layernorm.weight", YK_TENSOR_BF16, 64, 0},
    {"model.layers.0.mlp.down_proj.weight", YK_TENSOR_BF16, 64, 96},
    {"model.layers.0.mlp.gate_proj.weight", YK_TENSOR_BF16, 96, 64},
    {"model.layers.0.mlp.up_proj.weight", YK_TENSOR_BF16, 96, 64},
    {"model.layers.0.post_attention_layernorm.weight", YK_TENSOR_BF16, 64, 0},
    {"model.layers.0.self_attn.k_proj.bias", YK_TENSOR_BF16, 64, 0},
    {"model.layers.0.self_attn.k_proj.weight", YK_TENSOR_BF16, 64, 64},
    {"model.layers.0.self_attn.o_proj.weight", YK_TENSOR_BF16, 64, 64},
    {"model.layers.0.self_attn.q_proj.bias", YK_TENSOR_BF16, 64, 0},
    {"model.layers.0.self_attn.q_proj.weight", YK_TENSOR_BF16, 64, 64},
    {"model.layers.0.self_attn.v_proj.bias", YK_TENSOR_BF16, 64, 0},
    {"model.layers.0.self_attn.v_proj.weight", YK_TENSOR_BF16, 64, 64},
    {"model.norm.weight", YK_TENSOR_BF16, 64, 0},
};

static const char calibration_text[] =
    "Hugo has a blue pen. Mia has a black bell. Who has the bell? 348+275=623, 366-310=56.";

/* A layer of latent attention and of experts with a shared expert. */
static const drawn deepseek[] = {
    {"model.embed_tokens.weight", YK_TENSOR_BF16, 1024, 64},
    {"model.layers.0.input_layernorm.weight", YK_TENSOR_BF16, 64, 0},
    {"model.layers.0.mlp.experts.0.down_proj.weight", YK_TENSOR_BF16, 64, 32},
    {"model.layers.0.mlp.experts.0.gate_proj.weight", YK_TENSOR_BF16, 32, 64},
    {"model.layers.0.mlp.experts.0.up_proj.weight", YK_TENSOR_BF16, 32, 64},
    {"model.layers.0.mlp.experts.1.down_proj.weight", YK_TENSOR_BF16, 64, 32},
    {"model.layers.0.mlp.experts.1.gate_proj.weight", YK_TENSOR_BF16, 32, 64},
    {"model.layers.0.mlp.experts.1.up_proj.weight", YK_TENSOR_BF16, 32, 64},
    {"model.layers.0.mlp.experts.2.down_proj.weight", YK_TENSOR_BF16, 64, 32},
    {"model.layers.0.mlp.experts.2.gate_proj.weight", YK_TENSOR_BF16, 32, 64},
    {"model.layers.0.mlp.experts.2.up_proj.weight", YK_TENSOR_BF16, 32, 64},
    {"model.layers.0.mlp.gate.weight", YK_TENSOR_BF16, 3, 64},
    {"model.layers.0.mlp.shared_experts.down_proj.weight", YK_TENSOR_BF16, 64, 32},
    {"model.layers.0.mlp.shared_experts.gate_proj.weight", YK_TENSOR_BF16, 32, 64},
    {"model.layers.0.mlp.shared_experts.up_proj.weight", YK_TENSOR_BF16, 32, 64},
    {"model.layers.0.post_attention_layernorm.weight", YK_TENSOR_BF16, 64, 0},
    {"model.layers.0.self_attn.kv_a_layernorm.weight", YK_TENSOR_BF16, 32, 0},
    {"model.layers.0.self_attn.kv_a_proj_with_mqa.weight", YK_TENSOR_BF16, 48, 64},
    {"model.layers.0.self_attn.kv_b_proj.weight", YK_TENSOR_BF16, 64, 32},
    {"model.layers.0.self_attn.o_proj.weight", YK_TENSOR_BF16, 64, 32},
    {"model.layers.0.self_attn.q_a_layernorm.weight", YK_TENSOR_BF16, 32, 0},
    {"model.layers.0.self_attn.q_a_proj.weight", YK_TENSOR_BF16, 32, 64},
    {"model.layers.0.self_attn.q_b_proj.weight", YK_TENSOR_BF16, 64, 32},
    {"model.norm.weight", YK_TENSOR_BF16, 64, 0},
};

/* With the demo model's tokenizer. */
static inline model text_model_make(const drawn *tensors, size_t n, const char *config)
{
  model m = {.from = temp_dir_make(), .to = out_dir_make()};
  char *tokenizer = NULL;
  size_t n_bytes;
  yk_err err = YK_ERR_INIT;
  snprintf(m.out, sizeof m.out, "%s/out", m.to.path);
  write_model(&m.from, tensors, n, 150000);
  write_text(&m.from, "config.json", config);
  expect_ok("tokenizer",
            yk_file_read(YOKE_TESTS_DIR "/models/demo/tokenizer.json", 1 << 24, &tokenizer, &n_bytes, &err), &err);
  write_file(&m.from, "tokenizer.json", tokenizer, n_bytes);
  free(tokenizer);
  return m;
}

static inline model qwen2_make(void)
{
  return text_model_make(qwen2, sizeof qwen2 / sizeof *qwen2,
                         "{\"architectures\": [\"Qwen2ForCausalLM\"], \"model_type\": \"qwen2\", \"hidden_size\": 64, "
                         "\"intermediate_size\": 96, \"num_hidden_layers\": 1, \"num_attention_heads\": 4, "
                         "\"num_key_value_heads\": 4, \"vocab_size\": 1024, \"max_position_embeddings\": 256, "
                         "\"rms_norm_eps\": 1e-06, \"torch_dtype\": \"bfloat16\", \"tie_word_embeddings\": true}");
}

static inline model deepseek_make(void)
{
  return text_model_make(
      deepseek, sizeof deepseek / sizeof *deepseek,
      "{\"architectures\": [\"DeepseekV2ForCausalLM\"], \"model_type\": \"deepseek_v2\", \"hidden_size\": 64, "
      "\"intermediate_size\": 96, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
      "\"num_key_value_heads\": 2, \"vocab_size\": 1024, \"max_position_embeddings\": 256, "
      "\"rms_norm_eps\": 1e-06, \"torch_dtype\": \"bfloat16\", \"tie_word_embeddings\": true, "
      "\"q_lora_rank\": 32, \"kv_lora_rank\": 32, \"qk_nope_head_dim\": 16, \"qk_rope_head_dim\": 16, "
      "\"v_head_dim\": 16, \"first_k_dense_replace\": 0, \"moe_intermediate_size\": 32, \"n_shared_experts\": 1, "
      "\"n_routed_experts\": 3, \"num_experts_per_tok\": 2, \"n_group\": 1, \"topk_group\": 1, "
      "\"topk_method\": \"greedy\", \"routed_scaling_factor\": 1.0}");
}

static inline yk_quantize_options awq_options_for(const model *m, recorder *r)
{
  yk_quantize_options options = options_for(m, r);
  options.method = YK_QUANTIZE_AWQ;
  options.calibration = calibration_text;
  options.calibration_bytes = strlen(calibration_text);
  return options;
}

#endif
