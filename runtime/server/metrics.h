/* metrics.h - the server's counters, and their text for Prometheus: vLLM's names under a prefix. Server thread only. */
#ifndef YK_SERVER_METRICS_H
#define YK_SERVER_METRICS_H

#include "base/strbuf.h"
#include "server/histogram.h"
#include "yoke/yoke.h"

enum { YK_FINISH_REASONS = YK_FINISH_ERROR + 1 };

/* One choice that has ended. */
typedef struct yk_choice_metrics {
  yk_finish_reason finish;
  double e2e_s; /* from the request's arrival */
  yk_request_usage usage;
  int32_t max_tokens;
} yk_choice_metrics;

typedef struct yk_metrics {
  uint64_t finished[YK_FINISH_REASONS];  /* choices by yk_finish_reason */
  uint64_t prompt_tokens, cached_tokens; /* cached_tokens: those of prompt_tokens that were already computed */
  yk_engine_stats before;                /* sums over destroyed engines */
  yk_profile profile;                    /* over all engines; n_ranks 0: no step is timed */
  yk_profile profile_before;
  yk_histogram time_to_first_token_s, inter_token_s, request_token_s, e2e_s, queue_s, prefill_s, decode_s, inference_s;
  yk_histogram prompt_lengths, computed_lengths, output_lengths, longest_outputs, params_n, params_max_tokens;
} yk_metrics;

void yk_metrics_init(yk_metrics *metrics);

/* yk_metrics_request - count the number of samples (n) of a request. */
void yk_metrics_request(yk_metrics *metrics, int32_t n_samples);

/* yk_metrics_prompt - count a choice's prompt when it has been computed: at the first token, or at the end if there is
 *   no token. n choices of one prompt count it n times, as in vLLM. */
void yk_metrics_prompt(yk_metrics *metrics, const yk_request_usage *usage);
void yk_metrics_first_token(yk_metrics *metrics, double seconds);
void yk_metrics_next_token(yk_metrics *metrics, double seconds);
void yk_metrics_choice(yk_metrics *metrics, const yk_choice_metrics *choice);

/* yk_metrics_longest - all samples of a prompt have ended; n_tokens: length of the longest. */
void yk_metrics_longest(yk_metrics *metrics, int32_t n_tokens);

/* yk_metrics_profile - add the measurements of the serving engine. Counters never fall: a sum that would fall, since
 *   more time was subtracted for timestamps than before, keeps its value. */
void yk_metrics_profile(yk_metrics *metrics, const yk_profile *now);

/* yk_metrics_engine_gone - keep the counters of an engine that is about to be destroyed. */
void yk_metrics_engine_gone(yk_metrics *metrics, const yk_engine_stats *stats);

/* The present state, in addition to the counters. */
typedef struct yk_metrics_view {
  const char *prefix; /* of names, before a colon */
  const char *model_name;
  const yk_engine_info *info; /* NULL: no engine serves */
  yk_engine_stats stats;      /* of the serving engine */
  bool reuses_prefixes;
  int n_preparing;              /* requests that have not reached the engine yet */
  int32_t max_adapters;         /* 0: the engine has no adapters */
  const char *running_adapters; /* names with commas between: loaded adapters of requests that have a token */
  const char *waiting_adapters; /* and of requests without a token yet; NULL: none */
  yk_expert_load experts;       /* of the serving engine */
} yk_metrics_view;

/* yk_metrics_append - Prometheus' text format, version 0.0.4. */
void yk_metrics_append(const yk_metrics *metrics, const yk_metrics_view *view, yk_strbuf *out);

#endif
