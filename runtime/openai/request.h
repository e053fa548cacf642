/* request.h - a client's request, read and checked without the engine: the body of /v1/completions,
 * /v1/chat/completions or /v1/embeddings, or a plain line of `yoke batch`.
 *
 * From bytes to tokens:
 *   yk_json_parse                 by yk_openai_body_rules
 *   yk_openai_request_parse       the body's fields; errors name the field in request.param
 *   (the caller)                  chat: renders messages and tools to prompts[0].ids with the model's template
 *   yk_openai_request_tokenize    texts of prompts to ids
 *   yk_openai_request_options_of  options of yk_engine_submit for each of n_prompts * n_samples choices
 *   yk_openai_request_drop_body   when all are submitted
 * and back: answer.h. */
#ifndef YK_OPENAI_REQUEST_H
#define YK_OPENAI_REQUEST_H

#include "base/json.h"
#include "openai/answer_style.h"
#include "openai/error.h"
#include "openai/parse/tool_schemas.h"
#include "yoke/yoke.h"

/* Maximum of n; of n times the number of prompts; of texts to embed, as OpenAI's. */
enum { YK_OPENAI_MAX_SAMPLES = 128, YK_OPENAI_MAX_CHOICES = 1024, YK_OPENAI_MAX_INPUTS = 2048 };

enum { YK_OPENAI_ID_BYTES = 128 + 1 }; /* of request_id */

enum { YK_OPENAI_MAX_SALT_BYTES = 512 }; /* of cache_salt, which the server may prefix */

enum { YK_OPENAI_MAX_DEPTH = 64 }; /* nesting of objects and arrays in a body */

typedef enum yk_openai_form {
  /* a plain line of a batch: sampling fields and "prompt"; an unknown key is refused, so that a mistyped key is noticed
   * in a hundred thousand lines */
  YK_FORM_PLAIN = 1,
  YK_FORM_COMPLETION = 2, /* the body of /v1/completions; unknown fields are accepted */
  YK_FORM_CHAT = 4,       /* the body of /v1/chat/completions; unknown fields are accepted */
  YK_FORM_EMBEDDING = 8   /* the body of /v1/embeddings, whose "input" are the prompts; unknown fields are accepted */
} yk_openai_form;

/* yk_openai_body_rules - parser rules for a body of at most max_bytes: limits on depth, and on the number of values so
 *   that the document takes at most five times max_bytes (8 bytes a value, twice that while the list of values grows);
 *   contents of fields that the form lacks are dropped. */
yk_json_rules yk_openai_body_rules(yk_openai_form form, size_t max_bytes);

/* Defaults for values that the body may omit, and capabilities of the caller. */
typedef struct yk_openai_defaults {
  /* from yk_request_options_init, with the caller's changes; its arrays must outlive the request */
  yk_sampling sampling;
  int32_t n_samples;     /* for each prompt */
  bool has_max_tokens;   /* sampling.max_tokens was requested; else the rest of the context bounds it */
  bool can_stream;       /* false: "stream": true is refused */
  bool forces_usage;     /* every stream ends with the usage, independent of the request's include_usage */
  yk_answer_style style; /* tools YK_TOOLS_NONE: a request with tools is refused */
  /* called for everything in a request that is ignored, such as unknown fields: kind "field", name; or NULL */
  void (*pass_over)(void *user, const char *kind, const char *name);
  void *user;
  /* of a translated body: the path of each tool's parameters in the client's body, each NUL-terminated; or NULL */
  const char *tool_places;
} yk_openai_defaults;

/* yk_openai_defaults_init - the model's own sampling, one sample, no tools, streams; max_tokens of the model's
 *   generation_config.json, else 16 for completions (OpenAI's default) and the whole context for chat. */
void yk_openai_defaults_init(const yk_engine *engine, yk_openai_form form, yk_openai_defaults *out);

typedef struct yk_openai_prompt {
  const char *text; /* [n_bytes] in the document, later own_text; NULL if ids are given */
  char *own_text;   /* owned; NULL: none */
  size_t n_bytes;
  int32_t *ids; /* [n_ids], malloc'd, owned by the request; for a text: NULL until yk_openai_request_tokenize */
  size_t n_ids;
  yk_reasoning_beginning beginning; /* of the output; set by yk_openai_request_tokenize, if request.tags is */
} yk_openai_prompt;

