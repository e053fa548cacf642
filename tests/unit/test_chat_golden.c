/* Prompts against those of the public `transformers` package (golden/make_chat_goldens.py), and with the templates of
 * scripts/chat_templates against models' own code (golden/make_dsv32_goldens.py): byte for byte, with tokenizers whose
 * added tokens occur in hardly any text, in many texts, and in nearly all. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "chat/chat_renderer.h"
#include "each_case.h"

#define CASES      YOKE_TESTS_DIR "/golden/chat/cases/"
#define TEMPLATES  YOKE_TESTS_DIR "/golden/chat/templates/"
#define OURS       YOKE_TESTS_DIR "/../scripts/chat_templates/"
#define TOKENIZERS YOKE_TESTS_DIR "/golden/tokenizer/"

/* One run over the goldens of a template. */
typedef struct run {
  const char *name, *tokenizer;
  size_t n_cases, n_texts, n_plain, n_failed;
} run;

static yk_tokenizer *load_tokenizer(const char *name)
{
  char path[512];
  yk_tokenizer *tokenizer;
  yk_err err = YK_ERR_INIT;
  snprintf(path, sizeof path, TOKENIZERS "%s", name);
  if (yk_tokenizer_load(path, &tokenizer, &err) != YK_OK) fail_msg("%s", err.message);
  return tokenizer;
}

static yk_json_doc *load_cases(const char *name)
{
  char path[512];
  yk_json_doc *cases;
  yk_err err = YK_ERR_INIT;
  snprintf(path, sizeof path, CASES "%s.json", name);
  if (yk_json_parse_file(path, NULL, &cases, &err) != YK_OK) fail_msg("%s", err.message);
  return cases;
}

/* A renderer whose special tokens are those of the goldens. */
static yk_chat_renderer *create(const char *chat_template, yk_json special_tokens, const yk_tokenizer *tokenizer)
{
  char folder[] = "/tmp/yoke-chat-XXXXXX", path[64];
  yk_chat_options options;
  yk_chat_renderer *renderer = NULL;
  yk_err err = YK_ERR_INIT;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
  yk_strbuf text = YK_STRBUF_INIT;
  yk_json_append(&text, special_tokens, 0);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text.data, 1, text.length, file), text.length);
  assert_int_equal(fclose(file), 0);
  yk_strbuf_free(&text);
  yk_chat_options_init(&options);
  options.model_dir = folder;
  options.chat_template = chat_template;
  options.tokenizer = tokenizer;
  options.time_limit_s = 60;
  yk_status status = yk_chat_renderer_create(&options, &renderer, &err);
  unlink(path);
  rmdir(folder);
  if (status != YK_OK) fail_msg("%s", err.message);
  return renderer;
}

static void complain(run *of, size_t index, const char *what, const char *expected, const char *found)
{
  if (of->n_failed++ < 5)
    print_error("%s with %s, case %zu: %s: expected\n%s\nfound\n%s\n", of->name, of->tokenizer, index, what, expected,
                found);
}

static void check_case(run *of, size_t index, yk_chat_renderer *renderer, yk_json golden)
{
  yk_chat_conversation conversation = {
      .messages = yk_json_get(golden, "messages"),
      .tools = yk_json_get(golden, "tools"),
      .arguments = yk_json_get(golden, "arguments"),
      .add_generation_prompt = yk_json_is(yk_json_get(golden, "add_generation_prompt"), YK_JSON_TRUE),
      .continue_final_message = yk_json_is(yk_json_get(golden, "continue_final_message"), YK_JSON_TRUE)};
  yk_json text = yk_json_get(golden, "text");
  const char *error = yk_json_string(yk_json_get(golden, "error"));
  yk_chat_prompt prompt;
  yk_err err = YK_ERR_INIT;
  yk_status status = yk_chat_render(renderer, &conversation, &prompt, &err);
  of->n_cases++;
  if (error && (status != YK_E_INVAL || !strstr(err.message, error)))
    complain(of, index, "an error", error, status == YK_OK ? prompt.text : err.message);
  if (text.doc && status != YK_OK) complain(of, index, "a text", yk_json_string(text), err.message);
  if (text.doc && status == YK_OK) {
    of->n_texts++;
    of->n_plain += prompt.plain.n;
    if (prompt.n_bytes != yk_json_length(text) || memcmp(prompt.text, yk_json_string(text), prompt.n_bytes) != 0)
      complain(of, index, "a text", yk_json_string(text), prompt.text);
  }
  yk_chat_prompt_free(&prompt);
}

