/* request.h - what a client asks for, read and checked as far as is possible without the engine: the body of
 * /v1/completions or /v1/chat/completions, or a plain line of `yoke batch`.
 *
 * From bytes to tokens:
 *   yk_json_parse                 by yk_openai_body_rules
 *   yk_openai_request_parse       the body's fields; its errors name the field in request.param
 *   (the caller)                  chat: turns messages and tools into prompts[0].ids with the model's template
 *   yk_openai_request_tokenize    texts of prompts to ids
 *   yk_openai_request_options_of  what yk_engine_submit is given for each of n_prompts * n_samples choices
 *   yk_openai_request_drop_body   once all are submitted
 * and back: answer.h. */
#ifndef YK_OPENAI_REQUEST_H
#define YK_OPENAI_REQUEST_H

#include "base/json.h"
#include "openai/error.h"
#include "openai/tool_calls.h"
#include "yoke/yoke.h"

/* n; n times the number of prompts. */
enum { YK_OPENAI_MAX_SAMPLES = 128, YK_OPENAI_MAX_CHOICES = 1024 };

enum { YK_OPENAI_ID_BYTES = 128 + 1 }; /* of request_id */

enum { YK_OPENAI_MAX_SALT_BYTES = 512 }; /* of cache_salt, which the server may put others' in front of */

enum { YK_OPENAI_MAX_DEPTH = 64 }; /* of objects and arrays inside each other in a body */

typedef enum yk_openai_form {
  YK_FORM_PLAIN = 1,      /* a plain line of a batch: sampling fields and "prompt"; an unknown key is refused, so that a
                           * mistyped one does not go unnoticed in a hundred thousand lines */
  YK_FORM_COMPLETION = 2, /* the body of /v1/completions; unknown fields are accepted */
  YK_FORM_CHAT = 4        /* the body of /v1/chat/completions; unknown fields are accepted */
} yk_openai_form;

/* yk_openai_body_rules - how the text of a body of at most max_bytes is read: bounded in depth, and in values so that
 *   the document takes at most five times max_bytes (8 bytes a value, twice that while the list of them grows); what is
 *   in fields that the form does not have is not kept. */
yk_json_rules yk_openai_body_rules(yk_openai_form form, size_t max_bytes);

/* Values that the body may leave out, and abilities of the caller. */
typedef struct yk_openai_defaults {
  yk_sampling sampling; /* yk_request_options_init's, then the caller's; its arrays must outlive the request */
  int32_t n_samples;    /* of each prompt */
  bool has_max_tokens;  /* sampling.max_tokens was asked for; else it is bounded by what the context leaves */
  bool can_stream;      /* else "stream": true is refused */
  yk_tool_format tools; /* YK_TOOLS_NONE: tools are refused by name */
  void (*pass_over)(void *user, const char *field); /* called for each unknown field; or NULL */
  void *user;
} yk_openai_defaults;

/* yk_openai_defaults_init - the model's own sampling, one sample, no tools, streams; max_tokens as the model's
 *   generation_config.json says, else 16 for completions (OpenAI's) and all of the context for chat. */
void yk_openai_defaults_init(const yk_engine *engine, yk_openai_form form, yk_openai_defaults *out);

typedef struct yk_openai_prompt {
  const char *text; /* [n_bytes] the document's, later own; NULL where ids are given */
  char *own_text;   /* owned; NULL: none */
  size_t n_bytes;
  int32_t *ids; /* [n_ids], malloc'd and the request's; of a text: NULL until yk_openai_request_tokenize */
  size_t n_ids;
} yk_openai_prompt;

/* The variables of a chat template, borrowed from the body and checked: every message is an object with a "role"; its
 * content is a string, a list of parts that are texts or refusals, or, an assistant's, null. */
typedef struct yk_openai_chat {
  yk_json messages;             /* array of at least one */
  yk_json tools;                /* array of at least one {"type": "function", "function": {...}}; absent: none wanted */
  yk_json documents;            /* array, or absent */
  yk_json template_kwargs;      /* object "chat_template_kwargs", or absent */
  const char *reasoning_effort; /* for the template too; NULL: not given */
  bool add_generation_prompt;   /* default true */
  bool continue_final_message;  /* default false; never with add_generation_prompt */
  bool add_special_tokens;      /* to the rendered text, default false */
  bool parallel_tool_calls;     /* default true; false: only the first call is told */
  int64_t deadline_ns;          /* of yk_clock_now_ns, for rendering; 0: none but the renderer's */
  size_t max_ids;               /* the context: clearly more tokens are refused early; 0: any number */
  size_t last_ids;              /* tokens that are kept, from the end, in place of max_ids; 0: all */
} yk_openai_chat;

