/* template_fixture.h - checkpoint folders with chat templates, and conversations as JSON texts rendered with them. */
#ifndef TESTS_UNIT_TEMPLATE_FIXTURE_H
#define TESTS_UNIT_TEMPLATE_FIXTURE_H

#include "chat/chat_renderer.h"

/* chat_template.jinja, additional_chat_templates/tool_use.jinja, tokenizer_config.json, special_tokens_map.json */
enum { CHAT_FILES = 4 };

typedef struct chat_folder {
  char folder[32];
} chat_folder;

/* A folder with these files; NULL: without. */
chat_folder chat_folder_make(const char *const texts[CHAT_FILES]);
void chat_folder_remove(const chat_folder *made);

/* The document of a text, freed by the caller; NULL for NULL. */
yk_json_doc *chat_json(const char *text);

/* A renderer of the demo model with a template and, unless NULL, a template for tools. The tokenizer must be freed in
 * any case. */
yk_status chat_renderer_of(const char *text, const char *tool_use, yk_tokenizer **tokenizer,
                           yk_chat_renderer **renderer, yk_err *err);

/* Members of a conversation as JSON; NULL: absent. */
typedef struct chat_rendering {
  const char *messages, *tools, *documents, *arguments;
} chat_rendering;

/* expected: the prompt if code is YK_OK, else a part of the message. */
void chat_expect_prompt(yk_chat_renderer *renderer, const yk_chat_conversation *conversation, yk_status code,
                        const char *expected);

/* The same of members, with a generation prompt. */
void chat_expect_rendering(yk_chat_renderer *renderer, chat_rendering of, yk_status code, const char *expected);

/* The same with a separate renderer. */
void chat_check_rendering(const char *text, const char *tool_use, chat_rendering of, yk_status code,
                          const char *expected);

#endif
