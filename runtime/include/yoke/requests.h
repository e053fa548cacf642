/* requests.h - requests to an engine: prompts to be continued, and sequences that a caller holds. */
#ifndef YOKE_API_REQUESTS_H
#define YOKE_API_REQUESTS_H

#include "yoke/constraint.h"
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

/* Tags around a model's reasoning. The first byte of open, and of close, occurs once in the tag. */
typedef struct yk_reasoning_tags {
  const char *open, *close;
  const char *call; /* a special token that ends the reasoning too, and begins the answer; NULL: none */
} yk_reasoning_tags;

typedef struct yk_sampling {
  float temperature;                         /* 0 .. 100; below 1e-5 is greedy */
  float top_p;                               /* more than 0, at most 1 */
  float min_p;                               /* 0 .. 1 */
  int32_t top_k;                             /* 0 or -1, or more than the vocabulary: all */
  float repetition_penalty;                  /* more than 0, at most 10; for ids in prompt or output; 1: off */
  float frequency_penalty, presence_penalty; /* -2 .. 2; for ids in the output; 0: off */
  /* [n_biases] at most 1,024, each id at most once: added to the logits (yoke/logit_bias.h); copied by submit. */
  const yk_logit_bias *biases;
  size_t n_biases;
  /* [n_bad_words] at most 1,024 sequences of ids that the output must not contain; copied by submit. */
  const yk_token_ids *bad_words;
  size_t n_bad_words;
  /* [n_logprob_ids] at most YK_MAX_LOGPROB_IDS: each output token carries the log-probabilities of these ids at its
   * position, in addition to n_logprobs; copied by submit. */
  const int32_t *logprob_ids;
  size_t n_logprob_ids;
  uint64_t seed;
  bool has_seed; /* false: drawn from the engine's seed and the request's number */
  /* >= 0. n samples of one prompt are n requests that differ in sample_index: the prompt is computed once. */
  int32_t sample_index;
  /* 1 .. remainder of the context after the prompt; -1: the whole remainder; 0: only with prompt_logprobs. */
  int32_t max_tokens;
  int32_t min_tokens; /* until then end-of-sequence and stop ids are banned and stop strings ignored; 0 .. max_tokens */
  bool ignore_eos;    /* continue after the model's end-of-sequence ids */
  /* [n_stop_ids] at most 256 further ids that end the output; the id is part of the output; copied by submit. */
  const int32_t *stop_ids;
  size_t n_stop_ids;
  /* [n_stop_strings] at most 256 non-empty UTF-8 strings that end the output; copied by submit. */
  const char *const *stop_strings;
  size_t n_stop_strings;
  bool include_stop;         /* the text includes the stop string, or the text of the id, that ends it; else neither */
  bool skip_special_tokens;  /* special tokens have no text; default true. If false, output.special marks their text */
  int32_t n_logprobs;        /* -1: none; 0: the chosen token; n: also the n most probable, at most YK_MAX_LOGPROBS */
  int32_t n_prompt_logprobs; /* the same for every prompt token but the first; delivered before the output */
  /* The form of the output. With a constraint, the end-of-sequence ids end the output even with ignore_eos:
   * where the constraint permits an end, min_tokens and ignore_eos still prefer to continue; where it permits nothing
   * else, the output ends. */
  const char *constraint;      /* [constraint_bytes] UTF-8 in the form of constraint_kind; copied by submit */
  size_t constraint_bytes;     /* at most 16 MiB */
  const char *constraint_name; /* begins messages about the constraint; NULL: "constraint"; only read by submit */
  const int32_t *allowed_ids;  /* [n_allowed_ids] the only ids that may be drawn; 0: all; copied by submit */
  size_t n_allowed_ids;
  yk_constraint_kind constraint_kind;
  int32_t max_reasoning_tokens; /* then the close tag of the reasoning follows; -1: any number */
  /* Reasoning that precedes the answer; copied by submit. A constraint holds after the close tag, or from the first
   * token of an output that opens no reasoning; the model's end-of-sequence ids do not end the output before that. */
  const yk_reasoning_tags *reasoning_tags; /* NULL: the output is an answer */
  bool reasoning_is_open;                  /* the prompt has opened the reasoning; else the output may open it */
} yk_sampling;

