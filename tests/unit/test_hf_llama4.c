/* Llama 4: layers without rotation, attention in chunks, experts and their transposed tensors. */
#include <math.h>

#include "each_case.h"
#include "loader/checkpoint.h"
#include "loader/fused_experts.h"
#include "loader/integers/format.h"
#include "loader/model/weight_modules.h"
#include "unit/hf_config_fixture.h"

#define LLAMA4                                                                                                         \
  "'architectures': ['Llama4ForCausalLM'], 'model_type': 'llama4_text', 'intermediate_size_mlp': 160,"                 \
  " 'num_local_experts': 6"

static void configurations(void **state)
{
  (void)state;
  yk_model_config c = good("{" LLAMA4 "}");
  assert_true(c.family == YK_FAMILY_LLAMA4 && c.head_dim == 128 && c.rotary_interleaved && c.rope.theta == 5e5);
  assert_true(c.ffn_size == 160 && c.experts.ffn_size == 96 && c.experts.shared_ffn_size == 96);
  assert_true(c.experts.top_k == 1 && c.experts.weighs_inputs && c.experts.scoring == YK_SCORE_SIGMOID);
  assert_true(c.qk_norm && c.qk_norm_follows && c.qk_norm_is_plain && c.window_is_chunk && c.growth_is_unrotated);
  for (int i = 0; each_case(i, i < 4); i++) {
    assert_true(c.is_unrotated[i] == (i == 3) && c.experts.layers[i]);
    assert_int_equal(c.window_tokens[i], i == 3 ? 0 : 8192);
    assert_true(yk_model_config_norms_heads(&c, i) == (i != 3) && !yk_weight_is_in_layer(&c, YK_ROLE_Q_NORM, i));
  }
  assert_true(yk_score_growth_at(&c.score_growth, 8190) == 1);
  assert_true(fabs(yk_score_growth_at(&c.score_growth, 8191) - (1 + 0.1 * log(2))) < 1e-6);
  assert_true(fabs(yk_score_growth_at(&c.score_growth, 3 * 8192 - 1) - (1 + 0.1 * log(4))) < 1e-6);
  c = good("{" LLAMA4 ", 'no_rope_layers': [1, 0, 1, 1], 'interleave_moe_layer_step': 2, 'use_qk_norm': false,"
           " 'attn_temperature_tuning': 0, 'attention_chunk_size': 32}");
  assert_true(!c.qk_norm && !c.qk_norm_follows && c.score_growth.beta == 0 && c.window_tokens[3] == 32);
  assert_true(c.is_unrotated[1] && !c.is_unrotated[3] && c.window_tokens[1] == 0);
  for (int i = 0; each_case(i, i < 4); i++) assert_true(c.experts.layers[i] == (i % 2 == 1));
  c = good("{" LLAMA4 ", 'moe_layers': [2], 'attention_chunk_size': null, 'attn_temperature_tuning': 4}");
  assert_true(!c.experts.layers[1] && c.experts.layers[2] && !c.window_is_chunk && c.score_growth.beta > 0);
  c = good("{" LLAMA4 ", 'moe_layers': [], 'layer_types': ['full_attention', 'chunked_attention', 'full_attention',"
           " 'full_attention']}");
  assert_true(c.experts.n_experts == 0 && c.window_tokens[0] == 0 && c.window_tokens[1] == 8192);
  const bad_case refused[] = {
      {"{" LLAMA4 ", 'no_rope_layers': [1, 0]}", YK_E_FORMAT, "no_rope_layers|4 flags|array of 2"},
      {"{" LLAMA4 ", 'no_rope_layers': [1, 0, 2, 1]}", YK_E_FORMAT, "no_rope_layers[2]"},
      {"{" LLAMA4 ", 'moe_layers': [4]}", YK_E_FORMAT, "moe_layers[0]|0 to 3"},
      {"{" LLAMA4 ", 'moe_layers': 4}", YK_E_FORMAT, "moe_layers|an array of layers"},
      {"{" LLAMA4 ", 'intermediate_size_mlp': '-'}", YK_E_FORMAT, "intermediate_size_mlp"},
      {"{" LLAMA4 ", 'attention_chunk_size': null, 'layer_types': ['chunked_attention', 'full_attention',"
       " 'full_attention', 'full_attention']}",
       YK_E_FORMAT, "layer_types[0]|attention_chunk_size is null"},
  };
  EXPECT_BAD(refused);
}