typedef struct yk_openai_request {
  yk_openai_form form;
  const char *model;      /* the document's; NULL: the served one */
  const char *cache_salt; /* the document's, as yk_request_options has it; NULL: none */
  size_t cache_salt_bytes;
  yk_openai_prompt *prompts; /* [n_prompts], owned. Chat: one, without text and, until the caller sets them, ids */
  size_t n_prompts;
  int32_t n_samples;       /* of each prompt; a choice's index is prompt * n_samples + sample */
  yk_sampling sampling;    /* of sample 0; points into the request, its document and the defaults */
  bool has_max_tokens;     /* else sampling.max_tokens is the default, bounded by what the context leaves */
  bool add_special_tokens; /* to texts of prompts, default true; a chat has its own */
  bool stream;
  bool include_usage;        /* a last event with the usage */
  bool continuous_usage;     /* usage in every event */
  bool echo;                 /* completions: the prompt's text, and log-probabilities, before the output's */
  bool return_token_ids;     /* the prompt's too */
  bool names_token_ids;      /* tokens of log-probabilities are "token_id:5" */
  int32_t n_prompt_logprobs; /* "prompt_logprobs", -1: none; sampling's own may be more, for echo */
  yk_tool_format tools;      /* how calls are found in the output; YK_TOOLS_NONE: they are not looked for */
  bool hides_special;        /* with tools: the parser gets special tokens, the client does not */
  int32_t truncate_tokens;   /* "truncate_prompt_tokens": the prompt's last so many; -1: what fits; 0: all */
  int32_t stream_interval;   /* a stream's first token has an event of its own, later ones share one by so many */
  char request_id[YK_OPENAI_ID_BYTES]; /* "request_id" in visible ASCII; "": none that can be used */
  yk_openai_chat chat;
  char param[YK_OPENAI_PARAM_BYTES]; /* the field at fault where parsing failed; "": none */
  /* Owned; sampling points to them. */
  yk_json_doc *document;
  yk_json object; /* the body */
  int32_t *stop_ids;
  const char **stop_strings;
  yk_logit_bias *biases;
  int32_t *logprob_ids;
  yk_token_ids *bad_words; /* twice as many as "bad_words" has; ids from yk_openai_request_tokenize on, malloc'd */
} yk_openai_request;

/* yk_openai_request_parse - read an object of the document: the body, or a plain line. Takes the document, which lives
 *   as long as the request, or until yk_openai_request_drop_body.
 *   *out is valid and must be freed whatever is returned; it must not outlive what defaults points to.
 *   Errors, with the field in out->param: YK_E_FORMAT (a field of the wrong type or out of its range), YK_E_INVAL (a
 *   value that is refused, a missing field, in plain lines an unknown key), YK_E_UNSUPPORTED (what Yoke does not do:
 *   each by name), YK_E_NOMEM.
 *   Ranges that depend on the model are checked by yk_engine_submit. */
yk_status yk_openai_request_parse(yk_json_doc *document, yk_json object, yk_openai_form form,
                                  const yk_openai_defaults *defaults, yk_openai_request *out, yk_err *err);
void yk_openai_request_free(yk_openai_request *request);

/* yk_openai_request_drop_body - every choice has been submitted: free the document and what is only read there, the
 *   texts of prompts unless they are echoed, the conversation, stop strings. Errors: YK_E_NOMEM. */
yk_status yk_openai_request_drop_body(yk_openai_request *request, yk_err *err);

/* yk_openai_request_tokenize - ids of every prompt that has a text, and of bad words; a chat's, too, behind its
 *   template. Thread: any, one at a time a request; takes time
 *   proportional to the text. Errors: those of yk_engine_tokenize. */
yk_status yk_openai_request_tokenize(yk_openai_request *request, const yk_engine *engine, yk_err *err);

/* yk_openai_request_kept_ids - how many ids of each prompt truncate_prompt_tokens keeps, from its end: -1 keeps as many
 *   as fit beside max_tokens, where max_tokens was given, else beside one token. *out is 0 where all are kept.
 *   Errors: YK_E_INVAL for more than context_tokens. */
yk_status yk_openai_request_kept_ids(const yk_openai_request *request, int32_t context_tokens, size_t *out,
                                     yk_err *err);

/* yk_openai_request_truncate - the ids of prompts are there: keep those that yk_openai_request_kept_ids says.
 *   Errors: its. */
yk_status yk_openai_request_truncate(yk_openai_request *request, int32_t context_tokens, yk_err *err);

static inline size_t yk_openai_request_choices(const yk_openai_request *request)
{
  return request->n_prompts * (size_t)request->n_samples;
}

/* yk_openai_request_options_of - what the engine is asked for choice 0 .. yk_openai_request_choices - 1: ids and
 *   sampling, borrowed from the request; the other members as yk_request_options_init leaves them. The prompts' ids
 *   must be there. context_tokens: yk_engine_info.max_model_tokens. A body's max_tokens of no more than that becomes
 *   what the prompt leaves of it, where that is less. With logprob_token_ids no best tokens are asked for. */
void yk_openai_request_options_of(const yk_openai_request *request, size_t choice, int32_t context_tokens,
                                  yk_request_options *out);

#endif
