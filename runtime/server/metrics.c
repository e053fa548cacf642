#include "server/metrics.h"

#include <string.h>

/* The same bounds as in vLLM. */
static const double first_token_bounds[YK_HISTOGRAM_BOUNDS] = {
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560};
static const double next_token_bounds[YK_HISTOGRAM_BOUNDS] = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                                                              0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
static const double request_bounds[YK_HISTOGRAM_BOUNDS] = {0.3, 0.5, 0.8, 1,  1.5, 2,   2.5, 5,   10,   15,  20,
                                                           30,  40,  50,  60, 120, 240, 480, 960, 1920, 7680};
static const double length_bounds[YK_HISTOGRAM_BOUNDS] = {
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000};
static const double n_bounds[YK_HISTOGRAM_BOUNDS] = {1, 2, 5, 10, 20};

void yk_metrics_init(yk_metrics *m)
{
  memset(m, 0, sizeof *m);
  m->time_to_first_token_s.bounds = first_token_bounds;
  m->inter_token_s.bounds = m->request_token_s.bounds = next_token_bounds;
  m->e2e_s.bounds = m->queue_s.bounds = m->prefill_s.bounds = m->decode_s.bounds = m->inference_s.bounds =
      request_bounds;
  m->prompt_lengths.bounds = m->computed_lengths.bounds = m->output_lengths.bounds = m->longest_outputs.bounds =
      m->params_max_tokens.bounds = length_bounds;
  m->params_n.bounds = n_bounds;
}

void yk_metrics_request(yk_metrics *m, int32_t n_samples)
{
  yk_histogram_add(&m->params_n, n_samples);
}

static double prefill_s(const yk_request_usage *usage)
{
  return usage->ttft_s > usage->queue_s ? usage->ttft_s - usage->queue_s : 0;
}

void yk_metrics_prompt(yk_metrics *m, const yk_request_usage *usage)
{
  m->prompt_tokens += (uint64_t)usage->prompt_tokens;
  m->cached_tokens += (uint64_t)usage->reused_tokens;
  yk_histogram_add(&m->prompt_lengths, usage->prompt_tokens);
  yk_histogram_add(&m->computed_lengths, usage->prompt_tokens - usage->reused_tokens);
  yk_histogram_add(&m->queue_s, usage->queue_s);
  yk_histogram_add(&m->prefill_s, prefill_s(usage));
}

void yk_metrics_first_token(yk_metrics *m, double seconds)
{
  yk_histogram_add(&m->time_to_first_token_s, seconds);
}

void yk_metrics_next_token(yk_metrics *m, double seconds)
{
  yk_histogram_add(&m->inter_token_s, seconds);
}

void yk_metrics_choice(yk_metrics *m, const yk_choice_metrics *choice)
{
  const yk_request_usage *usage = &choice->usage;
  m->finished[choice->finish]++;
  yk_histogram_add(&m->e2e_s, choice->e2e_s);
  yk_histogram_add(&m->decode_s, usage->decode_s);
  yk_histogram_add(&m->inference_s, prefill_s(usage) + usage->decode_s);
  yk_histogram_add(&m->request_token_s, usage->output_tokens > 1 ? usage->decode_s / (usage->output_tokens - 1) : 0);
  yk_histogram_add(&m->output_lengths, usage->output_tokens);
  if (choice->max_tokens > 0) yk_histogram_add(&m->params_max_tokens, choice->max_tokens);
}

void yk_metrics_longest(yk_metrics *m, int32_t n_tokens)
{
  yk_histogram_add(&m->longest_outputs, n_tokens);
}

static void count_times(yk_step_times *total, const yk_step_times *before, const yk_step_times *now)
{
  total->n_steps = before->n_steps + now->n_steps;
  for (int rank = 0; rank < YK_MAX_RANKS; rank++)
    for (int part = 0; part < YK_TIME_PARTS; part++) {
      double seconds = before->part_s[rank][part] + now->part_s[rank][part];
      if (seconds > total->part_s[rank][part]) total->part_s[rank][part] = seconds;
    }
}

void yk_metrics_profile(yk_metrics *m, const yk_profile *now)
{
  m->profile.n_ranks = now->n_ranks;
  count_times(&m->profile.prefill, &m->profile_before.prefill, &now->prefill);
  count_times(&m->profile.decode, &m->profile_before.decode, &now->decode);
}

void yk_metrics_engine_gone(yk_metrics *m, const yk_engine_stats *stats)
{
  m->before.output_tokens += stats->output_tokens;
  m->before.preemptions += stats->preemptions;
  m->before.prefix_tokens += stats->prefix_tokens;
  m->before.prefix_reused_tokens += stats->prefix_reused_tokens;
  m->before.state_hits += stats->state_hits;
  m->before.state_misses += stats->state_misses;
  m->before.states_evicted += stats->states_evicted;
  m->before.masks += stats->masks;
  m->before.masked_steps += stats->masked_steps;
  m->before.mask_s += stats->mask_s;
  for (int i = 0; i < YK_STEP_SIZES; i++) m->before.steps_by_rows[i] += stats->steps_by_rows[i];
  m->before.steps += stats->steps;
  m->before.prefill_step_tokens += stats->prefill_step_tokens;
  m->before.decode_step_tokens += stats->decode_step_tokens;
  m->profile_before = m->profile;
}