static void check_template(const char *name, const char *tokenizer_name, const char *chat_template, run *out)
{
  *out = (run){name, tokenizer_name, 0, 0, 0, 0};
  yk_tokenizer *tokenizer = load_tokenizer(tokenizer_name);
  yk_json_doc *goldens = load_cases(name);
  yk_json root = yk_json_root(goldens);
  yk_chat_renderer *renderer = create(chat_template, yk_json_get(root, "special_tokens"), tokenizer);
  size_t i = 0;
  YK_JSON_EACH(golden, yk_json_get(root, "cases")) check_case(out, i++, renderer, golden);
  yk_chat_renderer_free(renderer);
  yk_json_free(goldens);
  yk_tokenizer_free(tokenizer);
}

static void check_all(const char *tokenizer_name, size_t *n_plain)
{
  DIR *folder = opendir(CASES);
  size_t n_cases = 0, n_failed = 0;
  *n_plain = 0;
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
    char name[256], path[512];
    run of;
    snprintf(name, sizeof name, "%s", entry->d_name);
    char *end = strstr(name, ".json");
    if (!end) continue;
    *end = '\0';
    snprintf(path, sizeof path, TEMPLATES "%s.jinja", name);
    if (access(path, R_OK) != 0) snprintf(path, sizeof path, OURS "%s.jinja", name);
    check_template(name, tokenizer_name, path, &of);
    n_cases += of.n_cases;
    n_failed += of.n_failed;
    *n_plain += of.n_plain;
  }
  closedir(folder);
  print_message("%zu cases with %s, %zu plain characters\n", n_cases, tokenizer_name, *n_plain);
  assert_true(n_cases >= 400);
  assert_int_equal(n_failed, 0);
}

static void test_texts_without_marks(void **state)
{
  size_t n_plain;
  (void)state;
  check_all("splits", &n_plain); /* has no added tokens */
  assert_int_equal(n_plain, 0);
}

static void test_texts_with_marks(void **state)
{
  size_t n_plain;
  (void)state;
  check_all("qwen3", &n_plain);
  assert_true(n_plain > 500);
}

/* A line end, spaces, words and parts of words are added tokens. */
static void test_texts_full_of_marks(void **state)
{
  size_t n_plain;
  (void)state;
  check_all("added", &n_plain);
  assert_true(n_plain > 5000);
}

/* The built-in forms refuse unknown members; everything else is as in the models' own templates. */
static void test_builtin_forms(void **state)
{
  static const char *const FORMS[][2] = {{"chatml", "builtin:chatml"},
                                         {"llama2", "builtin:llama2"},
                                         {"llama3", "builtin:llama3"},
                                         {"minicpm", "builtin:minicpm"}};
  (void)state;
  for (size_t i = 0; each_case(i, i < sizeof FORMS / sizeof *FORMS); i++) {
    yk_tokenizer *tokenizer = load_tokenizer("qwen3");
    yk_json_doc *goldens = load_cases(FORMS[i][0]);
    yk_json root = yk_json_root(goldens);
    yk_chat_renderer *renderer = create(FORMS[i][1], yk_json_get(root, "special_tokens"), tokenizer);
    run of = {FORMS[i][0], "qwen3", 0, 0, 0, 0};
    size_t k = 0;
    YK_JSON_EACH(golden, yk_json_get(root, "cases"))
    {
      bool known = yk_json_size(yk_json_get(golden, "tools")) == 0 && yk_json_get(golden, "text").doc;
      if (known) check_case(&of, k, renderer, golden);
      k++;
    }
    assert_true(of.n_texts >= 15);
    assert_int_equal(of.n_failed, 0);
    yk_chat_renderer_free(renderer);
    yk_json_free(goldens);
    yk_tokenizer_free(tokenizer);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_texts_without_marks),
      cmocka_unit_test(test_texts_with_marks),
      cmocka_unit_test(test_texts_full_of_marks),
      cmocka_unit_test(test_builtin_forms),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
