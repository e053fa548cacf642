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

static void check_messages(const char *chat_template, const char *messages, const char *expected)
{
  check_rendering(chat_template, NULL, (rendering){messages, 0, 0, 0}, YK_OK, expected);
}

/* Many conversations with one template; each ends with two NULLs. */
static void check_many(const char *chat_template, const char *const cases[][2])
{
  yk_tokenizer *tokenizer;
  yk_chat_renderer *renderer;
  yk_err err = YK_ERR_INIT;
  if (create(chat_template, NULL, &tokenizer, &renderer, &err) != YK_OK) fail_msg("%s", err.message);
  for (; (*cases)[0]; cases++) expect_rendering(renderer, (rendering){(*cases)[0], 0, 0, 0}, YK_OK, (*cases)[1]);
  yk_chat_renderer_free(renderer);
  yk_tokenizer_free(tokenizer);
}

#define SHOW_CONTENT "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
#define JOIN_CONTENT "{% for m in messages %}{{ '[' + m['role'] + ']' + m['content'] }}{% endfor %}"
#define LOOP_CONTENT                                                                                                   \
  "{% for m in messages %}[{{ m.role }}]{% if m.content is string %}{{ m.content }}{% else %}"                         \
  "{% for p in m.content %}({{ p.text }}){% endfor %}{% endif %}{% endfor %}"
#define ONLY_LISTS                                                                                                     \
  "{% for m in messages %}[{{ m.role }}]{% for p in m['content'] %}({{ p['type'] }} {{ p['text'] }}){% endfor %}"      \
  "{% endfor %}"
#define CALLS                                                                                                          \
  "\"tool_calls\": [{\"id\": \"c\", \"type\": \"function\", \"function\": {\"name\": \"f\", \"arguments\": \"{}\"}}]"

/* Null, absent and empty are the same to templates, but to those that ask for null. */
static void test_content_that_is_not_there(void **state)
{
#define ANSWERED(content)                                                                                              \
  "[{\"role\": \"user\", \"content\": \"hi\"}, {\"role\": \"assistant\", " content CALLS "},"                          \
  "{\"role\": \"tool\", \"tool_call_id\": \"c\", \"content\": \"sun\"}]"
  static const char NONE[] = ANSWERED("\"content\": null, "), ABSENT[] = ANSWERED(""),
                    EMPTY[] = ANSWERED("\"content\": \"\", ");
  static const char SHOWN[] = "[user]hi[assistant][tool]sun", LISTED[] = "[user](text hi)[assistant][tool](text sun)";
  static const char ASKS[] = "False True False ", ASKS_NOT[] = "False False False ";
  (void)state;
  const char *const shown[][2] = {{NONE, SHOWN}, {ABSENT, SHOWN}, {EMPTY, SHOWN}, {NULL, NULL}};
  check_many(SHOW_CONTENT, shown);
  check_many(JOIN_CONTENT, shown);
  check_many(LOOP_CONTENT, shown);
  const char *const listed[][2] = {
      {NONE, LISTED}, {ABSENT, LISTED}, {EMPTY, "[user](text hi)[assistant](text )[tool](text sun)"}, {NULL, NULL}};
  check_many(ONLY_LISTS, listed);
  const char *const asked[][2] = {{NONE, ASKS}, {ABSENT, ASKS}, {EMPTY, ASKS_NOT}, {NULL, NULL}};
  check_many("{% for m in messages %}{{ m.content is none }} {% endfor %}", asked);
  check_many("{% for m in messages %}{{ m['content'] == none }} {% endfor %}", asked);
}

static void test_forms_of_content(void **state)
{
  static const char PARTS[] = "[{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, \"b\","
                              "{\"type\": \"input_text\", \"text\": \"\"}, {\"type\": \"text\", \"text\": null}]},"
                              "{\"role\": \"assistant\", \"content\": [{\"type\": \"refusal\", \"refusal\": \"no\"}]},"
                              "{\"role\": \"tool\", \"content\": [{\"type\": \"text\", \"text\": \"x\"}, {\"type\": "
                              "\"text\", \"text\": \"y\"}]}]";
  static const char TEXTS[] = "[{\"role\": \"system\", \"content\": \"s\"}, {\"role\": \"user\", \"content\": \"hi\"}]";
  (void)state;
  check_messages(SHOW_CONTENT, PARTS, "[user]a\nb[assistant]no[tool]x\ny");
  check_messages(LOOP_CONTENT, PARTS, "[user](a)(b)()[assistant](no)[tool]x\ny");
  check_messages(ONLY_LISTS, PARTS, "[user](text a)(text b)(text )[assistant](text no)[tool](text x)(text y)");
  check_messages(ONLY_LISTS, TEXTS, "[system](text s)[user](text hi)");
  check_messages(LOOP_CONTENT, TEXTS, "[system]s[user]hi");
  check_messages("{{ messages[0].content[0].text }}|{{ messages[1]['content'][0]['text'] }}", TEXTS, "s|hi");
  check_messages("{% set list = messages %}{% for m in list[1:] %}{% set c = m.content %}{% for p in c %}<{{ p.text }}>"
                 "{% endfor %}{% endfor %}",
                 TEXTS, "<hi>");
}

