/* KuiperLLama model files: every tensor is at the format's position, every contradiction is named, and the files next
 * to one are read. */
#include "unit/loader_fixture.h"

#include "each_case.h"
#include "loader/checkpoint.h"
#include "loader/foreign/kuiper_config.h"

/* The fields in the file's order; shared_classifier is a byte. */
enum {
  MAGIC,
  VERSION,
  DIM,
  HIDDEN_DIM,
  N_LAYERS,
  N_HEADS,
  N_KV_HEADS,
  VOCAB,
  MAX_SEQ,
  SHARED,
  HEAD_DIM,
  GROUP,
  N_FIELDS
};
typedef struct fields {
  int64_t of[N_FIELDS];
} fields;

static const fields small = {{0x616b3438, 5, 16, 48, 2, 4, 2, 10, 32, 0, 8, 16}};

static yk_strbuf make_file(const fields *f, size_t data_bytes)
{
  yk_strbuf file = YK_STRBUF_INIT;
  for (int i = 0; i < N_FIELDS; i++)
    for (int byte = 0; byte < (i == SHARED ? 1 : 4); byte++)
      yk_strbuf_append(&file, &(uint8_t){(uint8_t)((uint64_t)f->of[i] >> 8 * byte)}, 1);
  while (file.length < 256) yk_strbuf_append(&file, "", 1);
  for (size_t i = 0; i < data_bytes; i++) yk_strbuf_append(&file, &(uint8_t){(uint8_t)(i * 7 + i / 256)}, 1);
  assert_false(file.failed);
  return file;
}

/* The order of the format: all layers' tensors of one kind after another. */
typedef struct kind {
  const char *name; /* %d is the layer */
  int is_quantised, once;
  int k, n;
} kind;

static const kind order[] = {
    {"model.layers.%d.input_layernorm", 0, 0, 1, 16},
    {"model.layers.%d.post_attention_layernorm", 0, 0, 1, 16},
    {"model.norm", 0, 1, 1, 16},
    {"model.embed_tokens", 0, 1, 10, 16},
    {"model.layers.%d.self_attn.q_proj", 1, 0, 16, 32},
    {"model.layers.%d.self_attn.k_proj", 1, 0, 16, 16},
    {"model.layers.%d.self_attn.v_proj", 1, 0, 16, 16},
    {"model.layers.%d.self_attn.o_proj", 1, 0, 32, 16},
    {"model.layers.%d.mlp.gate_proj", 1, 0, 16, 48},
    {"model.layers.%d.mlp.down_proj", 1, 0, 48, 16},
    {"model.layers.%d.mlp.up_proj", 1, 0, 16, 48},
    {"lm_head", 0, 1, 10, 16},
    {"model.layers.%d.self_attn.q_norm", 0, 0, 1, 8},
    {"model.layers.%d.self_attn.k_norm", 0, 0, 1, 8},
};

static size_t bytes_of(const kind *of, int part, int group)
{
  size_t n_groups = (size_t)(group > 0 ? of->k / group : 1), n = (size_t)of->n;
  if (!of->is_quantised) return (size_t)of->k * n * 2;
  return part == 0 ? (size_t)of->k * n / 2 : part == 1 ? n_groups * n / 2 : n_groups * n * 2;
}

/* Calls visit, if any, for each tensor with its name and offset; returns where the last one ends. */
static size_t walk(const fields *f, void (*visit)(void *user, const char *name, size_t at, size_t n_bytes), void *user)
{
  static const char *const parts[] = {"qweight", "qzeros", "scales"};
  size_t at = 256;
  for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
    if (f->of[SHARED] && strcmp(order[i].name, "lm_head") == 0) continue;
    for (int layer = 0; layer < (order[i].once ? 1 : (int)f->of[N_LAYERS]); layer++)
      for (int part = 0; part < (order[i].is_quantised ? 3 : 1); part++) {
        char module[96], name[128];
        size_t n_bytes = bytes_of(&order[i], part, (int)f->of[GROUP]);
        snprintf(module, sizeof module, order[i].name, layer);
        snprintf(name, sizeof name, "%s.%s", module, order[i].is_quantised ? parts[part] : "weight");
        if (visit) visit(user, name, at, n_bytes);
        at += n_bytes;
      }
  }
  return at;
}

typedef struct view {
  const yk_shards *shards;
  const char *bytes;
} view;

