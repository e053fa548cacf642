/* request.h - one request: the engine writes tokens, a caller reads them.
 *
 * Two owners: the caller's handle, until yk_request_free, and the engine, until the request is finished. The last owner
 * to release the request frees it.
 *
 * Threads: mutex guards the fields below it. Fields above are set before the request is queued; then only the engine
 * thread changes them, until the end. Other threads read members that no longer change: yk_request_get_usage reads
 * seq.n_prompt, the reader logprob_ids, and after the end the last text and the embedding. yk_request_cancel uses
 * n_cancels. */
#ifndef YK_ENGINE_REQUEST_H
#define YK_ENGINE_REQUEST_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/strbuf.h"
#include "engine/constraint.h"
#include "engine/loop/sequence.h"
#include "engine/waiter.h"
#include "kernels/device.h"
#include "text/detokenizer.h"
#include "text/stop_strings.h"
#include "yoke/yoke.h"

struct yk_request {
  /* Set by submit, then used by the engine thread. Fields that every step uses are adjacent. */
  yk_sequence seq;  /* first member, so that the owner's functions find the request */
  int32_t *end_ids; /* [n_end_ids] ids that end the output */
  size_t n_end_ids;
  size_t n_eos_ids;              /* the first of these are the model's */
  yk_stop_strings *stops;        /* NULL without stop strings */
  const yk_sampled *undelivered; /* while listed in engine.undelivered: the token not yet passed to the reader */
  yk_request *next_undelivered;
  yk_sampling sampling;        /* without the arrays of the caller's parameters */
  yk_logit_bias *biases;       /* [n_biases] logit_bias */
  yk_logit_bias *early_biases; /* [n_early_biases] logit_bias with the bans that hold until min_tokens */
  int32_t n_biases, n_early_biases;
  yk_token_ids *bad_words; /* [n_bad_words] of several tokens each; single tokens are among the biases */
  size_t n_bad_words;
  int32_t *bad_ids;          /* ids of bad_words */
  int32_t *logprob_ids;      /* [sampling.n_logprob_ids] ids whose log-probabilities the reader gets */
  float *listed_logprobs;    /* [n_logprob_ids] of the current token */
  yk_logit_bias *row_biases; /* biases and bans of the current row, if bad_words is not empty */
  float *embedding;          /* [n_embedding] of the prompt, the request's result; NULL: the result is tokens */
  int32_t n_embedding;
  yk_request_constraint constraint;
  yk_detokenizer *detokenizer; /* NULL without a tokenizer */
  yk_strbuf decoded;           /* text of the current token */
  yk_strbuf piece;             /* the part of the text that may be returned */
  /* yk_text_span records of the special tokens, over the whole output text. */
  yk_strbuf special;
  yk_strbuf piece_special; /* the same for piece */
  size_t decoded_bytes, given_bytes;
  bool stopped_by_string;
  bool lost_output; /* memory for tokens or text ran out: the request ends with an error */
  char *cache_salt; /* [cache_salt_bytes], owned; NULL: none */
  size_t cache_salt_bytes;
  uint64_t adapter_id; /* separates prefixes; seq.adapter is in use until the engine finishes the request */
  yk_request *next_submitted;

  atomic_uint *n_cancels; /* the engine's counter; valid until the request is finished */

  pthread_mutex_t mutex;
  pthread_cond_t cv_output;
  yk_strbuf queue;   /* encoded outputs that the reader has not taken yet */
  yk_waiter *waiter; /* shared; NULL: none, or the caller has freed its handle */
  yk_waiter_node ready;
  bool cancelled;
  yk_finish_reason finish; /* NONE until the engine has finished the request */
  bool end_delivered;
  yk_err error; /* with YK_FINISH_ERROR */
  int32_t n_output, n_reused;
  int64_t submitted_ns, scheduled_ns, first_token_ns, finished_ns; /* 0: not yet */
  int n_owners;

  /* Reader only, without the mutex. */
  yk_strbuf taken; /* the previous queue, read up to read_bytes; swapped with queue */
  size_t read_bytes;
  yk_output output; /* last result of yk_request_next; points into taken */
};

static inline bool yk_ids_contain(const int32_t *ids, size_t n, int32_t id)
{
  for (size_t i = 0; i < n; i++)
    if (ids[i] == id) return true;
  return false;
}

