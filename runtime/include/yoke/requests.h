/* requests.h - what is asked of an engine: prompts to be continued, and sequences that a caller holds. */
#ifndef YOKE_API_REQUESTS_H
#define YOKE_API_REQUESTS_H

#include "yoke/engine.h"
#include "yoke/logit_bias.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Requests ---------------------------------------------------------------------------------------------------- */

typedef struct yk_request yk_request;

enum { YK_MAX_LOGPROBS = 20, YK_MAX_LOGPROB_IDS = 128, YK_MAX_CACHE_SALT_BYTES = 1024 };

typedef struct yk_token_ids {
  const int32_t *ids; /* [n_ids] */
  size_t n_ids;
} yk_token_ids;

typedef struct yk_sampling {
  float temperature;                         /* 0 .. 100; below 1e-5 is greedy */
  float top_p;                               /* more than 0, at most 1 */
  float min_p;                               /* 0 .. 1 */
  int32_t top_k;                             /* 0 or -1: all; so is more than the vocabulary */
  float repetition_penalty;                  /* more than 0, at most 10; of ids in prompt or output; 1: off */
  float frequency_penalty, presence_penalty; /* -2 .. 2; of ids in the output; 0: off */
  const yk_logit_bias *biases;               /* [n_biases] logit_bias; copied by submit */
  size_t n_biases;
  const yk_token_ids *bad_words; /* [n_bad_words] sequences of ids that the output must not hold; copied by submit */
  size_t n_bad_words;
  /* [n_logprob_ids] at most YK_MAX_LOGPROB_IDS: each output token comes with the log-probabilities of these ids in
   * its place, beside n_logprobs; copied by submit. */
  const int32_t *logprob_ids;
  size_t n_logprob_ids;
  uint64_t seed;
  bool has_seed; /* false: drawn from the engine's seed and the request's number */
  /* >= 0. n samples of one prompt are n requests that differ in this: the prompt is computed once. */
  int32_t sample_index;
  /* 1 .. what the context leaves beside the prompt; -1: all of that; 0: with prompt_logprobs only. */
  int32_t max_tokens;
  int32_t min_tokens; /* end-of-sequence and stop ids are banned, stop strings ignored, before; 0 .. max_tokens */
  bool ignore_eos;    /* go on after the model's end-of-sequence ids */
  /* [n_stop_ids] further ids that end the output, which has the token; copied by submit. */
  const int32_t *stop_ids;
  size_t n_stop_ids;
  const char *const *stop_strings; /* [n_stop_strings] non-empty UTF-8 that ends the output; copied */
  size_t n_stop_strings;
  bool include_stop;        /* the text has the stop string that ends it, or the text of the id; else neither */
  bool skip_special_tokens; /* special tokens have no text; default true. Else output.special says where theirs is */
  int32_t n_logprobs;       /* -1: none; 0: of the chosen token; else also of this many best, at most YK_MAX_LOGPROBS */
  int32_t n_prompt_logprobs; /* the same of every prompt token but the first; they are delivered before the output */
} yk_sampling;

typedef struct yk_request_options {
  const char *text;        /* UTF-8; or NULL */
  size_t text_bytes;       /* 0: strlen(text) */
  bool add_special_tokens; /* to the text, as for yk_engine_tokenize; default true */
  const int32_t *ids;      /* [n_ids], where text is NULL; copied by submit */
  size_t n_ids;
  yk_sampling sampling;
  /* [cache_salt_bytes] 1 to YK_MAX_CACHE_SALT_BYTES; copied. NULL: none. What was computed for a prompt is reused
   * only by requests of the same salt, so that who does not know it cannot find out by times what others have asked. */
  const char *cache_salt;
  size_t cache_salt_bytes;
  /* For who reads many requests without waiting for each: called when yk_request_next, having had nothing to give,
   * has something, and at the end. Read until YK_E_TIMEOUT or the end then, since what comes behind something unread is
   * not told; who reads fast may be told of what he has read already. The last token is told by the end, which comes
   * with it. Called from a thread of the engine that holds the request's lock: maybe before submit returns, never for a
   * request that submit refuses, never after yk_request_free has returned. Must not block nor call a function of Yoke.
   * May be NULL. */
  void (*notify)(void *user);
  void *notify_user;
} yk_request_options;

/* yk_request_options_init - no prompt, special tokens added to a text, no notify, sampling defaults from the model's
 *   generation_config.json, else temperature 1. */
void yk_request_options_init(const yk_engine *engine, yk_request_options *options);

typedef enum yk_finish_reason {
  YK_FINISH_NONE,   /* more to come */
  YK_FINISH_STOP,   /* an end-of-sequence or stop id, or a stop string */
  YK_FINISH_LENGTH, /* max_tokens or the context is used up */
  YK_FINISH_CANCELLED,
  YK_FINISH_ERROR /* yk_request_next says why: the engine's failure, or this request's own, which harms no other:
                   * YK_E_DEVICE, naming the position, where the model gave it logits that are not finite;
                   * YK_E_INVAL where min_tokens bans every token; YK_E_NOMEM where its output was lost */
} yk_finish_reason;

/* yk_finish_reason_name - "stop", "length", "cancelled", "error"; "" for YK_FINISH_NONE, "unknown" for any other
 *   value. */
const char *yk_finish_reason_name(yk_finish_reason reason);

typedef struct yk_text_span {
  size_t begin, end; /* bytes of a text */
} yk_text_span;

/* One token, or the end. The end comes once, after the last token, with has_token false; text may then hold what was
 * held back: half a character, or the beginning of a stop string that did not come. */
