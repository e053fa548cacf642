#include "unit/template_fixture.h"

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

static const char *const FILES[CHAT_FILES] = {"chat_template.jinja", "additional_chat_templates/tool_use.jinja",
                                              "tokenizer_config.json", "special_tokens_map.json"};

chat_folder chat_folder_make(const char *const texts[CHAT_FILES])
{
  chat_folder made = {"/tmp/yoke-chat-XXXXXX"};
  char path[128];
  assert_non_null(mkdtemp(made.folder));
  snprintf(path, sizeof path, "%s/additional_chat_templates", made.folder);
  assert_int_equal(mkdir(path, 0700), 0);
  for (size_t i = 0; i < CHAT_FILES; i++) {
    if (!texts[i]) continue;
    snprintf(path, sizeof path, "%s/%s", made.folder, FILES[i]);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(texts[i], file) >= 0);
    assert_int_equal(fclose(file), 0);
  }
  return made;
}

void chat_folder_remove(const chat_folder *made)
{
  char path[128];
  for (size_t i = 0; i < CHAT_FILES; i++) {
    snprintf(path, sizeof path, "%s/%s", made->folder, FILES[i]);
    unlink(path);
  }
  snprintf(path, sizeof path, "%s/additional_chat_templates", made->folder);
  rmdir(path);
  assert_int_equal(rmdir(made->folder), 0);
}

yk_json_doc *chat_json(const char *text)
{
  yk_json_doc *doc = NULL;
  yk_err err = YK_ERR_INIT;
  if (text && yk_json_parse("test", text, strlen(text), NULL, &doc, &err) != YK_OK) fail_msg("%s", err.message);
  return doc;
}

yk_status chat_renderer_of(const char *text, const char *tool_use, yk_tokenizer **tokenizer,
                           yk_chat_renderer **renderer, yk_err *err)
{
  chat_folder made = chat_folder_make((const char *[]){text, tool_use, NULL, NULL});
  yk_chat_options options;
  yk_chat_options_init(&options);
  assert_int_equal(yk_tokenizer_load(YOKE_TESTS_DIR "/models/demo", tokenizer, NULL), YK_OK);
  options.model_dir = made.folder;
  options.tokenizer = *tokenizer;
  options.time_limit_s = 60;
  yk_status status = yk_chat_renderer_create(&options, renderer, err);
  chat_folder_remove(&made);
  return status;
}

void chat_expect_prompt(yk_chat_renderer *renderer, const yk_chat_conversation *conversation, yk_status code,
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

void chat_expect_rendering(yk_chat_renderer *renderer, chat_rendering of, yk_status code, const char *expected)
{
  yk_json_doc *messages = chat_json(of.messages), *tools = chat_json(of.tools), *documents = chat_json(of.documents);
  yk_json_doc *arguments = chat_json(of.arguments);
  yk_chat_conversation conversation = {.messages = yk_json_root(messages),
                                       .tools = yk_json_root(tools),
                                       .documents = yk_json_root(documents),
                                       .arguments = yk_json_root(arguments),
                                       .add_generation_prompt = true};
  chat_expect_prompt(renderer, &conversation, code, expected);
  yk_json_free(messages);
  yk_json_free(tools);
  yk_json_free(documents);
  yk_json_free(arguments);
}

void chat_check_rendering(const char *text, const char *tool_use, chat_rendering of, yk_status code,
                          const char *expected)
{
  yk_tokenizer *tokenizer;
  yk_chat_renderer *renderer;
  yk_err err = YK_ERR_INIT;
  if (chat_renderer_of(text, tool_use, &tokenizer, &renderer, &err) != YK_OK) fail_msg("%s", err.message);
  chat_expect_rendering(renderer, of, code, expected);
  yk_chat_renderer_free(renderer);
  yk_tokenizer_free(tokenizer);
}
