/* prompt_template.c - implements yoke/chat.h: a renderer with its tokenizer, and conversations given as text. */
#include <stdlib.h>
#include <string.h>

#include "base/json_write.h"
#include "base/model_path.h"
#include "base/struct_size.h"
#include "chat/chat_renderer.h"
#include "yoke/chat.h"

struct yk_prompt_template {
  yk_tokenizer *tokenizer;
  yk_chat_renderer *renderer;
};

/* ---- The template ------------------------------------------------------------------------------------------------ */

static yk_prompt_template_options option_defaults(void)
{
  yk_chat_options of_renderer;
  yk_chat_options_init(&of_renderer);
  return (yk_prompt_template_options){.struct_size = sizeof(yk_prompt_template_options),
                                      .python = of_renderer.python,
                                      .time_limit_s = of_renderer.time_limit_s,
                                      .memory_limit_bytes = of_renderer.memory_limit_bytes};
}

void yk_prompt_template_options_init_sized(yk_prompt_template_options *options, size_t struct_size)
{
  const yk_prompt_template_options defaults = option_defaults();
  yk_struct_write(options, struct_size, &defaults, sizeof defaults);
}

static yk_status open_renderer(const yk_prompt_template_options *o, yk_prompt_template *out, yk_err *err)
{
  char dir[YK_MODEL_PATH_BYTES];
  const char *path = o->tokenizer ? o->tokenizer : o->model_dir;
  if (!path) return yk_err_set(err, YK_E_INVAL, "model_dir: expected a checkpoint directory, found nothing");
  YK_TRY(yk_tokenizer_load(path, &out->tokenizer, err));
  YK_TRY(yk_model_path_dir(path, dir, err));
  const yk_chat_options options = {.model_dir = dir,
                                   .chat_template = o->chat_template,
                                   .tokenizer = out->tokenizer,
                                   .python = o->python,
                                   .time_limit_s = o->time_limit_s,
                                   .memory_limit_bytes = o->memory_limit_bytes};
  return yk_chat_renderer_create(&options, &out->renderer, err);
}

yk_status yk_prompt_template_create(const yk_prompt_template_options *options, yk_prompt_template **out, yk_err *err)
{
  yk_prompt_template_options own = option_defaults();
  *out = NULL;
  YK_TRY(yk_struct_read("yk_prompt_template_options", options,
                        YK_STRUCT_END(yk_prompt_template_options, memory_limit_bytes), &own, sizeof own, err));
  yk_prompt_template *made = calloc(1, sizeof *made);
  if (!made) return yk_err_set(err, YK_E_NOMEM, "no memory for a prompt template");
  yk_status status = open_renderer(&own, made, err);
  if (status == YK_OK)
    *out = made;
  else
    yk_prompt_template_free(made);
  return status;
}

void yk_prompt_template_free(yk_prompt_template *prompt_template)
{
  if (!prompt_template) return;
  yk_chat_renderer_free(prompt_template->renderer);
  yk_tokenizer_free(prompt_template->tokenizer);
  free(prompt_template);
}

const char *yk_prompt_template_origin(const yk_prompt_template *prompt_template)
{
  return yk_chat_template_origin(prompt_template->renderer);
}

int32_t yk_prompt_template_stop_id(const yk_prompt_template *prompt_template)
{
  return yk_chat_turn_end_id(prompt_template->renderer);
}

/* ---- Conversations ----------------------------------------------------------------------------------------------- */

void yk_conversation_init_sized(yk_conversation *conversation, size_t struct_size)
{
  const yk_conversation defaults = {.struct_size = sizeof defaults, .add_generation_prompt = true};
  yk_struct_write(conversation, struct_size, &defaults, sizeof defaults);
}

/* The documents that contain a conversation's values. */
typedef struct documents {
  yk_json_doc *messages, *tools, *documents, *arguments;
} documents;

static void documents_free(documents *docs)
{
  yk_json_free(docs->messages);
  yk_json_free(docs->tools);
  yk_json_free(docs->documents);
  yk_json_free(docs->arguments);
}

static yk_status parse(const char *name, const char *text, yk_json_doc **out, yk_err *err)
{
  return text ? yk_json_parse(name, text, strlen(text), NULL, out, err) : YK_OK;
}

