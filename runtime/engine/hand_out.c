#include "engine/hand_out.h"

#include "base/log.h"

/* The wanted rows of one item. */
typedef struct item_results {
  yk_sequence *seq; /* NULL: the results do not count */
  int32_t position; /* of the first result */
  const yk_sampled *results;
  int32_t first; /* index among the step's wanted rows */
  int32_t n;
  int32_t n_sampled; /* rows before the first row that could not be sampled */
  bool is_masked;    /* the last row has a mask */
  bool is_lost;      /* the adapter's weights are undefined, so that the results do not count */
} item_results;

/* Rows of the step, and wanted rows, before an item. */
typedef struct item_start {
  int32_t row, wanted;
} item_start;

/* The results of item `index`, which begins at *start; moves *start to the next item. Does not read the sequence, whose
 * request may have ended. */
static item_results results_of(const yk_engine *e, const yk_scheduled *items, int32_t index, const yk_step *step,
                               item_start *start)
{
  const int32_t *wanted_rows = yk_step_wanted_rows(step), *seq_of_row = yk_step_seq_of_row(step);
  const int32_t n_wanted = step->counts.n_wanted;
  int32_t *next = &start->wanted;
  item_results r = {.seq = items[index].seq, .results = step->answer.sampled + *next, .first = *next};
  if (step->counts.has_adapters) r.is_lost = yk_adapters_is_lost(&e->adapters, yk_step_adapters(step)[start->row]);
  start->row += items[index].n_rows;
  if (*next < n_wanted) r.position = yk_step_positions(step)[wanted_rows[*next]];
  while (*next < n_wanted && seq_of_row[wanted_rows[*next]] == index) {
    bool is_sampled = r.results[r.n].state == YK_ROW_SAMPLED;
    if (is_sampled && r.n_sampled == r.n) r.n_sampled++;
    r.is_masked = yk_step_sampling(step)[*next].has_mask;
    r.n++;
    (*next)++;
  }
  return r;
}

static bool is_sound(yk_row_state state)
{
  return state == YK_ROW_SAMPLED || state == YK_ROW_BANNED;
}

/* The last row with finite logits before the first failure proves that all blocks it reads are sound. */
static void mark_sound(yk_engine *e, const item_results *r)
{
  int32_t n_sound = r->n_sampled;
  if (n_sound < r->n && is_sound(r->results[n_sound].state)) n_sound++;
  if (n_sound > 0) yk_scheduler_mark_sound(e->scheduler, r->seq, r->position + n_sound - 1);
}

static const char *advice(const yk_engine *e, const yk_sequence *seq)
{
  if (seq->adapter > 0) return "the weights of the request's adapter are suspect, or those of the model";
  if (e->settings.dtype == YK_F16) return "float16 overflows above 65504: try dtype bfloat16 or float32";
  if (e->settings.dtype == YK_BF16) return "try dtype float32";
  return "the checkpoint's weights are suspect";
}

#define SUSPICION "no sequence of the step has finite logits: the model or the device is suspect"

/* Describe the failure of a sequence. all_unsound: every other sequence of the step failed too. */
static void describe_failure(const yk_engine *e, const item_results *r, bool all_unsound, yk_err *err)
{
  int32_t position = r->position + r->n_sampled, n_prompt = r->seq->n_prompt;
  yk_row_state state = r->results[r->n_sampled].state;
  if (state == YK_ROW_BANNED)
    yk_err_set(err, YK_E_INVAL, "position %d (of a prompt of %d tokens and its output): %s every token", position,
               n_prompt,
               r->is_masked ? "the constraint with allowed ids, biases and bad words bans"
                            : "bad words and the end ids of min_tokens together ban");
  else
    yk_err_set(err, YK_E_DEVICE, "position %d (of a prompt of %d tokens and its output): %s is %s; %s%s", position,
               n_prompt, r->seq->returns_hidden ? "a number of the hidden state" : "a logit",
               state == YK_ROW_NAN ? "NaN" : "infinite", advice(e, r->seq), all_unsound ? "; " SUSPICION : "");
}

static bool has_failed(const item_results *r)
{
  return r->n_sampled < r->n;
}

static bool is_unsound(const item_results *r)
{
  return has_failed(r) && !is_sound(r->results[r->n_sampled].state);
}

static void fail(yk_engine *e, const item_results *r, bool all_unsound)
{
  yk_err err = YK_ERR_INIT;
  if (r->is_lost)
    yk_err_set(&err, YK_E_DEVICE, "the weights of the request's adapter were lost when they were to be replaced");
  else
    describe_failure(e, r, all_unsound, &err);
  if (is_unsound(r)) yk_scheduler_withdraw(e->scheduler, r->seq);
  r->seq->owner->finish(e, r->seq, YK_FINISH_ERROR, &err);
}

/* Runs after all sound blocks are marked, and after the readers of blocks to be withdrawn have taken their results. */
static void fail_items(yk_engine *e, const yk_scheduled *items, int32_t n_items, const yk_step *step, bool all_unsound)
{
  if (all_unsound) yk_log_write(&e->log, YK_LOG_ERROR, "%s", SUSPICION);
  item_start start = {0};
  for (int32_t i = 0; i < n_items; i++) {
    item_results r = results_of(e, items, i, step, &start);
    if (r.seq && (has_failed(&r) || r.is_lost)) fail(e, &r, all_unsound);
  }
}

void yk_hand_out(yk_engine *engine, const yk_scheduled *items, int32_t n_items, const yk_step *step)
{
  int32_t n_failed = 0, n_unsound = 0, n_with_results = 0;
  item_start start = {0};
  for (int32_t i = 0; i < n_items; i++) {
    item_results r = results_of(engine, items, i, step, &start);
    if (!r.seq) continue;
    if (r.is_lost) {
      n_failed++;
      continue;
    }
    mark_sound(engine, &r);
    yk_row_results sampled = {.step = step, .first = r.first, .n = r.n_sampled};
    yk_finish_reason reason = r.seq->owner->take_results(engine, r.seq, r.position, &sampled);
    if (reason != YK_FINISH_NONE && !has_failed(&r)) r.seq->owner->finish(engine, r.seq, reason, NULL);
    n_failed += has_failed(&r);
    n_unsound += is_unsound(&r);
    n_with_results += r.n > 0;
  }
  /* If several sequences ran and none has finite logits, the fault is probably not in a sequence. */
  bool all_unsound = n_unsound > 1 && n_unsound == n_with_results;
  if (n_failed > 0) fail_items(engine, items, n_items, step, all_unsound);
}