/* A slice of an expert's up, and rows in another order, as a device gets them. */
static void transposed_experts(void **state)
{
  (void)state;
  static float data[6 * 64 * 192];
  for (size_t i = 0; i < sizeof data / sizeof *data; i++) data[i] = (float)i;
  const yk_model_config c = good("{" LLAMA4 "}");
  const char *module = "model.layers.1.feed_forward.experts.";
  char name[YK_WEIGHT_NAME_BYTES];
  snprintf(name, sizeof name, "%sgate_up_proj", module);
  const yk_tensor fused = {
      .name = name, .dtype = YK_TENSOR_F32, .n_dims = 3, .shape = {6, 64, 192}, .data = data, .n_bytes = sizeof data};
  yk_shards *shards;
  yk_err err = YK_ERR_INIT;
  expect_ok("shards", yk_shards_of("test", &fused, 1, &shards, &err), &err);
  expect_ok("split", yk_fused_experts_split(&c, shards, &err), &err);
  assert_int_equal(yk_shards_count(shards), 12);
  const yk_tensor *up = yk_shards_find(shards, "model.layers.1.feed_forward.experts.5.up_proj.weight", NULL);
  assert_non_null(up);
  assert_true(up->n_dims == 2 && up->shape[0] == 96 && up->shape[1] == 64 && up->column_stride == 192);
  assert_true(up->n_bytes == 96 * 64 * sizeof(float) && up->data == data + 5 * 64 * 192 + 96);
  const yk_weight_view view = {
      .format = YK_WEIGHT_PLAIN, .k = 64, .n = 96, .dtype = YK_F32, .plain = up->data, .plain_stride = 192};
  const yk_loader_format *format = yk_loader_format_of(YK_WEIGHT_PLAIN);
  const yk_weight_slice slice = {.k_begin = 5, .k_end = 50, .n_begin = 40, .n_end = 90};
  const int32_t outputs[] = {95, 0, 7};
  const yk_slice_order order = {.outputs = outputs};
  const yk_slice_source sources[] = {{.weight = &view, .slice = slice},
                                     {.weight = &view, .slice = {5, 50, 0, 3}, .order = &order}};
  assert_false(format->is_ready(&view));
  for (size_t s = 0; each_case(s, s < 2); s++) {
    static float rows[50 * 45];
    float floats[45];
    yk_repacked_slice repacked;
    const int64_t n_rows = sources[s].slice.n_end - sources[s].slice.n_begin;
    assert_int_equal(format->repacked_bytes(&sources[s]), n_rows * 45 * (int64_t)sizeof(float));
    expect_ok("repack", format->repack(&sources[s], NULL, rows, &repacked, &err), &err);
    assert_true(repacked.weight.plain == rows && repacked.weight.plain_stride == 0);
    assert_true(repacked.weight.k == 45 && repacked.weight.n == n_rows);
    assert_true(repacked.slice.k_begin == 0 && repacked.slice.k_end == 45 && repacked.slice.n_end == n_rows);
    for (int64_t n = 0; n < n_rows; n++) {
      const int64_t output = s == 1 ? outputs[n] : 40 + n;
      const yk_weight_slice row = {5, 50, output, output + 1};
      expect_ok("floats", format->to_floats(&view, &row, floats, 45, &err), &err);
      for (int64_t k = 0; k < 45; k++) {
        assert_true(rows[n * 45 + k] == (float)((5 * 64 + 5 + k) * 192 + 96 + output));
        assert_true(floats[k] == rows[n * 45 + k]);
      }
    }
  }
  yk_shards_close(shards);
}

static void bad_experts(void **state)
{
  (void)state;
  static const char data[6 * 191 * 64 * 2];
  const yk_model_config c = good("{" LLAMA4 "}");
  const struct {
    yk_tensor tensor;
    yk_status status;
    const char *words;
  } cases[] = {
      {{.name = "model.layers.1.feed_forward.experts.gate_up_proj",
        .dtype = YK_TENSOR_F8_E4M3,
        .n_dims = 3,
        .shape = {6, 64, 192},
        .data = data},
       YK_E_UNSUPPORTED,
       "gate_up_proj|quantised experts|one by one"},
      {{.name = "model.layers.1.feed_forward.experts.gate_up_proj",
        .dtype = YK_TENSOR_BF16,
        .n_dims = 3,
        .shape = {6, 64, 191},
        .data = data},
       YK_E_FORMAT,
       "gate_up_proj|inputs, outputs|equal numbers"},
      {{.name = "model.layers.1.feed_forward.experts.down_proj",
        .dtype = YK_TENSOR_BF16,
        .n_dims = 3,
        .shape = {5, 96, 64},
        .data = data},
       YK_E_FORMAT,
       "down_proj|6 experts|5"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_shards *shards;
    yk_err err = YK_ERR_INIT;
    expect_ok("shards", yk_shards_of("test", &cases[i].tensor, 1, &shards, &err), &err);
    yk_status status = yk_fused_experts_split(&c, shards, &err);
    expect_error(cases[i].tensor.name, cases[i].status, cases[i].words, status, &err);
    yk_shards_close(shards);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(configurations), cmocka_unit_test(transposed_experts),
                                     cmocka_unit_test(bad_experts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