/* yk_request_create - a request with a copy of prompt and parameters (checked by the caller), owned by caller and
 *   engine. capacity: prompt and output tokens together. end_ids: ids that end the output and that min_tokens bans,
 *   without duplicates.
 *   Errors: YK_E_NOMEM, YK_E_INVAL (a stop string that is empty or not UTF-8), YK_E_FORMAT (a tokenizer that makes
 *   texts grow without end). */
yk_status yk_request_create(const yk_sequence_owner *owner, const int32_t *prompt, int32_t n_prompt, int32_t capacity,
                            const yk_sampling *sampling, const int32_t *end_ids, size_t n_end_ids,
                            const yk_tokenizer *tokenizer, atomic_uint *n_cancels, yk_request **out, yk_err *err);

/* yk_request_has_penalties - whether sampling needs counts of tokens. */
static inline bool yk_request_has_penalties(const yk_request *request)
{
  const yk_sampling *s = &request->sampling;
  return s->repetition_penalty != 1 || s->frequency_penalty != 0 || s->presence_penalty != 0;
}

/* yk_request_ban - ban an id in a list of n biases of distinct ids, with capacity for one more. Returns the new n. */
int32_t yk_request_ban(yk_logit_bias *biases, int32_t n, int32_t id);

/* yk_request_set_cache_salt - copy the salt, before the request is queued. Errors: YK_E_NOMEM. */
yk_status yk_request_set_cache_salt(yk_request *request, const char *salt, size_t n_bytes, yk_err *err);

/* yk_request_set_logprob_ids - copy the ids of sampling, before the request is queued. Errors: YK_E_NOMEM. */
yk_status yk_request_set_logprob_ids(yk_request *request, const yk_sampling *sampling, yk_err *err);

/* yk_request_set_embedding - before the request is queued: the result is the embedding's first n numbers. Errors:
 *   YK_E_NOMEM. */
yk_status yk_request_set_embedding(yk_request *request, int32_t n, yk_err *err);

/* yk_request_embed - the embedding of a hidden state [at least n_embedding], of length 1 if normalises. Engine
 *   thread. */
void yk_request_embed(yk_request *request, const float *hidden, bool normalises);

/* yk_request_set_constraint - before the request is queued: count the rows for its masks [n_ids bits] among the step
 *   memory that it needs, and take over the constraint. n_eos_ids: the first n_eos_ids of the end ids belong to the
 *   model. */
void yk_request_set_constraint(yk_request *request, const yk_request_constraint *constraint, size_t n_eos_ids,
                               int32_t n_ids);

/* yk_request_set_waiter - the waiter that reports output and end from now on, together with user; NULL: none. */
void yk_request_set_waiter(yk_request *request, yk_waiter *waiter, void *user);

/* yk_request_release - give up one owner's share. Called with the request's mutex held, which the call unlocks; the
 *   last owner's call frees the request. */
void yk_request_release(yk_request *request);

/* The functions below are for the engine thread only. */

/* yk_request_mark_scheduled - the request has entered a step. n_reused: prompt tokens that were computed before. Only
 *   the first call has an effect. */
void yk_request_mark_scheduled(yk_request *request, int32_t n_reused);

/* yk_request_list_logprobs - compute the log-probabilities of the request's ids for a token just drawn, from the row's
 *   logits [vocab]. logits is not read if the request has no such ids. */
void yk_request_list_logprobs(yk_request *request, const yk_sampled *result, const float *logits);

/* yk_request_push_prompt_token - queue the log-probabilities of a token of the prompt. */
void yk_request_push_prompt_token(yk_request *request, const yk_sampled *result);

/* yk_request_push_token - queue a drawn token with its text. is_last: yk_request_finish follows and wakes the reader.
 *   Returns whether a stop string is complete; yk_request_finish must follow then too. If memory runs out, the request
 *   ends with YK_E_NOMEM. */
bool yk_request_push_token(yk_request *request, const yk_sampled *result, bool is_last);

/* yk_request_is_cancelled - whether the caller has cancelled the request. */
bool yk_request_is_cancelled(yk_request *request);

/* yk_request_finish - the engine's last call: flush held-back text, wake the reader and give up the engine's ownership.
 *   The request must not be touched afterwards. error: copied, with YK_FINISH_ERROR, else NULL. */
void yk_request_finish(yk_request *request, yk_finish_reason reason, const yk_err *error);

#endif
