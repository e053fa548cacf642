/* The ChatGLM2 family and GLM-4: their configurations, names, fused modules, and refusals. */
#include "unit/config_fixture.h"

#include "each_case.h"
#include "loader/checkpoint.h"
#include "loader/model/weight_modules.h"

static const char chatglm[] =
    "{'architectures': ['ChatGLMModel'], 'model_type': 'chatglm', 'add_qkv_bias': true, 'ffn_hidden_size': 96,"
    " 'hidden_size': 64, 'kv_channels': 20, 'multi_query_attention': true, 'multi_query_group_num': 2,"
    " 'num_attention_heads': 4, 'num_layers': 3, 'padded_vocab_size': 200, 'seq_length': 256}";
static const char glm[] =
    "{'architectures': ['GlmForCausalLM'], 'model_type': 'glm', 'hidden_size': 64, 'intermediate_size': 96,"
    " 'num_hidden_layers': 2, 'num_attention_heads': 4, 'num_key_value_heads': 2, 'vocab_size': 200,"
    " 'max_position_embeddings': 256, 'head_dim': 16}";

static void chatglm_values_and_defaults(void **state)
{
  (void)state;
  yk_model_config c = config_good(chatglm, "{}");
  assert_int_equal(c.family, YK_FAMILY_CHATGLM);
  assert_string_equal(yk_model_family_name(c.family), "chatglm");
  assert_int_equal(c.vocab_size, 200);
  assert_int_equal(c.ffn_size, 96);
  assert_int_equal(c.n_layers, 3);
  assert_int_equal(c.n_kv_heads, 2);
  assert_int_equal(c.head_dim, 20);
  assert_int_equal(c.max_model_tokens, 256);
  assert_true(c.rms_norm_eps == 1e-5f && c.rope.theta == 10000 && c.rope.type == YK_ROPE_DEFAULT);
  assert_true(c.rotary_dim == 10 && c.rotary_interleaved);
  assert_true(c.qkv_bias && !c.o_bias && !c.mlp_bias && !c.qk_norm && !c.tie_word_embeddings);
  assert_true(c.embed_scale == 1 && c.residual_scale == 1 && c.logit_scale == 1);
  assert_int_equal(c.bos_id, -1);
  assert_int_equal(c.n_eos_ids, 0);

  c = config_good(chatglm,
                  "{'architectures': ['ChatGLMForConditionalGeneration'], 'add_bias_linear': true,"
                  " 'add_qkv_bias': false, 'kv_channels': null, 'rope_ratio': 50, 'layernorm_epsilon': 1e-6,"
                  " 'quantization_bit': 0, 'pre_seq_len': null, 'tie_word_embeddings': true, 'eos_token_id': 2}");
  assert_true(c.qkv_bias && c.o_bias && c.mlp_bias && c.tie_word_embeddings);
  assert_int_equal(c.head_dim, 16);
  assert_true(c.rope.theta == 500000 && c.rms_norm_eps == 1e-6f);
  assert_int_equal(c.n_eos_ids, 1);

  c = config_good(chatglm, "{'kv_channels': '-'}");
  assert_int_equal(c.head_dim, 128);
  c = config_good(chatglm, "{'_name_or_path': 'THUDM/chatglm2-6b-32k', 'rope_ratio': 4}"); /* positions are divided */
  assert_true(c.rope.type == YK_ROPE_LINEAR && c.rope.factor == 4 && c.rope.theta == 10000);
  assert_int_equal(c.max_model_tokens, 256);
}

static void glm_values_and_defaults(void **state)
{
  (void)state;
  yk_model_config c = config_good(glm, "{}");
  assert_int_equal(c.family, YK_FAMILY_GLM);
  assert_true(c.rotary_dim == 8 && c.rotary_interleaved && c.qkv_bias && !c.o_bias && !c.mlp_bias);
  assert_true(c.rms_norm_eps == 1.5625e-7f && !c.tie_word_embeddings);
  assert_int_equal(c.bos_id, -1);
  assert_int_equal(config_good(glm, "{'head_dim': '-'}").head_dim, 128);
  assert_false(config_good(glm, "{'attention_bias': false}").qkv_bias);
  assert_int_equal(config_good(glm, "{'partial_rotary_factor': 0.25}").rotary_dim, 4);
  c = config_good(glm, "{'rope_parameters': {'rope_type': 'linear', 'factor': 2, 'partial_rotary_factor': 1.0}}");
  assert_true(c.rotary_dim == 16 && c.rope.type == YK_ROPE_LINEAR);
  assert_false(c.result_norms);
  c = config_good(glm, "{'architectures': ['Glm4ForCausalLM'], 'head_dim': '-', 'attention_bias': '-'}");
  assert_int_equal(c.family, YK_FAMILY_GLM4);
  assert_true(c.rotary_dim == 64 && c.rotary_interleaved && c.qkv_bias && !c.o_bias && c.result_norms);
}