static void expect_tensor(void *user, const char *name, size_t at, size_t n_bytes)
{
  const view *v = user;
  const yk_tensor *tensor = yk_shards_find(v->shards, name, NULL);
  if (!tensor)
    fail_msg("%s is missing", name);
  else if (tensor->data != v->bytes + at || tensor->n_bytes != n_bytes)
    fail_msg("%s: expected %zu bytes at %zu, found %llu at %td", name, n_bytes, at, (unsigned long long)tensor->n_bytes,
             (const char *)tensor->data - v->bytes);
}

static void tensors_are_where_the_format_has_them(void **state)
{
  (void)state;
  for (int shared = 0; shared < 2; shared++)
    for (int group = -1; group <= 16; group += 17) {
      fields f = small;
      f.of[SHARED] = shared;
      f.of[GROUP] = group;
      yk_strbuf file = make_file(&f, walk(&f, NULL, NULL) - 256);
      yk_err err = YK_ERR_INIT;
      yk_kuiper *kuiper;
      yk_shards *shards;
      expect_ok("parse", yk_kuiper_parse("x.bin", file.data, file.length, &kuiper, &err), &err);
      expect_ok("shards", yk_kuiper_shards(kuiper, &shards, &err), &err);
      assert_int_equal(yk_shards_count(shards), 3 + 2 * (4 + 7 * 3) - shared);
      walk(&f, expect_tensor, &(view){shards, file.data});
      uint8_t header[YK_KUIPER_HEADER_BYTES];
      yk_kuiper_header_write(yk_kuiper_header_of(kuiper), header);
      assert_memory_equal(header, file.data, sizeof header);
      yk_shards_close(shards);
      yk_kuiper_close(kuiper);
      yk_strbuf_free(&file);
    }
  yk_kuiper_close(NULL);
}

static void the_rest_is_qwen3(void **state)
{
  (void)state;
  fields f = small;
  f.of[VOCAB] = -f.of[VOCAB]; /* llama2.c's mark for a separate head */
  yk_strbuf file = make_file(&f, walk(&small, NULL, NULL) - 256);
  yk_err err = YK_ERR_INIT;
  yk_kuiper *kuiper;
  yk_model_config config;
  expect_ok("parse", yk_kuiper_parse("x.bin", file.data, file.length, &kuiper, &err), &err);
  expect_ok("config", yk_kuiper_config_load(kuiper, NULL, NULL, &config, &err), &err);
  assert_int_equal(config.family, YK_FAMILY_QWEN3);
  assert_int_equal(config.vocab_size, 10);
  assert_int_equal(config.hidden_size, 16);
  assert_int_equal(config.ffn_size, 48);
  assert_int_equal(config.n_layers, 2);
  assert_int_equal(config.n_heads, 4);
  assert_int_equal(config.n_kv_heads, 2);
  assert_int_equal(config.head_dim, 8);
  assert_int_equal(config.max_position_embeddings, 32);
  assert_int_equal(config.max_model_tokens, 32);
  assert_int_equal(config.dtype, YK_F16);
  assert_true(config.qk_norm && !config.qkv_bias && !config.o_bias && !config.mlp_bias);
  assert_false(config.tie_word_embeddings);
  assert_true(config.rope.theta == 1e6 && config.rope.type == YK_ROPE_DEFAULT && config.rms_norm_eps == 1e-6f);
  assert_int_equal(config.quant.scheme.group_size, 16);
  assert_int_equal(config.n_eos_ids, 0);
  yk_model_config_free(&config);
  yk_kuiper_close(kuiper);
  yk_strbuf_free(&file);
}

static void qwen3s_ends_are_known_where_the_vocabulary_has_them(void **state)
{
  (void)state;
  yk_kuiper_header header = {16, 48, 1, 4, 2, 151646, 32, 8, 16, true};
  uint8_t bytes[YK_KUIPER_HEADER_BYTES];
  yk_kuiper_layout layout;
  yk_err err = YK_ERR_INIT;
  yk_kuiper *kuiper;
  yk_model_config config;
  expect_ok("layout", yk_kuiper_layout_make(&header, &layout, &err), &err);
  yk_kuiper_header_write(&header, bytes);
  char *file = calloc(1, layout.file_bytes);
  assert_non_null(file);
  memcpy(file, bytes, sizeof bytes);
  expect_ok("parse", yk_kuiper_parse("x.bin", file, layout.file_bytes, &kuiper, &err), &err);
  expect_ok("config", yk_kuiper_config_load(kuiper, NULL, NULL, &config, &err), &err);
  assert_true(config.tie_word_embeddings);
  assert_int_equal(config.n_eos_ids, 2);
  assert_int_equal(config.eos_ids[0], 151645);
  assert_int_equal(config.eos_ids[1], 151643);
  yk_model_config_free(&config);
  yk_kuiper_close(kuiper);
  yk_kuiper_layout_free(&layout);
  free(file);
}