static void test_reasoning_and_names(void **state)
{
#define ANSWER(members) "[{\"role\": \"assistant\", \"content\": \"a\", " members "}]"
  static const char *const CASES[][2] = {
      {ANSWER("\"reasoning\": \"R\""), "<R R>a"},
      {ANSWER("\"reasoning_content\": \"R\""), "<R R>a"},
      {ANSWER("\"reasoning\": \"R\", \"reasoning_content\": null"), "<R R>a"},
      {ANSWER("\"reasoning\": null, \"reasoning_content\": \"R\""), "<R R>a"},
      {ANSWER("\"reasoning\": \"R\", \"reasoning_content\": \"S\""), "<R R>a"},
      {ANSWER("\"reasoning_content\": null"), "a"},
      {ANSWER("\"reasoning\": null, \"name\": null, \"refusal\": null"), "a"},
      {ANSWER("\"name\": 3"), "a"},
      {ANSWER("\"name\": \"n\""), "n:a"},
      {NULL, NULL},
  };
  (void)state;
  check_many("{% for m in messages %}{% if m.name is defined %}{{ m.name }}:{% endif %}"
             "{% if m.reasoning is defined %}<{{ m.reasoning }} {{ m.reasoning_content }}>{% endif %}"
             "{% if m.refusal is defined %}!{% endif %}{{ m.content }}{% endfor %}",
             CASES);
  static const char *const THOUGHTS[][2] = {{ANSWER("\"reasoning_content\": \"R\""), "R R R"},
                                            {ANSWER("\"reasoning\": \"R\", \"thinking\": \"T\""), "R R T"},
                                            {NULL, NULL}};
  check_many("{% set m = messages[0] %}{{ m.reasoning }} {{ m.reasoning_content }} {{ m.thinking }}", THOUGHTS);
}

/* As vLLM's _postprocess_messages, and then Python, have them. */
static void test_arguments_of_the_past(void **state)
{
#define CALLED(arguments)                                                                                              \
  "[{\"role\": \"assistant\", \"tool_calls\": [{\"function\": {\"name\": \"f\"" arguments "}}]}]"
#define GIVEN(arguments) CALLED(", \"arguments\": " arguments)
  static const char *const CASES[][2] = {
      {GIVEN("\"{\\\"city\\\": \\\"Rome\\\"}\""), "<f city=Rome>"},
      {GIVEN("\"{\\\"n\\\": 18446744073709551615}\""), "<f n=18446744073709551615>"},
      {GIVEN("\"{\\\"a\\\": 1, \\\"a\\\": 2}\""), "<f a=2>"},
      {GIVEN("\"{\\\"x\\\": NaN, \\\"y\\\": 1e400, \\\"z\\\": -Infinity}\""), "<f x=nan y=inf z=-inf>"},
      {GIVEN("{\"n\": 1e400, \"m\": 1.50}"), "<f n=inf m=1.5>"},
      {GIVEN("\"null\""), "<f>"},
      {GIVEN("\"[1]\""), "<f>"},
      {GIVEN("\"42\""), "<f>"},
      {GIVEN("\"\\\"x\\\"\""), "<f>"},
      {GIVEN("\"{\\\"city\\\": \\\"Ro\""), "<f>"},
      {GIVEN("\"not json\""), "<f>"},
      {GIVEN("\"\""), "<f>"},
      {GIVEN("null"), "<f>"},
      {GIVEN("[1]"), "<f>"},
      {GIVEN("7"), "<f>"},
      {CALLED(""), "<f>"},
      {NULL, NULL},
  };
  (void)state;
  check_many("{% for c in messages[0].tool_calls %}<{{ c.function.name }}{% for k, v in c.function.arguments|items %} "
             "{{ k }}={{ v }}{% endfor %}>{% endfor %}",
             CASES);
  check_messages("{{ messages[0].tool_calls is defined }}", "[{\"role\": \"assistant\", \"tool_calls\": []}]", "False");
  check_messages("{{ messages[0].tool_calls[0].function.arguments + '!' }}", CALLED(""), "{}!");
}