static void other_values_are_refused(void **state)
{
  (void)state;
  static const struct {
    const char *base, *changes;
    yk_status status;
    const char *words;
  } cases[] = {
      {chatglm, "{'rmsnorm': false}", YK_E_UNSUPPORTED, "config.json: rmsnorm false|supported: true"},
      {chatglm, "{'post_layer_norm': false}", YK_E_UNSUPPORTED, "post_layer_norm false|supported: true"},
      {chatglm, "{'original_rope': false}", YK_E_UNSUPPORTED, "original_rope false|supported: true"},
      {chatglm, "{'multi_query_attention': false}", YK_E_UNSUPPORTED, "multi_query_attention false"},
      {chatglm, "{'multi_query_attention': '-'}", YK_E_FORMAT, "\"multi_query_attention\" is missing"},
      {chatglm, "{'apply_residual_connection_post_layernorm': true}", YK_E_UNSUPPORTED,
       "apply_residual_connection_post_layernorm true|supported: false"},
      {chatglm, "{'pre_seq_len': 128}", YK_E_UNSUPPORTED, "pre_seq_len 128|supported: null"},
      {chatglm, "{'position_encoding_2d': true}", YK_E_UNSUPPORTED, "position_encoding_2d true"},
      {chatglm, "{'alibi': true}", YK_E_UNSUPPORTED, "alibi true"},
      {chatglm, "{'quantization_bit': 4}", YK_E_UNSUPPORTED, "quantization_bit 4|supported: 0"},
      {chatglm, "{'padded_vocab_size': '-'}", YK_E_FORMAT, "\"padded_vocab_size\" is missing"},
      {chatglm, "{'padded_vocab_size': 0}", YK_E_FORMAT, "\"padded_vocab_size\"|found 0"},
      {chatglm, "{'hidden_size': -1}", YK_E_FORMAT, "\"hidden_size\"|found -1"},
      {chatglm, "{'ffn_hidden_size': 4611686018427387904}", YK_E_FORMAT, "\"ffn_hidden_size\"|found"},
      {chatglm, "{'num_layers': 'x'}", YK_E_FORMAT, "\"num_layers\"|found string"},
      {chatglm, "{'num_attention_heads': 0}", YK_E_FORMAT, "\"num_attention_heads\"|found 0"},
      {chatglm, "{'multi_query_group_num': 3}", YK_E_FORMAT, "num_attention_heads 4|multi_query_group_num 3"},
      {chatglm, "{'kv_channels': 18}", YK_E_FORMAT, "kv_channels|multiple of 4|found 18"},
      {chatglm, "{'seq_length': 0}", YK_E_FORMAT, "\"seq_length\"|found 0"},
      {chatglm, "{'layernorm_epsilon': 0}", YK_E_FORMAT, "\"layernorm_epsilon\"|found 0"},
      {chatglm, "{'rope_ratio': 0}", YK_E_FORMAT, "\"rope_ratio\"|found 0"},
      {chatglm, "{'add_bias_linear': 1}", YK_E_FORMAT, "\"add_bias_linear\"|expected true or false"},
      {glm, "{'partial_rotary_factor': 0}", YK_E_FORMAT, "partial_rotary_factor 0|head_dim 16|found 0"},
      {glm, "{'partial_rotary_factor': 0.2}", YK_E_FORMAT, "partial_rotary_factor 0.2|found 3"},
      {glm, "{'partial_rotary_factor': 2}", YK_E_FORMAT, "\"partial_rotary_factor\"|found 2"},
      {glm, "{'architectures': ['Glm4vForConditionalGeneration']}", YK_E_UNSUPPORTED, "\"Glm4vFor|ChatGLM, GLM"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_model_config config;
    yk_err err = YK_ERR_INIT;
    expect_error(cases[i].changes, cases[i].status, cases[i].words,
                 config_load(cases[i].base, cases[i].changes, &config, &err), &err);
  }
}

static void expect_module(const yk_model_config *config, yk_weight_role role, const char *name, yk_weight_module m)
{
  char found[YK_WEIGHT_NAME_BYTES];
  yk_weight_name(config, role, 2, found);
  assert_string_equal(found, name);
  const yk_weight_module have = yk_weight_module_of(config, role, 0);
  if (have.k != m.k || have.n != m.n || have.first_n != m.first_n || have.n_own != m.n_own ||
      have.has_bias != m.has_bias)
    fail_msg("%s: found k %d, n %d, outputs from %d, %d of them, bias %d", name, (int)have.k, (int)have.n,
             (int)have.first_n, (int)have.n_own, have.has_bias);
}

static void fused_modules(void **state)
{
  (void)state;
  yk_model_config c = config_good(chatglm, "{}");
  static const char qkv[] = "transformer.encoder.layers.2.self_attention.query_key_value";
  static const char gate_up[] = "transformer.encoder.layers.2.mlp.dense_h_to_4h";
  expect_module(&c, YK_ROLE_Q, qkv, (yk_weight_module){64, 160, 0, 80, true});
  expect_module(&c, YK_ROLE_K, qkv, (yk_weight_module){64, 160, 80, 40, true});
  expect_module(&c, YK_ROLE_V, qkv, (yk_weight_module){64, 160, 120, 40, true});
  expect_module(&c, YK_ROLE_O, "transformer.encoder.layers.2.self_attention.dense",
                (yk_weight_module){80, 64, 0, 64, false});
  expect_module(&c, YK_ROLE_GATE, gate_up, (yk_weight_module){64, 192, 0, 96, false});
  expect_module(&c, YK_ROLE_UP, gate_up, (yk_weight_module){64, 192, 96, 96, false});
  expect_module(&c, YK_ROLE_LM_HEAD, "transformer.output_layer", (yk_weight_module){64, 200, 0, 200, false});
  assert_int_equal(yk_weight_layer(&c, "transformer.encoder.layers.11.mlp.dense_h_to_4h.weight"), 11);
  assert_int_equal(yk_weight_layer(&c, "model.layers.11.mlp.down_proj.weight"), -1);
  c = config_good(glm, "{}");
  expect_module(&c, YK_ROLE_K, "model.layers.2.self_attn.k_proj", (yk_weight_module){64, 32, 0, 32, true});
  expect_module(&c, YK_ROLE_UP, "model.layers.2.mlp.gate_up_proj", (yk_weight_module){64, 192, 96, 96, false});
}

/* A fused tensor that is missing or of another shape is reported under the checkpoint's own names. */
static void a_fused_tensor_is_checked(void **state)
{
  (void)state;
  static const char header[] = "{\"transformer.encoder.layers.0.self_attention.query_key_value.weight\":"
                               "{\"dtype\":\"F16\",\"shape\":[150,64],\"data_offsets\":[0,19200]}}";
  static const char data[19200];
  const temp_dir dir = temp_dir_make();
  json_t *root = config_parse(chatglm);
  char *text = json_dumps(root, 0);
  yk_strbuf image = safetensors_image(header, data, sizeof data);
  write_text(&dir, "config.json", text);
  write_file(&dir, "model.safetensors", image.data, image.length);
  yk_checkpoint *checkpoint;
  yk_weight_view view;
  yk_err err = YK_ERR_INIT;
  expect_ok("open", yk_checkpoint_open(dir.path, NULL, &checkpoint, &err), &err);
  const yk_weight_module m = yk_weight_module_of(yk_checkpoint_config(checkpoint), YK_ROLE_K, 0);
  char name[YK_WEIGHT_NAME_BYTES];
  yk_weight_name(yk_checkpoint_config(checkpoint), YK_ROLE_K, 0, name);
  expect_error("shape", YK_E_FORMAT, "layers.0.self_attention.query_key_value.weight|[160, 64]|found F16 [150, 64]",
               yk_checkpoint_linear(checkpoint, name, m.k, m.n, m.has_bias, &view, &err), &err);
  yk_weight_name(yk_checkpoint_config(checkpoint), YK_ROLE_K, 1, name);
  expect_error("missing", YK_E_FORMAT, "layers.1.self_attention.query_key_value.weight|is missing|[160, 64]",
               yk_checkpoint_linear(checkpoint, name, m.k, m.n, m.has_bias, &view, &err), &err);
  yk_checkpoint_close(checkpoint);
  yk_strbuf_free(&image);
  free(text);
  json_decref(root);
  temp_dir_remove(&dir);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(chatglm_values_and_defaults), cmocka_unit_test(glm_values_and_defaults),
      cmocka_unit_test(other_values_are_refused),    cmocka_unit_test(fused_modules),
      cmocka_unit_test(a_fused_tensor_is_checked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
