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
typedef struct yk_waiter yk_waiter;

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
  uint64_t reserved[8];      /* 0: of later versions */
} yk_sampling;

typedef struct yk_request_options {
  size_t struct_size;
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
  /* The waiter that reports the request (yk_waiter_wait), or NULL. It may do so before submit has returned, and never
   * reports a request that submit refuses. */
  yk_waiter *waiter;
  void *user; /* what yk_waiter_wait returns with the request */
} yk_request_options;

/* yk_request_options_init - no prompt, special tokens added to a text, no waiter, sampling defaults from the model's
 *   generation_config.json, else temperature 1. */
void yk_request_options_init_sized(const yk_engine *engine, yk_request_options *options, size_t struct_size);
static inline void yk_request_options_init(const yk_engine *engine, yk_request_options *options)
{
  yk_request_options_init_sized(engine, options, sizeof *options);
}

typedef enum yk_finish_reason {
  YK_FINISH_NONE,   /* more to come */
  YK_FINISH_STOP,   /* an end-of-sequence or stop id, or a stop string */
  YK_FINISH_LENGTH, /* max_tokens or the context is used up */
  YK_FINISH_CANCELLED,
  YK_FINISH_ERROR /* of no output: yk_request_next returns the error. For those who keep the reasons of ends */
} yk_finish_reason;

/* yk_finish_reason_name - "stop", "length", "cancelled", "error"; "" for YK_FINISH_NONE, "unknown" for any other
 *   value. */
const char *yk_finish_reason_name(yk_finish_reason reason);

typedef struct yk_text_span {
  size_t begin, end; /* bytes of a text */
} yk_text_span;

/* One token, or the end. The end comes after the last token, with has_token false; text may then hold what was held
 * back: half a character, or the beginning of a stop string that did not come. An output and all that it points to are
 * the request's, valid until the next call of yk_request_next on it, or until it is freed. */
typedef struct yk_output {
  bool has_token;
  bool is_prompt; /* a prompt token with its log-probability; it has no text */
  int32_t token_id;
  float logprob; /* of the raw logits, where asked for */
  int32_t n_top;
  const int32_t *top_ids;    /* [n_top] the best, the best first */
  const float *top_logprobs; /* [n_top] */
  /* [n_listed] of an output token: sampling.logprob_ids, as they were given, and the log-probability of each. */
  const int32_t *listed_ids;
  const float *listed_logprobs;
  size_t n_listed;
  const char *text; /* [text_bytes] whole UTF-8 characters, maybe none; NUL-terminated behind them */
  size_t text_bytes;
  /* [n_special] which bytes of the text are special tokens', in order. A stop string that
   * may yet come can hold a token's text back, so that it is with a later token, or cut. */
  const yk_text_span *special;
  size_t n_special;
  int64_t time_ns; /* of a token: when the engine put it here to be read, in nanoseconds of CLOCK_MONOTONIC */
  yk_finish_reason finish;
  const char *stop_string; /* with YK_FINISH_STOP: which one it was, until the request is freed; NULL: it was an id */
} yk_output;

typedef struct yk_request_usage {
  size_t struct_size;
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

/* yk_request_next - the next token or the end, in order. One reader at a time.
 *   timeout_s: negative waits for ever, 0 only looks. *out: the request's, NULL where nothing is returned.
 *   Errors: YK_E_AGAIN: nothing yet; call again; err is left as it was. YK_E_INVAL: timeout_s is not a number. All
 *   others are the end of a request that has failed, by the engine's failure or alone, which harms no other request:
 *   YK_E_DEVICE, naming the position, where the model gave it logits that are not finite; YK_E_INVAL where min_tokens
 *   bans every token; YK_E_NOMEM where its output was lost; YK_E_CANCELLED where the engine was destroyed. Tokens that
 *   came before the failure come first, and each later call returns the error again. */
yk_status yk_request_next(yk_request *request, double timeout_s, const yk_output **out, yk_err *err);

/* yk_request_cancel - ask the engine to drop it; the end follows with YK_FINISH_CANCELLED unless it was already
 *   done. */
void yk_request_cancel(yk_request *request);

/* yk_request_get_usage - counts and times so far. */
void yk_request_get_usage_sized(yk_request *request, yk_request_usage *out, size_t struct_size);
static inline void yk_request_get_usage(yk_request *request, yk_request_usage *out)
{
  yk_request_get_usage_sized(request, out, sizeof *out);
}

/* yk_request_free - cancels it where unfinished. NULL is allowed. May be called after the engine is destroyed. */
void yk_request_free(yk_request *request);

/* ---- Waiting for any of many requests ---------------------------------------------------------------------------- */

/* A waiter reports its requests (yk_request_options.waiter) as output comes for them. */

/* yk_waiter_create - a waiter without requests, which may be of several engines. Errors: YK_E_NOMEM, YK_E_IO (no
 *   descriptor is left). */
yk_status yk_waiter_create(yk_waiter **out, yk_err *err);

/* yk_waiter_wait - a request that has something to read, the one that has had it for longest, and its options' user.
 *   A request is reported once, when output comes behind the last that yk_request_next has returned, and at its end:
 *   read it with a timeout of 0 until YK_E_AGAIN or its end before the next call. There may then be nothing left to
 *   read.
 *   timeout_s: negative waits for ever, 0 only looks. request, user: each may be NULL; *request is NULL, and *user left
 *   as it was, where none is returned. Another thread may free the request at any time: who allows that uses the user.
 *   Errors: YK_E_AGAIN: none; err is left as it was. YK_E_INVAL: timeout_s is not a number.
 *   Thread: any; of several that wait, one gets a request. */
yk_status yk_waiter_wait(yk_waiter *waiter, double timeout_s, yk_request **request, void **user, yk_err *err);

/* yk_waiter_fd - a descriptor for poll or epoll, the waiter's: readable once a request is to be reported after
 *   yk_waiter_wait has returned YK_E_AGAIN, and until it is called again. So call that with a timeout of 0 until it
 *   finds none, then wait for the descriptor. */
int yk_waiter_fd(const yk_waiter *waiter);

/* yk_waiter_free - NULL is allowed. Requests that it would report go on unreported. No other thread may be inside
 *   yk_waiter_wait. */
void yk_waiter_free(yk_waiter *waiter);

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
