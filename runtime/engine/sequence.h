/* sequence.h - tokens of one request and the KV blocks that hold them. Owner and thread: the engine's. */
#ifndef YK_ENGINE_SEQUENCE_H
#define YK_ENGINE_SEQUENCE_H

#include "engine/kv_blocks.h"
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
  int32_t n_computed;  /* tokens whose K and V are in the cache; the rest are rows still to be computed */
  int32_t wanted_from; /* logits are wanted of rows at this position and after */

  int32_t *blocks; /* [blocks for capacity] physical blocks, in order of position; -1: left behind by the window */
  int32_t n_blocks;
  int32_t n_left_behind; /* leading blocks that are -1 */
  int32_t n_published;   /* leading blocks offered for reuse: full, and never written again */
  int32_t n_sound;       /* leading published blocks that were marked as sound, or passed over behind the window */
  yk_kv_chain start;     /* before the first block: blocks are shared by sequences that begin at one chain */
  yk_kv_chain chain;     /* of the last published block */

  struct yk_sequence *next;       /* in the scheduler's waiting or parked list */
  int32_t slot;                   /* while running: its row in tables of max_seqs rows; else -1 */
  bool slot_is_new;               /* nothing has been put in the slot's rows yet */
  yk_step_extras extras;          /* the owner's to say, before the sequence is scheduled */
  const yk_sequence_owner *owner; /* the sequence is the owner's first member */
} yk_sequence;

/* yk_sequence_init - take over a prompt (copied). capacity >= n_prompt. Errors: YK_E_NOMEM. */
yk_status yk_sequence_init(yk_sequence *seq, const yk_sequence_owner *owner, const int32_t *prompt, int32_t n_prompt,
                           int32_t capacity, yk_err *err);

/* yk_sequence_begin_at - of a new sequence: share blocks only with sequences that begin at this chain too. */
void yk_sequence_begin_at(yk_sequence *seq, yk_kv_chain start);

/* yk_sequence_destroy - free the arrays. Its blocks must have been released. */
void yk_sequence_destroy(yk_sequence *seq);

/* yk_sequence_blocks_for - blocks that n_tokens take. */
int32_t yk_sequence_blocks_for(int32_t n_tokens);

/* yk_sequence_reserve - take blocks until n_tokens fit. False, with what was got kept, when none is left. */
bool yk_sequence_reserve(yk_sequence *seq, yk_kv_blocks *blocks, int32_t n_tokens);

/* yk_sequence_match - with nothing computed yet, start from the longest published prefix; at least one row, and every
 *   wanted one, is left to compute. Returns the tokens that need not be computed. */
int32_t yk_sequence_match(yk_sequence *seq, yk_kv_blocks *blocks);

/* yk_sequence_publish - offer every block that the first n_tokens fill. */
void yk_sequence_publish(yk_sequence *seq, yk_kv_blocks *blocks, int32_t n_tokens);

/* yk_sequence_mark_sound - the row at this position has given finite logits: the published blocks that the row sees are
 *   sound. window_tokens: what every layer sees at least, the row included; 0: all. */
void yk_sequence_mark_sound(yk_sequence *seq, yk_kv_blocks *blocks, int32_t position, int32_t window_tokens);

/* yk_sequence_withdraw - a row has given logits that are not finite: withdraw every published block that is not known
 *   to be sound. */
void yk_sequence_withdraw(yk_sequence *seq, yk_kv_blocks *blocks);

/* yk_sequence_reads_withdrawn - whether one of its blocks was withdrawn. */
bool yk_sequence_reads_withdrawn(const yk_sequence *seq, const yk_kv_blocks *blocks);

/* yk_sequence_leave_behind - release published blocks that no row to come can see with this window, not even after a
 *   truncation inside the last, unfilled block. */
void yk_sequence_leave_behind(yk_sequence *seq, yk_kv_blocks *blocks, int32_t window_tokens);

/* yk_sequence_release - give all blocks back; nothing is computed any more. */
void yk_sequence_release(yk_sequence *seq, yk_kv_blocks *blocks);

/* yk_sequence_truncate - keep the first n_tokens. Rows of a published block that is cut are computed again: it may be
 *   another's too. */
void yk_sequence_truncate(yk_sequence *seq, yk_kv_blocks *blocks, int32_t n_tokens);

/* yk_sequence_fork - make an initialised, empty copy hold the same tokens; published blocks are shared, rows behind
 *   them are computed again when the copy next runs. copy->capacity >= seq->n_tokens. */
void yk_sequence_fork(const yk_sequence *seq, yk_kv_blocks *blocks, yk_sequence *copy);

#endif
