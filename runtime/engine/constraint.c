#include "engine/constraint.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arguments.h"
#include "grammar/id_bits.h"
#include "kernels/device.h"

/* An ambiguous grammar has more parses with every token, and all rows of a step wait for the slowest mask. A request
 * may therefore use FREE_NS of the engine thread per token, plus EXCESS_NS over the whole output. */
static const int64_t FREE_NS = 5000000, EXCESS_NS = 1000000000;

/* Processor time of the calling thread: other load on the machine does not count. */
static int64_t thread_time_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static yk_status set_allowed(yk_request_constraint *c, const yk_sampling *sampling, int32_t n_ids, yk_err *err)
{
  c->allowed = calloc((size_t)yk_mask_words(n_ids), sizeof *c->allowed);
  if (!c->allowed) return yk_err_set(err, YK_E_NOMEM, "allowed_token_ids: no memory for %zu", sampling->n_allowed_ids);
  for (size_t i = 0; i < sampling->n_allowed_ids; i++) yk_id_bits_add(c->allowed, sampling->allowed_ids[i]);
  return YK_OK;
}

/* Whether the mask has more than n ids. */
static bool has_more_than(size_t n, const uint32_t *words, int64_t n_words)
{
  size_t n_found = 0;
  for (int64_t i = 0; i < n_words && n_found <= n; i++) n_found += (size_t)__builtin_popcount(words[i]);
  return n_found > n;
}

/* Whether the answer may begin with a call, which ends the reasoning. An answer that cannot begin is an error. */
static yk_status read_beginning(yk_request_constraint *c, int32_t n_ids, yk_err *err)
{
  size_t n_words = (size_t)yk_mask_words(n_ids);
  uint32_t *words = malloc(n_words * sizeof *words);
  if (!words) return yk_err_set(err, YK_E_NOMEM, "no memory for a mask");
  yk_status status = yk_matcher_fill(c->matcher, words, err);
  bool may_begin = status == YK_OK && (yk_matcher_has_ended(c->matcher) || has_more_than(0, words, (int64_t)n_words));
  if (status == YK_OK && !may_begin) status = yk_err_set(err, YK_E_INVAL, "no output satisfies the constraint");
  c->permits_call = status == YK_OK && c->reasoning.call_id >= 0 && yk_id_bits_have(words, c->reasoning.call_id);
  free(words);
  return status;
}

static yk_status set_matcher(yk_request_constraint *c, const yk_constrained_model *model, const yk_sampling *sampling,
                             const int32_t *end_ids, size_t n_end_ids, yk_err *err)
{
  if (!model->grammars) return yk_err_set(err, YK_E_UNSUPPORTED, "%s", model->no_tokenizer);
  YK_TRY(yk_grammars_match(model->grammars, sampling->constraint_kind, sampling->constraint, sampling->constraint_bytes,
                           end_ids, n_end_ids, &c->matcher, err));
  /* Allowed ids restrict the text; where the constraint permits an end, they do not forbid it. */
  for (size_t i = 0; c->allowed && i < n_end_ids; i++) yk_id_bits_add(c->allowed, end_ids[i]);
  return read_beginning(c, model->n_ids, err);
}

yk_status yk_request_constraint_init(yk_request_constraint *c, const yk_constrained_model *model,
                                     const yk_sampling *sampling, const int32_t *end_ids, size_t n_end_ids, yk_err *err)
{
  *c = (yk_request_constraint){.error = YK_ERR_INIT};
  YK_TRY(yk_output_reasoning_init(&c->reasoning, model->tokenizer, model->no_tokenizer, sampling, err));
  yk_status status = sampling->n_allowed_ids > 0 ? set_allowed(c, sampling, model->n_ids, err) : YK_OK;
  if (status == YK_OK && sampling->constraint_kind != YK_CONSTRAINT_NONE) {
    status = set_matcher(c, model, sampling, end_ids, n_end_ids, err);
    if (status != YK_OK) yk_err_prefix(err, "%s", sampling->constraint_name ? sampling->constraint_name : "constraint");
  }
  if (status != YK_OK) yk_request_constraint_end(c);
  return status;
}

void yk_request_constraint_end(yk_request_constraint *c)
{
  yk_matcher_free(c->matcher);
  yk_output_reasoning_end(&c->reasoning);
  free(c->allowed);
  c->matcher = NULL;
  c->allowed = NULL;
}

/* ---- Matching ---------------------------------------------------------------------------------------------------- */

static void fail(yk_request_constraint *c, int32_t position, int32_t id)
{
  yk_err_set(&c->error, YK_E_INTERNAL, "output token %d (id %d) is not allowed by the constraint", position, id);
}

/* The matcher begins after the reasoning, with the text after the close tag in the tag's token. */
static void skip_reasoning(yk_request_constraint *c)
{
  const yk_output_reasoning *r = &c->reasoning;
  if (c->n_accepted >= r->first) return;
  if (c->n_accepted > 0) yk_matcher_restart(c->matcher);
  c->n_accepted = r->first;
  if (r->text.length > 0 && !yk_matcher_accept_text(c->matcher, r->text.data, r->text.length))
    yk_err_set(&c->error, YK_E_INTERNAL, "the text after the reasoning is not allowed by the constraint");
}

