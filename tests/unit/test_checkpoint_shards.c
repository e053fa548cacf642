/* Checkpoints of several files and their index, and errors that name faults. */
#include "each_case.h"
#include "unit/checkpoint_fixture.h"

static const char shard1[] = "model-00001-of-00002.safetensors", shard2[] = "model-00002-of-00002.safetensors";

/* The index of a model whose first `cut` tensors are in the first shard. */
static json_t *sharded_index(const tiny_model *model, int cut)
{
  json_t *map = json_object();
  for (int i = 0; i < model->n; i++)
    json_object_set_new(map, model->tensors[i].name, json_string(i < cut ? shard1 : shard2));
  return json_pack("{s:{s:i},s:o}", "metadata", "total_size", 1, "weight_map", map);
}

static void write_index(const temp_dir *dir, const json_t *index)
{
  char *text = json_dumps(index, 0);
  write_text(dir, "model.safetensors.index.json", text);
  free(text);
}

static temp_dir sharded_dir(const tiny_model *model, json_t **index)
{
  temp_dir dir = temp_dir_make();
  write_text(&dir, "config.json", tiny_config);
  write_tensors(&dir, shard1, model, 0, 20);
  write_tensors(&dir, shard2, model, 20, model->n);
  *index = sharded_index(model, 20);
  write_index(&dir, *index);
  return dir;
}

static void an_index_and_its_files(void **state)
{
  (void)state;
  tiny_model model = tiny();
  json_t *index;
  temp_dir dir = sharded_dir(&model, &index);
  yk_err err = YK_ERR_INIT;
  log_lines lines = {0};
  expect_ok("two shards", read_model(dir.path, &lines, &err), &err);
  assert_string_equal(lines.text, "");

  /* In a file but not in the index: used, with a remark. */
  json_t *map = json_object_get(index, "weight_map");
  json_object_del(map, "model.norm.weight");
  write_index(&dir, index);
  expect_ok("unlisted tensor", read_model(dir.path, &lines, &err), &err);
  assert_int_equal(lines.n, 1);
  assert_non_null(strstr(lines.text, "model.norm.weight"));

  /* In the index but in no file. */
  json_object_set_new(map, "model.norm.weight", json_string(shard1));
  json_object_set_new(map, "model.extra.weight", json_string(shard2));
  write_index(&dir, index);
  expect_error("absent tensor", YK_E_FORMAT, "model.extra.weight|model-00002-of-00002.safetensors|not found",
               read_model(dir.path, NULL, &err), &err);

  /* The index points at the wrong one of two existing files. */
  json_object_del(map, "model.extra.weight");
  json_object_set_new(map, "model.norm.weight", json_string(shard2));
  write_index(&dir, index);
  expect_error("wrong shard", YK_E_FORMAT, "model.norm.weight|model-00002-of-00002.safetensors|not found",
               read_model(dir.path, NULL, &err), &err);

  char path[64];
  snprintf(path, sizeof path, "./%s", shard1);
  json_object_set_new(map, "model.norm.weight", json_string(path));
  write_index(&dir, index);
  expect_ok("a path from here", read_model(dir.path, NULL, &err), &err);
  json_decref(index);
  temp_dir_remove(&dir);
}

/* The index decides; without an index it is an error. */
static void a_tensor_in_two_files(void **state)
{
  (void)state;
  tiny_model model = tiny();
  json_t *index;
  temp_dir dir = sharded_dir(&model, &index);
  yk_err err = YK_ERR_INIT;
  json_t *map = json_object_get(index, "weight_map");
  tiny_model second = model;
  second.tensors[second.n++] = *find_spec(&model, "lm_head.weight");
  write_tensors(&dir, shard2, &second, 20, second.n);
  write_index(&dir, index);
  expect_ok("listed duplicate", read_model(dir.path, NULL, &err), &err);
  json_object_del(map, "lm_head.weight");
  write_index(&dir, index);
  expect_error("duplicate", YK_E_FORMAT,
               "lm_head.weight is both in|model-00001-of-00002.safetensors|model-00002-of-00002.safetensors",
               read_model(dir.path, NULL, &err), &err);
  json_decref(index);
  temp_dir_remove(&dir);
}

static void a_shard_is_missing_or_cut(void **state)
{
  (void)state;
  tiny_model model = tiny();
  json_t *index;
  temp_dir dir = sharded_dir(&model, &index);
  yk_err err = YK_ERR_INIT;
  remove_file(&dir, shard2);
  expect_error("missing shard", YK_E_IO, "model.safetensors.index.json|model-00002-of-00002.safetensors is missing",
               read_model(dir.path, NULL, &err), &err);
  write_text(&dir, shard2, "short");
  expect_error("truncated shard", YK_E_FORMAT, "model-00002-of-00002.safetensors: cut short: is 5 bytes, needs 8",
               read_model(dir.path, NULL, &err), &err);
  json_decref(index);
  temp_dir_remove(&dir);
}

static void bad_indexes(void **state)
{
  (void)state;
  static const struct {
    const char *text, *words;
  } cases[] = {
      {"{", "model.safetensors.index.json|line 1"},
      {"[]", "model.safetensors.index.json|weight_map|found nothing"},
      {"{\"weight_map\": []}", "weight_map|expected an object, found array"},
      {"{\"weight_map\": {\"a\": 1}}", "weight_map of tensor a|found integer"},
      {"{\"weight_map\": {\"a\": \"\"}}", "weight_map of tensor a"},
      {"{\"weight_map\": {\"a\": \"../x.safetensors\"}}", "weight_map of tensor a|../x.safetensors"},
      {"{\"weight_map\": {\"a\": \"..\"}}", "weight_map of tensor a"},
      {"{\"weight_map\": {\"a\": \"/etc/passwd\"}}", "weight_map of tensor a|/etc/passwd"},
      {"{\"weight_map\": {\"a\": \"sub/x.safetensors\"}}", "weight_map of tensor a"},
      {"{\"weight_map\": {\"a\": \"x\\u0000.safetensors\"}}", "weight_map of tensor a|NUL"},
      {"{\"weight_map\": {\"a\": \"./../x\"}}", "weight_map of tensor a|./../x"},
      {"{\"weight_map\": {\"a\": \"./\"}}", "weight_map of tensor a"},
  };
  temp_dir dir = temp_dir_make();
  write_text(&dir, "config.json", tiny_config);
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    write_text(&dir, "model.safetensors.index.json", cases[i].text);
    yk_err err = YK_ERR_INIT;
    expect_error(cases[i].text, YK_E_FORMAT, cases[i].words, read_model(dir.path, NULL, &err), &err);
  }
  temp_dir_remove(&dir);
}

/* Names without "model.", but for the head. */
static void bare_names(void **state)
{
  (void)state;
  static const char prefix[] = "model.";
  tiny_model model = tiny();
  yk_err err = YK_ERR_INIT;
  for (int i = 0; i < model.n; i++) {
    char *name = model.tensors[i].name;
    if (strncmp(name, prefix, strlen(prefix)) == 0)
      memmove(name, name + strlen(prefix), strlen(name + strlen(prefix)) + 1);
  }
  temp_dir dir = tiny_dir(&model);
  expect_ok("bare names", read_model(dir.path, NULL, &err), &err);
  temp_dir_remove(&dir);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_index_and_its_files),
      cmocka_unit_test(a_tensor_in_two_files),
      cmocka_unit_test(a_shard_is_missing_or_cut),
      cmocka_unit_test(bad_indexes),
      cmocka_unit_test(bare_names),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
