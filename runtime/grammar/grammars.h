/* grammars.h - compiled constraints of one model's vocabulary, and matchers that follow an output.
 *
 *   text of a constraint -> cache -> (compiler: a helper process) -> compiled grammar -> matcher of one request
 *
 * The library is loaded, and the helper started, with the first constraint. */
#ifndef YK_GRAMMAR_GRAMMARS_H
#define YK_GRAMMAR_GRAMMARS_H

#include "text/tokenizer.h"
#include "yoke/constraint.h"

typedef struct yk_grammars yk_grammars;
typedef struct yk_matcher yk_matcher;

typedef struct yk_grammars_options {
  const yk_tokenizer *tokenizer; /* must outlive the grammars */
  int32_t n_ids;                 /* of the model's logits */
  const int32_t *end_ids;        /* [n_end_ids] ids that end an output; copied */
  size_t n_end_ids;
  const char *library_dir; /* as for yk_grammar_library_load; copied */
  const char *python;      /* copied */
  double time_limit_s;
  int64_t memory_limit_bytes; /* of the helper process */
  int64_t cache_bytes;        /* of compiled grammars that no request uses */
} yk_grammars_options;

/* yk_grammars_create - loads nothing yet. Errors: YK_E_NOMEM. */
yk_status yk_grammars_create(const yk_grammars_options *options, yk_grammars **out, yk_err *err);

/* yk_grammars_free - every matcher must have been freed. NULL is allowed. */
void yk_grammars_free(yk_grammars *grammars);

/* yk_grammars_match - a matcher at the beginning of an output. Compiles the constraint unless it is cached, which may
 *   take the time limit. end_ids: ids that end this request's output where the constraint permits an end; those that
 *   have a text may also occur within it, and end the output there without the matcher.
 *   Errors: YK_E_INVAL with the place in the constraint, YK_E_UNSUPPORTED without the library or Python, YK_E_NOMEM.
 *   Thread: any. */
yk_status yk_grammars_match(yk_grammars *grammars, yk_constraint_kind kind, const char *text, size_t n_bytes,
                            const int32_t *end_ids, size_t n_end_ids, yk_matcher **out, yk_err *err);

/* yk_matcher_accept - the output continues with this id. False: the constraint excludes the id. One thread at a time
 *   for a matcher, as all of its functions. */
bool yk_matcher_accept(yk_matcher *matcher, int32_t id);

/* yk_matcher_accept_text - the output continues with this text [n_bytes]; as yk_matcher_accept. */
bool yk_matcher_accept_text(yk_matcher *matcher, const char *text, size_t n_bytes);

/* yk_matcher_restart - back to the beginning of an output. */
void yk_matcher_restart(yk_matcher *matcher);

/* yk_matcher_has_ended - an end id was accepted, or, if there is none, nothing may follow. */
bool yk_matcher_has_ended(yk_matcher *matcher);

/* yk_matcher_fill - the mask of the ids that may come next, yk_mask_words of the vocabulary. Errors: YK_E_INVAL. */
yk_status yk_matcher_fill(yk_matcher *matcher, uint32_t *words, yk_err *err);

/* yk_matcher_exclude_after - for an output that begins after the text `tag`: clears the ids of tokens in words that
 *   begin with the tag and whose further text, except for white space before it, the output may not begin with. The
 *   matcher is then at the beginning. */
void yk_matcher_exclude_after(yk_matcher *matcher, const char *tag, uint32_t *words);

/* yk_matcher_free - NULL is allowed. */
void yk_matcher_free(yk_matcher *matcher);

#endif
