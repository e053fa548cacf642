/* metrics_text.c - the counters in Prometheus' text format. */
#include "server/metrics.h"

#include <stdio.h>
#include <time.h>

typedef struct writer {
  yk_strbuf *out;
  const char *prefix;
  yk_strbuf label; /* engine="0",model_name="...", escaped */
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
  yk_strbuf_append_fmt(w->out, "# HELP %s:%s %s\n# TYPE %s:%s %s\n", w->prefix, name, help, w->prefix, name, type);
}

/* Writes the beginning of a sample's line, to which more labels and "} value" are appended. */
static void begin(writer *w, const char *name, const char *suffix)
{
  yk_strbuf_append_fmt(w->out, "%s:%s%s{%s", w->prefix, name, suffix, w->label.data);
}

static void end(writer *w, double value)
{
  yk_strbuf_append_fmt(w->out, "} %.17g\n", value);
}

static void single(writer *w, const char *name, const char *type, const char *help, double value)
{
  head(w, name, type, help);
  begin(w, name, "");
  end(w, value);
}

/* Writes one of several values of a metric, identified by a label. */
static void labelled(writer *w, const char *name, const char *label, const char *label_value, double value)
{
  begin(w, name, "");
  yk_strbuf_append_fmt(w->out, ",%s=\"%s\"", label, label_value);
  end(w, value);
}

static void bucket(writer *w, const char *name, const char *bound, uint64_t count)
{
  begin(w, name, "_bucket");
  yk_strbuf_append_fmt(w->out, ",le=\"%s\"", bound);
  end(w, (double)count);
}

static void sums(writer *w, const char *name, double sum, uint64_t count)
{
  bucket(w, name, "+Inf", count);
  begin(w, name, "_sum");
  end(w, sum);
  begin(w, name, "_count");
  end(w, (double)count);
}

static void histogram(writer *w, const char *name, const char *help, const yk_histogram *h)
{
  uint64_t count = 0;
  head(w, name, "histogram", help);
  for (int i = 0; h->bounds[i] > 0; i++) {
    char bound[YK_BOUND_TEXT];
    count += h->counts[i];
    bucket(w, name, yk_histogram_bound_format(h->bounds[i], bound), count);
  }
  sums(w, name, h->sum, h->count);
}

/* Rows per step. The engine counts by powers of two, and vLLM has no bounds at 2 and 4. */
static void step_sizes(writer *w, const yk_engine_stats *now, const yk_engine_stats *before)
{
  static const char name[] = "iteration_tokens_total";
  uint64_t count = 0;
  head(w, name, "histogram", "Tokens of a step, prompt and output.");
  for (int i = 0; i < YK_STEP_SIZES - 1; i++) {
    char bound[32];
    count += now->steps_by_rows[i] + before->steps_by_rows[i];
    snprintf(bound, sizeof bound, "%ld.0", 1L << i);
    if (i != 1 && i != 2) bucket(w, name, bound, count);
  }
  uint64_t sum =
      now->prefill_step_tokens + now->decode_step_tokens + before->prefill_step_tokens + before->decode_step_tokens;
  sums(w, name, (double)sum, now->steps + before->steps);
}

static void state(writer *w, const yk_metrics_view *view)
{
  static const char reasons[] = "num_requests_waiting_by_reason", sleep[] = "engine_sleep_state";
  const yk_engine_stats *now = &view->stats;
  int64_t n_blocks = now->kv_blocks_total, n_used = n_blocks - now->kv_blocks_free;
  single(w, "num_requests_running", "gauge", "Requests in the running batch.", now->running);
  single(w, "num_requests_waiting", "gauge", "Requests that wait to run.", now->waiting + view->n_preparing);
  head(w, reasons, "gauge", "Requests that wait for room to run (capacity), or to be tokenised (deferred).");
  labelled(w, reasons, "reason", "capacity", now->waiting);
  labelled(w, reasons, "reason", "deferred", view->n_preparing);
  head(w, sleep, "gauge", "1 where an engine serves (awake); it never sleeps.");
  labelled(w, sleep, "sleep_state", "awake", view->info != NULL);
  single(w, "kv_cache_usage_perc", "gauge", "Share of the KV blocks in use, 0 to 1.",
         n_blocks ? (double)n_used / (double)n_blocks : 0);
  single(w, "state_cache_usage_perc", "gauge", "Share of the entries for snapshots of recurrent states in use, 0 to 1.",
         now->states_total ? (double)now->states_used / (double)now->states_total : 0);
}

