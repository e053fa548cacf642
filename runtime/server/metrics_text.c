/* metrics_text.c - the counters as Prometheus reads them. */
#include "server/metrics.h"

#include <stdio.h>

typedef struct writer {
  yk_strbuf *out;
  yk_strbuf label; /* model_name="...", escaped */
} writer;

static void append_escaped(yk_strbuf *out, const char *text)
{
  for (; *text; text++) {
    if (*text == '\\' || *text == '"') yk_strbuf_append(out, "\\", 1);
    if (*text == '\n')
      yk_strbuf_append_str(out, "\\n");
    else
      yk_strbuf_append(out, text, 1);
  }
}

static void head(writer *w, const char *name, const char *type, const char *help)
{
  yk_strbuf_append_fmt(w->out, "# HELP yoke:%s %s\n# TYPE yoke:%s %s\n", name, help, name, type);
}

static void single(writer *w, const char *name, const char *type, const char *help, double value)
{
  head(w, name, type, help);
  yk_strbuf_append_fmt(w->out, "yoke:%s{%s} %.17g\n", name, w->label.data, value);
}

static void bucket(writer *w, const char *name, const char *bound, uint64_t count)
{
  yk_strbuf_append_fmt(w->out, "yoke:%s_bucket{%s,le=\"%s\"} %llu\n", name, w->label.data, bound,
                       (unsigned long long)count);
}

static void sums(writer *w, const char *name, double sum, uint64_t count)
{
  bucket(w, name, "+Inf", count);
  yk_strbuf_append_fmt(w->out, "yoke:%s_sum{%s} %.17g\nyoke:%s_count{%s} %llu\n", name, w->label.data, sum, name,
                       w->label.data, (unsigned long long)count);
}

static void histogram(writer *w, const char *name, const char *help, const yk_histogram *h)
{
  uint64_t count = 0;
  head(w, name, "histogram", help);
  for (int i = 0; h->bounds[i] > 0; i++) {
    char bound[32];
    count += h->counts[i];
    snprintf(bound, sizeof bound, h->bounds[i] == (double)(long)h->bounds[i] ? "%.1f" : "%g", h->bounds[i]);
    bucket(w, name, bound, count);
  }
  sums(w, name, h->sum, h->count);
}

/* Rows of a step; the engine counts them by powers of two, and vLLM has no bounds at 2 and 4. */
static void step_sizes(writer *w, const yk_engine_stats *now, const yk_engine_stats *before)
{
  static const char name[] = "iteration_tokens_total";
  uint64_t count = 0;
  head(w, name, "histogram", "Tokens of a step, prompt and output.");
  for (int i = 0; i < YOKE_STEP_SIZES - 1; i++) {
    char bound[32];
    count += now->steps_by_rows[i] + before->steps_by_rows[i];
    snprintf(bound, sizeof bound, "%ld.0", 1L << i);
    if (i != 1 && i != 2) bucket(w, name, bound, count);
  }
  uint64_t sum =
      now->prefill_step_tokens + now->decode_step_tokens + before->prefill_step_tokens + before->decode_step_tokens;
  sums(w, name, (double)sum, now->steps + before->steps);
}

static void engine(writer *w, const yk_metrics *m, const yk_metrics_view *view)
{
  const yk_engine_stats *now = &view->stats, *before = &m->before;
  int64_t n_blocks = now->kv_blocks_total, n_used = n_blocks - now->kv_blocks_free;
  single(w, "num_requests_running", "gauge", "Requests in the running batch.", now->running);
  single(w, "num_requests_waiting", "gauge", "Requests that wait to run.", now->waiting + view->n_preparing);
  single(w, "kv_cache_usage_perc", "gauge", "Share of the KV blocks in use, 0 to 1.",
         n_blocks ? (double)n_used / (double)n_blocks : 0);
  single(w, "prefix_cache_queries_total", "counter", "Prompt tokens looked for among those computed.",
         (double)(now->prefix_tokens + before->prefix_tokens));
  single(w, "prefix_cache_hits_total", "counter", "Prompt tokens found computed.",
         (double)(now->prefix_reused_tokens + before->prefix_reused_tokens));
  single(w, "num_preemptions_total", "counter", "Preemptions, for want of KV blocks.",
         (double)(now->preemptions + before->preemptions));
  single(w, "prompt_tokens_total", "counter",
         "Prompt tokens, of each sample of a prompt, once its first token is there.", (double)m->prompt_tokens);
  single(w, "generation_tokens_total", "counter", "Tokens drawn.",
         (double)(now->output_tokens + before->output_tokens));
}

static void finished(writer *w, const yk_metrics *m)
{
  static const char *const names[YK_FINISH_REASONS] = {NULL, "stop", "length", "abort", "error"};
  head(w, "request_success_total", "counter", "Requests that have ended, by their end.");
  for (int i = 1; i < YK_FINISH_REASONS; i++)
    yk_strbuf_append_fmt(w->out, "yoke:request_success_total{%s,finished_reason=\"%s\"} %llu\n", w->label.data,
                         names[i], (unsigned long long)m->finished[i]);
}

