/* Where templates and special tokens are found, what is wrong with files and conversations, and the forms in which
 * templates get contents and arguments. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "chat/chat_renderer.h"
#include "chat/template_source.h"

#define DEMO YOKE_TESTS_DIR "/models/demo"

static const char *const FILES[] = {"chat_template.jinja", "additional_chat_templates/tool_use.jinja",
                                    "tokenizer_config.json", "special_tokens_map.json"};
enum { N_FILES = sizeof FILES / sizeof *FILES };

/* A checkpoint's folder with some of FILES, NULL: without. */
typedef struct checkpoint {
  char folder[32];
} checkpoint;

static checkpoint make_checkpoint(const char *const texts[N_FILES])
{
  checkpoint made = {"/tmp/yoke-chat-XXXXXX"};
  char path[128];
  assert_non_null(mkdtemp(made.folder));
  snprintf(path, sizeof path, "%s/additional_chat_templates", made.folder);
  assert_int_equal(mkdir(path, 0700), 0);
  for (size_t i = 0; i < N_FILES; i++) {
    if (!texts[i]) continue;
    snprintf(path, sizeof path, "%s/%s", made.folder, FILES[i]);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(texts[i], file) >= 0);
    assert_int_equal(fclose(file), 0);
  }
  return made;
}

static void remove_checkpoint(const checkpoint *made)
{
  char path[128];
  for (size_t i = 0; i < N_FILES; i++) {
    snprintf(path, sizeof path, "%s/%s", made->folder, FILES[i]);
    unlink(path);
  }
  snprintf(path, sizeof path, "%s/additional_chat_templates", made->folder);
  rmdir(path);
  assert_int_equal(rmdir(made->folder), 0);
}

static yk_json_doc *parse(const char *text)
{
  yk_json_doc *doc = NULL;
  yk_err err = YK_ERR_INIT;
  if (text && yk_json_parse("test", text, strlen(text), NULL, &doc, &err) != YK_OK) fail_msg("%s", err.message);
  return doc;
}

static void assert_json(const yk_json_doc *found, const char *expected)
{
  yk_strbuf text = YK_STRBUF_INIT;
  yk_json_doc *doc = parse(expected);
  yk_json_append(&text, yk_json_root(found), 0);
  if (!yk_json_same(yk_json_root(found), yk_json_root(doc))) fail_msg("expected %s, found %s", expected, text.data);
  yk_strbuf_free(&text);
  yk_json_free(doc);
}

/* Find the template of a folder; what is expected of each part may be NULL. */
static void expect_source(const char *const texts[N_FILES], const char *text, const char *tool_use, const char *tokens)
{
  checkpoint made = make_checkpoint(texts);
  yk_template_source source;
  yk_err err = YK_ERR_INIT;
  if (yk_template_source_find(made.folder, NULL, &source, &err) != YK_OK) fail_msg("%s", err.message);
  assert_string_equal(source.text, text);
  if (tool_use) assert_string_equal(source.tool_use, tool_use);
  assert_true(tool_use || !source.tool_use);
  if (tokens) assert_json(source.special_tokens, tokens);
  assert_non_null(strstr(source.origin, made.folder));
  yk_template_source_free(&source);
  remove_checkpoint(&made);
}

static void test_where_templates_stand(void **state)
{
  (void)state;
  expect_source((const char *[]){"file", NULL, "{\"chat_template\": \"config\"}", NULL}, "file", NULL, "{}");
  expect_source((const char *[]){"file", "tools", NULL, NULL}, "file", "tools", "{}");
  expect_source((const char *[]){NULL, "tools", "{\"chat_template\": \"config\"}", NULL}, "config", NULL, NULL);
  expect_source((const char *[]){NULL, NULL,
                                 "{\"chat_template\": [{\"name\": \"rag\", \"template\": \"r\"},"
                                 "{\"name\": \"default\", \"template\": \"d\"}]}",
                                 NULL},
                "d", NULL, NULL);
  expect_source((const char *[]){NULL, NULL,
                                 "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"t\"},"
                                 "{\"name\": \"default\", \"template\": \"d\"}]}",
                                 NULL},
                "d", "t", NULL);
}