/* The variables of a chat template, borrowed from the body and checked: every message is an object with a "role"; its
 * content is a string, a list of parts that are texts or refusals, or, for an assistant, null. */
typedef struct yk_openai_chat {
  yk_json messages;             /* array of at least one message */
  yk_json tools;                /* array of at least one {"type": "function", "function": {...}}; absent: no tools */
  yk_json documents;            /* array, or absent */
  yk_json template_kwargs;      /* object "chat_template_kwargs", or absent */
  const char *reasoning_effort; /* also for the template; NULL: not given */
  bool add_generation_prompt;   /* default true */
  bool continue_final_message;  /* default false; excludes add_generation_prompt */
  bool add_special_tokens;      /* to the rendered text, default false */
  bool parallel_tool_calls;     /* default true; false: only the first call is returned */
  int64_t deadline_ns;          /* by yk_clock_now_ns, for rendering; 0: only the renderer's limit */
  size_t max_ids;               /* size of the context: clearly more tokens are refused early; 0: any number */
  size_t last_ids;              /* number of tokens to keep, from the end, instead of max_ids; 0: all */
} yk_openai_chat;

typedef struct yk_protocol yk_protocol;

typedef struct yk_openai_request {
  yk_openai_form form;
  const yk_protocol *protocol; /* protocol.h, for the answer; NULL: a chat completion or a completion, by form */
  const char *model;           /* in the document; NULL: the served model */
  const char *cache_salt;      /* in the document, as in yk_request_options; NULL: none */
  size_t cache_salt_bytes;
  yk_openai_prompt *prompts; /* [n_prompts], owned. Chat: one prompt without text; the caller sets its ids */
  size_t n_prompts;
  int32_t n_samples;       /* for each prompt; a choice's index is prompt * n_samples + sample */
  yk_sampling sampling;    /* for sample 0; points into the request, its document and the defaults */
  bool has_max_tokens;     /* false: sampling.max_tokens is the default, bounded by the rest of the context */
  bool bounds_max_tokens;  /* the rest of the context lowers any max_tokens: responses and messages */
  bool add_special_tokens; /* for texts of prompts, default true; a chat has its own */
  bool stream;
  bool include_usage;            /* a final event with the usage */
  bool continuous_usage;         /* usage in every event */
  bool echo;                     /* completions: the prompt's text, and its log-probabilities, precede the output's */
  bool return_token_ids;         /* the prompt's ids too */
  bool names_token_ids;          /* tokens of log-probabilities are "token_id:5" */
  int32_t n_prompt_logprobs;     /* "prompt_logprobs", -1: none; for echo, sampling's own number may be larger */
  yk_tool_format tools;          /* format of calls in the output; YK_TOOLS_NONE: calls are not parsed */
  yk_tool_schemas *schemas;      /* owned; of the tools, if the format is typed; else NULL */
  const yk_reasoning *tags;      /* of the model's reasoning; NULL: none */
  const yk_reasoning *reasoning; /* chat: the same; NULL: reasoning is content */
  bool begins_inside;            /* chat: the prompt has opened the reasoning; set by yk_openai_request_tokenize */
  bool include_reasoning;        /* default true; false: reasoning is not returned */
  bool hides_special;            /* with tools or reasoning: the parser gets special tokens, but the client does not */
  int32_t truncate_tokens; /* "truncate_prompt_tokens": number of tokens that are kept; -1: as many as fit; 0: all */
  bool keeps_beginning;    /* the tokens at the prompt's beginning are kept, else those at the end */
  int32_t n_dimensions;    /* embeddings: their first numbers; 0: all */
  bool is_base64;          /* embeddings: as base64 of float32, not as lists of numbers */
  int32_t stream_interval; /* a stream's first token has its own event; number of tokens in later events */
  char *repeated;          /* owned; responses: members of the answer that repeat the request, as JSON; else NULL */
  bool encrypts_reasoning; /* responses: reasoning is returned as "encrypted_content" too */
  char *message_places; /* owned; of a translated body: where the client has each message, with a NUL behind; or NULL */
  const char *tool_places; /* while the body is parsed: yk_openai_defaults.tool_places */
  bool is_empty;           /* responses: "input" has no items; the answer is empty, and no engine is needed */
  char request_id[YK_OPENAI_ID_BYTES]; /* "request_id" in visible ASCII; "": none, or not usable */
  yk_openai_chat chat;
  char param[YK_OPENAI_PARAM_BYTES]; /* the field at fault if parsing failed; "": none */
  /* Owned; sampling points into these. */
  yk_json_doc *document;
  yk_json object; /* the body */
  int32_t *stop_ids;
  const char **stop_strings;
  yk_logit_bias *biases;
  int32_t *logprob_ids;
  int32_t *allowed_ids;
  char *constraint;
  yk_token_ids *bad_words; /* up to two for each of "bad_words"; ids, malloc'd, are set by yk_openai_request_tokenize */
} yk_openai_request;

