/* sequence.h - tokens of one request or held sequence, and the memory that holds what is computed of them. Owner and
 * thread: the engine's. */
#ifndef YK_ENGINE_LOOP_SEQUENCE_H
#define YK_ENGINE_LOOP_SEQUENCE_H

#include "engine/loop/sequence_memory.h"
#include "kernels/device.h"
#include "model/step.h"
#include "yoke/yoke.h"

struct yk_sequence;

/* Results of consecutive wanted rows of one sequence. */
typedef struct yk_row_results {
  const yk_step *step;
  int32_t first, n; /* among the step's wanted rows */
} yk_row_results;

/* What the owner of a sequence does for it: a request, or a sequence that a caller holds. Engine thread. */
typedef struct yk_sequence_owner {
  /* What to do with the logits of the row at this position. Where the rows are in the step (first_bias, logits_row) is
   * the step builder's to say. Returns the row's biases [out->n_biases], which stay until late data are filled. */
  const yk_logit_bias *(*describe_row)(const struct yk_sequence *seq, int32_t position, yk_sample_row *out);
  /* Whether drawing needs the sequence's slot of the table of token counts. */
  bool (*needs_counts)(const struct yk_sequence *seq);
  bool (*is_cancelled)(struct yk_sequence *seq);
  /* The sequence runs from the step to come on; again after it was preempted. */
  void (*scheduled)(struct yk_sequence *seq);
  /* Take the results of rows that were sampled, from this position on; none where no row was wanted. Returns
   * YK_FINISH_NONE where there is more to compute, else the reason to finish with. What was sampled stays until the
   * step after the next one is built, logits until the next one is. */
  yk_finish_reason (*take_results)(yk_engine *engine, struct yk_sequence *seq, int32_t position,
                                   const yk_row_results *results);
  /* Take the sequence off the scheduler's lists of running and waiting ones and tell its reader. error: with
   * YK_FINISH_ERROR, else NULL. The sequence must not be touched afterwards. */
  void (*finish)(yk_engine *engine, struct yk_sequence *seq, yk_finish_reason reason, const yk_err *error);
} yk_sequence_owner;

/* The most that a sequence adds to one step and its answer, beside its rows. */
typedef struct yk_step_extras {
  int64_t n_biases, n_penalty_tokens, n_logits;
} yk_step_extras;

typedef struct yk_sequence {
  int32_t *tokens;     /* [capacity] prompt, then output */
  int32_t capacity;    /* most tokens it may get */
  int32_t n_prompt;    /* tokens that the caller brought */
  int32_t n_tokens;    /* prompt and output so far */
  int32_t wanted_from; /* logits are wanted of rows at this position and after */

  yk_sequence_memory memory;

  struct yk_sequence *next;       /* in the scheduler's waiting list */
  int32_t slot;                   /* while running: its row in tables of max_seqs rows; else -1 */
  bool slot_is_new;               /* nothing has been put in the slot's rows yet */
  yk_step_extras extras;          /* the owner's to say, before the sequence is scheduled */
  const yk_sequence_owner *owner; /* the sequence is the owner's first member */
} yk_sequence;

/* yk_sequence_init - take over a prompt (copied). capacity >= n_prompt. Errors: YK_E_NOMEM. */
yk_status yk_sequence_init(yk_sequence *seq, const yk_sequence_owner *owner, const int32_t *prompt, int32_t n_prompt,
                           int32_t capacity, yk_err *err);

/* yk_sequence_destroy - free the arrays. Its memory must have been released. */
void yk_sequence_destroy(yk_sequence *seq);

/* yk_sequence_reuse - with an empty memory, start from what is published of the same beginning; at least one row, and
 *   every wanted one, is left to compute. Returns the tokens that need not be computed. */
int32_t yk_sequence_reuse(yk_sequence *seq, yk_memory_pool *pool);

/* yk_sequence_truncate - keep the first n_tokens. */
void yk_sequence_truncate(yk_sequence *seq, yk_memory_pool *pool, int32_t n_tokens);

/* yk_sequence_fork - make an initialised, empty copy hold the same tokens, and of their memory what can be shared; the
 *   rest is computed again when the copy next runs. copy->capacity >= seq->n_tokens. */
void yk_sequence_fork(const yk_sequence *seq, yk_memory_pool *pool, yk_sequence *copy);

#endif
