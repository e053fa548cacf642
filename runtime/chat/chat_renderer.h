/* chat_renderer.h - a conversation to the prompt that a model was trained on: its chat template.
 *
 * The checkpoint's own template is rendered by Jinja2 as `transformers` does, byte for byte, in a helper process that
 * can open no file and no socket, with limits of time and memory. It is started when the renderer is created, and
 * again when it has died or had to be ended. A few forms are built in and need no Python.
 *
 * What a conversation holds cannot become an added token ("<|im_end|>"), special or not, unlike in `transformers`: such
 * tokens come from the template alone, and from what earlier `assistant` messages say, which is tokenised as it is
 * rendered. Plain are the texts of messages of all other roles, names, tool calls, tool definitions, documents and
 * template arguments; the ids are those that the tokenizer gives if the tokens in such texts did not exist. To a
 * template such texts behave as always (lengths, comparisons, `trim`, `split`, slices, `replace`, `tojson`). What is
 * left to a template is to change the letters of a text into those of a token (`upper`), or to make one of a number.
 *
 * A renderer may be used by any number of threads at once; the helper renders one conversation at a time. */
#ifndef YK_CHAT_CHAT_RENDERER_H
#define YK_CHAT_CHAT_RENDERER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "chat/conversation.h"
#include "text/span.h"
#include "text/tokenizer.h"

typedef struct yk_chat_renderer yk_chat_renderer;

typedef struct yk_chat_options {
  const char *model_dir;         /* the checkpoint's directory */
  const char *chat_template;     /* NULL: the checkpoint's; "builtin:NAME" (builtin_forms.h); else a file */
  const yk_tokenizer *tokenizer; /* the checkpoint's; borrowed, must outlive the renderer */
  const char *python;            /* the program that runs the helper, looked for in PATH; default "python3" */
  double time_limit_s;           /* of one conversation; 0.01 to 3600, default 5 */
  int64_t memory_limit_bytes;    /* of the helper's address space; 64 MiB to 1 TiB, default 512 MiB */
} yk_chat_options;

/* yk_chat_options_init - every default above. */
void yk_chat_options_init(yk_chat_options *options);

/* yk_chat_renderer_create - find the template (template_source.h), start the helper and have it read the template.
 *   Errors: YK_E_INVAL (an option, named with its range; no built-in form of that name, with those there are), YK_E_IO
 *   and YK_E_FORMAT (a file that cannot be read or is malformed; a template with wrong syntax, with its line),
 *   YK_E_UNSUPPORTED (a checkpoint without a template; no Python, no jinja2, a kernel or machine on which the helper
 *   cannot be locked up: the message names what is missing and the built-in forms), YK_E_TIMEOUT, YK_E_NOMEM. */
yk_status yk_chat_renderer_create(const yk_chat_options *options, yk_chat_renderer **out, yk_err *err);

/* yk_chat_renderer_free - end the helper. NULL is allowed. No other thread may be inside a call. */
void yk_chat_renderer_free(yk_chat_renderer *renderer);

/* A rendered conversation. Free with yk_chat_prompt_free. */
typedef struct yk_chat_prompt {
  char *text; /* NUL-terminated behind its n_bytes bytes */
  size_t n_bytes;
  yk_spans plain; /* for yk_tokenizer_encode_partly_plain: empty where no text holds anything of an added token */
} yk_chat_prompt;

/* yk_chat_render - the text of a conversation.
 *   Errors: YK_E_INVAL (the conversation: names message, key, expected and found; or the template refuses it, in the
 *   template's words), YK_E_TIMEOUT (rendering took longer than the limit), YK_E_CAPACITY (it took more memory, or the
 *   text is longer than 64 MiB), YK_E_IO (the helper has died and cannot be started again, or has died twice of
 *   one conversation; the message may name the checkpoint's directory), YK_E_NOMEM. *out is then empty. Blocks at most
 *   for twice the time limit once its turn has come. */
yk_status yk_chat_render(yk_chat_renderer *renderer, const yk_chat_conversation *conversation, yk_chat_prompt *out,
                         yk_err *err);
void yk_chat_prompt_free(yk_chat_prompt *prompt);

/* yk_chat_encode - the token ids of a conversation; *ids is malloc'd and the caller's. Errors: those of yk_chat_render
 *   and yk_tokenizer_encode_bounded; *ids is then NULL, and *n_ids not 0 where there are more than max_ids. */
yk_status yk_chat_encode(yk_chat_renderer *renderer, const yk_chat_conversation *conversation, int32_t **ids,
                         size_t *n_ids, yk_err *err);

/* yk_chat_stop_ids - ids that end an answer to a rendered conversation: stop_ids [n_stop_ids], and with a built-in form
 *   the token with which its turns end ("<|im_end|>"), which need not be one of the model's end-of-sequence tokens.
 *   *ids [*n_ids] is malloc'd and the caller's. Errors: YK_E_NOMEM. */
yk_status yk_chat_stop_ids(const yk_chat_renderer *renderer, const int32_t *stop_ids, size_t n_stop_ids, int32_t **ids,
                           size_t *n_ids, yk_err *err);

/* yk_chat_turn_end_id - the token of a built-in form that yk_chat_stop_ids adds; -1: none. */
int32_t yk_chat_turn_end_id(const yk_chat_renderer *renderer);

/* yk_chat_template_origin - where the template comes from, for people: "DIR/chat_template.jinja", "builtin:chatml". The
 *   renderer's. */
const char *yk_chat_template_origin(const yk_chat_renderer *renderer);

#endif
