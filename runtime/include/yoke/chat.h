/* chat.h - renders a conversation with the model's chat template, to text or token ids.
 *
 * Jinja2 renders the checkpoint's own template as `transformers` does, byte for byte, in a helper process that can open
 * no file and no socket. A few forms are built in and need no Python. Text of a conversation cannot become a special
 * token: "<|im_end|>" in a user's message is tokenised as plain text. */
#ifndef YK_CHAT_H
#define YK_CHAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "yoke/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct yk_prompt_template yk_prompt_template;

typedef struct yk_prompt_template_options {
  size_t struct_size;
  const char *model_dir; /* the checkpoint's directory, with its tokenizer and template */
  const char *tokenizer; /* a tokenizer.json, or a directory with one and the template; NULL: model_dir */
  const char
      *chat_template;  /* NULL: the checkpoint's; "builtin:chatml", ":llama2", ":llama3", ":minicpm"; else a file */
  const char *python;  /* runs the helper; searched in PATH; default "python3" */
  double time_limit_s; /* for one conversation; 0.01 to 3600, default 5 */
  int64_t memory_limit_bytes; /* address space of the helper; 64 MiB to 1 TiB, default 512 MiB */
} yk_prompt_template_options;

/* yk_prompt_template_options_init - struct_size and every default above. Must come first. */
void yk_prompt_template_options_init_sized(yk_prompt_template_options *options, size_t struct_size);
static inline void yk_prompt_template_options_init(yk_prompt_template_options *options)
{
  yk_prompt_template_options_init_sized(options, sizeof *options);
}

/* yk_prompt_template_create - find the template and the tokenizer, start the helper. Needs no engine and may outlive
 *   any engine. Errors: YK_E_INVAL (an option, named with its range), YK_E_IO and YK_E_FORMAT (a file that cannot be
 *   read or is malformed; a template with wrong syntax, with the line), YK_E_UNSUPPORTED (a checkpoint without a
 *   template or tokenizer; no Python or no jinja2), YK_E_TIMEOUT, YK_E_NOMEM. */
yk_status yk_prompt_template_create(const yk_prompt_template_options *options, yk_prompt_template **out, yk_err *err);

/* yk_prompt_template_free - end the helper. NULL is allowed. */
void yk_prompt_template_free(yk_prompt_template *prompt_template);

/* yk_prompt_template_origin - source of the template, for display: "DIR/chat_template.jinja", "builtin:chatml". The
 *   string belongs to the template. */
const char *yk_prompt_template_origin(const yk_prompt_template *prompt_template);

typedef struct yk_message {
  const char *role;    /* "system", "user", "assistant", ... */
  const char *content; /* UTF-8 */
} yk_message;

typedef struct yk_conversation {
  size_t struct_size;
  const yk_message *messages; /* [n_messages], oldest first; or NULL with 0 */
  size_t n_messages;
  /* In place of messages: a JSON array like "messages" of OpenAI's API, with tool calls, lists of contents and
   * reasoning. */
  const char *messages_json;
  /* JSON or NULL: a list of tools like "tools" of OpenAI's API, a list of documents, an object of further variables of
   * the template ("enable_thinking"). */
  const char *tools_json, *documents_json, *arguments_json;
  const char *reasoning_effort; /* NULL, or a variable of the template */
  bool add_generation_prompt;   /* the text ends with the header of the assistant's answer; default true */
  bool continue_final_message;  /* the text ends with the last message's content; excludes add_generation_prompt */
  bool add_special_tokens;      /* the ids include the tokens that the tokenizer adds to every text; default false */
  size_t max_ids;               /* tokenising stops early if there are clearly more ids; 0: any number */
} yk_conversation;

/* yk_conversation_init - struct_size and every default above. Must come first. */
void yk_conversation_init_sized(yk_conversation *conversation, size_t struct_size);
static inline void yk_conversation_init(yk_conversation *conversation)
{
  yk_conversation_init_sized(conversation, sizeof *conversation);
}

/* yk_prompt_template_render - the text of a conversation. *text is malloc'd, belongs to the caller and is
 *   NUL-terminated after its *n_bytes bytes. Calls from several threads on one template run one after the other, each
 *   for at most twice the time limit.
 *   Errors: YK_E_INVAL (the conversation: names message, key, expected and found; or the template refuses the
 *   conversation, in the template's words), YK_E_FORMAT (malformed JSON, with the position), YK_E_TIMEOUT (the limit),
 *   YK_E_CAPACITY (memory of the helper; more than 64 MiB of text), YK_E_IO (the helper died twice while rendering),
 *   YK_E_NOMEM. *text is then NULL. */
yk_status yk_prompt_template_render(yk_prompt_template *prompt_template, const yk_conversation *conversation,
                                    char **text, size_t *n_bytes, yk_err *err);

/* yk_prompt_template_encode - the token ids of a conversation, for yk_request_options.ids; *ids is malloc'd and belongs
 *   to the caller. Unlike ids of the rendered text, these ids hold no special token that comes from a user's text.
 *   Errors: those of render; YK_E_CAPACITY for more than max_ids. *ids is then NULL. */
yk_status yk_prompt_template_encode(yk_prompt_template *prompt_template, const yk_conversation *conversation,
                                    int32_t **ids, size_t *n_ids, yk_err *err);

/* yk_prompt_template_stop_id - the token that ends a turn of a built-in form, for yk_sampling.stop_ids, since the
 *   model's end-of-sequence ids may lack this token; -1: none is needed. */
int32_t yk_prompt_template_stop_id(const yk_prompt_template *prompt_template);

#ifdef __cplusplus
}
#endif
#endif