/* The value is the time in seconds: of several samples, gateways take the latest. */
static void adapters(writer *w, const yk_metrics_view *view)
{
  static const char name[] = "lora_requests_info";
  head(w, name, "gauge", "Places for adapters, and adapters of requests that give tokens (running), or give none yet.");
  begin(w, name, "");
  yk_strbuf_append_fmt(w->out, ",max_lora=\"%d\",running_lora_adapters=\"", view->max_adapters);
  append_escaped(w->out, view->running_adapters ? view->running_adapters : "");
  yk_strbuf_append_str(w->out, "\",waiting_lora_adapters=\"");
  append_escaped(w->out, view->waiting_adapters ? view->waiting_adapters : "");
  yk_strbuf_append_str(w->out, "\"");
  end(w, (double)time(NULL));
}

static void counters(writer *w, const yk_metrics *m, const yk_engine_stats *now)
{
  static const char sources[] = "prompt_tokens_by_source_total";
  const yk_engine_stats *before = &m->before;
  single(w, "prefix_cache_queries_total", "counter", "Prompt tokens looked for among those computed.",
         (double)(now->prefix_tokens + before->prefix_tokens));
  single(w, "prefix_cache_hits_total", "counter", "Prompt tokens found computed.",
         (double)(now->prefix_reused_tokens + before->prefix_reused_tokens));
  single(w, "state_cache_hits_total", "counter", "Sequences that began at a snapshot of recurrent states.",
         (double)(now->state_hits + before->state_hits));
  single(w, "state_cache_misses_total", "counter", "Sequences without a snapshot for computed KV of their beginning.",
         (double)(now->state_misses + before->state_misses));
  single(w, "state_cache_evictions_total", "counter", "Snapshots lost to later ones, or with their KV blocks.",
         (double)(now->states_evicted + before->states_evicted));
  single(w, "masks_total", "counter", "Masks of tokens, of constrained outputs.", (double)(now->masks + before->masks));
  single(w, "masked_steps_total", "counter", "Steps that had masks.",
         (double)(now->masked_steps + before->masked_steps));
  single(w, "mask_time_seconds_total", "counter",
         "Time from the start of these steps until their masks were filled, while the ranks compute.",
         now->mask_s + before->mask_s);
  single(w, "num_preemptions_total", "counter", "Preemptions because no KV block was free.",
         (double)(now->preemptions + before->preemptions));
  single(w, "prompt_tokens_total", "counter",
         "Prompt tokens, of each sample of a prompt, once its first token is there.", (double)m->prompt_tokens);
  single(w, "prompt_tokens_cached_total", "counter", "Those of prompt_tokens_total that were found computed.",
         (double)m->cached_tokens);
  head(w, sources, "counter", "Those of prompt_tokens_total that were computed, and found computed.");
  labelled(w, sources, "source", "local_compute", (double)(m->prompt_tokens - m->cached_tokens));
  labelled(w, sources, "source", "local_cache_hit", (double)m->cached_tokens);
  single(w, "generation_tokens_total", "counter", "Tokens drawn.",
         (double)(now->output_tokens + before->output_tokens));
}

static void finished(writer *w, const yk_metrics *m)
{
  static const char name[] = "request_success_total";
  static const char *const reasons[YK_FINISH_REASONS] = {NULL, "stop", "length", "abort", "error"};
  head(w, name, "counter", "Requests that have ended, by their end.");
  for (int i = 1; i < YK_FINISH_REASONS; i++) labelled(w, name, "finished_reason", reasons[i], (double)m->finished[i]);
}

/* The labels of a rank: its pipeline stage, process and host if there are several. info: NULL, or of the engine with
 * the rank. */
