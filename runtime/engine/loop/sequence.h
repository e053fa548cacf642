/* sequence.h - the tokens of one request or held sequence, and the memory of their computed state. Owner and thread:
 * the engine's. */
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
  int32_t first, n; /* index of the first among the step's wanted rows, and the count */
} yk_row_results;

/* Functions of a sequence's owner: a request, or a sequence held by a caller. Thread: the engine's, but fill_mask. */
typedef struct yk_sequence_owner {
  /* Fill *out with the use of the logits of the row at this position. The step builder sets first_bias, first_mask and
   * logits_row. Returns the row's biases [out->n_biases], which stay valid until late data are filled. */
  const yk_logit_bias *(*describe_row)(const struct yk_sequence *seq, int32_t position, yk_sample_row *out);
  /* Fill the mask [n_words] of the row that describe_row gave one, for the token after the sequence's tokens. Called
   * while the ranks compute, by several threads for different sequences at the same time. */
  void (*fill_mask)(struct yk_sequence *seq, uint32_t *words, int64_t n_words);
  /* Whether sampling needs the sequence's slot in the table of token counts. */
  bool (*needs_counts)(const struct yk_sequence *seq);
  bool (*is_cancelled)(struct yk_sequence *seq);
  /* The sequence runs from the coming step on. Called again after a preemption. */
  void (*scheduled)(struct yk_sequence *seq);
  /* Take the results of sampled rows, from this position on; n is 0 if no row was wanted. Returns YK_FINISH_NONE if
   * there is more to compute, else the reason to finish. Sampled results stay valid until the step after the next is
   * built, logits until the next step is built. */
  yk_finish_reason (*take_results)(yk_engine *engine, struct yk_sequence *seq, int32_t position,
                                   const yk_row_results *results);
  /* Remove the sequence from the scheduler's lists of running and waiting sequences and notify its reader. error: with
   * YK_FINISH_ERROR, else NULL. The sequence must not be touched afterwards. */
  void (*finish)(yk_engine *engine, struct yk_sequence *seq, yk_finish_reason reason, const yk_err *error);
} yk_sequence_owner;

/* Upper bound of a sequence's additions to one step and its answer, apart from its rows. */
typedef struct yk_step_extras {
  int64_t n_biases, n_penalty_tokens, n_mask_words, n_logits;
} yk_step_extras;

typedef struct yk_sequence {
  int32_t *tokens;     /* [capacity] prompt, then output */
  int32_t capacity;    /* most tokens that the sequence may hold */
  int32_t n_prompt;    /* tokens given by the caller */
  int32_t n_tokens;    /* prompt and output so far */
  int32_t wanted_from; /* rows from this position on have wanted logits */
  int32_t adapter;     /* number of its adapter in steps; 0: none */
  bool returns_hidden; /* the last row alone is wanted, and returns its hidden state in place of a token */

  yk_sequence_memory memory;

  struct yk_sequence *next;       /* in the scheduler's waiting list */
  int32_t listed_tokens;          /* n_tokens when it entered that list */
  bool is_in_flight;              /* a planned step has rows of this sequence and is not committed */
  bool is_void;                   /* in flight, but the rows read a block that was withdrawn: they must not count */
  int32_t slot;                   /* while running: row index in tables of max_seqs rows; else -1 */
  bool slot_is_new;               /* the slot's rows are not filled yet */
  bool is_paced;                  /* computed as a long prompt with decodes in the same steps */
  yk_step_extras extras;          /* set by the owner before the sequence is scheduled */
  const yk_sequence_owner *owner; /* the sequence is the first member of its owner */
} yk_sequence;

/* yk_sequence_init - initialise with a copy of a prompt. capacity >= n_prompt. Errors: YK_E_NOMEM. */
yk_status yk_sequence_init(yk_sequence *seq, const yk_sequence_owner *owner, const int32_t *prompt, int32_t n_prompt,
                           int32_t capacity, yk_err *err);

/* yk_sequence_destroy - free the arrays. The sequence's memory must have been released. */
void yk_sequence_destroy(yk_sequence *seq);

/* yk_sequence_reuse - start an empty memory from the published blocks of the same beginning. At least one row, and
 *   every wanted row, remains to be computed. Returns as yk_sequence_memory_reuse. */
int32_t yk_sequence_reuse(yk_sequence *seq, yk_memory_pool *pool);

/* yk_sequence_truncate - keep the first n_tokens. */
void yk_sequence_truncate(yk_sequence *seq, yk_memory_pool *pool, int32_t n_tokens);

/* yk_sequence_fork - give an initialised, empty copy the same tokens and their memory, as yk_sequence_memory_fork.
 *   copy->capacity >= seq->n_tokens. */
void yk_sequence_fork(const yk_sequence *seq, yk_memory_pool *pool, yk_sequence *copy);

#endif
