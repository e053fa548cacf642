/* chat_renderer.h - renders a conversation with the model's chat template.
 *
 * Jinja2 renders the checkpoint's own template as `transformers` does, byte for byte, in a helper process that can open
 * no file and no socket, with limits of time and memory. The helper is started when the renderer is created, and again
 * after it has died or was killed. A few forms are built in and need no Python.
 *
 * Text of a conversation cannot become an added token ("<|im_end|>"), special or not, unlike in `transformers`: such
 * tokens come only from the template, and from earlier `assistant` messages, which are tokenised as they are rendered.
 * The texts of messages of all other roles, names, tool calls, tool definitions, documents and template arguments are
 * plain: they are tokenised without added tokens. In a template such texts behave as usual (lengths, comparisons,
 * `trim`, `split`, slices, `replace`, `tojson`). A template can still change the letters of a text into those of a
 * token (`upper`), or make a token from a number.
 *
 * Any number of threads may use a renderer at once; the helper renders one conversation at a time. */
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
  const char *python;            /* the program that runs the helper, searched in PATH; default "python3" */
  double time_limit_s;           /* for one conversation; 0.01 to 3600, default 5 */
  int64_t memory_limit_bytes;    /* address space of the helper; 64 MiB to 1 TiB, default 512 MiB */
} yk_chat_options;

/* yk_chat_options_init - every default above. */
void yk_chat_options_init(yk_chat_options *options);

/* yk_chat_renderer_create - find the template (template_source.h), start the helper and load the template in it.
 *   Errors: YK_E_INVAL (an option, named with its range; no built-in form of that name, with the existing ones),
 *   YK_E_IO and YK_E_FORMAT (a file that cannot be read or is malformed; a template with wrong syntax, with the line),
 *   YK_E_UNSUPPORTED (a checkpoint without a template; no Python, no jinja2, a kernel or machine on which the helper
 *   cannot be sandboxed: the message names the missing part and the built-in forms), YK_E_TIMEOUT, YK_E_NOMEM. */
yk_status yk_chat_renderer_create(const yk_chat_options *options, yk_chat_renderer **out, yk_err *err);

/* yk_chat_renderer_free - end the helper. NULL is allowed. No other thread may be inside a call. */
void yk_chat_renderer_free(yk_chat_renderer *renderer);

/* A rendered conversation. Free with yk_chat_prompt_free. */
typedef struct yk_chat_prompt {
  char *text; /* NUL-terminated after its n_bytes bytes */
  size_t n_bytes;
  yk_spans plain; /* for yk_tokenizer_encode_partly_plain: empty if no text overlaps an added token */
} yk_chat_prompt;

/* yk_chat_render - the text of a conversation.
 *   Errors: YK_E_INVAL (the conversation: names message, key, expected and found; or the template refuses it, in the
 *   template's words), YK_E_TIMEOUT (rendering took longer than the limit), YK_E_CAPACITY (rendering took more memory,
 *   or the text is longer than 64 MiB), YK_E_IO (the helper has died and cannot be started again, or has died twice
 *   while rendering one conversation; the message may name the checkpoint's directory), YK_E_NOMEM. *out is then empty.
 *   Blocks for at most twice the time limit after calls of other threads have ended. */
yk_status yk_chat_render(yk_chat_renderer *renderer, const yk_chat_conversation *conversation, yk_chat_prompt *out,
                         yk_err *err);
void yk_chat_prompt_free(yk_chat_prompt *prompt);

/* yk_chat_encode - the token ids of a conversation; *ids is malloc'd, and the caller frees it. Errors: those of
 *   yk_chat_render and yk_tokenizer_encode_bounded; *ids is then NULL, and *n_ids is not 0 if there are more than
 *   max_ids. */
yk_status yk_chat_encode(yk_chat_renderer *renderer, const yk_chat_conversation *conversation, int32_t **ids,
                         size_t *n_ids, yk_err *err);

/* yk_chat_stop_ids - ids that end an answer to a rendered conversation: stop_ids [n_stop_ids], and with a built-in form
 *   the token that ends its turns ("<|im_end|>"), which need not be one of the model's end-of-sequence tokens. *ids
 *   [*n_ids] is malloc'd, and the caller frees it. Errors: YK_E_NOMEM. */
yk_status yk_chat_stop_ids(const yk_chat_renderer *renderer, const int32_t *stop_ids, size_t n_stop_ids, int32_t **ids,
                           size_t *n_ids, yk_err *err);

/* yk_chat_turn_end_id - the token of a built-in form that yk_chat_stop_ids adds; -1: none. */
int32_t yk_chat_turn_end_id(const yk_chat_renderer *renderer);

/* yk_chat_template_origin - source of the template, for display: "DIR/chat_template.jinja", "builtin:chatml". The
 *   string belongs to the renderer. */
const char *yk_chat_template_origin(const yk_chat_renderer *renderer);

#endif