static void append_rank(writer *w, int rank, const yk_engine_info *info)
{
  yk_strbuf_append_fmt(w->out, ",rank=\"%d\"", rank);
  if (!info) return;
  if (info->n_stages > 1) yk_strbuf_append_fmt(w->out, ",stage=\"%d\"", rank / (info->n_ranks / info->n_stages));
  if (info->n_processes < 2) return;
  yk_strbuf_append_fmt(w->out, ",process=\"%d\",host=\"", rank / (info->n_ranks / info->n_processes));
  append_escaped(w->out, info->rank_hosts[rank] ? info->rank_hosts[rank] : "");
  yk_strbuf_append_str(w->out, "\"");
}

static void memory(writer *w, const yk_engine_info *info)
{
  static const char name[] = "rank_memory_bytes";
  head(w, name, "gauge", "Memory of a rank's device, by use.");
  for (int rank = 0; rank < info->n_ranks; rank++) {
    const yk_rank_memory *m = &info->memory[rank];
    const struct {
      const char *kind;
      int64_t n_bytes;
    } parts[] = {{"weights", m->weight_bytes},
                 {"kv", m->kv_bytes},
                 {"workspace", m->workspace_bytes},
                 {"states", info->state_bytes[rank]},
                 {"state_cache", info->state_cache_bytes[rank]}};
    size_t n_parts = sizeof parts / sizeof parts[0];
    if (info->state_bytes[rank] == 0) n_parts -= 2;
    for (size_t i = 0; i < n_parts; i++) {
      begin(w, name, "");
      append_rank(w, rank, info);
      yk_strbuf_append_fmt(w->out, ",kind=\"%s\"", parts[i].kind);
      end(w, (double)parts[i].n_bytes);
    }
  }
}

/* Gateways multiply block_size by num_gpu_blocks. */
static void cache_config(writer *w, const yk_metrics_view *view)
{
  static const char name[] = "cache_config_info";
  const yk_engine_info *info = view->info;
  int64_t kv_bytes = 0, state_bytes = 0;
  for (int rank = 0; rank < info->n_ranks; rank++) {
    if (info->memory[rank].kv_bytes > kv_bytes) kv_bytes = info->memory[rank].kv_bytes;
    if (info->state_bytes[rank] > state_bytes) state_bytes = info->state_bytes[rank];
  }
  head(w, name, "gauge",
       "Capacity of the KV cache, in tokens, and of recurrent states, in sequences; bytes are of the rank that has "
       "most.");
  begin(w, name, "");
  yk_strbuf_append_fmt(w->out,
                       ",block_size=\"%d\",num_gpu_blocks=\"%lld\",cache_dtype=\"%s\",enable_prefix_caching=\"%s\","
                       "kv_cache_size_tokens=\"%lld\",kv_cache_memory_bytes=\"%lld\",max_num_seqs=\"%d\","
                       "state_memory_bytes=\"%lld\"",
                       info->kv_block_tokens, (long long)view->stats.kv_blocks_total, info->kv_cache_dtype,
                       view->reuses_prefixes ? "True" : "False", (long long)info->kv_capacity_tokens,
                       (long long)kv_bytes, info->max_seqs, (long long)state_bytes);
  end(w, 1);
}

static void step_times(writer *w, const char *name, const char *kind, const yk_step_times *times, int n_ranks,
                       const yk_engine_info *info)
{
  for (int rank = 0; rank < n_ranks; rank++)
    for (int part = 0; part < YK_TIME_PARTS; part++) {
      begin(w, name, "");
      append_rank(w, rank, info);
      yk_strbuf_append_fmt(w->out, ",part=\"%s\",kind=\"%s\"", yk_time_part_name((yk_time_part)part), kind);
      end(w, times->part_s[rank][part]);
    }
}

