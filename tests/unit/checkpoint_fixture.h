/* checkpoint_fixture.h - checkpoint directories of a tiny model, and a walk over all weights of a model. */
#ifndef YK_UNIT_CHECKPOINT_FIXTURE_H
#define YK_UNIT_CHECKPOINT_FIXTURE_H

#include "unit/loader_fixture.h"

#include "base/json_tree.h"
#include "base/log.h"
#include "loader/checkpoint.h"

/* ---- A tiny model: hidden 64, 4 heads of 16, 2 KV heads, FFN 96, two layers, vocabulary 40, AWQ with groups of 32 */

enum { HIDDEN = 64, KV = 32, FFN = 96, VOCAB = 40, LAYERS = 2, GROUP = 32, MAX_TENSORS = 96 };

typedef struct tensor_spec {
  char name[96];
  const char *dtype;
  int64_t dims[2];
  int n_dims;
  int64_t values[2]; /* of an I64 tensor */
} tensor_spec;

typedef struct tiny_model {
  tensor_spec tensors[MAX_TENSORS];
  int n;
} tiny_model;

static inline void add(tiny_model *model, const char *name, const char *dtype, int n_dims, int64_t dim0, int64_t dim1)
{
  assert_true(model->n < MAX_TENSORS);
  tensor_spec *spec = &model->tensors[model->n++];
  *spec = (tensor_spec){.dtype = dtype, .dims = {dim0, dim1}, .n_dims = n_dims};
  snprintf(spec->name, sizeof spec->name, "%s", name);
}

static inline void add_awq(tiny_model *model, int layer, const char *module, int64_t k, int64_t n)
{
  char name[96];
  snprintf(name, sizeof name, "model.layers.%d.%s.qweight", layer, module);
  add(model, name, "I32", 2, k, n / 8);
  snprintf(name, sizeof name, "model.layers.%d.%s.qzeros", layer, module);
  add(model, name, "I32", 2, k / GROUP, n / 8);
  snprintf(name, sizeof name, "model.layers.%d.%s.scales", layer, module);
  add(model, name, "F16", 2, k / GROUP, n);
}

static inline tiny_model tiny(void)
{
  tiny_model model = {0};
  add(&model, "model.embed_tokens.weight", "BF16", 2, VOCAB, HIDDEN);
  add(&model, "model.norm.weight", "F32", 1, HIDDEN, 0);
  add(&model, "lm_head.weight", "F16", 2, VOCAB, HIDDEN);
  for (int layer = 0; layer < LAYERS; layer++) {
    char name[96];
    snprintf(name, sizeof name, "model.layers.%d.input_layernorm.weight", layer);
    add(&model, name, "F16", 1, HIDDEN, 0);
    add_awq(&model, layer, "self_attn.q_proj", HIDDEN, HIDDEN);
    add_awq(&model, layer, "self_attn.k_proj", HIDDEN, KV);
    add_awq(&model, layer, "self_attn.v_proj", HIDDEN, KV);
    add_awq(&model, layer, "self_attn.o_proj", HIDDEN, HIDDEN);
    add_awq(&model, layer, "mlp.gate_proj", HIDDEN, FFN);
    add_awq(&model, layer, "mlp.up_proj", HIDDEN, FFN);
    add_awq(&model, layer, "mlp.down_proj", FFN, HIDDEN);
  }
  return model;
}

static inline tensor_spec *find_spec(tiny_model *model, const char *name)
{
  for (int i = 0; i < model->n; i++)
    if (strcmp(model->tensors[i].name, name) == 0) return &model->tensors[i];
  fail_msg("no tensor %s", name);
  return NULL;
}

static inline void drop(tiny_model *model, const char *name)
{
  tensor_spec *spec = find_spec(model, name);
  *spec = model->tensors[--model->n];
}

static inline int64_t spec_bytes(const tensor_spec *spec)
{
  int64_t size = strstr(spec->dtype, "64") ? 8 : strstr(spec->dtype, "16") ? 2 : strcmp(spec->dtype, "U8") == 0 ? 1 : 4;
  for (int i = 0; i < spec->n_dims; i++) size *= spec->dims[i];
  return size;
}

/* Tensors [begin, end) as one file; all data bytes of a tensor are its index, except for I64. */
static inline void write_tensors(const temp_dir *dir, const char *file, const tiny_model *model, int begin, int end)
{
  yk_strbuf header = YK_STRBUF_INIT, data = YK_STRBUF_INIT;
  yk_strbuf_append_str(&header, "{\"__metadata__\":{\"format\":\"pt\"}");
  for (int i = begin; i < end; i++) {
    const tensor_spec *spec = &model->tensors[i];
    size_t first = data.length;
    for (int64_t j = 0; j < spec_bytes(spec); j++) {
      const uint8_t *values = (const uint8_t *)spec->values, index = (uint8_t)i;
      yk_strbuf_append(&data, strcmp(spec->dtype, "I64") == 0 ? values + j : &index, 1);
    }
    yk_strbuf_append_fmt(&header, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%lld", spec->name, spec->dtype,
                         (long long)spec->dims[0]);
    if (spec->n_dims == 2) yk_strbuf_append_fmt(&header, ",%lld", (long long)spec->dims[1]);
    yk_strbuf_append_fmt(&header, "],\"data_offsets\":[%zu,%zu]}", first, data.length);
  }
  yk_strbuf_append_str(&header, "}");
  yk_strbuf image = safetensors_image(header.data, data.data, data.length);
  write_file(dir, file, image.data, image.length);
  yk_strbuf_free(&image);
  yk_strbuf_free(&header);
  yk_strbuf_free(&data);
}

