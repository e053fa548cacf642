/* held_sequence.c - sequences that callers hold. Every change runs on the engine thread, as a call that the caller
 * waits for. */
#include <stdlib.h>
#include <string.h>

#include "base/arguments.h"
#include "base/checked.h"
#include "engine/call.h"
#include "engine/engine_internal.h"

typedef struct sequence_call {
  yk_call call;
  yk_held_sequence *sequence, *other;
  const int32_t *ids;
  size_t n;
  yk_logits_of which;
  float *logits;
} sequence_call;

struct yk_held_sequence {
  yk_sequence seq; /* first, so that the owner's functions find the held sequence; engine thread only */
  yk_engine *engine;
  size_t n_tokens;        /* the caller's view of the length */
  sequence_call *pending; /* the append that is being computed; used by the engine thread only */
  int32_t n_before;       /* tokens before that append */
  uint64_t adapter_id;    /* separates prefixes; 0: none */
};

/* ---- The owner's functions --------------------------------------------------------------------------------------- */

static const yk_logit_bias *describe_row(const yk_sequence *seq, int32_t position, yk_sample_row *out)
{
  const sequence_call *append = ((const yk_held_sequence *)seq)->pending;
  (void)position;
  *out = (yk_sample_row){.top_p = 1, .is_forced = true, .returns_logits = append->which != YK_LOGITS_NONE};
  return NULL;
}

static bool needs_counts(const yk_sequence *seq)
{
  (void)seq;
  return false;
}

static bool is_cancelled(yk_sequence *seq)
{
  (void)seq;
  return false;
}

static void scheduled(yk_sequence *seq)
{
  (void)seq;
}

/* Copy the logits to the caller: of all appended rows, or of the last row only. */
static yk_finish_reason take_results(yk_engine *e, yk_sequence *seq, int32_t position, const yk_row_results *results)
{
  const yk_held_sequence *held = (const yk_held_sequence *)seq;
  const sequence_call *append = held->pending;
  size_t vocab = (size_t)e->info.vocab_size;
  int32_t first = append->which == YK_LOGITS_ALL ? position - held->n_before : 0;
  for (int32_t i = 0; i < results->n; i++) {
    const float *logits = yk_step_logits(results->step, results->first + i, e->info.vocab_size);
    if (logits) memcpy(append->logits + (size_t)(first + i) * vocab, logits, vocab * sizeof *logits);
  }
  if (results->n > 0) seq->wanted_from = position + results->n;
  return seq->memory.n_computed == seq->n_tokens ? YK_FINISH_STOP : YK_FINISH_NONE;
}

/* End the pending append. After an error the sequence has its previous tokens, and nothing is computed. */
static void finish(yk_engine *e, yk_sequence *seq, yk_finish_reason reason, const yk_err *error)
{
  yk_held_sequence *held = (yk_held_sequence *)seq;
  (void)reason;
  yk_scheduler_park(e->scheduler, seq);
  yk_step_builder_release(e->builder, &seq->extras);
  if (error) {
    yk_sequence_memory_release(&seq->memory, e->pool);
    seq->n_tokens = seq->n_prompt = held->n_before;
  }
  yk_call_answer(e, &held->pending->call, error);
}

static const yk_sequence_owner held_sequence_owner = {.describe_row = describe_row,
                                                      .needs_counts = needs_counts,
                                                      .is_cancelled = is_cancelled,
                                                      .scheduled = scheduled,
                                                      .take_results = take_results,
                                                      .finish = finish};

/* ---- Calls, on the engine thread --------------------------------------------------------------------------------- */

static void run_create(yk_engine *e, yk_call *call)
{
  sequence_call *c = (sequence_call *)call;
  const yk_salt salt = {.adapter_id = c->sequence->adapter_id};
  if (salt.adapter_id)
    yk_sequence_memory_begin_at(&c->sequence->seq.memory,
                                yk_cache_salts_start(&e->salts, yk_memory_pool_blocks(e->pool), &salt));
  yk_scheduler_park(e->scheduler, &c->sequence->seq);
  yk_call_answer(e, call, NULL);
}