static void bad_headers_are_refused(void **state)
{
  (void)state;
  static const struct {
    int field;
    int64_t value;
    yk_status status;
    const char *words;
  } cases[] = {
      {MAGIC, 0x616b3432, YK_E_FORMAT, "x.bin|magic|expected 0x616b3438|found 0x616b3432"},
      {VERSION, 4, YK_E_UNSUPPORTED, "x.bin|version|expected 5, found 4"},
      {VERSION, -1, YK_E_UNSUPPORTED, "version|found -1"},
      {DIM, 0, YK_E_FORMAT, "x.bin: dim: expected 1 to 262144, found 0"},
      {DIM, -16, YK_E_FORMAT, "dim: expected 1 to 262144, found -16"},
      {DIM, 1 << 19, YK_E_FORMAT, "dim: expected 1 to 262144, found 524288"},
      {DIM, 24, YK_E_FORMAT, "dim 24: expected a multiple of group_size 16"},
      {HIDDEN_DIM, 0, YK_E_FORMAT, "hidden_dim: expected 1 to 1048576, found 0"},
      {HIDDEN_DIM, 40, YK_E_FORMAT, "hidden_dim 40: expected a multiple of group_size 16"},
      {HIDDEN_DIM, 44, YK_E_FORMAT, "hidden_dim 44: expected a multiple of 8"},
      {N_LAYERS, 0, YK_E_FORMAT, "n_layers: expected 1 to 1024, found 0"},
      {N_LAYERS, 1025, YK_E_FORMAT, "n_layers|found 1025"},
      {N_LAYERS, INT32_MAX, YK_E_FORMAT, "n_layers|found 2147483647"},
      {N_HEADS, 0, YK_E_FORMAT, "n_heads: expected 1 to 4096, found 0"},
      {N_HEADS, 5, YK_E_FORMAT, "n_heads 5: expected a multiple of n_kv_heads 2"},
      {N_HEADS, 6, YK_E_FORMAT, "x.bin: expected|bytes for the sizes in its header, found"},
      {N_HEADS, 14, YK_E_FORMAT, "x.bin: expected|bytes for the sizes in its header, found"},
      {N_KV_HEADS, 0, YK_E_FORMAT, "n_kv_heads: expected 1 to 4096, found 0"},
      {N_KV_HEADS, 3, YK_E_FORMAT, "n_heads 4: expected a multiple of n_kv_heads 3"},
      {VOCAB, 0, YK_E_FORMAT, "vocab_size: expected 1 to 8388608, found 0"},
      {VOCAB, INT32_MIN, YK_E_FORMAT, "vocab_size|found -2147483648"},
      {VOCAB, 11, YK_E_FORMAT, "bytes for the sizes in its header"},
      {MAX_SEQ, 0, YK_E_FORMAT, "max_seq_len: expected 1 to 67108864, found 0"},
      {MAX_SEQ, -1, YK_E_FORMAT, "max_seq_len|found -1"},
      {SHARED, 2, YK_E_FORMAT, "shared_classifier: expected 0 or 1, found 2"},
      {SHARED, 1, YK_E_FORMAT, "bytes for the sizes in its header"},
      {HEAD_DIM, 0, YK_E_FORMAT, "head_dim: expected 2 to 1024, found 0"},
      {HEAD_DIM, 9, YK_E_FORMAT, "head_dim 9: expected a multiple of 2"},
      {HEAD_DIM, 6, YK_E_FORMAT, "n_heads times head_dim 24: expected a multiple of group_size 16"},
      {GROUP, 0, YK_E_FORMAT, "group_size: expected 16, 32, 64, 128, 256, 512, 1024 or -1, found 0"},
      {GROUP, 48, YK_E_FORMAT, "group_size|found 48"},
      {GROUP, 32, YK_E_FORMAT, "dim 16: expected a multiple of group_size 32"},
      {GROUP, -2, YK_E_FORMAT, "group_size|found -2"},
  };
  size_t data_bytes = walk(&small, NULL, NULL) - 256;
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    fields f = small;
    f.of[cases[i].field] = cases[i].value;
    yk_strbuf file = make_file(&f, data_bytes);
    yk_err err = YK_ERR_INIT;
    yk_kuiper *kuiper = NULL;
    yk_status status = yk_kuiper_parse("x.bin", file.data, file.length, &kuiper, &err);
    if (status == YK_OK && cases[i].field == N_HEADS) fail_msg("n_heads %lld is taken", (long long)cases[i].value);
    expect_error(cases[i].words, cases[i].status, cases[i].words, status, &err);
    assert_null(kuiper);
    yk_strbuf_free(&file);
  }
}