/* Returns false if there is no next token. */
static bool catch_up(yk_request_constraint *c, const yk_constrained_output *output)
{
  skip_reasoning(c);
  for (; c->error.code == YK_OK && c->n_accepted < output->n; c->n_accepted++)
    if (!yk_matcher_accept(c->matcher, output->ids[c->n_accepted])) fail(c, c->n_accepted, output->ids[c->n_accepted]);
  c->has_ended = c->error.code == YK_OK && output->n_end_ids == 0 && yk_matcher_has_ended(c->matcher);
  return c->error.code == YK_OK && !c->has_ended;
}

/* Accepts the output and fills the mask. Returns false if there is no next token. */
static bool match(yk_request_constraint *c, const yk_constrained_output *output, uint32_t *words)
{
  int64_t start_ns = thread_time_ns(), n_tokens = output->n - c->n_accepted + 1;
  if (!catch_up(c, output) || yk_matcher_fill(c->matcher, words, &c->error) != YK_OK) return false;
  c->excess_ns += thread_time_ns() - start_ns - n_tokens * FREE_NS;
  if (c->excess_ns < 0) c->excess_ns = 0;
  if (c->excess_ns <= EXCESS_NS) return true;
  yk_err_set(&c->error, YK_E_INVAL,
             "the constraint is too complex at output token %d: expected at most %g ms to match a token, and %g s more "
             "over the output; make the grammar unambiguous",
             output->n, (double)FREE_NS * 1e-6, (double)EXCESS_NS * 1e-9);
  return false;
}

/* An output that may yet open reasoning continues the open tag, or the answer. Returns false if there is no next
 * token. */
static bool match_opening(yk_request_constraint *c, const yk_constrained_output *output, uint32_t *words,
                          int64_t n_words)
{
  int32_t id = yk_output_reasoning_opening(&c->reasoning, output->ids, output->n);
  bool fits = true;
  while (fits && c->n_accepted < output->n) {
    fits = yk_matcher_accept(c->matcher, output->ids[c->n_accepted]);
    c->n_accepted += fits;
  }
  if (!fits) memset(words, 0, (size_t)n_words * sizeof *words);
  if (fits && !match(c, output, words)) return false;
  if (id >= 0) yk_id_bits_add(words, id);
  return true;
}

static void fill_any(uint32_t *words, int64_t n_words)
{
  memset(words, 0xff, (size_t)n_words * sizeof *words);
}

/* The mask by the matcher and the reasoning. Returns false if there is no next token. */
static bool fill_part(yk_request_constraint *c, const yk_constrained_output *output, uint32_t *words, int64_t n_words)
{
  const yk_output_reasoning *r = &c->reasoning;
  yk_output_part part = r->part;
  if (c->matcher && part == YK_OUTPUT_ANSWERS) return match(c, output, words);
  if (c->matcher && part == YK_OUTPUT_OPENS) return match_opening(c, output, words, n_words);
  fill_any(words, n_words);
  if (c->matcher && r->call_id >= 0 && !c->permits_call) yk_id_bits_remove(words, r->call_id);
  /* A token may end the close tag and begin the answer. */
  if (c->matcher && part == YK_OUTPUT_REASONS && r->n_tag > 0)
    yk_matcher_exclude_after(c->matcher, r->close + r->n_tag, words);
  return true;
}

static void restrict_to_allowed(const yk_request_constraint *c, uint32_t *words, int64_t n_words)
{
  for (int64_t i = 0; i < n_words; i++) words[i] &= c->allowed[i];
}

/* Removes unwanted end tokens from the mask, unless no other token may follow. */
static void drop_unwanted(const yk_constrained_output *output, size_t n_unwanted, uint32_t *words, int64_t n_words)
{
  size_t n_found = 0;
  for (size_t i = 0; i < n_unwanted; i++) n_found += yk_id_bits_have(words, output->end_ids[i]);
  if (n_found == 0 || !has_more_than(n_found, words, n_words)) return;
  for (size_t i = 0; i < n_unwanted; i++) yk_id_bits_remove(words, output->end_ids[i]);
}

void yk_request_constraint_fill(yk_request_constraint *c, const yk_constrained_output *output, uint32_t *words,
                                int64_t n_words)
{
  yk_output_reasoning_read(&c->reasoning, output->ids, output->n);
  int32_t forced = yk_output_reasoning_forced(&c->reasoning, output->ids, output->n);
  if (forced >= 0) {
    memset(words, 0, (size_t)n_words * sizeof *words);
    yk_id_bits_add(words, forced);
    return;
  }
  if (!fill_part(c, output, words, n_words)) {
    fill_any(words, n_words);
    return;
  }
  size_t n_unwanted = output->n_unwanted;
  /* An output that ends within its reasoning has no answer. */
  bool has_answer = !c->matcher || c->reasoning.part != YK_OUTPUT_REASONS;
  if (!has_answer && n_unwanted < output->n_eos_ids) n_unwanted = output->n_eos_ids;
  if (c->allowed) restrict_to_allowed(c, words, n_words);
  if (c->matcher) drop_unwanted(output, n_unwanted, words, n_words);
}
