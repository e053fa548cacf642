#include "e2e/soak_report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void soak_counts_add(soak_counts *sum, const soak_counts *more)
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
  sum->greedy_tokens += more->greedy_tokens;
  sum->wrong += more->wrong;
  sum->logprobs += more->logprobs;
  sum->logprobs_beyond += more->logprobs_beyond;
  sum->worst_logprob = fmaxf(sum->worst_logprob, more->worst_logprob);
  sum->worst_rare_logprob = fmaxf(sum->worst_rare_logprob, more->worst_rare_logprob);
  sum->widest_tie = fmaxf(sum->widest_tie, more->widest_tie);
}

void soak_examples_init(soak_examples *examples)
{
  *examples = (soak_examples){.n = 0};
  pthread_mutex_init(&examples->lock, NULL);
}

/* Slot for a deviation: that of the same token of the same case, which occurs many times, or the slot with the smallest
 * deviation. */
static soak_deviation *place_of(soak_examples *examples, const soak_deviation *d)
{
  soak_deviation *mildest = &examples->worst[0];
  for (int i = 0; i < examples->n; i++) {
    soak_deviation *other = &examples->worst[i];
    if (other->kind == d->kind && other->soak_case == d->soak_case && other->at == d->at) return other;
    if (other->size < mildest->size) mildest = other;
  }
  if (examples->n == SOAK_MAX_EXAMPLES) return mildest;
  mildest = &examples->worst[examples->n++];
  mildest->size = -1;
  return mildest;
}

void soak_examples_add(soak_examples *examples, const soak_deviation *deviation)
{
  pthread_mutex_lock(&examples->lock);
  soak_deviation *place = place_of(examples, deviation);
  if (deviation->size > place->size) *place = *deviation;
  pthread_mutex_unlock(&examples->lock);
}

void soak_examples_complain(soak_examples *examples, int request, const char *format, ...)
{
  va_list arguments;
  pthread_mutex_lock(&examples->lock);
  if (examples->n_complaints++ < SOAK_MAX_EXAMPLES) {
    printf("request %d: ", request);
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    printf("\n");
  }
  pthread_mutex_unlock(&examples->lock);
}

static int worst_first(const void *a, const void *b)
{
  const soak_deviation *left = a, *right = b;
  return (left->size < right->size) - (left->size > right->size);
}

static void print_deviation(const soak_deviation *d)
{
  static const char *const kinds[] = {"another greedy token", "log-probability", "prompt's log-probability",
                                      "another best token for a held sequence"};
  printf("  %.2f tolerances: request %d (case %d, prompt of %d), token %d: %s: alone %d (%.4f, margin %.4f), found %d "
         "(%.4f, margin %.4f)\n",
         (double)d->size, d->request, d->soak_case, d->n_prompt, d->at, kinds[d->kind], d->expected_id,
         (double)d->expected_logprob, (double)d->expected_margin, d->found_id, (double)d->found_logprob,
         (double)d->found_margin);
}

void soak_report_print(const soak_counts *c, soak_examples *examples)
{
  printf("  finished %lld, cancelled %lld, left unread %lld; %lld held sequences\n", (long long)c->finished,
         (long long)c->cancelled, (long long)c->left, (long long)c->sequences);
  printf("  greedy: %lld as alone, %lld parted at a near tie (margins up to %.4f) in %lld tokens; others: %lld as "
         "alone, %lld parted; %lld wrong\n",
         (long long)c->greedy_equal, (long long)c->greedy_near_tie, (double)c->widest_tie, (long long)c->greedy_tokens,
         (long long)c->other_equal, (long long)c->other_parted, (long long)c->wrong);
  printf("  log-probabilities: %lld of %lld beyond the tolerance; differ by at most %.4f, of drawn and prompt tokens "
         "%.4f\n",
         (long long)c->logprobs_beyond, (long long)c->logprobs, (double)c->worst_logprob,
         (double)c->worst_rare_logprob);
  qsort(examples->worst, (size_t)examples->n, sizeof examples->worst[0], worst_first);
  for (int i = 0; i < examples->n; i++) print_deviation(&examples->worst[i]);
}