static void run_append(yk_engine *e, yk_call *call)
{
  sequence_call *c = (sequence_call *)call;
  yk_held_sequence *held = c->sequence;
  yk_sequence *seq = &held->seq;
  yk_err error = YK_ERR_INIT;
  int64_t n_wanted = c->which == YK_LOGITS_ALL ? (int64_t)c->n : c->which == YK_LOGITS_LAST;
  seq->extras.n_logits = yk_min_i64(n_wanted, e->settings.limits.step.max_tokens);
  if (yk_step_builder_reserve(e->builder, &seq->extras, &error) != YK_OK) {
    yk_call_answer(e, call, &error);
    return;
  }
  memcpy(seq->tokens + seq->n_tokens, c->ids, c->n * sizeof *c->ids);
  held->n_before = seq->n_tokens;
  held->pending = c;
  seq->n_tokens += (int32_t)c->n;
  seq->n_prompt = seq->n_tokens;
  int32_t first = c->which == YK_LOGITS_ALL ? held->n_before : seq->n_tokens - 1;
  seq->wanted_from = c->which == YK_LOGITS_NONE ? seq->n_tokens : first;
  yk_scheduler_unpark(e->scheduler, seq);
}

static void run_truncate(yk_engine *e, yk_call *call)
{
  sequence_call *c = (sequence_call *)call;
  yk_sequence_truncate(&c->sequence->seq, e->pool, (int32_t)c->n);
  yk_call_answer(e, call, NULL);
}

static void run_fork(yk_engine *e, yk_call *call)
{
  sequence_call *c = (sequence_call *)call;
  yk_sequence_fork(&c->sequence->seq, e->pool, &c->other->seq);
  yk_scheduler_park(e->scheduler, &c->other->seq);
  yk_call_answer(e, call, NULL);
}

static void run_free(yk_engine *e, yk_call *call)
{
  sequence_call *c = (sequence_call *)call;
  yk_scheduler_remove(e->scheduler, &c->sequence->seq);
  yk_call_answer(e, call, NULL);
}

/* ---- On the caller's thread -------------------------------------------------------------------------------------- */

static yk_status allocate(yk_engine *engine, yk_held_sequence **out, yk_err *err)
{
  yk_held_sequence *held = calloc(1, sizeof *held);
  if (!held) return yk_err_set(err, YK_E_NOMEM, "no memory for a sequence");
  yk_status status = yk_sequence_init(&held->seq, &held_sequence_owner, NULL, 0, engine->info.max_model_tokens, err);
  if (status != YK_OK) {
    free(held);
    return status;
  }
  held->engine = engine;
  *out = held;
  return YK_OK;
}

static void destroy(yk_held_sequence *held)
{
  yk_sequence_destroy(&held->seq);
  free(held);
}

static void release_adapter(const yk_held_sequence *held)
{
  yk_engine *e = held->engine;
  pthread_mutex_lock(&e->mutex);
  yk_adapters_release(&e->adapters, held->seq.adapter);
  pthread_mutex_unlock(&e->mutex);
}

yk_status yk_held_sequence_create(yk_engine *engine, yk_held_sequence **out, yk_err *err)
{
  return yk_held_sequence_create_adapted(engine, NULL, out, err);
}

yk_status yk_held_sequence_create_adapted(yk_engine *engine, const char *adapter, yk_held_sequence **out, yk_err *err)
{
  yk_adapter_use use;
  *out = NULL;
  YK_TRY(allocate(engine, out, err));
  pthread_mutex_lock(&engine->mutex);
  yk_status status = yk_adapters_acquire(&engine->adapters, adapter, &use, err);
  pthread_mutex_unlock(&engine->mutex);
  (*out)->seq.adapter = use.number;
  (*out)->adapter_id = use.id;
  sequence_call call = {.call.run = run_create, .sequence = *out};
  if (status == YK_OK) status = yk_call_run(engine, &call.call, err);
  if (status != YK_OK) {
    release_adapter(*out);
    destroy(*out);
    *out = NULL;
  }
  return status;
}