#define TINY_SIZES                                                                                                     \
  "{\"architectures\":[\"LlamaForCausalLM\"],\"hidden_size\":64,\"intermediate_size\":96,\"num_hidden_layers\":2,"     \
  "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"vocab_size\":40,\"max_position_embeddings\":128"
#define TINY_AWQ                                                                                                       \
  ",\"quantization_config\":{\"quant_method\":\"awq\",\"bits\":4,\"group_size\":32,\"version\":\"gemm\","              \
  "\"modules_to_not_convert\":"

static const char tiny_config[] = TINY_SIZES TINY_AWQ "null}}";

static inline temp_dir tiny_dir(const tiny_model *model)
{
  temp_dir dir = temp_dir_make();
  write_text(&dir, "config.json", tiny_config);
  write_tensors(&dir, "model.safetensors", model, 0, model->n);
  return dir;
}

/* ---- Walking a whole model --------------------------------------------------------------------------------------- */

typedef struct log_lines {
  char text[1024];
  int n;
} log_lines;

static inline void keep_line(void *user, yk_log_level level, const char *message)
{
  log_lines *lines = user;
  assert_int_equal(level, YK_LOG_WARN);
  size_t used = strlen(lines->text);
  snprintf(lines->text + used, sizeof lines->text - used, "%s\n", message);
  lines->n++;
}

static inline yk_status read_layer(const yk_checkpoint *checkpoint, int layer, yk_err *err)
{
  const yk_model_config *c = yk_checkpoint_config(checkpoint);
  const int n_experts = c->experts.n_experts > 0 ? c->experts.n_experts : 1;
  char name[YK_WEIGHT_NAME_BYTES];
  yk_vector_view vector;
  if (c->experts.layers[layer] && c->experts.has_choice_bias)
    YK_TRY(yk_checkpoint_vector(checkpoint, YK_ROLE_CHOICE_BIAS, layer, n_experts, &vector, err));
  YK_TRY(yk_checkpoint_vector(checkpoint, YK_ROLE_ATTENTION_NORM, layer, c->hidden_size, &vector, err));
  for (int i = 0; i < YK_N_ROLES * n_experts; i++) {
    yk_weight_view view;
    const yk_weight_role role = (yk_weight_role)(i / n_experts);
    if (!yk_weight_is_linear(role) || i % n_experts >= yk_weight_count(c, role, layer)) continue;
    const yk_weight_module m = yk_weight_module_of(c, role, layer);
    yk_weight_name_of_expert(c, role, layer, i % n_experts, name);
    YK_TRY(yk_checkpoint_linear(checkpoint, name, m.k, m.n, m.has_bias, &view, err));
    assert_int_equal(view.k, m.k);
    assert_int_equal(view.n, m.n);
    assert_int_equal(view.bias != NULL, m.has_bias && !view.product_bias); /* product_bias includes the bias */
    yk_checkpoint_prefetch(&view);
  }
  for (yk_weight_role role = YK_ROLE_Q_NORM; role <= YK_ROLE_K_NORM; role++)
    if (yk_weight_is_in_layer(c, role, layer))
      YK_TRY(yk_checkpoint_vector(checkpoint, role, layer, yk_weight_head_norm_size(c, role, layer), &vector, err));
  if (!c->delta.layers[layer]) return YK_OK;
  YK_TRY(yk_checkpoint_vector(checkpoint, YK_ROLE_DELTA_CONV, layer, 4 * yk_delta_config_channels(&c->delta), &vector,
                              err));
  YK_TRY(yk_checkpoint_vector(checkpoint, YK_ROLE_DELTA_A_LOG, layer, c->delta.n_value_heads, &vector, err));
  YK_TRY(yk_checkpoint_vector(checkpoint, YK_ROLE_DELTA_DT_BIAS, layer, c->delta.n_value_heads, &vector, err));
  return yk_checkpoint_vector(checkpoint, YK_ROLE_DELTA_NORM, layer, c->delta.value_dim, &vector, err);
}

/* Opens dir and reads every weight that its configuration requires. */
static inline yk_status read_model(const char *dir, log_lines *lines, yk_err *err)
{
  yk_log log = {YK_LOG_WARN, keep_line, lines};
  yk_checkpoint *checkpoint = NULL;
  YK_TRY(yk_checkpoint_open(dir, lines ? &log : NULL, &checkpoint, err));
  const yk_model_config *config = yk_checkpoint_config(checkpoint);
  yk_weight_view view;
  yk_vector_view vector;
  char name[YK_WEIGHT_NAME_BYTES];
  yk_weight_name(config, YK_ROLE_EMBEDDING, 0, name);
  yk_status status = yk_checkpoint_matrix(checkpoint, name, config->vocab_size, config->hidden_size, &view, err);
  if (status == YK_OK)
    status = yk_checkpoint_vector(checkpoint, YK_ROLE_FINAL_NORM, 0, config->hidden_size, &vector, err);
  yk_weight_name(config, YK_ROLE_LM_HEAD, 0, name);
  if (status == YK_OK && !config->tie_word_embeddings)
    status = yk_checkpoint_linear(checkpoint, name, config->hidden_size, config->vocab_size, false, &view, err);
  for (int layer = 0; status == YK_OK && layer < config->n_layers; layer++) status = read_layer(checkpoint, layer, err);
  yk_checkpoint_close(checkpoint);
  return status;
}

#endif
