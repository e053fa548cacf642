/* A model in another format has the same numbers; a model that the format cannot express is refused by name; an
 * interrupted conversion leaves no files. */
#include "unit/loader_fixture.h"

#include <sys/stat.h>

#include "base/file.h"
#include "convert/source.h"
#include "each_case.h"
#include "loader/integers/int4.h"
#include "yoke/tools.h"
#include "yoke/yoke.h"

enum { MAX_BYTES = 1 << 20 };

static const char *golden(const char *name, char path[256])
{
  snprintf(path, 256, "%s/golden/%s", YOKE_TESTS_DIR, name);
  return path;
}

static const char *in_dir(const temp_dir *dir, const char *name, char path[256])
{
  snprintf(path, 256, "%s/%s", dir->path, name);
  return path;
}

static yk_status convert(const char *from, yk_convert_format to, const char *out, int64_t shard_bytes, yk_err *err)
{
  yk_convert_options options;
  yk_convert_options_init(&options);
  options.model_dir = from;
  options.out = out;
  options.to = to;
  if (shard_bytes) options.shard_bytes = shard_bytes;
  return yk_convert(&options, err);
}

static void remove_dir(const char *path)
{
  temp_dir dir;
  snprintf(dir.path, sizeof dir.path, "%s", path);
  temp_dir_remove(&dir);
}

static void expect_same_files(const char *a, const char *b)
{
  char *x, *y;
  size_t n_x, n_y;
  yk_err err = YK_ERR_INIT;
  expect_ok(a, yk_file_read(a, MAX_BYTES, &x, &n_x, &err), &err);
  expect_ok(b, yk_file_read(b, MAX_BYTES, &y, &n_y, &err), &err);
  assert_int_equal(n_x, n_y);
  assert_memory_equal(x, y, n_x);
  free(x);
  free(y);
}

/* A copy of families/NAME whose config.json has a text replaced; "": nothing. */
static void copy_family(const temp_dir *dir, const char *name, const char *text, const char *by)
{
  char from[256], path[256], *config;
  size_t n_bytes;
  yk_err err = YK_ERR_INIT;
  snprintf(from, sizeof from, "%s/golden/families/%s/config.json", YOKE_TESTS_DIR, name);
  expect_ok(from, yk_file_read(from, MAX_BYTES, &config, &n_bytes, &err), &err);
  char *at = text[0] ? strstr(config, text) : config;
  assert_non_null(at);
  yk_strbuf changed = YK_STRBUF_INIT;
  yk_strbuf_append(&changed, config, (size_t)(at - config));
  yk_strbuf_append_str(&changed, by);
  yk_strbuf_append_str(&changed, at + strlen(text));
  write_file(dir, "config.json", changed.data, changed.length);
  snprintf(from, sizeof from, "%s/golden/families/%s", YOKE_TESTS_DIR, name);
  DIR *stream = opendir(from);
  assert_non_null(stream);
  for (struct dirent *entry; (entry = readdir(stream));) {
    if (!strstr(entry->d_name, ".safetensors")) continue;
    snprintf(from, sizeof from, "%s/golden/families/%s/%s", YOKE_TESTS_DIR, name, entry->d_name);
    assert_int_equal(symlink(from, in_dir(dir, entry->d_name, path)), 0);
  }
  closedir(stream);
  yk_strbuf_free(&changed);
  free(config);
}

#define THETA_1E4 "\"rope_theta\": 10000.0"
#define THETA_1E6 "\"rope_theta\": 1000000.0"

/* ---- Numbers ----------------------------------------------------------------------------------------------------- */

