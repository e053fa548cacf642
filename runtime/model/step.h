/* step.h - the immutable description of one step, from the engine thread to every rank.
 *
 * The engine fills a step, publishes it through the rank group and does not touch it until all ranks have returned. All
 * int32 arrays lie in one block, so that a rank brings them to its device with one copy. */
#ifndef YK_MODEL_STEP_H
#define YK_MODEL_STEP_H

#include "kernels/device.h"

/* A sequence whose sampling counts tokens: rank 0 fills its slot of the device's table before sampling. */
typedef struct yk_penalty_load {
  int32_t slot;
  const int32_t *tokens; /* [n_tokens] host, prompt first */
  int32_t n_prompt, n_tokens;
} yk_penalty_load;

typedef struct yk_step {
  yk_batch batch;             /* pointers are host memory inside words */
  int32_t n_wanted;           /* rows whose logits are wanted: most draw the next token, some only report */
  const int32_t *wanted_rows; /* [n_wanted] row indices, rising, inside words */
  const int32_t *words;       /* every array above and in batch */
  size_t n_words;
  const yk_sample_row *sampling;        /* [n_wanted] host */
  bool is_plain;                        /* every one is: yk_sample_row_is_plain */
  yk_sampled *sampled;                  /* [n_wanted] host; written by rank 0, or where is_plain by yk_model_choose */
  const yk_penalty_load *penalty_loads; /* [n_penalty_loads] host */
  int32_t n_penalty_loads;
  bool is_timed; /* every rank's device takes the time of each operation: step_profile.h */
} yk_step;

/* yk_step_words_max - size of words for the largest step. */
static inline size_t yk_step_words_max(int32_t max_tokens, int32_t max_seqs, int32_t max_blocks_per_seq)
{
  return 5 * (size_t)max_tokens + (2 + (size_t)max_blocks_per_seq) * (size_t)max_seqs + 1;
}

/* yk_step_rebase - a pointer into step->words as the same place in a copy of words. */
static inline const int32_t *yk_step_rebase(const yk_step *step, const int32_t *host, const int32_t *copy)
{
  return copy + (host - step->words);
}

#endif