static void only_whole_files_are_taken(void **state)
{
  (void)state;
  yk_strbuf file = make_file(&small, walk(&small, NULL, NULL) - 256 + 1);
  for (size_t n_bytes = 0; n_bytes <= file.length; n_bytes++) {
    yk_err err = YK_ERR_INIT;
    yk_kuiper *kuiper = NULL;
    if (n_bytes == file.length - 1) continue;
    yk_status status = yk_kuiper_parse("x.bin", file.data, n_bytes, &kuiper, &err);
    expect_error("cut", YK_E_FORMAT, n_bytes < 256 ? "a header of 256 bytes, found" : "for the sizes in its header",
                 status, &err);
  }
  file.data[255] = 1;
  yk_err err = YK_ERR_INIT;
  yk_kuiper *kuiper = NULL;
  expect_error("padding", YK_E_FORMAT, "byte 255 of the header: expected 0, found 1",
               yk_kuiper_parse("x.bin", file.data, file.length - 1, &kuiper, &err), &err);
  yk_strbuf_free(&file);
}

/* ---- In directories ---------------------------------------------------------------------------------------------- */

static void write_model(const temp_dir *dir, const char *name)
{
  yk_strbuf file = make_file(&small, walk(&small, NULL, NULL) - 256);
  write_file(dir, name, file.data, file.length);
  yk_strbuf_free(&file);
}

static yk_status open_in(const temp_dir *dir, const char *name, yk_checkpoint **checkpoint, yk_err *err)
{
  char path[128];
  snprintf(path, sizeof path, "%s%s%s", dir->path, name ? "/" : "", name ? name : "");
  return yk_checkpoint_open(path, NULL, checkpoint, err);
}

static void a_file_and_its_directory_are_the_model(void **state)
{
  (void)state;
  static const char *const names[] = {NULL, "model.bin"};
  temp_dir dir = temp_dir_make();
  write_model(&dir, "model.bin");
  write_text(&dir, "training_args.bin", "PK of another tool");
  write_text(&dir, "generation_config.json", "{\"eos_token_id\": 7, \"top_k\": 4}");
  for (int i = 0; i < 2; i++) {
    yk_err err = YK_ERR_INIT;
    yk_checkpoint *checkpoint;
    expect_ok("open", open_in(&dir, names[i], &checkpoint, &err), &err);
    const yk_model_config *config = yk_checkpoint_config(checkpoint);
    assert_int_equal(config->n_eos_ids, 1);
    assert_int_equal(config->eos_ids[0], 7);
    assert_int_equal(config->generation.top_k, 4);
    yk_weight_view down;
    expect_ok("down", yk_checkpoint_linear(checkpoint, "model.layers.1.mlp.down_proj", 48, 16, false, &down, &err),
              &err);
    assert_int_equal(down.format, YK_WEIGHT_AWQ);
    assert_int_equal(down.group, 16);
    assert_int_equal(down.dtype, YK_F16);
    yk_checkpoint_close(checkpoint);
  }
  temp_dir_remove(&dir);
}

#define QWEN3                                                                                                          \
  "\"architectures\": [\"Qwen3ForCausalLM\"], \"rope_theta\": 5e6, \"eos_token_id\": 3, \"num_hidden_layers\": 2,"
#define SIZES                                                                                                          \
  "\"intermediate_size\": 48, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 10, "            \
  "\"max_position_embeddings\": 32, \"head_dim\": 8"

static void its_configuration_takes_no_changes(void **state)
{
  (void)state;
  static const yk_config_changes cases[] = {
      {.config = "{}"}, {.generation = "{}"}, {.generation_dir = "/tmp"}, {.has_plain_sampling = true}};
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  yk_checkpoint *checkpoint;
  write_model(&dir, "x.bin");
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++)
    expect_error("changes", YK_E_UNSUPPORTED, "x.bin: a KuiperLLama file takes no changes",
                 yk_checkpoint_open_changed(dir.path, &cases[i], NULL, &checkpoint, &err), &err);
  expect_ok("none", yk_checkpoint_open_changed(dir.path, &(yk_config_changes){0}, NULL, &checkpoint, &err), &err);
  yk_checkpoint_close(checkpoint);
  temp_dir_remove(&dir);
}

