/* How models make embeddings, by modules.json and the configuration of its pooling module. */
#include "each_case.h"
#include "unit/hf_config_fixture.h"

static void a_broken_pooling_names_its_file(void **state)
{
  (void)state;
  static const char modules[] = "[{\"path\": \"1_P\", \"type\": \"Pooling\"}]", pooling[] = "{";
  char *text = config_text(base_config, "{}");
  const yk_config_texts texts = {.config = text,
                                 .config_bytes = strlen(text),
                                 .modules = modules,
                                 .modules_bytes = strlen(modules),
                                 .pooling = pooling,
                                 .pooling_bytes = strlen(pooling)};
  yk_model_config config;
  yk_err err = YK_ERR_INIT;
  expect_error("pooling", YK_E_FORMAT, "1_P/config.json|line 1", yk_model_config_parse(&texts, NULL, &config, &err),
               &err);
  free(text);
}

static void parse_quoted(const char *text, yk_json_doc **out)
{
  char *json = double_quoted(text);
  yk_err err = YK_ERR_INIT;
  expect_ok(text, yk_json_parse("file", json, strlen(json), NULL, out, &err), &err);
  free(json);
}

#define MODULE(path, type) "{'path': '" path "', 'type': '" type "'}"
#define TRANSFORMER        MODULE("", "sentence_transformers.models.Transformer")
#define POOLING            MODULE("1_Pooling", "sentence_transformers.sentence_transformer.modules.pooling.Pooling")
#define NORMALIZE          MODULE("2_Normalize", "sentence_transformers.models.Normalize")

/* How a model makes embeddings; anything else than the last token's hidden state is refused by name, when embeddings
 * are requested. */
static void poolings(void **state)
{
  (void)state;
  static const struct {
    const char *modules, *pooling, *changes;
    bool takes_last_token, normalises;
    const char *refused; /* a part of the reason */
  } cases[] = {
      {NULL, NULL, "{}", false, false, ""},
      {"[" TRANSFORMER ", " POOLING "]", "{'pooling_mode': 'lasttoken'}", "{}", true, false, ""},
      {"[" TRANSFORMER ", " POOLING ", " NORMALIZE "]", "{'pooling_mode': ['lasttoken'], 'embedding_dimension': 64}",
       "{}", true, true, ""},
      {"[" TRANSFORMER ", " POOLING "]", "{'pooling_mode_lasttoken': true, 'pooling_mode_mean_tokens': false}", "{}",
       true, false, ""},
      {"[" TRANSFORMER ", " POOLING "]", "{'pooling_mode_lasttoken': true, 'pooling_mode_mean_tokens': true}", "{}",
       false, false, "several modes"},
      {"[" TRANSFORMER ", " POOLING "]", "{'pooling_mode': ['lasttoken', 'mean']}", "{}", false, false, "several"},
      {"[" TRANSFORMER ", " POOLING "]", "{'pooling_mode_cls_token': true}", "{}", false, false, "\"cls_token\""},
      {"[" TRANSFORMER ", " POOLING "]", "{}", "{}", false, false, "\"mean\""},
      {"[" TRANSFORMER ", " POOLING "]", "[]", "{}", false, false,
       "1_Pooling/config.json: expected an object, found array"},
      {"[" TRANSFORMER ", " POOLING "]", NULL, "{}", false, false,
       "1_Pooling/config.json is missing, which modules.json names"},
      {"[" TRANSFORMER ", " POOLING "]", "{'pooling_mode': 'lasttoken', 'word_embedding_dimension': 65}", "{}", false,
       false, "1_Pooling/config.json: expected an embedding_dimension of hidden_size 64"},
      {"[" TRANSFORMER ", " POOLING "]", "{'pooling_mode': 'lasttoken'}", "{'is_causal': false}", false, false,
       "attention to later tokens"},
      {"[" TRANSFORMER ", " POOLING ", " MODULE("2_Dense", "sentence_transformers.models.Dense") "]",
       "{'pooling_mode': 'lasttoken'}", "{}", false, false, "\"Dense\" at place 2"},
      {"[" MODULE("0", "Transformer") ", " POOLING "]", "{'pooling_mode': 'lasttoken'}", "{}", false, false,
       "\"Transformer\" at place 0"},
      {"[" TRANSFORMER "]", NULL, "{}", false, false, "expected an array of the modules"},
      {"{}", NULL, "{}", false, false, "expected an array of the modules"},
      {"[5, null]", NULL, "{}", false, false, "at place 0"},
  };
  for (size_t i = 0; each_case(i, i < sizeof cases / sizeof *cases); i++) {
    yk_pooling_config found;
    yk_json_doc *root, *modules = NULL, *pooling = NULL;
    parse_quoted(cases[i].changes, &root);
    if (cases[i].modules) parse_quoted(cases[i].modules, &modules);
    if (cases[i].pooling) parse_quoted(cases[i].pooling, &pooling);
    yk_hf_read_pooling(yk_json_root(root), yk_json_root(modules), yk_json_root(pooling), 64, &found);
    assert_int_equal(found.takes_last_token, cases[i].takes_last_token);
    if (found.takes_last_token) assert_int_equal(found.normalises, cases[i].normalises);
    assert_int_equal(found.refused[0] != 0, cases[i].refused[0] != 0);
    assert_non_null(strstr(found.refused, cases[i].refused));
    yk_json_free(root);
    yk_json_free(modules);
    yk_json_free(pooling);
  }
}

/* The folder of the pooling's configuration stays within the model's. */
static void folders_of_poolings(void **state)
{
  (void)state;
  static const char *const rows[][2] = {{"[" TRANSFORMER ", " POOLING "]", "1_Pooling"},
                                        {"[" MODULE("../x", "Pooling") "]", NULL},
                                        {"[" MODULE("/etc", "Pooling") "]", NULL},
                                        {"[" MODULE("..", "Pooling") "]", NULL},
                                        {"[" MODULE("", "Pooling") "]", NULL},
                                        {"[{'type': 'Pooling'}]", NULL},
                                        {"5", NULL}};
  for (size_t i = 0; each_case(i, i < sizeof rows / sizeof *rows); i++) {
    char folder[YK_POOLING_FOLDER_BYTES];
    yk_json_doc *modules;
    parse_quoted(rows[i][0], &modules);
    assert_int_equal(yk_hf_find_pooling(yk_json_root(modules), folder), rows[i][1] != NULL);
    if (rows[i][1]) assert_string_equal(folder, rows[i][1]);
    yk_json_free(modules);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_broken_pooling_names_its_file), cmocka_unit_test(poolings),
                                     cmocka_unit_test(folders_of_poolings)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
