#define _GNU_SOURCE /* pthread_timedjoin_np */
#include "e2e/soak_callers.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N_AT_ONCE = 4, MAX_THREADS = 256, MAX_COMPLAINTS = 10, NEVER = INT32_MAX };
enum { WAIT_S = 60 };
enum { WORST_OF_MANY = 3 }; /* times a log-probability's tolerance: some of so many tokens are rarer than any test's */

enum draws { /* what a request draws; cases have their own seed */
             CASE,
             WAY,
             MOMENT,
             CUT,
             ASTRAY
};

typedef struct shared {
  yk_engine *engine;
  const soak_cases *cases;
  uint64_t seed;
  int end;
  int32_t vocab_size;
  test_backend backend;
  atomic_int next, n_complaints;
} shared;

typedef struct caller {
  shared *s;
  soak_counts counts;
  int n_read; /* tokens, since the present few requests were submitted */
} caller;

/* One request on its way. */
typedef struct reading {
  int number;
  const soak_case *c;
  yk_request *request;
  int cancel_at, leave_at; /* tokens that the caller has read by then */
  int32_t n, n_prompt;
  bool parted; /* from the answer alone: nothing can be expected from there on */
  bool wrong;  /* where it may not */
  size_t text_bytes;
  bool cancelled;
} reading;

__attribute__((format(printf, 3, 4))) static void complain(caller *me, int number, const char *format, ...)
{
  va_list arguments;
  char message[256];
  me->counts.wrong++;
  if (atomic_fetch_add(&me->s->n_complaints, 1) >= MAX_COMPLAINTS) return;
  va_start(arguments, format);
  vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  printf("request %d: %s\n", number, message);
}

static void check_number(caller *me, const reading *r, const char *what, float found, float expected, float tolerance,
                         float *worst)
{
  float difference = fabsf(found - expected);
  if (found == expected) return;
  if (difference > *worst) *worst = difference;
  if (!(difference <= tolerance))
    complain(me, r->number, "%s: expected %g, found %g", what, (double)expected, (double)found);
}

static void check_token(caller *me, reading *r, const yk_output *output)
{
  const answer *alone = &r->c->alone;
  const test_backend *backend = &me->s->backend;
  int32_t at = r->n++;
  if (r->parted) return;
  if (at >= alone->n) {
    complain(me, r->number, "expected %d tokens, found more", alone->n);
    r->parted = r->wrong = true;
  } else if (output->token_id != alone->ids[at]) {
    r->parted = true;
    r->wrong = r->c->is_greedy ? !fixture_near_tie(alone, at) : backend->tolerance == 0;
    if (r->wrong)
      complain(me, r->number, "step %d: expected token %d (margin %g), found %d", at, alone->ids[at],
               (double)alone->margins[at], output->token_id);
  } else if (r->c->is_greedy)
    check_number(me, r, "log-probability", output->logprob, alone->logprobs[at], WORST_OF_MANY * backend->tolerance,
                 &me->counts.worst_logprob);
  else if (r->c->options.sampling.n_logprobs >= 0)
    check_number(me, r, "log-probability", output->logprob, alone->logprobs[at],
                 WORST_OF_MANY * backend->rare_tolerance, &me->counts.worst_rare_logprob);
}

static void check_prompt_token(caller *me, reading *r, const yk_output *output)
{
  const answer *alone = &r->c->alone;
  int32_t at = r->n_prompt++;
  if (at >= alone->n_prompt || output->token_id != alone->prompt_ids[at])
    complain(me, r->number, "prompt token %d: found %d", at, output->token_id);
  else
    check_number(me, r, "prompt token's log-probability", output->logprob, alone->prompt_logprobs[at],
                 WORST_OF_MANY * me->s->backend.rare_tolerance, &me->counts.worst_rare_logprob);
}