static yk_status write_messages(const yk_conversation *c, yk_strbuf *out, yk_err *err)
{
  if (!c->messages && c->n_messages)
    return yk_err_set(err, YK_E_INVAL, "messages: expected an array of %zu, found NULL", c->n_messages);
  yk_strbuf_append_str(out, "[");
  for (size_t i = 0; i < c->n_messages; i++) {
    const yk_message *message = &c->messages[i];
    if (!message->role || !message->content)
      return yk_err_set(err, YK_E_INVAL, "messages[%zu]: expected a role and a content, found NULL", i);
    yk_strbuf_append_str(out, i ? ",{\"role\":" : "{\"role\":");
    yk_json_append_string(out, message->role, strlen(message->role));
    yk_strbuf_append_str(out, ",\"content\":");
    yk_json_append_string(out, message->content, strlen(message->content));
    yk_strbuf_append_str(out, "}");
  }
  yk_strbuf_append_str(out, "]");
  return out->failed ? yk_err_set(err, YK_E_NOMEM, "no memory for %zu messages", c->n_messages) : YK_OK;
}

static yk_status parse_messages(const yk_conversation *c, yk_json_doc **out, yk_err *err)
{
  if (c->messages_json && c->messages)
    return yk_err_set(err, YK_E_INVAL, "messages: expected these or messages_json, found both");
  if (c->messages_json) return parse("messages", c->messages_json, out, err);
  yk_strbuf text = YK_STRBUF_INIT;
  yk_status status = write_messages(c, &text, err);
  if (status == YK_OK) status = parse("messages", text.data, out, err);
  yk_strbuf_free(&text);
  return status;
}

static yk_status parse_all(const yk_conversation *c, documents *docs, yk_err *err)
{
  YK_TRY(parse_messages(c, &docs->messages, err));
  YK_TRY(parse("tools", c->tools_json, &docs->tools, err));
  YK_TRY(parse("documents", c->documents_json, &docs->documents, err));
  return parse("arguments", c->arguments_json, &docs->arguments, err);
}

/* Converts a program's conversation to the renderer's; its values live as long as docs. */
static yk_status read_conversation(const yk_conversation *conversation, documents *docs, yk_chat_conversation *out,
                                   yk_err *err)
{
  yk_conversation c;
  yk_conversation_init(&c);
  YK_TRY(yk_struct_read("yk_conversation", conversation, YK_STRUCT_END(yk_conversation, max_ids), &c, sizeof c, err));
  YK_TRY(parse_all(&c, docs, err));
  *out = (yk_chat_conversation){.messages = yk_json_root(docs->messages),
                                .tools = yk_json_root(docs->tools),
                                .documents = yk_json_root(docs->documents),
                                .arguments = yk_json_root(docs->arguments),
                                .default_arguments = YK_JSON_NONE,
                                .reasoning_effort = c.reasoning_effort,
                                .add_generation_prompt = c.add_generation_prompt,
                                .continue_final_message = c.continue_final_message,
                                .add_special_tokens = c.add_special_tokens,
                                .max_ids = c.max_ids};
  return YK_OK;
}

yk_status yk_prompt_template_render(yk_prompt_template *prompt_template, const yk_conversation *conversation,
                                    char **text, size_t *n_bytes, yk_err *err)
{
  documents docs = {0};
  yk_chat_conversation parsed;
  yk_chat_prompt prompt = {0};
  *text = NULL;
  *n_bytes = 0;
  yk_status status = read_conversation(conversation, &docs, &parsed, err);
  if (status == YK_OK) status = yk_chat_render(prompt_template->renderer, &parsed, &prompt, err);
  if (status == YK_OK) {
    *text = prompt.text;
    *n_bytes = prompt.n_bytes;
    prompt.text = NULL;
  }
  yk_chat_prompt_free(&prompt);
  documents_free(&docs);
  return status;
}

yk_status yk_prompt_template_encode(yk_prompt_template *prompt_template, const yk_conversation *conversation,
                                    int32_t **ids, size_t *n_ids, yk_err *err)
{
  documents docs = {0};
  yk_chat_conversation parsed;
  *ids = NULL;
  *n_ids = 0;
  yk_status status = read_conversation(conversation, &docs, &parsed, err);
  if (status == YK_OK) status = yk_chat_encode(prompt_template->renderer, &parsed, ids, n_ids, err);
  documents_free(&docs);
  return status;
}