static void the_folders_configuration_must_agree(void **state)
{
  (void)state;
  static const struct {
    const char *config, *words;
  } cases[] = {
      {"{" QWEN3 "\"hidden_size\": 16," SIZES "}", ""},
      {"{" QWEN3 "\"hidden_size\": 16," SIZES ", \"quantization_config\": {\"quant_method\": \"fp8\"}}", ""},
      {"{" QWEN3 "\"hidden_size\": 32," SIZES "}", "x.bin: dim: expected 32|hidden_size|found 16"},
      {"{" QWEN3 "\"hidden_size\": 16, \"tie_word_embeddings\": true, " SIZES "}",
       "shared_classifier|tie_word_embeddings"},
      {"{\"architectures\": [\"LlamaForCausalLM\"], \"num_hidden_layers\": 2, \"hidden_size\": 16," SIZES "}",
       "family qwen3|llama"},
      {"[]", "config.json: expected an object, found array"},
      {"{", "config.json: line 1"},
      {"{\"architectures\": [\"GPT2\"]}", "config.json"},
  };
  temp_dir dir = temp_dir_make();
  write_model(&dir, "x.bin");
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_err err = YK_ERR_INIT;
    yk_checkpoint *checkpoint;
    write_text(&dir, "config.json", cases[i].config);
    yk_status status = open_in(&dir, "x.bin", &checkpoint, &err);
    if (cases[i].words[0]) {
      assert_int_not_equal(status, YK_OK);
      expect_words(cases[i].config, cases[i].words, err.message);
      continue;
    }
    expect_ok(cases[i].config, status, &err);
    const yk_model_config *config = yk_checkpoint_config(checkpoint);
    assert_true(config->rope.theta == 5e6);
    assert_int_equal(config->eos_ids[0], 3);
    assert_int_equal(config->quant.scheme.group_size, 16);
    yk_checkpoint_close(checkpoint);
  }
  temp_dir_remove(&dir);
}

static void other_files_are_recognised(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  yk_err err = YK_ERR_INIT;
  yk_checkpoint *checkpoint;
  write_model(&dir, "a.bin");
  write_model(&dir, "b.bin");
  expect_error("two", YK_E_INVAL, "one KuiperLLama file|a.bin|b.bin", open_in(&dir, NULL, &checkpoint, &err), &err);
  expect_ok("named", open_in(&dir, "b.bin", &checkpoint, &err), &err);
  yk_checkpoint_close(checkpoint);
  remove_file(&dir, "b.bin");
  write_text(&dir, "model.safetensors", "");
  write_text(&dir, "config.json", "{" QWEN3 "\"hidden_size\": 16," SIZES "}");
  expect_error("safetensors come first", YK_E_FORMAT, "model.safetensors: cut short",
               open_in(&dir, NULL, &checkpoint, &err), &err);
  remove_file(&dir, "model.safetensors");
  remove_file(&dir, "config.json");
  write_text(&dir, "a.bin", "84k");
  expect_error("other weights", YK_E_IO, "a.bin|a local checkpoint directory or a KuiperLLama file",
               open_in(&dir, "a.bin", &checkpoint, &err), &err);
  expect_error("other weights", YK_E_UNSUPPORTED, "a.bin|PyTorch", open_in(&dir, NULL, &checkpoint, &err), &err);
  write_text(&dir, "a.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n");
  expect_error("a pointer", YK_E_FORMAT, "a.bin: a Git LFS pointer instead of the weights: run git lfs pull",
               open_in(&dir, "a.bin", &checkpoint, &err), &err);
  write_text(&dir, "a.bin", "84ka");
  expect_error("the magic alone", YK_E_FORMAT, "a.bin: expected a header of 256 bytes, found 4",
               open_in(&dir, NULL, &checkpoint, &err), &err);
  expect_error("absent", YK_E_IO, "c.bin|a local checkpoint directory or a KuiperLLama file",
               open_in(&dir, "c.bin", &checkpoint, &err), &err);
  temp_dir_remove(&dir);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tensors_are_where_the_format_has_them),
      cmocka_unit_test(the_rest_is_qwen3),
      cmocka_unit_test(qwen3s_ends_are_known_where_the_vocabulary_has_them),
      cmocka_unit_test(bad_headers_are_refused),
      cmocka_unit_test(only_whole_files_are_taken),
      cmocka_unit_test(a_file_and_its_directory_are_the_model),
      cmocka_unit_test(its_configuration_takes_no_changes),
      cmocka_unit_test(the_folders_configuration_must_agree),
      cmocka_unit_test(other_files_are_recognised),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
