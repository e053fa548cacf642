#define _GNU_SOURCE /* pthread_timedjoin_np */
#include "e2e/soak_callers.h"
#include "base/status.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

enum { N_AT_ONCE = 4, MAX_THREADS = 256, NEVER = INT32_MAX };
enum { WAIT_S = 60 };

enum draws { /* random draws of a request; cases have separate streams */
             CASE,
             WAY,
             MOMENT,
             CUT,
             ASTRAY
};

typedef struct shared {
  soak_run run;
  soak_examples *examples;
  int end;
  int64_t started_ns;
  int32_t vocab_size;
  atomic_int next;
} shared;

typedef struct caller {
  shared *s;
  soak_counts counts;
  int n_read; /* tokens, since the present few requests were submitted */
} caller;

/* One running request. */
typedef struct reading {
  int number;
  const soak_case *c;
  yk_request *request;
  int cancel_at, leave_at; /* tokens that the caller has read so far */
  int32_t n, n_prompt;
  bool parted; /* differs from the answer alone: nothing can be expected from then on */
  bool wrong;  /* differs at a step where it may not */
  size_t text_bytes;
  bool cancelled;
} reading;

#define COMPLAIN(me, ...)                                                                                              \
  do {                                                                                                                 \
    (me)->counts.wrong++;                                                                                              \
    soak_examples_complain((me)->s->examples, __VA_ARGS__);                                                            \
  } while (0)

static int case_of(const caller *me, const soak_case *c)
{
  return (int)(c - me->s->run.cases->cases);
}

/* In tolerances; infinite without a tolerance. */
static float in_tolerances(float difference, float tolerance)
{
  return tolerance > 0 ? difference / tolerance : INFINITY;
}

/* Compares the same token's log-probability, within its tolerance. Without a tolerance, a difference is an error. */
static void check_logprob(caller *me, const reading *r, soak_deviation *d, float tolerance, float *worst)
{
  float difference = fabsf(d->found_logprob - d->expected_logprob);
  me->counts.logprobs++;
  if (d->found_logprob == d->expected_logprob) return;
  *worst = fmaxf(*worst, difference);
  if (difference <= tolerance) return;
  me->counts.logprobs_beyond++;
  d->size = in_tolerances(difference, tolerance);
  soak_examples_add(me->s->examples, d);
  if (tolerance == 0 || isnan(difference))
    COMPLAIN(me, r->number, "token %d: expected log-probability %g, found %g", d->at, (double)d->expected_logprob,
             (double)d->found_logprob);
}

/* A greedy token that differs from the one alone is right only if the two best log-probabilities are close in both
 * runs. Returns whether they are. */
static bool may_part(caller *me, soak_deviation *d)
{
  float margin = fmaxf(d->expected_margin, isinf(d->found_margin) ? 0 : d->found_margin);
  float limit = me->s->run.limits.margin;
  d->size = in_tolerances(margin, limit);
  soak_examples_add(me->s->examples, d);
  if (limit > 0 && margin <= limit) {
    me->counts.widest_tie = fmaxf(me->counts.widest_tie, margin);
    return true;
  }
  COMPLAIN(me, d->request, "%stoken %d: expected %d (margin %g), found %d (margin %g)",
           d->kind == SOAK_SEQUENCE ? "held sequence, " : "", d->at, d->expected_id, (double)d->expected_margin,
           d->found_id, (double)d->found_margin);
  return false;
}

static soak_deviation compare_token(const caller *me, const reading *r, int32_t at, const yk_output *output)
{
  const answer *alone = &r->c->alone;
  return (soak_deviation){.kind = SOAK_LOGPROB,
                          .request = r->number,
                          .soak_case = case_of(me, r->c),
                          .at = at,
                          .n_prompt = (int32_t)r->c->options.n_ids,
                          .found_id = output->token_id,
                          .expected_id = alone->ids[at],
                          .found_logprob = output->logprob,
                          .expected_logprob = alone->logprobs[at],
                          .found_margin =
                              output->n_top > 1 ? output->top_logprobs[0] - output->top_logprobs[1] : INFINITY,
                          .expected_margin = alone->margins[at]};
}

static void check_token(caller *me, reading *r, const yk_output *output)
{
  const answer *alone = &r->c->alone;
  const soak_limits *limits = &me->s->run.limits;
  int32_t at = r->n++;
  if (r->parted) return;
  if (at >= alone->n) {
    COMPLAIN(me, r->number, "expected %d tokens, found more", alone->n);
    r->parted = r->wrong = true;
    return;
  }
  soak_deviation d = compare_token(me, r, at, output);
  me->counts.greedy_tokens += r->c->is_greedy;
  if (output->token_id == alone->ids[at]) {
    if (r->c->is_greedy)
      check_logprob(me, r, &d, limits->logprob, &me->counts.worst_logprob);
    else if (r->c->options.sampling.n_logprobs >= 0)
      check_logprob(me, r, &d, limits->rare, &me->counts.worst_rare_logprob);
    return;
  }
  r->parted = true;
  d.kind = SOAK_PARTED;
  if (r->c->is_greedy) {
    r->wrong = !may_part(me, &d);
  } else if (limits->margin == 0) {
    r->wrong = true;
    COMPLAIN(me, r->number, "token %d: expected %d, found %d", at, alone->ids[at], output->token_id);
  }
}