static void check_text(caller *me, reading *r, const yk_output *output)
{
  const char *text = r->c->alone.text + r->text_bytes;
  if (r->parted) return;
  if (output->text_bytes > strlen(text) || memcmp(output->text, text, output->text_bytes) != 0) {
    complain(me, r->number, "text: expected \"%s\", found \"%.*s\"", text, (int)output->text_bytes, output->text);
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
    if (!r->cancelled) complain(me, r->number, "ended as cancelled, which nobody asked for");
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
    complain(me, r->number, "expected %d prompt tokens, %d tokens, %zu bytes, end \"%s\"; found %d, %d, %zu, \"%s\"",
             alone->n_prompt, alone->n, strlen(alone->text), yk_finish_reason_name(alone->finish), r->n_prompt, r->n,
             r->text_bytes, yk_finish_reason_name(finish));
}

static void submit(caller *me, int number, reading *r)
{
  const shared *s = me->s;
  uint32_t n = (uint32_t)number;
  int32_t way = soak_draw(s->seed, n, WAY, 20), moment = soak_draw(s->seed, n, MOMENT, 100);
  yk_err err = YK_ERR_INIT;
  *r = (reading){.number = number,
                 .c = &s->cases->cases[soak_draw(s->seed, n, CASE, s->cases->n_cases)],
                 .cancel_at = way == 0  ? 0
                              : way < 3 ? moment
                                        : NEVER,
                 .leave_at = way == 6 ? moment : NEVER};
  me->counts.submitted++;
  if (yk_engine_submit(s->engine, &r->c->options, &r->request, &err) != YK_OK)
    complain(me, number, "submit: %s", err.message);
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

/* Read one of the n requests to its end, or until it is left. Others of them may be cancelled meanwhile. */
static void read_one(caller *me, reading *r, reading *readings, int n)
{
  yk_output output;
  yk_err err = YK_ERR_INIT;
  do {
    yk_status status = yk_request_next(r->request, WAIT_S, &output, &err);
    if (status != YK_OK || output.finish == YK_FINISH_ERROR) {
      complain(me, r->number, "%s: %s", status != YK_OK ? "next" : "ended with", err.message);
      return;
    }
    if (output.has_token) me->n_read++;
    if (output.has_token && output.is_prompt) check_prompt_token(me, r, &output);
    if (output.has_token && !output.is_prompt) check_token(me, r, &output);
    /* What a cancelled request held back is not the end of a text. */
    if (output.finish != YK_FINISH_CANCELLED) check_text(me, r, &output);
    cancel_some(me, readings, n);
    if (me->n_read >= r->leave_at) {
      me->counts.left++;
      return;
    }
  } while (output.finish == YK_FINISH_NONE);
  check_end(me, r, output.finish);
}

static void check_logits(caller *me, int number, const soak_case *c, int32_t at, const float *logits)
{
  int32_t best = 0;
  for (int32_t i = 1; i < me->s->vocab_size; i++)
    if (logits[i] > logits[best]) best = i;
  if (best != c->alone.ids[at] && !fixture_near_tie(&c->alone, at))
    complain(me, number, "sequence, step %d: expected token %d (margin %g), found %d", at, c->alone.ids[at],
             (double)c->alone.margins[at], best);
}

/* The prompt in two parts, astray and back between them, the second part and some of the answer on a branch. */
static yk_status hold(caller *me, int number, const soak_case *c, yk_held_sequence *sequence, yk_held_sequence **branch,
                      float *logits, yk_err *err)
{
  enum { N_STEPS = 4 };
  const shared *s = me->s;
  int32_t n = (int32_t)c->options.n_ids, cut = soak_draw(s->seed, (uint32_t)number, CUT, n);
  int32_t astray = 1 + soak_draw(s->seed, (uint32_t)number, ASTRAY, 40);
  if (cut > 0) YK_TRY(yk_held_sequence_append(sequence, c->options.ids, (size_t)cut, YK_LOGITS_NONE, NULL, err));
  YK_TRY(yk_held_sequence_append(sequence, s->cases->text, (size_t)astray, YK_LOGITS_LAST, logits, err));
  YK_TRY(yk_held_sequence_truncate(sequence, (size_t)cut, err));
  YK_TRY(yk_held_sequence_fork(sequence, branch, err));
  YK_TRY(yk_held_sequence_append(*branch, c->options.ids + cut, (size_t)(n - cut), YK_LOGITS_LAST, logits, err));
  check_logits(me, number, c, 0, logits);
  YK_TRY(yk_held_sequence_append(sequence, s->cases->text, (size_t)astray, YK_LOGITS_NONE, NULL, err));
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
  yk_status status = yk_held_sequence_create(me->s->engine, &sequence, &err);
  if (status == YK_OK) status = hold(me, r->number, r->c, sequence, &branch, logits, &err);
  if (status != YK_OK) complain(me, r->number, "sequence: %s", err.message);
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

static void add_counts(soak_counts *sum, const soak_counts *more)
{
  sum->submitted += more->submitted;
  sum->finished += more->finished;
  sum->cancelled += more->cancelled;
  sum->left += more->left;
  sum->sequences += more->sequences;
  sum->greedy_equal += more->greedy_equal;
  sum->greedy_near_tie += more->greedy_near_tie;
  sum->other_equal += more->other_equal;
  sum->other_parted += more->other_parted;
  sum->wrong += more->wrong;
  sum->worst_logprob = fmaxf(sum->worst_logprob, more->worst_logprob);
  sum->worst_rare_logprob = fmaxf(sum->worst_rare_logprob, more->worst_rare_logprob);
}

bool soak_callers_run(yk_engine *engine, const soak_cases *cases, uint64_t seed, int first, int end, int n_threads,
                      double time_limit_s, soak_counts *counts)
{
  static shared s; /* outlives threads that hang */
  static caller callers[MAX_THREADS];
  pthread_t threads[MAX_THREADS];
  struct timespec deadline;
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  s = (shared){.engine = engine,
               .cases = cases,
               .seed = seed,
               .end = end,
               .vocab_size = info.vocab_size,
               .backend = test_backend_chosen()};
  atomic_store(&s.next, first);
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += (time_t)time_limit_s;
  int n = 0;
  for (; n < n_threads && n < MAX_THREADS; n++) {
    callers[n] = (caller){.s = &s};
    if (pthread_create(&threads[n], NULL, run_caller, &callers[n]) != 0) break;
  }
  for (int i = 0; i < n; i++)
    if (pthread_timedjoin_np(threads[i], NULL, &deadline) != 0) return false;
  for (int i = 0; i < n; i++) add_counts(counts, &callers[i].counts);
  return n > 0;
}