/* A template that does not know the role gets one message of the system. */
static void test_developers(void **state)
{
#define SAYS(role, text) "{\"role\": \"" role "\", \"content\": " text "}"
  static const char BOTH[] = "[" SAYS("system", "\"s\"") ", " SAYS("user", "\"u\"") ", " SAYS(
      "developer",
      "[{\"type\": \"text\", \"text\": \"d\"}, {\"type\": \"text\", \"text\": \"e\"}]") ", " SAYS("system",
                                                                                                  "\"t\"") "]";
  (void)state;
  check_messages(SHOW_CONTENT, BOTH, "[system]s\n\nd\ne\n\nt[user]u");
  check_messages(ONLY_LISTS, BOTH, "[system](text s\n\nd\ne\n\nt)[user](text u)");
  check_messages(SHOW_CONTENT, "[" SAYS("developer", "\"d\"") ", " SAYS("user", "\"u\"") "]", "[system]d[user]u");
  check_messages(SHOW_CONTENT, "[" SAYS("system", "\"s\"") ", " SAYS("system", "\"t\"") "]", "[system]s[system]t");
  check_messages(SHOW_CONTENT "{# 'developer' #}", BOTH, "[system]s[user]u[developer]d\ne[system]t");
}

/* Numbers and the order of keys reach a template as Python reads them. */
static void test_numbers_and_keys(void **state)
{
  static const char HI[] = "[{\"role\": \"user\", \"content\": \"hi\"}]";
  (void)state;
  check_rendering("{{ tools|tojson }}{{ big }} {{ documents[0].x }}", NULL,
                  (rendering){HI, "[{\"z\": 18446744073709551615, \"a\": [1e400, NaN, 1.10, -0.0], \"m\": 1E5}]",
                              "[{\"x\": 123456789012345678901234567890}]", "{\"big\": 1e400}"},
                  YK_OK,
                  "[{\"z\": 18446744073709551615, \"a\": [Infinity, NaN, 1.1, -0.0], \"m\": 100000.0}]"
                  "inf 123456789012345678901234567890");
}

/* reasoning_effort decides about thinking unless the request does; the server's defaults come last. */
static void test_arguments_of_templates(void **state)
{
  static const struct {
    const char *defaults, *arguments, *effort, *expected;
  } CASES[] = {
      {NULL, NULL, NULL, "- -"},
      {NULL, NULL, "high", "high True"},
      {NULL, NULL, "none", "none False"},
      {NULL, "{\"enable_thinking\": false}", "high", "high False"},
      {"{\"enable_thinking\": false, \"reasoning_effort\": \"low\"}", NULL, NULL, "low False"},
      {"{\"enable_thinking\": false, \"reasoning_effort\": \"low\"}", NULL, "high", "high True"},
      {"{\"enable_thinking\": false}", "{\"enable_thinking\": true}", NULL, "- True"},
  };
  (void)state;
  yk_tokenizer *tokenizer;
  yk_chat_renderer *renderer;
  yk_err err = YK_ERR_INIT;
  assert_int_equal(create("{{ reasoning_effort|default('-') }} {{ enable_thinking|default('-') }}", NULL, &tokenizer,
                          &renderer, &err),
                   YK_OK);
  yk_json_doc *messages = parse("[{\"role\": \"user\", \"content\": \"hi\"}]");
  for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
    yk_json_doc *defaults = parse(CASES[i].defaults), *arguments = parse(CASES[i].arguments);
    yk_chat_conversation conversation = {.messages = yk_json_root(messages),
                                         .arguments = yk_json_root(arguments),
                                         .default_arguments = yk_json_root(defaults),
                                         .reasoning_effort = CASES[i].effort};
    expect_prompt(renderer, &conversation, YK_OK, CASES[i].expected);
    yk_json_free(defaults);
    yk_json_free(arguments);
  }
  yk_json_free(messages);
  yk_chat_renderer_free(renderer);
  yk_tokenizer_free(tokenizer);
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
      cmocka_unit_test(test_content_that_is_not_there),
      cmocka_unit_test(test_forms_of_content),
      cmocka_unit_test(test_reasoning_and_names),
      cmocka_unit_test(test_arguments_of_the_past),
      cmocka_unit_test(test_developers),
      cmocka_unit_test(test_numbers_and_keys),
      cmocka_unit_test(test_arguments_of_templates),
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