static void test_special_tokens(void **state)
{
  static const char MAP[] =
      "{\"bos_token\": \"<m>\", \"additional_special_tokens\": [\"<a>\", {\"content\": \"<b>\"}]}";
  (void)state;
  expect_source((const char *[]){"", NULL,
                                 "{\"bos_token\": {\"content\": \"<s>\", \"special\": true}, \"eos_token\": \"</s>\","
                                 "\"pad_token\": null, \"unk_token\": \"\", \"other_token\": 3}",
                                 NULL},
                "", NULL, "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\"}");
  expect_source(
      (const char *[]){"", NULL,
                       "{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\","
                       "\"additional_special_tokens\": [\"<x>\", \"<a>\"]}",
                       MAP},
      "", NULL,
      "{\"additional_special_tokens\":[\"<x>\",\"<a>\",\"<b>\"],\"bos_token\":\"<m>\",\"eos_token\":\"</s>\"}");
  expect_source((const char *[]){"", NULL,
                                 "{\"bos_token\": \"<s>\", \"added_tokens_decoder\": {},"
                                 "\"extra_special_tokens\": {\"image_token\": \"<i>\"}}",
                                 MAP},
                "", NULL, "{\"bos_token\":\"<s>\",\"image_token\":\"<i>\"}");
}

/* Against golden/make_class_token_goldens.py. */
static void test_tokens_of_classes(void **state)
{
  yk_json_doc *goldens;
  yk_err err = YK_ERR_INIT;
  (void)state;
  if (yk_json_parse_file(YOKE_TESTS_DIR "/golden/chat/class_tokens.json", NULL, &goldens, &err) != YK_OK)
    fail_msg("%s", err.message);
  assert_true(yk_json_size(yk_json_root(goldens)) >= 40);
  YK_JSON_EACH(golden, yk_json_root(goldens))
  {
    yk_strbuf config = YK_STRBUF_INIT, tokens = YK_STRBUF_INIT;
    const char *separator = "{";
    yk_json_append(&config, yk_json_get(golden, "config"), 0);
    YK_JSON_EACH_KEY(key, yk_json_get(golden, "tokens"))
    {
      if (!yk_json_is(yk_json_member(key), YK_JSON_STRING)) continue;
      yk_strbuf_append_str(&tokens, separator);
      yk_json_append(&tokens, key, 0);
      yk_strbuf_append_str(&tokens, ": ");
      yk_json_append(&tokens, yk_json_member(key), 0);
      separator = ", ";
    }
    yk_strbuf_append_str(&tokens, separator[0] == '{' ? "{}" : "}");
    expect_source((const char *[]){"", NULL, config.data, NULL}, "", NULL, tokens.data);
    yk_strbuf_free(&config);
    yk_strbuf_free(&tokens);
  }
  yk_json_free(goldens);
  expect_source((const char *[]){"", NULL, "{\"tokenizer_class\": \"LlamaTokenizerSlow\"}", NULL}, "", NULL, "{}");
  expect_source((const char *[]){"", NULL, "{\"tokenizer_class\": \"LlamaTokenizer\", \"bos_token\": \"\"}",
                                 "{\"unk_token\": null, \"eos_token\": \"<e>\"}"},
                "", NULL, "{\"eos_token\":\"<e>\"}");
}

static void expect_bad_source(const char *const texts[N_FILES], const char *given, yk_status code, const char *part)
{
  checkpoint made = make_checkpoint(texts);
  yk_template_source source;
  yk_err err = YK_ERR_INIT;
  yk_status status = yk_template_source_find(made.folder, given, &source, &err);
  if (status != code || !strstr(err.message, part))
    fail_msg("expected status %d and \"%s\", found %d and \"%s\"", code, part, status, err.message);
  assert_null(source.text);
  remove_checkpoint(&made);
}