static void memory(writer *w, const yk_engine_info *info)
{
  head(w, "rank_memory_bytes", "gauge", "Memory of a rank's device, by what it holds.");
  for (int rank = 0; rank < info->n_ranks; rank++) {
    const yk_rank_memory *m = &info->memory[rank];
    const struct {
      const char *kind;
      int64_t n_bytes;
    } parts[] = {{"weights", m->weight_bytes}, {"kv", m->kv_bytes}, {"workspace", m->workspace_bytes}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
      yk_strbuf_append_fmt(w->out, "yoke:rank_memory_bytes{%s,rank=\"%d\",kind=\"%s\"} %lld\n", w->label.data, rank,
                           parts[i].kind, (long long)parts[i].n_bytes);
  }
}

static void cache_config(writer *w, const yk_engine_info *info, const yk_engine_stats *stats)
{
  head(w, "cache_config_info", "gauge", "What the KV cache is made of.");
  yk_strbuf_append_fmt(w->out, "yoke:cache_config_info{%s,cache_dtype=\"%s\",num_blocks=\"%lld\"} 1\n", w->label.data,
                       info->kv_cache_dtype, (long long)stats->kv_blocks_total);
}

static void step_times(writer *w, const char *kind, const yk_step_times *times, int n_ranks)
{
  for (int rank = 0; rank < n_ranks; rank++)
    for (int part = 0; part < YK_TIME_PARTS; part++)
      yk_strbuf_append_fmt(w->out, "yoke:step_time_seconds_total{%s,rank=\"%d\",part=\"%s\",kind=\"%s\"} %.17g\n",
                           w->label.data, rank, yk_time_part_name((yk_time_part)part), kind, times->part_s[rank][part]);
}

static void profile(writer *w, const yk_profile *p)
{
  head(w, "timed_steps_total", "counter", "Steps that were timed.");
  yk_strbuf_append_fmt(w->out, "yoke:timed_steps_total{%s,kind=\"prefill\"} %llu\n", w->label.data,
                       (unsigned long long)p->prefill.n_steps);
  yk_strbuf_append_fmt(w->out, "yoke:timed_steps_total{%s,kind=\"decode\"} %llu\n", w->label.data,
                       (unsigned long long)p->decode.n_steps);
  head(w, "step_time_seconds_total", "counter", "Where the time of timed steps went on each rank.");
  step_times(w, "prefill", &p->prefill, p->n_ranks);
  step_times(w, "decode", &p->decode, p->n_ranks);
}

static void experts(writer *w, const yk_expert_load *load)
{
  static const char rows[] = "expert_rows_total", share[] = "expert_rank_share";
  head(w, rows, "counter", "Rows that chose each expert, since the engine was started.");
  for (int32_t layer = 0; layer < load->n_layers; layer++)
    for (int32_t i = 0; i < load->n_experts; i++)
      yk_strbuf_append_fmt(w->out, "yoke:%s{%s,layer=\"%d\",expert=\"%d\"} %lld\n", rows, w->label.data,
                           load->layers[layer], i, (long long)load->rows[(int64_t)layer * load->n_experts + i]);
  head(w, share, "gauge", "Share of the choices of experts that falls to each rank, 0 to 1.");
  for (int rank = 0; rank < load->n_ranks; rank++)
    yk_strbuf_append_fmt(w->out, "yoke:%s{%s,rank=\"%d\"} %.17g\n", share, w->label.data, rank,
                         load->rank_shares[rank]);
  single(w, "expert_busiest_rank_share", "gauge", "The most of a layer's choices that falls to one rank, on average.",
         load->busiest_share);
}

void yk_metrics_append(const yk_metrics *m, const yk_metrics_view *view, yk_strbuf *out)
{
  writer w = {.out = out};
  yk_strbuf_append_str(&w.label, "model_name=\"");
  append_escaped(&w.label, view->model_name);
  yk_strbuf_append_str(&w.label, "\"");
  out->failed |= w.label.failed;
  if (!out->failed) {
    engine(&w, m, view);
    finished(&w, m);
    step_sizes(&w, &view->stats, &m->before);
    histogram(&w, "time_to_first_token_seconds", "From a request's arrival to its first token.",
              &m->time_to_first_token_s);
    histogram(&w, "inter_token_latency_seconds", "Between two tokens of a request.", &m->inter_token_s);
    histogram(&w, "e2e_request_latency_seconds", "From a request's arrival to its end.", &m->e2e_s);
    histogram(&w, "request_queue_time_seconds", "Waiting to run.", &m->queue_s);
    histogram(&w, "request_prefill_time_seconds", "Running, up to the first token.", &m->prefill_s);
    histogram(&w, "request_decode_time_seconds", "From the first token to the last.", &m->decode_s);
    histogram(&w, "request_inference_time_seconds", "Running.", &m->inference_s);
    histogram(&w, "request_prompt_tokens", "Tokens of a prompt.", &m->prompt_lengths);
    histogram(&w, "request_generation_tokens", "Tokens of an output.", &m->output_lengths);
    histogram(&w, "request_params_n", "The parameter n.", &m->params_n);
    histogram(&w, "request_params_max_tokens", "The parameter max_tokens.", &m->params_max_tokens);
    if (view->info) memory(&w, view->info);
    if (view->info) cache_config(&w, view->info, &view->stats);
    if (m->profile.n_ranks > 0) profile(&w, &m->profile);
    if (view->experts.n_layers > 0) experts(&w, &view->experts);
  }
  yk_strbuf_free(&w.label);
}