static void kuiper_files_come_back_byte_for_byte(void **state)
{
  (void)state;
  static const char *const names[] = {"kuiper/tied.bin", "kuiper/untied.bin"};
  for (int i = 0; i < 2; i++)
    for (int64_t shard_bytes = 0; shard_bytes <= 20000; shard_bytes += 20000) {
      temp_dir dir = temp_dir_make();
      char from[256], awq[256], back[256];
      yk_err err = YK_ERR_INIT;
      golden(names[i], from);
      in_dir(&dir, "awq", awq);
      in_dir(&dir, "back.bin", back);
      expect_ok("to awq", convert(from, YK_CONVERT_AWQ, awq, shard_bytes, &err), &err);
      expect_ok("back", convert(awq, YK_CONVERT_KUIPER, back, 0, &err), &err);
      expect_same_files(from, back);
      remove_dir(awq);
      assert_int_equal(n_entries(&dir), 1);
      temp_dir_remove(&dir);
    }
}

static void kuiper_files_are_those_of_their_own_tool(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make(), out = temp_dir_make();
  char from[256], made[256];
  yk_err err = YK_ERR_INIT;
  copy_family(&dir, "qwen3", THETA_1E4, THETA_1E6);
  expect_ok("to kuiper", convert(dir.path, YK_CONVERT_KUIPER, in_dir(&out, "x.bin", made), 0, &err), &err);
  expect_same_files(golden("kuiper/tied.bin", from), made);
  temp_dir_remove(&dir);
  temp_dir_remove(&out);
}

/* Number by number: integers, zero points and scales of a layer that two checkpoints hold. */
static void expect_same_layer(const yk_weight_view *a, const yk_weight_view *b)
{
  const yk_weight_slice whole = {.k_end = a->k, .n_end = a->n};
  yk_int4_repacked x, y;
  yk_err err = YK_ERR_INIT;
  void *first = aligned_alloc(64, (yk_int4_repacked_bytes(a, &whole, NULL) + 63) / 64 * 64);
  void *second = aligned_alloc(64, (yk_int4_repacked_bytes(b, &whole, NULL) + 63) / 64 * 64);
  expect_ok("a", yk_int4_repack(a, &whole, NULL, NULL, first, &x, &err), &err);
  expect_ok("b", yk_int4_repack(b, &whole, NULL, NULL, second, &y, &err), &err);
  assert_int_equal(a->dtype, b->dtype);
  assert_memory_equal(x.weight.qweight, y.weight.qweight, a->k * a->n / 2);
  assert_true(a->group % b->group == 0);
  int64_t row_bytes = a->n * (int64_t)yk_dtype_bytes(a->dtype);
  for (int64_t group = 0; group < a->k / b->group; group++) {
    int64_t of = group * b->group / a->group;
    assert_memory_equal((const char *)x.weight.qzeros + of * a->n / 2, (const char *)y.weight.qzeros + group * a->n / 2,
                        a->n / 2);
    assert_memory_equal((const char *)x.weight.scales + of * row_bytes,
                        (const char *)y.weight.scales + group * row_bytes, row_bytes);
  }
  free(first);
  free(second);
}

static void every_format_keeps_its_numbers(void **state)
{
  (void)state;
  static const char *const families[] = {"format_auto_round",   "format_auto_round_awq",  "format_auto_round_gptq",
                                         "format_awq_gemv",     "format_awq_gemv_fast",   "format_awq_no_zeros",
                                         "format_compressed",   "format_compressed_asym", "format_gptq",
                                         "format_gptq_dynamic", "format_gptq_v2_channel", "qwen2",
                                         "qwen3_bf16",          "qwen3_group_all",        "minicpm"};
  for (size_t i = 0; each_case(i, i < sizeof families / sizeof *families); i++) {
    temp_dir dir = temp_dir_make();
    char from[256], made[256];
    yk_err err = YK_ERR_INIT;
    yk_convert_source a, b;
    snprintf(from, sizeof from, "%s/golden/families/%s", YOKE_TESTS_DIR, families[i]);
    in_dir(&dir, "made", made);
    expect_ok(families[i], convert(from, YK_CONVERT_AWQ, made, 0, &err), &err);
    expect_ok(from, yk_convert_source_open(from, NULL, &a, &err), &err);
    expect_ok(made, yk_convert_source_open(made, NULL, &b, &err), &err);
    assert_int_equal(a.group_size, b.group_size);
    assert_int_equal(a.n_items, b.n_items);
    assert_int_equal(a.n_quantised, b.n_quantised);
    for (size_t j = 0; j < a.n_items; j++) {
      const yk_weight_view *x = &a.items[j].weight, *y = &b.items[j].weight;
      assert_string_equal(a.items[j].module, b.items[j].module);
      if (a.items[j].kind == YK_CONVERT_VECTOR) {
        const yk_vector_view *u = &a.items[j].vector;
        assert_int_equal(u->dtype, b.items[j].vector.dtype);
        assert_memory_equal(u->data, b.items[j].vector.data, u->n * (int64_t)yk_dtype_bytes(u->dtype));
        continue;
      }
      assert_int_equal(x->format, y->format);
      assert_true(!x->bias == !y->bias);
      if (x->bias) assert_memory_equal(x->bias, y->bias, x->n * (int64_t)yk_dtype_bytes(x->bias_dtype));
      if (x->format == YK_WEIGHT_AWQ)
        expect_same_layer(x, y);
      else
        assert_memory_equal(x->plain, y->plain, x->k * x->n * (int64_t)yk_dtype_bytes(x->dtype));
    }
    yk_convert_source_close(&a);
    yk_convert_source_close(&b);
    remove_dir(made);
    temp_dir_remove(&dir);
  }
}

