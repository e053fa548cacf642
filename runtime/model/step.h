/* step.h - the immutable description of one step, from the engine thread to every rank, and the answer.
 *
 * A step consists of counts and one flat block (step_arrays.h). The block holds no pointers, so both can be sent to
 * another process. The engine fills a step and publishes it through the rank group. Until all ranks have returned, the
 * engine changes only the late arrays (step_late.h). */
#ifndef YK_MODEL_STEP_H
#define YK_MODEL_STEP_H

#include "model/step_arrays.h"
#include "model/step_late.h"

/* Results written by rank 0. The engine owns the memory, in the process of rank 0. */
typedef struct yk_step_answer {
  yk_sampled *sampled; /* [n_wanted] in the order of the wanted rows */
  float *logits;       /* [n_logits, vocab]: raw logits of rows that return them, at yk_sample_row.logits_row */
  float *hidden;       /* [n_hidden, hidden]: final hidden states, normalised, before lm_head and its scale; of the
                        * wanted rows whose indices are hidden_rows. Their sampled states report NaNs and infinities */
} yk_step_answer;

typedef struct yk_step {
  yk_step_counts counts;
  yk_step_layout layout; /* of the block */
  void *block;
  yk_step_answer answer;
  yk_step_late *late; /* rank 0 waits for this before it reads late arrays; NULL: the step has none */
} yk_step;

/* yk_step_<array> - an array of a step, in its block. */
#define YK_ARRAY_OF(constant, function, element, part, length, padding)                                                \
  static inline element *yk_step_##function(const yk_step *step)                                                       \
  {                                                                                                                    \
    return (element *)(void *)((char *)step->block + step->layout.offset[YK_STEP_##constant]);                         \
  }
YK_STEP_ARRAYS(YK_ARRAY_OF)
#undef YK_ARRAY_OF

/* yk_step_in_copy - an array that every rank reads, within a copy of the block's first rank_bytes. The copy may be on a
 *   device. */
static inline const int32_t *yk_step_in_copy(const yk_step *step, yk_step_array array, const void *copy)
{
  return (const int32_t *)(const void *)((const char *)copy + step->layout.offset[array]);
}

/* yk_step_batch - the batch of a step, with its arrays in such a copy. */
yk_batch yk_step_batch(const yk_step *step, const void *copy);

/* yk_step_logits - the returned logits of wanted row i, in the answer; NULL if the row returns none. */
static inline const float *yk_step_logits(const yk_step *step, int32_t i, int32_t vocab)
{
  const yk_sample_row *row = &yk_step_sampling(step)[i];
  return row->returns_logits ? step->answer.logits + (int64_t)row->logits_row * vocab : NULL;
}

/* yk_step_hidden - the returned hidden state [hidden_size] of wanted row i, in the answer; NULL if the row returns
 *   none. */
static inline const float *yk_step_hidden(const yk_step *step, int32_t i, int32_t hidden_size)
{
  for (int32_t j = 0; j < step->counts.n_hidden; j++)
    if (yk_step_hidden_rows(step)[j] == i) return step->answer.hidden + (int64_t)j * hidden_size;
  return NULL;
}

#endif