static void check_prompt_token(caller *me, reading *r, const yk_output *output)
{
  const answer *alone = &r->c->alone;
  int32_t at = r->n_prompt++;
  if (at >= alone->n_prompt || output->token_id != alone->prompt_ids[at]) {
    COMPLAIN(me, r->number, "prompt token %d: found %d", at, output->token_id);
    return;
  }
  soak_deviation d = {.kind = SOAK_PROMPT_LOGPROB,
                      .request = r->number,
                      .soak_case = case_of(me, r->c),
                      .at = at,
                      .n_prompt = (int32_t)r->c->options.n_ids,
                      .found_id = output->token_id,
                      .expected_id = output->token_id,
                      .found_logprob = output->logprob,
                      .expected_logprob = alone->prompt_logprobs[at],
                      .found_margin = INFINITY,
                      .expected_margin = INFINITY};
  check_logprob(me, r, &d, me->s->run.limits.rare, &me->counts.worst_rare_logprob);
}

static void check_text(caller *me, reading *r, const yk_output *output)
{
  const char *text = r->c->alone.text + r->text_bytes;
  if (r->parted) return;
  if (output->text_bytes > strlen(text) || memcmp(output->text, text, output->text_bytes) != 0) {
    COMPLAIN(me, r->number, "text: expected \"%s\", found \"%.*s\"", text, (int)output->text_bytes, output->text);
    r->parted = r->wrong = true;
  }
  r->text_bytes += output->text_bytes;
}

static void check_end(caller *me, const reading *r, yk_finish_reason finish)
{
  const answer *alone = &r->c->alone;
  soak_counts *counts = &me->counts;
  if (finish == YK_FINISH_CANCELLED) {
    counts->cancelled++;
    if (!r->cancelled) COMPLAIN(me, r->number, "ended as cancelled, which nobody asked for");
    return;
  }
  counts->finished++;
  if (r->wrong) return;
  if (r->parted) {
    (*(r->c->is_greedy ? &counts->greedy_near_tie : &counts->other_parted))++;
    return;
  }
  (*(r->c->is_greedy ? &counts->greedy_equal : &counts->other_equal))++;
  if (finish != alone->finish || r->n != alone->n || r->n_prompt != alone->n_prompt ||
      r->text_bytes != strlen(alone->text))
    COMPLAIN(me, r->number, "expected %d prompt tokens, %d tokens, %zu bytes, end \"%s\"; found %d, %d, %zu, \"%s\"",
             alone->n_prompt, alone->n, strlen(alone->text), yk_finish_reason_name(alone->finish), r->n_prompt, r->n,
             r->text_bytes, yk_finish_reason_name(finish));
}

static void submit(caller *me, int number, reading *r)
{
  const shared *s = me->s;
  uint32_t n = (uint32_t)number;
  int32_t way = soak_draw(s->run.seed, n, WAY, 20), moment = soak_draw(s->run.seed, n, MOMENT, 100);
  yk_err err = YK_ERR_INIT;
  *r = (reading){.number = number,
                 .c = &s->run.cases->cases[soak_draw(s->run.seed, n, CASE, s->run.cases->n_cases)],
                 .cancel_at = way == 0  ? 0
                              : way < 3 ? moment
                                        : NEVER,
                 .leave_at = way == 6 ? moment : NEVER};
  me->counts.submitted++;
  if (yk_engine_submit(s->run.engine, &r->c->options, &r->request, &err) != YK_OK)
    COMPLAIN(me, number, "submit: %s", err.message);
}

static void cancel_some(const caller *me, reading *readings, int n)
{
  for (int i = 0; i < n; i++) {
    reading *r = &readings[i];
    if (!r->request || r->cancelled || me->n_read < r->cancel_at) continue;
    yk_request_cancel(r->request);
    r->cancelled = true;
  }
}

/* Read one of the n requests to its end, or until it is dropped. Others may be cancelled meanwhile. */
static void read_one(caller *me, reading *r, reading *readings, int n)
{
  const yk_output *output;
  yk_err err = YK_ERR_INIT;
  do {
    yk_status status = yk_request_next(r->request, WAIT_S, &output, &err);
    if (status != YK_OK) {
      COMPLAIN(me, r->number, "next: %s: %s", yk_status_name(status), err.message);
      return;
    }
    if (output->has_token) me->n_read++;
    if (output->has_token && output->is_prompt) check_prompt_token(me, r, output);
    if (output->has_token && !output->is_prompt) check_token(me, r, output);
    /* Text that a cancelled request held back is not output. */
    if (output->finish != YK_FINISH_CANCELLED) check_text(me, r, output);
    cancel_some(me, readings, n);
    if (me->n_read >= r->leave_at) {
      me->counts.left++;
      return;
    }
  } while (output->finish == YK_FINISH_NONE);
  check_end(me, r, output->finish);
}