/* A head with the embedding's numbers is shared, and then tied, independent of a configuration in the folder. */
static void a_head_that_is_the_embedding_is_not_stored_twice(void **state)
{
  (void)state;
  enum { HIDDEN = 64, VOCAB = 200, HEAD_DIM = 40, LAYERS = 2, SHARED_AT = 36 };
  const size_t matrix_bytes = 2 * VOCAB * HIDDEN, embedding_at = 256 + 2 * HIDDEN * (2 * LAYERS + 1);
  temp_dir dir = temp_dir_make();
  char from[256], made[256], *file;
  size_t n_bytes, n_made;
  yk_err err = YK_ERR_INIT;
  yk_checkpoint *checkpoint;
  expect_ok("read", yk_file_read(golden("kuiper/untied.bin", from), MAX_BYTES, &file, &n_bytes, &err), &err);
  memcpy(file + n_bytes - 2 * 2 * LAYERS * HEAD_DIM - matrix_bytes, file + embedding_at, matrix_bytes);
  write_file(&dir, "twice.bin", file, n_bytes);
  free(file);
  in_dir(&dir, "once.bin", made);
  expect_ok("convert", convert(in_dir(&dir, "twice.bin", from), YK_CONVERT_KUIPER, made, 0, &err), &err);
  expect_ok("read", yk_file_read(made, MAX_BYTES, &file, &n_made, &err), &err);
  assert_int_equal(n_made, n_bytes - matrix_bytes);
  assert_int_equal(file[SHARED_AT], 1);
  free(file);
  write_text(&dir, "config.json",
             "{\"architectures\": [\"Qwen3ForCausalLM\"], \"hidden_size\": 64, \"intermediate_size\": 96, "
             "\"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"num_key_value_heads\": 2, \"vocab_size\": 200, "
             "\"max_position_embeddings\": 256, \"head_dim\": 40, \"tie_word_embeddings\": false}");
  expect_ok("open", yk_checkpoint_open(made, NULL, &checkpoint, &err), &err);
  assert_true(yk_checkpoint_config(checkpoint)->tie_word_embeddings);
  yk_checkpoint_close(checkpoint);
  temp_dir_remove(&dir);
}

/* ---- Refusals ---------------------------------------------------------------------------------------------------- */