/* yk_openai_request_parse - read an object of the document: the body, or a plain line. Takes ownership of the document,
 *   which lives as long as the request, or until yk_openai_request_drop_body.
 *   *out is valid and must be freed even after an error; it must not outlive the memory that defaults points to.
 *   Errors, with the field in out->param: YK_E_FORMAT (a field of the wrong type or out of range), YK_E_INVAL (a
 *   refused value, a missing field, in plain lines an unknown key), YK_E_UNSUPPORTED (a feature that Yoke lacks, by
 *   name), YK_E_NOMEM.
 *   yk_engine_submit checks ranges that depend on the model. */
yk_status yk_openai_request_parse(yk_json_doc *document, yk_json object, yk_openai_form form,
                                  const yk_openai_defaults *defaults, yk_openai_request *out, yk_err *err);
void yk_openai_request_free(yk_openai_request *request);

/* yk_openai_request_place - replace "messages[2]" at the beginning of an error's message by the place that this message
 *   has in the client's body, if the body was translated. */
void yk_openai_request_place(const yk_openai_request *request, yk_err *err);

/* yk_openai_request_drop_body - every choice has been submitted: free the document and everything that points into it:
 *   the texts of prompts unless they are echoed, the conversation, stop strings. Errors: YK_E_NOMEM. */
yk_status yk_openai_request_drop_body(yk_openai_request *request, yk_err *err);

/* yk_openai_request_name_prompt - name the prompt in the error of one of several prompts: "prompt[3]: ...". Nothing
 *   changes for a single prompt, or without an error. */
void yk_openai_request_name_prompt(const yk_openai_request *request, size_t prompt, yk_err *err);

/* yk_openai_request_tokenize - set the ids of every prompt that has a text, and of bad words; call it for a chat, too,
 *   after rendering: the end of a prompt shows whether the answer begins inside reasoning. Thread: any, one at a time
 *   for a request; takes time proportional to the text. Errors: those of yk_engine_tokenize. */
yk_status yk_openai_request_tokenize(yk_openai_request *request, const yk_engine *engine, yk_err *err);

/* yk_openai_request_kept_ids - number of ids that truncate_prompt_tokens keeps of each prompt: -1 keeps as many as
 *   leave space for max_tokens, if given, else for one token; for embeddings, as many as the context has. *out is 0 if
 *   all are kept. Errors: YK_E_INVAL for more than context_tokens. */
yk_status yk_openai_request_kept_ids(const yk_openai_request *request, int32_t context_tokens, size_t *out,
                                     yk_err *err);

/* yk_openai_request_truncate - truncate the ids of prompts to yk_openai_request_kept_ids. Errors: those of that
 *   function. */
yk_status yk_openai_request_truncate(yk_openai_request *request, int32_t context_tokens, yk_err *err);

static inline size_t yk_openai_request_choices(const yk_openai_request *request)
{
  return request->n_prompts * (size_t)request->n_samples;
}

/* yk_openai_request_options_of - the engine's options for choice 0 .. yk_openai_request_choices - 1: ids and sampling,
 *   borrowed from the request; the other members as yk_request_options_init leaves them. The prompts' ids must be set.
 *   context_tokens: yk_engine_info.max_model_tokens. A body's max_tokens of at most context_tokens, in responses and
 *   messages of any size, is lowered to the context that the prompt leaves. With logprob_token_ids no most probable
 *   tokens are requested. */
void yk_openai_request_options_of(const yk_openai_request *request, size_t choice, int32_t context_tokens,
                                  yk_request_options *out);

#endif