typedef struct yk_request_options {
  size_t struct_size;
  const char *text;        /* UTF-8; or NULL */
  size_t text_bytes;       /* 0: strlen(text) bytes */
  bool add_special_tokens; /* to the text, as for yk_engine_tokenize; default true */
  const int32_t *ids;      /* [n_ids], used if text is NULL; copied by submit */
  size_t n_ids;
  yk_sampling sampling;
  /* [cache_salt_bytes] 1 to YK_MAX_CACHE_SALT_BYTES; copied. NULL: none. A computed prefix is reused only by requests
   * with the same salt, so that a client without the salt cannot infer other clients' prompts from response times. */
  const char *cache_salt;
  size_t cache_salt_bytes;
  /* The waiter that reports the request (yk_waiter_wait), or NULL. It may report before submit has returned, and never
   * reports a request that submit refuses. */
  yk_waiter *waiter;
  void *user; /* yk_waiter_wait returns this pointer with the request */
  /* The embedding of the prompt is the result, and no token: the end has the embedding, and YK_FINISH_STOP. The prompt
   * may fill the context. Sampling parameters are not used. */
  bool embeds;
  int32_t embedding_size; /* length of the returned prefix of the embedding, at most yk_engine_info's; 0: all */
  const char *adapter;    /* name of a loaded adapter (yoke/adapters.h), only read by submit; NULL or "": none */
} yk_request_options;

/* yk_request_options_init - no prompt, special tokens added to a text, no waiter, sampling defaults from the model's
 *   generation_config.json, else temperature 1. */
void yk_request_options_init_sized(const yk_engine *engine, yk_request_options *options, size_t struct_size);
static inline void yk_request_options_init(const yk_engine *engine, yk_request_options *options)
{
  yk_request_options_init_sized(engine, options, sizeof *options);
}

typedef enum yk_finish_reason {
  YK_FINISH_NONE,   /* output is not finished */
  YK_FINISH_STOP,   /* an end-of-sequence or stop id, or a stop string */
  YK_FINISH_LENGTH, /* max_tokens or the context is used up */
  YK_FINISH_CANCELLED,
  YK_FINISH_ERROR /* not in an output: yk_request_next returns the error. For callers that store the reason */
} yk_finish_reason;

/* yk_finish_reason_name - "stop", "length", "cancelled", "error"; "" for YK_FINISH_NONE, "unknown" for any other
 *   value. */
const char *yk_finish_reason_name(yk_finish_reason reason);

typedef struct yk_text_span {
  size_t begin, end; /* byte range in a text */
} yk_text_span;

/* One token, or the end. The end comes after the last token, with has_token false; its text may hold bytes that were
 * held back: half a character, or the beginning of a stop string that was not completed. The request owns an output and
 * everything that the output points to; both are valid until the next yk_request_next on the request, or until the
 * request is freed. */
typedef struct yk_output {
  bool has_token;
  bool is_prompt; /* a prompt token with its log-probability; without text */
  int32_t token_id;
  float logprob; /* of the raw logits, if requested */
  int32_t n_top;
  const int32_t *top_ids;    /* [n_top] the most probable, in descending order */
  const float *top_logprobs; /* [n_top] */
  /* [n_listed] for an output token: sampling.logprob_ids, in the given order, and the log-probability of each. */
  const int32_t *listed_ids;
  const float *listed_logprobs;
  size_t n_listed;
  const char *text; /* [text_bytes] whole UTF-8 characters, maybe none; NUL-terminated after them */
  size_t text_bytes;
  /* [n_special] byte ranges of the text that belong to special tokens, in order. While a stop string may still follow,
   * a token's text can be held back, so that the text arrives with a later token, or shortened. */
  const yk_text_span *special;
  size_t n_special;
  int64_t time_ns; /* of a token: when the engine made it available, in nanoseconds of CLOCK_MONOTONIC */
  yk_finish_reason finish;
  const char *stop_string; /* with YK_FINISH_STOP: the stop string, valid until the request is freed; NULL: an id */
  /* [n_embedding] at the end of a request that embeds: as the model's modules.json says; if that normalises, the
   * numbers are of length 1 for any embedding_size. */
  const float *embedding;
  size_t n_embedding;
} yk_output;