static void check_logits(caller *me, int number, const soak_case *c, int32_t at, const float *logits)
{
  int32_t best = 0, expected = c->alone.ids[at];
  for (int32_t i = 1; i < me->s->vocab_size; i++)
    if (logits[i] > logits[best]) best = i;
  if (best == expected) return;
  may_part(me, &(soak_deviation){.kind = SOAK_SEQUENCE,
                                 .request = number,
                                 .soak_case = case_of(me, c),
                                 .at = at,
                                 .n_prompt = (int32_t)c->options.n_ids,
                                 .found_id = best,
                                 .expected_id = expected,
                                 .found_logprob = NAN,
                                 .expected_logprob = c->alone.logprobs[at],
                                 .found_margin = logits[best] - logits[expected],
                                 .expected_margin = c->alone.margins[at]});
}

/* The prompt in two parts, with a detour that is truncated between them; the second part and some of the answer on a
 * fork. */
static yk_status hold(caller *me, int number, const soak_case *c, yk_held_sequence *sequence, yk_held_sequence **branch,
                      float *logits, yk_err *err)
{
  enum { N_STEPS = 4 };
  const shared *s = me->s;
  int32_t n = (int32_t)c->options.n_ids, cut = soak_draw(s->run.seed, (uint32_t)number, CUT, n);
  int32_t astray = 1 + soak_draw(s->run.seed, (uint32_t)number, ASTRAY, 40);
  if (cut > 0) YK_TRY(yk_held_sequence_append(sequence, c->options.ids, (size_t)cut, YK_LOGITS_NONE, NULL, err));
  YK_TRY(yk_held_sequence_append(sequence, s->run.cases->text, (size_t)astray, YK_LOGITS_LAST, logits, err));
  YK_TRY(yk_held_sequence_truncate(sequence, (size_t)cut, err));
  YK_TRY(yk_held_sequence_fork(sequence, branch, err));
  YK_TRY(yk_held_sequence_append(*branch, c->options.ids + cut, (size_t)(n - cut), YK_LOGITS_LAST, logits, err));
  check_logits(me, number, c, 0, logits);
  YK_TRY(yk_held_sequence_append(sequence, s->run.cases->text, (size_t)astray, YK_LOGITS_NONE, NULL, err));
  for (int32_t at = 1; at < N_STEPS && at < c->alone.n; at++) {
    YK_TRY(yk_held_sequence_append(*branch, &c->alone.ids[at - 1], 1, YK_LOGITS_LAST, logits, err));
    check_logits(me, number, c, at, logits);
  }
  return YK_OK;
}

static void use_sequence(caller *me, const reading *r, float *logits)
{
  yk_held_sequence *sequence = NULL, *branch = NULL;
  yk_err err = YK_ERR_INIT;
  yk_status status = yk_held_sequence_create(me->s->run.engine, &sequence, &err);
  if (status == YK_OK) status = hold(me, r->number, r->c, sequence, &branch, logits, &err);
  if (status != YK_OK) COMPLAIN(me, r->number, "sequence: %s", err.message);
  yk_held_sequence_free(branch);
  yk_held_sequence_free(sequence);
  me->counts.sequences++;
}

static void *run_caller(void *argument)
{
  caller *me = argument;
  shared *s = me->s;
  float *logits = malloc((size_t)s->vocab_size * sizeof *logits);
  for (int first; (first = atomic_fetch_add(&s->next, N_AT_ONCE)) < s->end;) {
    if (yk_clock_seconds_since(s->started_ns) > s->run.budget_s) break;
    reading readings[N_AT_ONCE] = {0};
    int n = 0;
    me->n_read = 0;
    for (; n < N_AT_ONCE && first + n < s->end; n++) submit(me, first + n, &readings[n]);
    cancel_some(me, readings, n);
    if (readings[0].c->is_greedy) use_sequence(me, &readings[0], logits);
    for (int i = 0; i < n; i++) {
      if (readings[i].request) read_one(me, &readings[i], readings, n);
      yk_request_free(readings[i].request);
      readings[i].request = NULL;
    }
  }
  free(logits);
  return NULL;
}

bool soak_callers_run(const soak_run *run, int first, int end, soak_counts *counts, soak_examples *examples)
{
  static shared s; /* outlives threads that hang */
  static caller callers[MAX_THREADS];
  pthread_t threads[MAX_THREADS];
  struct timespec deadline;
  yk_engine_info info;
  yk_engine_get_info(run->engine, &info);
  s = (shared){
      .run = *run, .examples = examples, .end = end, .started_ns = yk_clock_now_ns(), .vocab_size = info.vocab_size};
  atomic_store(&s.next, first);
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += (time_t)run->time_limit_s;
  int n = 0;
  for (; n < run->n_threads && n < MAX_THREADS; n++) {
    callers[n] = (caller){.s = &s};
    if (pthread_create(&threads[n], NULL, run_caller, &callers[n]) != 0) break;
  }
  for (int i = 0; i < n; i++)
    if (pthread_timedjoin_np(threads[i], NULL, &deadline) != 0) return false;
  for (int i = 0; i < n; i++) soak_counts_add(counts, &callers[i].counts);
  return n > 0;
}