static void test_bad_files(void **state)
{
  static const struct {
    const char *config, *given;
    yk_status code;
    const char *part;
  } CASES[] = {
      {NULL, NULL, YK_E_UNSUPPORTED, "has no chat template (chat_template.jinja, or in tokenizer_config.json)"},
      {"{\"chat_template\": null}", NULL, YK_E_UNSUPPORTED, "builtin:minicpm"},
      {"{\"chat_template\": 3}", NULL, YK_E_FORMAT, "chat_template \"default\": expected a template, found integer"},
      {"{\"chat_template\": \"a\\u0000b\"}", NULL, YK_E_FORMAT, "found a NUL character"},
      {"{\"chat_template\": []}", NULL, YK_E_FORMAT, "none of the 0 is named \"default\""},
      {"{\"chat_template\": [{\"name\": \"rag\", \"template\": \"\"}]}", NULL, YK_E_FORMAT, "none of the 1"},
      {"{\"chat_template\": [{\"template\": \"\"}]}", NULL, YK_E_FORMAT, "chat_template[0]: expected an object with a"},
      {"{\"chat_template\": [3]}", NULL, YK_E_FORMAT, "chat_template[0]: expected an object with a \"name\""},
      {"{\"chat_template\": [{\"name\": \"default\"}]}", NULL, YK_E_FORMAT,
       "\"default\": expected a template, found nothing"},
      {"[]", NULL, YK_E_FORMAT, "tokenizer_config.json: expected an object, found array"},
      {"{\"a\": ", NULL, YK_E_FORMAT, "tokenizer_config.json: line 1"},
      {"{\"bos_token\": 3}", NULL, YK_E_FORMAT, "key \"bos_token\": expected a string or an object with \"content\""},
      {"{\"additional_special_tokens\": {}}", NULL, YK_E_FORMAT, "expected a list, found object"},
      {"{\"additional_special_tokens\": [1]}", NULL, YK_E_FORMAT, "[0]: expected a token, found integer"},
      {"{\"extra_special_tokens\": {\"x\": 1}}", NULL, YK_E_FORMAT, "key \"x\": expected a string"},
      {NULL, "builtin:none", YK_E_INVAL, "expected a file or one of builtin:chatml, builtin:llama2"},
      {NULL, "/nonexistent/template", YK_E_IO, "/nonexistent/template"},
      {NULL, "/tmp", YK_E_IO, "/tmp"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
    expect_bad_source((const char *[]){NULL, NULL, CASES[i].config, NULL}, CASES[i].given, CASES[i].code,
                      CASES[i].part);
  expect_bad_source((const char *[]){NULL, NULL, NULL, "{\"eos_token\": []}"}, NULL, YK_E_FORMAT,
                    "special_tokens_map.json: key \"eos_token\"");
}

/* A renderer of the demo model with a template and maybe one for tools. */
static yk_status create(const char *text, const char *tool_use, yk_tokenizer **tokenizer, yk_chat_renderer **renderer,
                        yk_err *err)
{
  checkpoint made = make_checkpoint((const char *[]){text, tool_use, NULL, NULL});
  yk_chat_options options;
  yk_chat_options_init(&options);
  assert_int_equal(yk_tokenizer_load(DEMO, tokenizer, NULL), YK_OK);
  options.model_dir = made.folder;
  options.tokenizer = *tokenizer;
  options.time_limit_s = 60;
  yk_status status = yk_chat_renderer_create(&options, renderer, err);
  remove_checkpoint(&made);
  return status;
}

typedef struct rendering {
  const char *messages, *tools, *documents, *arguments;
} rendering;

static void expect_prompt(yk_chat_renderer *renderer, const yk_chat_conversation *conversation, yk_status code,
                          const char *expected)
{
  yk_chat_prompt prompt;
  yk_err err = YK_ERR_INIT;
  yk_status status = yk_chat_render(renderer, conversation, &prompt, &err);
  bool as_expected = code == YK_OK ? status == YK_OK && strcmp(prompt.text, expected) == 0
                                   : status == code && strstr(err.message, expected) && !prompt.text;
  if (!as_expected)
    fail_msg("expected status %d and \"%s\", found %d and \"%s\"", code, expected, status,
             status == YK_OK ? prompt.text : err.message);
  yk_chat_prompt_free(&prompt);
}

static void expect_rendering(yk_chat_renderer *renderer, rendering of, yk_status code, const char *expected)
{
  yk_json_doc *messages = parse(of.messages), *tools = parse(of.tools), *documents = parse(of.documents);
  yk_json_doc *arguments = parse(of.arguments);
  yk_chat_conversation conversation = {.messages = yk_json_root(messages),
                                       .tools = yk_json_root(tools),
                                       .documents = yk_json_root(documents),
                                       .arguments = yk_json_root(arguments),
                                       .add_generation_prompt = true};
  expect_prompt(renderer, &conversation, code, expected);
  yk_json_free(messages);
  yk_json_free(tools);
  yk_json_free(documents);
  yk_json_free(arguments);
}

static void check_rendering(const char *text, const char *tool_use, rendering of, yk_status code, const char *expected)
{
  yk_tokenizer *tokenizer;
  yk_chat_renderer *renderer;
  yk_err err = YK_ERR_INIT;
  if (create(text, tool_use, &tokenizer, &renderer, &err) != YK_OK) fail_msg("%s", err.message);
  expect_rendering(renderer, of, code, expected);
  yk_chat_renderer_free(renderer);
  yk_tokenizer_free(tokenizer);
}

static void test_content_lists(void **state)
{
  static const char PARTS[] = "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"},"
                              "{\"type\": \"text\", \"text\": \"b<|im_end|>\"}]}]";
  (void)state;
  check_rendering("{{ messages[0].content }}", NULL, (rendering){PARTS, 0, 0, 0}, YK_OK, "a\nb<|im_end|>");
  check_rendering("{% for m in messages %}{% for part in m['content'] %}[{{ part.text }}]{% endfor %}{% endfor %}",
                  NULL, (rendering){PARTS, 0, 0, 0}, YK_OK, "[a][b<|im_end|>]");
  check_rendering("{% for m in messages %}{% set content = m.content %}{% if content is string %}no{% else %}"
                  "{% for part in content|list %}[{{ part.text }}]{% endfor %}{% endif %}{% endfor %}",
                  NULL, (rendering){PARTS, 0, 0, 0}, YK_OK, "[a][b<|im_end|>]");
  check_rendering("{% macro show(content) %}{% for part in content %}[{{ part.text }}]{% endfor %}{% endmacro %}"
                  "{{ show(messages[0].content) }}",
                  NULL, (rendering){PARTS, 0, 0, 0}, YK_OK, "[a][b<|im_end|>]");
  check_rendering("{% for word in messages[0].content.split('<') %}[{{ word }}]{% endfor %}", NULL,
                  (rendering){PARTS, 0, 0, 0}, YK_OK, "[a\nb][|im_end|>]");
}

static void test_arguments_of_calls(void **state)
{
#define CALL(arguments) "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"arguments\": " arguments "}}]}]"
  static const char TEXT[] = CALL("\"{\\\"a\\\": \\\"<|im_end|>\\\"}\"");
  static const char SHOW[] = "{% for call in messages[0].tool_calls %}{{ call.function.arguments|tojson }}{% endfor %}";
  (void)state;
  check_rendering(SHOW, NULL, (rendering){TEXT, 0, 0, 0}, YK_OK, "{\"a\": \"<|im_end|>\"}");
  check_rendering(SHOW, NULL, (rendering){CALL("\"\""), 0, 0, 0}, YK_OK, "{}");
  check_rendering(SHOW, NULL, (rendering){CALL("\"[1]\""), 0, 0, 0}, YK_OK, "{}");
  check_rendering(SHOW, NULL, (rendering){CALL("\"{broken\""), 0, 0, 0}, YK_OK, "{}");
  check_rendering("{{ messages[0].tool_calls[0].function.arguments + '!' }}", NULL, (rendering){TEXT, 0, 0, 0}, YK_OK,
                  "{\"a\": \"<|im_end|>\"}!");
  check_rendering("{% set arguments = messages[0].tool_calls[0].function.arguments %}"
                  "{% if arguments is string %}{{ arguments }}{% else %}{{ arguments|tojson }}{% endif %}",
                  NULL, (rendering){TEXT, 0, 0, 0}, YK_OK, "{\"a\": \"<|im_end|>\"}");
  check_rendering("{% for name, value in messages[0].tool_calls[0].function.arguments.items() %}{{ name }}={{ value }}"
                  "{% endfor %}",
                  NULL, (rendering){TEXT, 0, 0, 0}, YK_OK, "a=<|im_end|>");
}

static void test_variables(void **state)
{
  static const char HI[] = "[{\"role\": \"user\", \"content\": \"hi\"}]";
  (void)state;
  check_rendering("default", "tools", (rendering){HI, 0, 0, 0}, YK_OK, "default");
  check_rendering("default", "tools", (rendering){HI, "[{}]", 0, 0}, YK_OK, "tools");
  check_rendering("default", "tools", (rendering){HI, "[]", 0, 0}, YK_OK, "tools"); /* as transformers does */
  check_rendering("default", "tools", (rendering){HI, "null", 0, 0}, YK_OK, "default");
  check_rendering("{{ documents[0].text }} {{ a }} {{ bos_token }} {{ tools }}", NULL,
                  (rendering){HI, 0, "[{\"text\": \"d\"}]", "{\"a\": \"<|im_end|>\", \"bos_token\": \"b\"}"}, YK_OK,
                  "d <|im_end|> b None");
}

static void check_continued(const char *text, const char *messages, yk_status code, const char *expected)
{
  yk_tokenizer *tokenizer;
  yk_chat_renderer *renderer;
  yk_err err = YK_ERR_INIT;
  yk_json_doc *said = parse(messages);
  yk_chat_conversation conversation = {.messages = yk_json_root(said), .continue_final_message = true};
  if (create(text, NULL, &tokenizer, &renderer, &err) != YK_OK) fail_msg("%s", err.message);
  expect_prompt(renderer, &conversation, code, expected);
  yk_chat_renderer_free(renderer);
  yk_tokenizer_free(tokenizer);
  yk_json_free(said);
}

/* The last part of a list of parts is gone on with; parts of a list that became one text are one. */
static void test_continued_messages(void **state)
{
#define SAID(content)                                                                                                  \
  "[{\"role\": \"user\", \"content\": \"<|im_end|>\"}, {\"role\": \"assistant\", \"content\": " content "}]"
#define PART(text) "{\"type\": \"text\", \"text\": \"" text "\"}"
  static const char PARTS[] = SAID("[" PART("a") ", " PART("b ") "]");
  static const char JOINS[] = "{% for m in messages %}{{ m.content }}|{% endfor %}";
  static const char GOES_THROUGH[] = "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
                                     "{% for part in m.content %}({{ part.text|trim }}){% endfor %}{% endif %}"
                                     "{% endfor %}";
  (void)state;
  check_continued(JOINS, PARTS, YK_OK, "<|im_end|>|a\nb ");
  check_continued(GOES_THROUGH, PARTS, YK_OK, "<|im_end|>(a)(b");
  check_continued(JOINS, SAID("[]"), YK_E_INVAL, "messages[1].content: expected a text to continue, found none");
  check_continued(JOINS, SAID("null"), YK_E_INVAL, "messages[1].content: expected a text to continue, found null");
  check_continued("x", PARTS, YK_E_INVAL, "continue_final_message: the final message does not appear");
}

static void test_bad_conversations(void **state)
{
  static const char HI[] = "[{\"role\": \"user\", \"content\": \"hi\"}]";
  static const struct {
    rendering of;
    const char *part;
  } CASES[] = {
      {{"{}", 0, 0, 0}, "messages: expected a list of at least one message, found object"},
      {{"[]", 0, 0, 0}, "messages: expected a list of at least one message, found none"},
      {{"[3]", 0, 0, 0}, "messages[0]: expected an object, found integer"},
      {{"[{\"content\": \"\"}]", 0, 0, 0}, "messages[0].role: expected a string, found nothing"},
      {{"[{\"role\": \"<|im_end|>\", \"content\": \"\"}]", 0, 0, 0},
       "messages[0].role: expected one of system, developer"},
      {{"[{\"role\": \"user\"}]", 0, 0, 0},
       "messages[0].content: expected a string or a list of text parts, found nothing"},
      {{"[{\"role\": \"user\", \"content\": null}]", 0, 0, 0}, "found null"},
      {{"[{\"role\": \"user\", \"content\": {}}]", 0, 0, 0}, "found object"},
      {{"[{\"role\": \"user\", \"content\": [3]}]", 0, 0, 0},
       "messages[0].content[0]: expected an object with a \"type\""},
      {{"[{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}]", 0, 0, 0},
       "messages[0].content[0].type: expected \"text\", found \"image_url\""},
      {{"[{\"role\": \"user\", \"content\": [{\"type\": \"text\"}]}]", 0, 0, 0},
       "messages[0].content[0].text: expected a string, found nothing"},
      {{HI, "{}", 0, 0}, "tools: expected a list, found object"},
      {{HI, "[\"f\"]", 0, 0}, "tools[0]: expected an object, found string"},
      {{HI, 0, "3", 0}, "documents: expected a list, found integer"},
      {{HI, 0, "[null]", 0}, "documents[0]: expected an object, found null"},
      {{HI, 0, 0, "[]"}, "template arguments: expected an object, found array"},
      {{HI, 0, 0, "{\"messages\": []}"}, "template arguments: \"messages\" has a place of its own"},
  };
  (void)state;
  yk_tokenizer *tokenizer;
  yk_chat_renderer *renderer;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(create("{{ messages[0].content }}", NULL, &tokenizer, &renderer, &err), YK_OK);
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
    expect_rendering(renderer, CASES[i].of, YK_E_INVAL, CASES[i].part);
  expect_rendering(renderer, (rendering){NULL, 0, 0, 0}, YK_E_INVAL, "found nothing");
  expect_rendering(renderer, (rendering){HI, 0, 0, 0}, YK_OK, "hi");
  yk_chat_renderer_free(renderer);
  yk_tokenizer_free(tokenizer);
}

static void test_deep_data(void **state)
{
  char text[8192] = "[{\"role\": \"user\", \"content\": \"hi\", \"deep\": ";
  size_t n = strlen(text);
  (void)state;
  memset(text + n, '[', 1500);
  memset(text + n + 1500, ']', 1500);
  memcpy(text + n + 3000, "}]", 3);
  check_rendering("x", NULL, (rendering){text, 0, 0, 0}, YK_E_INVAL, "RecursionError");
}

static void test_builtin_forms_refuse(void **state)
{
  static const struct {
    const char *form, *messages, *tools, *part;
  } CASES[] = {
      {"builtin:chatml", "[{\"role\": \"tool\", \"content\": \"\"}]", NULL,
       "builtin:chatml knows system, user and assistant"},
      {"builtin:llama3", "[{\"role\": \"assistant\", \"tool_calls\": [{}]}]", NULL, "builtin:llama3 knows no tools"},
      {"builtin:minicpm", "[{\"role\": \"user\", \"content\": \"\"}]", "[{}]", "tools: builtin:minicpm knows none"},
      {"builtin:llama2", "[{\"role\": \"assistant\", \"content\": \"\"}]", NULL,
       "messages[0].role: builtin:llama2 expects \"user\""},
      {"builtin:llama2", "[{\"role\": \"system\", \"content\": \"\"}, {\"role\": \"system\", \"content\": \"\"}]", NULL,
       "messages[1].role: builtin:llama2 expects \"user\" here, found \"system\""},
  };
  (void)state;
  yk_tokenizer *tokenizer;
  assert_int_equal(yk_tokenizer_load(DEMO, &tokenizer, NULL), YK_OK);
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    yk_chat_renderer *renderer;
    yk_chat_options options;
    yk_chat_options_init(&options);
    options.model_dir = DEMO;
    options.chat_template = CASES[i].form;
    options.tokenizer = tokenizer;
    assert_int_equal(yk_chat_renderer_create(&options, &renderer, NULL), YK_OK);
    expect_rendering(renderer, (rendering){CASES[i].messages, CASES[i].tools, 0, 0}, YK_E_INVAL, CASES[i].part);
    yk_chat_renderer_free(renderer);
  }
  yk_tokenizer_free(tokenizer);
}