typedef struct yk_request_usage {
  size_t struct_size;
  int32_t prompt_tokens, output_tokens;
  int32_t reused_tokens; /* tokens of the prompt that were computed already */
  double queue_s;        /* submit to first scheduled */
  double ttft_s;         /* submit to first token */
  double decode_s;       /* first token to the end */
} yk_request_usage;

/* yk_engine_submit - queue a request. Returns at once, unless a constraint must be compiled, which takes at most the
 *   engine's limit (the first one also loads the grammar library, which may take seconds). A refused request leaves no
 *   state in the engine.
 *   Errors: YK_E_INVAL naming the parameter and its legal range, YK_E_CAPACITY for a prompt longer than the context,
 *   YK_E_UNSUPPORTED for text, stop strings or reasoning tags without a tokenizer, for embeddings of a model that makes
 *   none (with the reason), for anything but embeddings of a model without lm_head, and for a constraint without the
 *   grammar library or Python,
 *   YK_E_FORMAT for a tokenizer that makes texts grow without end, YK_E_NOMEM, YK_E_CANCELLED when the engine stops, or
 *   the engine's own error after a rank failed. */
yk_status yk_engine_submit(yk_engine *engine, const yk_request_options *options, yk_request **out, yk_err *err);

/* yk_request_next - the next token or the end, in order. One reader at a time.
 *   timeout_s: negative waits for ever, 0 does not wait. *out: owned by the request, NULL if nothing is returned.
 *   Errors: YK_E_AGAIN: nothing yet; call again; err is unchanged. YK_E_INVAL: timeout_s is not a number. All other
 *   errors end the request, failed with the engine or alone, without harm to other requests: YK_E_DEVICE, naming the
 *   position, if the model's logits are not finite; YK_E_INVAL if min_tokens, or a constraint together with allowed
 *   ids, biases and bad words, bans every token, or if the constraint takes too long to match; YK_E_NOMEM if output was
 *   lost; YK_E_CANCELLED if the engine was destroyed. Tokens from before the failure are returned first, and each later
 *   call returns the error again. */
yk_status yk_request_next(yk_request *request, double timeout_s, const yk_output **out, yk_err *err);

/* yk_request_cancel - request the end of the computation; the end follows with YK_FINISH_CANCELLED unless the request
 *   has ended already. Thread: any. */
void yk_request_cancel(yk_request *request);

/* yk_request_get_usage - counts and times so far. Thread: any. */
void yk_request_get_usage_sized(yk_request *request, yk_request_usage *out, size_t struct_size);
static inline void yk_request_get_usage(yk_request *request, yk_request_usage *out)
{
  yk_request_get_usage_sized(request, out, sizeof *out);
}

/* yk_request_free - cancels an unfinished request. NULL is allowed. May be called after the engine is destroyed.
 *   Thread: any, while no other thread uses the request. */
void yk_request_free(yk_request *request);

/* ---- Waiting for any of many requests ---------------------------------------------------------------------------- */

/* A waiter reports its requests (yk_request_options.waiter) when they have output. */

/* yk_waiter_create - a waiter without requests, which may belong to several engines. Errors: YK_E_NOMEM, YK_E_IO (no
 *   descriptor is left). */
yk_status yk_waiter_create(yk_waiter **out, yk_err *err);

/* yk_waiter_wait - the request that has had unread output for longest, and the user pointer of its options. A request
 *   is reported once for output after the last output that yk_request_next has returned, and once at its end: before
 *   the next call, read it with a timeout of 0 until YK_E_AGAIN or the end. The request may have no unread output.
 *   timeout_s: negative waits for ever, 0 does not wait. request, user: each may be NULL; if no request is returned,
 *   *request is NULL and *user unchanged. Another thread may free the request at any time: a caller that permits this
 *   uses only the user pointer. Errors: YK_E_AGAIN: none; err is unchanged. YK_E_INVAL: timeout_s is not a number.
 *   Thread: any; if several wait, one of them gets the request. */
yk_status yk_waiter_wait(yk_waiter *waiter, double timeout_s, yk_request **request, void **user, yk_err *err);

