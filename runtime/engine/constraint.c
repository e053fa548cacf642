#include "engine/constraint.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/arguments.h"
#include "kernels/device.h"

/* An ambiguous grammar has more parses with every token. All rows wait for the mask of one, so that a request may take
 * this much of the engine's thread for each token, and this much beyond over the whole output. */
static const int64_t FREE_NS = 5000000, EXCESS_NS = 1000000000;

/* Processor time of the calling thread: other load on the machine does not count. */
static int64_t thread_time_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static bool has_bit(const uint32_t *words, int32_t id)
{
  return words[id / 32] >> id % 32 & 1;
}

static void set_bit(uint32_t *words, int32_t id)
{
  words[id / 32] |= UINT32_C(1) << id % 32;
}

static yk_status set_allowed(yk_request_constraint *c, const yk_sampling *sampling, int32_t n_ids, yk_err *err)
{
  c->allowed = calloc((size_t)yk_mask_words(n_ids), sizeof *c->allowed);
  if (!c->allowed) return yk_err_set(err, YK_E_NOMEM, "allowed_token_ids: no memory for %zu", sampling->n_allowed_ids);
  for (size_t i = 0; i < sampling->n_allowed_ids; i++) set_bit(c->allowed, sampling->allowed_ids[i]);
  return YK_OK;
}

static yk_status set_begin(yk_request_constraint *c, const yk_sampling *sampling, const char *name, yk_err *err)
{
  size_t n = sampling->n_constraint_begin;
  if (n == 0) return YK_OK;
  c->begin = malloc(n * sizeof *c->begin);
  if (!c->begin) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %zu ids", name, n);
  memcpy(c->begin, sampling->constraint_begin, n * sizeof *c->begin);
  c->n_begin = n;
  return YK_OK;
}

yk_status yk_request_constraint_init(yk_request_constraint *c, yk_grammars *grammars, const char *no_tokenizer,
                                     const yk_sampling *sampling, const int32_t *end_ids, size_t n_end_ids,
                                     int32_t n_ids, yk_err *err)
{
  const char *name = sampling->constraint_name ? sampling->constraint_name : "constraint";
  *c = (yk_request_constraint){.error = YK_ERR_INIT};
  if (sampling->n_allowed_ids > 0) YK_TRY(set_allowed(c, sampling, n_ids, err));
  if (sampling->constraint_kind == YK_CONSTRAINT_NONE) return YK_OK;
  yk_status status = YK_E_UNSUPPORTED;
  if (!grammars)
    yk_err_set(err, status, "%s: %s", name, no_tokenizer);
  else
    status = yk_grammars_match(grammars, sampling->constraint_kind, sampling->constraint, sampling->constraint_bytes,
                               end_ids, n_end_ids, &c->matcher, err);
  if (status == YK_OK) status = set_begin(c, sampling, name, err);
  if (status == YK_OK) return YK_OK;
  if (grammars) yk_err_prefix(err, "%s", name);
  yk_request_constraint_end(c);
  return status;
}

void yk_request_constraint_end(yk_request_constraint *c)
{
  yk_matcher_free(c->matcher);
  free(c->allowed);
  free(c->begin);
  c->begin = NULL;
  c->matcher = NULL;
  c->allowed = NULL;
}

/* Whether the ids that precede the constrained part have occurred. */
static bool has_begun(yk_request_constraint *c, const yk_constrained_output *output)
{
  for (; c->begin && c->n_accepted + (int32_t)c->n_begin <= output->n; c->n_accepted++) {
    if (memcmp(output->ids + c->n_accepted, c->begin, c->n_begin * sizeof *c->begin) != 0) continue;
    c->n_accepted += (int32_t)c->n_begin;
    free(c->begin);
    c->begin = NULL;
    break;
  }
  return !c->begin;
}

static void fail(yk_request_constraint *c, int32_t position, int32_t id)
{
  yk_err_set(&c->error, YK_E_INTERNAL, "output token %d (id %d) is not what the constraint allows", position, id);
}

/* Returns false if there is no next token. */
static bool catch_up(yk_request_constraint *c, const yk_constrained_output *output)
{
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

/* Allowed ids restrict the text; where the constraint permits an end, they do not forbid it. */
static void restrict_to_allowed(const yk_request_constraint *c, const yk_constrained_output *output, uint32_t *words,
                                int64_t n_words)
{
  uint64_t ends = 0; /* of the first 64 end ids: more are not the model's */
  for (size_t i = 0; c->matcher && i < output->n_end_ids && i < 64; i++)
    ends |= (uint64_t)has_bit(words, output->end_ids[i]) << i;
  for (int64_t i = 0; i < n_words; i++) words[i] &= c->allowed[i];
  for (size_t i = 0; ends >> i; i++)
    if (ends >> i & 1) set_bit(words, output->end_ids[i]);
}

static bool is_empty(const uint32_t *words, int64_t n_words)
{
  for (int64_t i = 0; i < n_words; i++)
    if (words[i]) return false;
  return true;
}

/* Ends that are not wanted yet stay out, unless nothing else may follow. */
static void drop_unwanted(const yk_constrained_output *output, uint32_t *words, int64_t n_words)
{
  uint64_t dropped = 0;
  for (size_t i = 0; i < output->n_unwanted && i < 64; i++) {
    int32_t id = output->end_ids[i];
    dropped |= (uint64_t)has_bit(words, id) << i;
    words[id / 32] &= ~(UINT32_C(1) << id % 32);
  }
  if (!dropped || !is_empty(words, n_words)) return;
  for (size_t i = 0; dropped >> i; i++)
    if (dropped >> i & 1) set_bit(words, output->end_ids[i]);
}

void yk_request_constraint_fill(yk_request_constraint *c, const yk_constrained_output *output, uint32_t *words,
                                int64_t n_words)
{
  bool matches = c->matcher && has_begun(c, output);
  if (!matches) memset(words, 0xff, (size_t)n_words * sizeof *words);
  if (matches && !match(c, output, words)) {
    memset(words, 0xff, (size_t)n_words * sizeof *words);
    return;
  }
  if (c->allowed) restrict_to_allowed(c, output, words, n_words);
  if (c->matcher) drop_unwanted(output, words, n_words);
}
