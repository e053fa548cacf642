/* constraint.h - what keeps a request's output to its constraint and to its allowed ids: the mask of each drawn token.
 *
 * The matcher lags behind the output: it accepts the last token, and fills the mask of the next, while the ranks
 * compute the step that draws it. Once the constraint permits only the end, the mask does, whatever ignore_eos and
 * min_tokens say; before that they keep end ids out of masks. */
#ifndef YK_ENGINE_CONSTRAINT_H
#define YK_ENGINE_CONSTRAINT_H

#include "grammar/grammars.h"
#include "yoke/yoke.h"

typedef struct yk_request_constraint {
  yk_matcher *matcher; /* NULL: none */
  uint32_t *allowed;   /* [yk_mask_words] allowed_token_ids; NULL: every id */
  int32_t *begin;      /* [n_begin] ids that precede the constrained part; NULL once they have occurred */
  size_t n_begin;
  int32_t n_accepted; /* output tokens that the matcher has accepted, or that precede its part */
  bool has_ended;     /* there are no end ids, and nothing may follow */
  int64_t excess_ns;  /* processor time of matching beyond the limit of each token */
  yk_err error;       /* of this request alone */
} yk_request_constraint;

/* yk_request_constraint_init - read the constraint of sampling; may compile it (yk_grammars_match). grammars: NULL if
 *   the model has no tokenizer, for no_tokenizer. n_ids: of the vocabulary. end_ids: all that end the output.
 *   Errors: those of yk_grammars_match, in messages that begin with sampling's constraint_name. On failure nothing is
 *   left to free. Thread: any. */
yk_status yk_request_constraint_init(yk_request_constraint *constraint, yk_grammars *grammars, const char *no_tokenizer,
                                     const yk_sampling *sampling, const int32_t *end_ids, size_t n_end_ids,
                                     int32_t n_ids, yk_err *err);

/* yk_request_constraint_end - frees the matcher and the ids. */
void yk_request_constraint_end(yk_request_constraint *constraint);

static inline bool yk_request_constraint_masks(const yk_request_constraint *constraint)
{
  return constraint->matcher || constraint->allowed;
}

/* The output so far, and the ids that end it. */
typedef struct yk_constrained_output {
  const int32_t *ids; /* [n] */
  int32_t n;
  const int32_t *end_ids; /* [n_end_ids] */
  size_t n_end_ids;
  size_t n_unwanted; /* the first of these stay out of a mask that has other ids */
} yk_constrained_output;

/* yk_request_constraint_fill - the mask [n_words] of the token behind the output. If the output contradicts the
 *   constraint, or takes too long to match (YK_E_INVAL), or has ended, error or has_ended is set, and the mask is full.
 *   Thread: the engine's. */
void yk_request_constraint_fill(yk_request_constraint *constraint, const yk_constrained_output *output, uint32_t *words,
                                int64_t n_words);

#endif