/* yk_waiter_fd - the waiter's descriptor for poll or epoll. After yk_waiter_wait has returned YK_E_AGAIN, the
 *   descriptor becomes readable when there is a request to report, and stays readable until the next yk_waiter_wait.
 *   Call yk_waiter_wait with a timeout of 0 until it returns YK_E_AGAIN, then wait for the descriptor. */
int yk_waiter_fd(const yk_waiter *waiter);

/* yk_waiter_free - NULL is allowed. The waiter's requests continue unreported. No other thread may be inside
 *   yk_waiter_wait. */
void yk_waiter_free(yk_waiter *waiter);

/* ---- Sequences --------------------------------------------------------------------------------------------------- */

/* Tokens that a caller holds, for speculative decoding, search, scoring: append ids and get logits, truncate, fork.
 * Their KV blocks come from the same pool as the requests' blocks; if the pool runs short, dropped blocks are computed
 * again at the next append. One thread at a time may use a sequence; different sequences may be used by different
 * threads.
 *
 * Models with recurrent states keep the state of the last token until max_seqs other sequences have run. After a
 * truncation or a fork, the next append also computes the tokens since the last snapshot again: at most 64 at the end
 * of an earlier append, at most 2,048 within the tokens of an append, and more if snapshots were overwritten
 * (state_cache_bytes in engine.h). Without snapshots it computes all tokens. */
typedef struct yk_held_sequence yk_held_sequence;

typedef enum yk_logits_of {
  YK_LOGITS_NONE,
  YK_LOGITS_LAST, /* [vocab_size] of the last appended position */
  YK_LOGITS_ALL   /* [n_ids, vocab_size] of every appended position */
} yk_logits_of;

/* Errors of every function below: also the engine's failure, and YK_E_CANCELLED if the engine stops. */

/* yk_held_sequence_create - an empty sequence. Errors: YK_E_NOMEM. */
yk_status yk_held_sequence_create(yk_engine *engine, yk_held_sequence **out, yk_err *err);

/* yk_held_sequence_create_adapted - an empty sequence whose tokens are computed with a loaded adapter
 *   (yoke/adapters.h); forks use the same adapter. adapter NULL or "": none. Errors: YK_E_INVAL: no adapter has the
 *   name; YK_E_NOMEM. */
yk_status yk_held_sequence_create_adapted(yk_engine *engine, const char *adapter, yk_held_sequence **out, yk_err *err);

/* yk_held_sequence_append - compute n_ids more tokens; blocks until done, batched with everything else that runs.
 *   logits: float32 in host memory, of the shape in yk_logits_of; raw, before any sampling parameter. May be NULL with
 *   NONE. Errors: YK_E_INVAL (an id outside the vocabulary, no ids, an invalid `which`, no memory for logits given),
 *   YK_E_UNSUPPORTED (logits of a model without lm_head), YK_E_CAPACITY (longer than max_model_tokens), YK_E_NOMEM,
 *   YK_E_DEVICE naming the position if the requested logits are not finite; after each of these the sequence is as
 *   before, and the contents of logits are undefined. After the engine's failure or YK_E_CANCELLED only free may be
 *   called. */
yk_status yk_held_sequence_append(yk_held_sequence *sequence, const int32_t *ids, size_t n_ids, yk_logits_of which,
                                  float *logits, yk_err *err);

/* yk_held_sequence_truncate - keep the first n_tokens. Errors: YK_E_INVAL beyond the present length. */
yk_status yk_held_sequence_truncate(yk_held_sequence *sequence, size_t n_tokens, yk_err *err);

/* yk_held_sequence_fork - another sequence with the same tokens. Full blocks are shared; the last, partial block is
 *   copied or, without space for a copy, computed again at the next append. Errors: YK_E_NOMEM. */
yk_status yk_held_sequence_fork(yk_held_sequence *sequence, yk_held_sequence **out, yk_err *err);

/* yk_held_sequence_length - number of tokens that the sequence holds: all tokens of successful appends, minus truncated
 *   tokens. */
size_t yk_held_sequence_length(const yk_held_sequence *sequence);

/* yk_held_sequence_free - NULL is allowed. Must come before the engine is destroyed. */
void yk_held_sequence_free(yk_held_sequence *sequence);

#ifdef __cplusplus
}
#endif
#endif