static void a_scheme_without_a_name_in_the_format_is_refused(void **state)
{
  (void)state;
  static const struct {
    const char *family, *text, *by;
    yk_convert_format to;
    const char *words;
  } cases[] = {
      {"llama_f16", "", "", YK_CONVERT_AWQ, "none of its layers is quantised"},
      {"format_compressed_mixed", "", "", YK_CONVERT_AWQ, "model.layers.0.mlp.gate_proj: 100 outputs|multiple of 8"},
      {"llama", "", "", YK_CONVERT_KUIPER, "KuiperLLama's format|family llama|supported: qwen3"},
      {"qwen3", "", "", YK_CONVERT_KUIPER, "rope_theta 10000|1e6"},
      {"qwen3", "\"rms_norm_eps\": 1e-06,\n  " THETA_1E4, "\"rms_norm_eps\": 1e-05, " THETA_1E6, YK_CONVERT_KUIPER,
       "rms_norm_eps 1e-05|1e-6"},
      {"qwen3_skip", THETA_1E4, THETA_1E6, YK_CONVERT_KUIPER,
       "model.layers.1.mlp.down_proj: |expected 4-bit integers, found floats"},
      {"qwen3", THETA_1E4, THETA_1E6 ", \"rope_scaling\": {\"rope_type\": \"linear\", \"factor\": 2.0}",
       YK_CONVERT_KUIPER, "rope_scaling"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    temp_dir dir = temp_dir_make(), out = temp_dir_make();
    char made[256];
    yk_err err = YK_ERR_INIT;
    copy_family(&dir, cases[i].family, cases[i].text, cases[i].by);
    yk_status status = convert(dir.path, cases[i].to, in_dir(&out, "made", made), 0, &err);
    if (status == YK_OK) fail_msg("%s is taken", cases[i].words);
    expect_words(cases[i].family, cases[i].words, err.message);
    assert_int_equal(n_entries(&out), 0);
    temp_dir_remove(&dir);
    temp_dir_remove(&out);
  }
}

static void nothing_is_written_over(void **state)
{
  (void)state;
  temp_dir dir = temp_dir_make();
  char from[256], path[256];
  yk_err err = YK_ERR_INIT;
  golden("kuiper/tied.bin", from);
  write_text(&dir, "mine", "x");
  expect_error("files", YK_E_IO, "new or empty directory, found files",
               convert(from, YK_CONVERT_AWQ, dir.path, 0, &err), &err);
  expect_error("a file", YK_E_IO, "mine: Not a directory",
               convert(from, YK_CONVERT_AWQ, in_dir(&dir, "mine", path), 0, &err), &err);
  expect_error("a file", YK_E_IO, "mine: exists already", convert(from, YK_CONVERT_KUIPER, path, 0, &err), &err);
  expect_error("no folder", YK_E_IO, "No such file",
               convert(from, YK_CONVERT_AWQ, in_dir(&dir, "none/awq", path), 0, &err), &err);
  expect_error("no folder", YK_E_IO, "No such file",
               convert(from, YK_CONVERT_KUIPER, in_dir(&dir, "none/x.bin", path), 0, &err), &err);
  assert_int_equal(mkdir(in_dir(&dir, "awq.part", path), 0700), 0);
  temp_dir part;
  snprintf(part.path, sizeof part.path, "%.100s", path);
  write_text(&part, "mine", "x");
  expect_error("others' files", YK_E_IO, "awq.part: expected an empty directory or the files of an unfinished run",
               convert(from, YK_CONVERT_AWQ, in_dir(&dir, "awq", path), 0, &err), &err);
  remove_file(&part, "mine");
  assert_int_equal(rmdir(part.path), 0);
  assert_int_equal(n_entries(&dir), 1);
  assert_int_equal(mkdir(in_dir(&dir, "awq", path), 0700), 0); /* empty directories are accepted, also with slashes */
  expect_ok("empty", convert(from, YK_CONVERT_AWQ, in_dir(&dir, "awq///", path), 0, &err), &err);
  remove_dir(in_dir(&dir, "awq", path));
  temp_dir_remove(&dir);
}

static void options_are_checked(void **state)
{
  (void)state;
  yk_err err = YK_ERR_INIT;
  expect_error("model", YK_E_INVAL, "model_dir", convert(NULL, YK_CONVERT_AWQ, "/tmp/x", 0, &err), &err);
  expect_error("out", YK_E_INVAL, "out: ", convert("/tmp", YK_CONVERT_AWQ, NULL, 0, &err), &err);
  expect_error("to", YK_E_INVAL, "to: |found 7", convert("/tmp", (yk_convert_format)7, "/tmp/x", 0, &err), &err);
}

/* ---- Stopping ---------------------------------------------------------------------------------------------------- */

typedef struct stop {
  int calls, at;
} stop;

static bool stop_at(void *user, int64_t done_bytes, int64_t total_bytes)
{
  stop *s = user;
  assert_true(done_bytes > 0 && done_bytes <= total_bytes);
  return ++s->calls != s->at;
}

static void a_stopped_run_leaves_no_files(void **state)
{
  (void)state;
  static const yk_convert_format formats[] = {YK_CONVERT_AWQ, YK_CONVERT_KUIPER};
  temp_dir dir = temp_dir_make();
  char from[256], out[256];
  for (int i = 0; i < 2; i++)
    for (int at = 1;; at += 17) {
      yk_err err = YK_ERR_INIT;
      stop s = {.at = at};
      yk_convert_options options;
      yk_convert_options_init(&options);
      options.model_dir = golden("kuiper/tied.bin", from);
      options.out = in_dir(&dir, "made", out);
      options.to = formats[i];
      options.shard_bytes = 20000;
      options.progress = stop_at;
      options.progress_user = &s;
      yk_status status = yk_convert(&options, &err);
      if (s.calls < at) {
        expect_ok("to its end", status, &err);
        if (formats[i] == YK_CONVERT_AWQ)
          remove_dir(out);
        else
          remove_file(&dir, "made");
        break;
      }
      expect_error("stopped", YK_E_CANCELLED, "stopped", status, &err);
      assert_int_equal(n_entries(&dir), 0);
    }
  temp_dir_remove(&dir);
}

typedef struct cut {
  char path[256];
  off_t n_bytes;
} cut;

static bool cut_source(void *user, int64_t done_bytes, int64_t total_bytes)
{
  const cut *c = user;
  (void)done_bytes;
  (void)total_bytes;
  assert_int_equal(truncate(c->path, c->n_bytes), 0);
  return true;
}

/* A source that is cut after it was opened: by a byte of its last page, where no signal is raised. */
static void a_source_that_shrinks_leaves_nothing(void **state)
{
  (void)state;
  static const yk_convert_format formats[] = {YK_CONVERT_AWQ, YK_CONVERT_KUIPER};
  temp_dir dir = temp_dir_make(), from = temp_dir_make();
  char *bytes, path[256], out[256];
  size_t n_bytes;
  yk_err err = YK_ERR_INIT;
  expect_ok("read", yk_file_read(golden("kuiper/tied.bin", path), MAX_BYTES, &bytes, &n_bytes, &err), &err);
  for (int i = 0; i < 2; i++) {
    cut c = {.n_bytes = (off_t)n_bytes - 1};
    yk_convert_options options;
    yk_convert_options_init(&options);
    write_file(&from, "x.bin", bytes, n_bytes);
    options.model_dir = in_dir(&from, "x.bin", c.path);
    options.out = in_dir(&dir, "made", out);
    options.to = formats[i];
    options.progress = cut_source;
    options.progress_user = &c;
    expect_error("cut", YK_E_IO, "x.bin: the file was truncated", yk_convert(&options, &err), &err);
    assert_int_equal(n_entries(&dir), 0);
  }
  free(bytes);
  temp_dir_remove(&from);
  temp_dir_remove(&dir);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kuiper_files_come_back_byte_for_byte),
      cmocka_unit_test(kuiper_files_are_those_of_their_own_tool),
      cmocka_unit_test(every_format_keeps_its_numbers),
      cmocka_unit_test(a_head_that_is_the_embedding_is_not_stored_twice),
      cmocka_unit_test(a_scheme_without_a_name_in_the_format_is_refused),
      cmocka_unit_test(nothing_is_written_over),
      cmocka_unit_test(options_are_checked),
      cmocka_unit_test(a_stopped_run_leaves_no_files),
      cmocka_unit_test(a_source_that_shrinks_leaves_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
