/* constraint.h - the mask of each token that a request draws, by its constraint, its allowed ids and the limit of its
 * reasoning.
 *
 * The matcher lags behind the output: while the ranks compute the step that draws a token, the matcher accepts the
 * token before and fills the mask. The constraint holds from the end of the reasoning on; during reasoning, the mask
 * excludes the model's end ids, and beyond the limit of reasoning permits only the close tag. ignore_eos and min_tokens
 * keep end ids out of a mask as long as the mask has other ids. */
#ifndef YK_ENGINE_CONSTRAINT_H
#define YK_ENGINE_CONSTRAINT_H

#include "engine/output_reasoning.h"
#include "grammar/grammars.h"
#include "yoke/yoke.h"

typedef struct yk_request_constraint {
  yk_matcher *matcher;           /* NULL: none */
  uint32_t *allowed;             /* [yk_mask_words] allowed_token_ids, and end ids with a matcher; NULL: every id */
  yk_output_reasoning reasoning; /* precedes the constrained part */
  bool permits_call;             /* the matcher accepts reasoning.call_id at its beginning */
  int32_t n_accepted;            /* output tokens that the matcher has accepted, or that precede its part */
  bool has_ended;                /* there are no end ids, and nothing may follow */
  int64_t excess_ns;             /* processor time of matching beyond the limit of each token */
  yk_err error;                  /* of this request alone */
} yk_request_constraint;

/* The model that constraints are matched against. */
typedef struct yk_constrained_model {
  yk_grammars *grammars;         /* NULL if the model has no tokenizer */
  const yk_tokenizer *tokenizer; /* NULL: none */
  const char *no_tokenizer;      /* the reason, if tokenizer is NULL */
  int32_t n_ids;                 /* of the vocabulary */
} yk_constrained_model;

/* yk_request_constraint_init - read the constraint of sampling; may compile it (yk_grammars_match). end_ids: all that
 *   end the output. Errors: those of yk_grammars_match, in messages that begin with sampling's constraint_name, and of
 *   yk_output_reasoning_init. On failure the caller frees nothing. Thread: any. */
yk_status yk_request_constraint_init(yk_request_constraint *constraint, const yk_constrained_model *model,
                                     const yk_sampling *sampling, const int32_t *end_ids, size_t n_end_ids,
                                     yk_err *err);

/* yk_request_constraint_end - frees the matcher and the ids. */
void yk_request_constraint_end(yk_request_constraint *constraint);

/* yk_request_constraint_masks - whether the token after n_output tokens has a mask. A limit of reasoning alone needs
 *   none before it is reached. */
static inline bool yk_request_constraint_masks(const yk_request_constraint *constraint, int32_t n_output)
{
  const yk_output_reasoning *r = &constraint->reasoning;
  bool may_force = r->part != YK_OUTPUT_ANSWERS && r->max_tokens >= 0 && n_output >= r->max_tokens;
  return constraint->matcher || constraint->allowed || may_force;
}

/* The output so far, and the ids that end it. */
typedef struct yk_constrained_output {
  const int32_t *ids; /* [n] */
  int32_t n;
  const int32_t *end_ids; /* [n_end_ids] */
  size_t n_end_ids;
  size_t n_eos_ids;  /* the first of these are the model's */
  size_t n_unwanted; /* the first n_unwanted ids stay out of a mask that has other ids */
} yk_constrained_output;

/* yk_request_constraint_fill - the mask [n_words] of the token after the output. If the output contradicts the
 *   constraint, or takes too long to match (YK_E_INVAL), or has ended, error or has_ended is set, and the mask is full.
 *   Thread: one at a time for a constraint. */
void yk_request_constraint_fill(yk_request_constraint *constraint, const yk_constrained_output *output, uint32_t *words,
                                int64_t n_words);

#endif