typedef struct yk_output {
  bool has_token;
  bool is_prompt; /* a prompt token with its log-probability; it has no text */
  int32_t token_id;
  float logprob; /* of the raw logits, where asked for */
  int32_t n_top;
  int32_t top_ids[YK_MAX_LOGPROBS];
  float top_logprobs[YK_MAX_LOGPROBS];
  /* [n_listed] of an output token: sampling.logprob_ids, as they were given, and the log-probability of each; valid
   * until the next call on this request. */
  const int32_t *listed_ids;
  const float *listed_logprobs;
  size_t n_listed;
  const char *text; /* whole UTF-8 characters, maybe empty; valid until the next call on this request */
  size_t text_bytes;
  /* [n_special] which bytes of the text are special tokens', in order; as long-lived as the text. A stop string that
   * may yet come can hold a token's text back, so that it is with a later token, or cut. */
  const yk_text_span *special;
  size_t n_special;
  int64_t time_ns; /* of a token: when the engine put it here to be read, in nanoseconds of CLOCK_MONOTONIC */
  yk_finish_reason finish;
  const char *stop_string; /* with YK_FINISH_STOP: which one it was, until the request is freed; NULL: it was an id */
} yk_output;

typedef struct yk_request_usage {
  int32_t prompt_tokens, output_tokens;
  int32_t reused_tokens; /* of the prompt, found already computed */
  double queue_s;        /* submit to first scheduled */
  double ttft_s;         /* submit to first token */
  double decode_s;       /* first token to the end */
} yk_request_usage;

/* yk_engine_submit - queue a request. Returns at once; a refused request leaves nothing behind.
 *   Errors: YK_E_INVAL naming the parameter and its legal range, YK_E_CAPACITY for a prompt longer than the context,
 *   YK_E_UNSUPPORTED for text without a tokenizer, YK_E_FORMAT for a tokenizer that makes texts grow without end,
 *   YK_E_NOMEM, YK_E_CANCELLED once the engine stops, or the engine's own error after a rank failed. */
yk_status yk_engine_submit(yk_engine *engine, const yk_request_options *options, yk_request **out, yk_err *err);

/* yk_request_next - the next token or the end, in order.
 *   timeout_s: negative waits for ever, 0 only looks. YK_E_TIMEOUT: nothing yet, call again. YK_E_INVAL: timeout_s is
 *   not a number. YK_E_NOMEM: this token's text is lost; the rest can still be read.
 *   When output.finish is YK_FINISH_ERROR, err tells why (the return value is still YK_OK). One reader at a time. */
yk_status yk_request_next(yk_request *request, double timeout_s, yk_output *output, yk_err *err);

/* yk_request_cancel - ask the engine to drop it; the end follows with YK_FINISH_CANCELLED unless it was already
 *   done. */
void yk_request_cancel(yk_request *request);

/* yk_request_get_usage - counts and times so far. */
void yk_request_get_usage(yk_request *request, yk_request_usage *out);

/* yk_request_free - cancels it where unfinished. NULL is allowed. May be called after the engine is destroyed. */
void yk_request_free(yk_request *request);

/* ---- Sequences --------------------------------------------------------------------------------------------------- */

/* Tokens that a caller holds on to, for speculative decoding, search, scoring: append ids and get logits, go back,
 * branch. Their KV blocks come from the same pool as requests'; where the pool runs short they are computed again on
 * the next append. A sequence is used by one thread at a time; different sequences by any. */
typedef struct yk_held_sequence yk_held_sequence;

typedef enum yk_logits_of {
  YK_LOGITS_NONE,
  YK_LOGITS_LAST, /* [vocab_size] of the last appended position */
  YK_LOGITS_ALL   /* [n_ids, vocab_size] of every appended position */
} yk_logits_of;

/* yk_held_sequence_create - an empty sequence. Errors: YK_E_NOMEM. */
yk_status yk_held_sequence_create(yk_engine *engine, yk_held_sequence **out, yk_err *err);

/* yk_held_sequence_append - compute n_ids more tokens; blocks until done, batched with everything else that runs.
 *   logits: float32 host memory as yk_logits_of says; raw, before any sampling parameter. May be NULL with NONE.
 *   Errors: YK_E_INVAL (an id outside the vocabulary, no ids, no such `which`), YK_E_CAPACITY (longer than
 *   max_model_tokens), YK_E_DEVICE naming the position where the logits asked for are not finite; after each of these
 *   the sequence is as before, and what was written to logits is not defined. Or the engine's own error, after which
 *   only free is of use. */
yk_status yk_held_sequence_append(yk_held_sequence *sequence, const int32_t *ids, size_t n_ids, yk_logits_of which,
                                  float *logits, yk_err *err);

/* yk_held_sequence_truncate - keep the first n_tokens. Errors: YK_E_INVAL beyond the present length. */
yk_status yk_held_sequence_truncate(yk_held_sequence *sequence, size_t n_tokens, yk_err *err);

/* yk_held_sequence_fork - another sequence with the same tokens; full blocks are shared. Errors: YK_E_NOMEM. */
yk_status yk_held_sequence_fork(yk_held_sequence *sequence, yk_held_sequence **out, yk_err *err);

size_t yk_held_sequence_length(const yk_held_sequence *sequence);

/* yk_held_sequence_free - NULL is allowed. Must come before the engine is destroyed. */
void yk_held_sequence_free(yk_held_sequence *sequence);

#ifdef __cplusplus
}
#endif
#endif