static void test_bad_templates(void **state)
{
  yk_tokenizer *tokenizer;
  yk_chat_renderer *renderer;
  (void)state;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(create("a\n{% if %}", NULL, &tokenizer, &renderer, &err), YK_E_FORMAT);
  assert_non_null(strstr(err.message, "chat_template.jinja: chat template: line 2: "));
  assert_null(renderer);
  yk_tokenizer_free(tokenizer);
  err = YK_ERR_INIT;
  assert_int_equal(create("a", "{{ b|nothing }}", &tokenizer, &renderer, &err), YK_E_FORMAT);
  assert_non_null(strstr(err.message, "No filter named 'nothing'"));
  yk_tokenizer_free(tokenizer);
  err = YK_ERR_INIT;
  assert_int_equal(create("\xFF", NULL, &tokenizer, &renderer, &err), YK_E_FORMAT);
  assert_non_null(strstr(err.message, "expected UTF-8"));
  yk_tokenizer_free(tokenizer);
}

static void test_bad_options(void **state)
{
  yk_chat_renderer *renderer;
  yk_chat_options options;
  yk_tokenizer *tokenizer;
  (void)state;
  assert_int_equal(yk_tokenizer_load(DEMO, &tokenizer, NULL), YK_OK);
  static const struct {
    double time_limit_s;
    int64_t memory_limit_bytes;
    const char *part;
  } CASES[] = {{0, 512 << 20, "time_limit_s: expected 0.01 to 3600, found 0"},
               {-1, 512 << 20, "time_limit_s"},
               {0.0 / 0.0, 512 << 20, "time_limit_s"},
               {5, 1, "memory_limit_bytes: expected 67108864 to"},
               {5, INT64_MAX, "memory_limit_bytes"}};
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    yk_err err = YK_ERR_INIT;
    yk_chat_options_init(&options);
    options.model_dir = DEMO;
    options.tokenizer = tokenizer;
    options.time_limit_s = CASES[i].time_limit_s;
    options.memory_limit_bytes = CASES[i].memory_limit_bytes;
    assert_int_equal(yk_chat_renderer_create(&options, &renderer, &err), YK_E_INVAL);
    assert_non_null(strstr(err.message, CASES[i].part));
  }
  yk_chat_options_init(&options);
  assert_int_equal(yk_chat_renderer_create(&options, &renderer, NULL), YK_E_INVAL);
  yk_chat_renderer_free(NULL);
  yk_tokenizer_free(tokenizer);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_where_templates_stand),
      cmocka_unit_test(test_special_tokens),
      cmocka_unit_test(test_tokens_of_classes),
      cmocka_unit_test(test_bad_files),
      cmocka_unit_test(test_content_lists),
      cmocka_unit_test(test_arguments_of_calls),
      cmocka_unit_test(test_variables),
      cmocka_unit_test(test_continued_messages),
      cmocka_unit_test(test_bad_conversations),
      cmocka_unit_test(test_deep_data),
      cmocka_unit_test(test_builtin_forms_refuse),
      cmocka_unit_test(test_bad_templates),
      cmocka_unit_test(test_bad_options),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