static void profile(writer *w, const yk_profile *p, const yk_engine_info *info)
{
  static const char steps[] = "timed_steps_total", times[] = "step_time_seconds_total";
  head(w, steps, "counter", "Steps that were timed.");
  labelled(w, steps, "kind", "prefill", (double)p->prefill.n_steps);
  labelled(w, steps, "kind", "decode", (double)p->decode.n_steps);
  head(w, times, "counter", "Where the time of timed steps went on each rank.");
  if (info && info->n_ranks != p->n_ranks) info = NULL;
  step_times(w, times, "prefill", &p->prefill, p->n_ranks, info);
  step_times(w, times, "decode", &p->decode, p->n_ranks, info);
}

static void experts(writer *w, const yk_expert_load *load, const yk_engine_info *info)
{
  static const char rows[] = "expert_rows_total", share[] = "expert_rank_share";
  head(w, rows, "counter", "Rows that chose each expert, since the engine was started.");
  for (int32_t layer = 0; layer < load->n_layers; layer++)
    for (int32_t i = 0; i < load->n_experts; i++) {
      begin(w, rows, "");
      yk_strbuf_append_fmt(w->out, ",layer=\"%d\",expert=\"%d\"", load->layers[layer], i);
      end(w, (double)load->rows[(int64_t)layer * load->n_experts + i]);
    }
  head(w, share, "gauge", "Share of the choices of experts that falls to each rank, 0 to 1.");
  for (int rank = 0; rank < load->n_ranks; rank++) {
    begin(w, share, "");
    append_rank(w, rank, info && info->n_ranks == load->n_ranks ? info : NULL);
    end(w, load->rank_shares[rank]);
  }
  single(w, "expert_busiest_rank_share", "gauge", "The most of a layer's choices that falls to one rank, on average.",
         load->busiest_share);
}

static void requests(writer *w, const yk_metrics *m)
{
  histogram(w, "time_to_first_token_seconds", "From a request's arrival to its first token.",
            &m->time_to_first_token_s);
  histogram(w, "inter_token_latency_seconds", "Between two tokens of a request.", &m->inter_token_s);
  histogram(w, "request_time_per_output_token_seconds", "Mean time of a request's tokens after the first.",
            &m->request_token_s);
  histogram(w, "e2e_request_latency_seconds", "From a request's arrival to its end.", &m->e2e_s);
  histogram(w, "request_queue_time_seconds", "Waiting to run.", &m->queue_s);
  histogram(w, "request_prefill_time_seconds", "Running, up to the first token.", &m->prefill_s);
  histogram(w, "request_decode_time_seconds", "From the first token to the last.", &m->decode_s);
  histogram(w, "request_inference_time_seconds", "Running.", &m->inference_s);
  histogram(w, "request_prompt_tokens", "Tokens of a prompt.", &m->prompt_lengths);
  histogram(w, "request_prefill_kv_computed_tokens", "Tokens of a prompt that were not found computed.",
            &m->computed_lengths);
  histogram(w, "request_generation_tokens", "Tokens of an output.", &m->output_lengths);
  histogram(w, "request_max_num_generation_tokens", "Tokens of the longest output of a prompt's samples.",
            &m->longest_outputs);
  histogram(w, "request_params_n", "The parameter n.", &m->params_n);
  histogram(w, "request_params_max_tokens", "The parameter max_tokens.", &m->params_max_tokens);
}

void yk_metrics_append(const yk_metrics *m, const yk_metrics_view *view, yk_strbuf *out)
{
  writer w = {.out = out, .prefix = view->prefix};
  yk_strbuf_append_str(&w.label, "engine=\"0\",model_name=\"");
  append_escaped(&w.label, view->model_name);
  yk_strbuf_append_str(&w.label, "\"");
  out->failed |= w.label.failed;
  if (!out->failed) {
    state(&w, view);
    counters(&w, m, &view->stats);
    finished(&w, m);
    step_sizes(&w, &view->stats, &m->before);
    requests(&w, m);
    if (view->info) memory(&w, view->info);
    if (view->info) cache_config(&w, view);
    if (view->info && view->max_adapters > 0) adapters(&w, view);
    if (m->profile.n_ranks > 0) profile(&w, &m->profile, view->info);
    if (view->experts.n_layers > 0) experts(&w, &view->experts, view->info);
  }
  yk_strbuf_free(&w.label);
}