yk_status yk_held_sequence_append(yk_held_sequence *sequence, const int32_t *ids, size_t n_ids, yk_logits_of which,
                                  float *logits, yk_err *err)
{
  const yk_engine_info *info = &sequence->engine->info;
  if (n_ids == 0) return yk_err_set(err, YK_E_INVAL, "ids: expected at least one token, found none");
  YK_TRY(yk_check_array("ids", ids, n_ids, err));
  YK_TRY(yk_check_enum("which", (int)which, YK_LOGITS_ALL, err));
  if (n_ids > (size_t)info->max_model_tokens - sequence->n_tokens)
    return yk_err_set(err, YK_E_CAPACITY, "sequence: expected at most %d tokens, found %zu", info->max_model_tokens,
                      sequence->n_tokens + n_ids);
  if (which != YK_LOGITS_NONE && info->only_embeds)
    return yk_err_set(err, YK_E_UNSUPPORTED, "which: this model has no lm_head, and no logits");
  if (which != YK_LOGITS_NONE && !logits) return yk_err_set(err, YK_E_INVAL, "logits: expected memory, found NULL");
  for (size_t i = 0; i < n_ids; i++)
    if (ids[i] < 0 || ids[i] >= info->vocab_size)
      return yk_err_set(err, YK_E_INVAL, "ids: token id %d at index %zu is outside the vocabulary (0 to %d)", ids[i], i,
                        info->vocab_size - 1);
  sequence_call call = {
      .call.run = run_append, .sequence = sequence, .ids = ids, .n = n_ids, .which = which, .logits = logits};
  YK_TRY(yk_call_run(sequence->engine, &call.call, err));
  sequence->n_tokens += n_ids;
  return YK_OK;
}

yk_status yk_held_sequence_truncate(yk_held_sequence *sequence, size_t n_tokens, yk_err *err)
{
  if (n_tokens > sequence->n_tokens)
    return yk_err_set(err, YK_E_INVAL, "n_tokens: expected 0 to %zu, found %zu", sequence->n_tokens, n_tokens);
  sequence_call call = {.call.run = run_truncate, .sequence = sequence, .n = n_tokens};
  YK_TRY(yk_call_run(sequence->engine, &call.call, err));
  sequence->n_tokens = n_tokens;
  return YK_OK;
}

yk_status yk_held_sequence_fork(yk_held_sequence *sequence, yk_held_sequence **out, yk_err *err)
{
  *out = NULL;
  YK_TRY(allocate(sequence->engine, out, err));
  sequence_call call = {.call.run = run_fork, .sequence = sequence, .other = *out};
  yk_status status = yk_call_run(sequence->engine, &call.call, err);
  if (status != YK_OK) {
    destroy(*out);
    *out = NULL;
    return status;
  }
  (*out)->n_tokens = sequence->n_tokens;
  (*out)->adapter_id = sequence->adapter_id;
  pthread_mutex_lock(&sequence->engine->mutex);
  yk_adapters_use_again(&sequence->engine->adapters, (*out)->seq.adapter);
  pthread_mutex_unlock(&sequence->engine->mutex);
  return YK_OK;
}

size_t yk_held_sequence_length(const yk_held_sequence *sequence)
{
  return sequence->n_tokens;
}

void yk_held_sequence_free(yk_held_sequence *sequence)
{
  if (!sequence) return;
  sequence_call call = {.call.run = run_free, .call.works_after_failure = true, .sequence = sequence};
  yk_call_run(sequence->engine, &call.call, NULL);
  release_adapter(sequence);
  destroy(sequence);
}
