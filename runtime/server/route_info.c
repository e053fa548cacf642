/* route_info.c - information for routers: /server_info, /model_info, /v1/loads and the older /get_load, with the names
 * that SGLang's router reads; and vLLM's routes for operators: /reset_prefix_cache, /tokenizer_info. */
#include <string.h>
#include <time.h>

#include "base/json_write.h"
#include "server/engine_state.h"
#include "server/routes.h"
#include "server/server_view.h"
#include "server/tokenizer_info.h"

static void text(yk_strbuf *out, const char *key, const char *value)
{
  yk_strbuf_append_fmt(out, "\"%s\":", key);
  yk_json_append_string(out, value, strlen(value));
  yk_strbuf_append_str(out, ",");
}

static void number(yk_strbuf *out, const char *key, int64_t value)
{
  yk_strbuf_append_fmt(out, "\"%s\":%lld,", key, (long long)value);
}

static void real(yk_strbuf *out, const char *key, double value)
{
  yk_strbuf_append_fmt(out, "\"%s\":", key);
  yk_json_append_real(out, value);
  yk_strbuf_append_str(out, ",");
}

/* Gives the name that clients use for the model, so that the answer shows no folder. */
void yk_route_server_info(yk_exchange *x)
{
  yk_server *server = x->server;
  const yk_engine_info *info = &server->info;
  yk_strbuf *out = &x->reply.body;
  if (!yk_server_has_engine(x)) return;
  yk_strbuf_append_str(out, "{");
  text(out, "version", yk_version());
  text(out, "model_path", server->options.model_names[0]);
  text(out, "served_model_name", server->options.model_names[0]);
  text(out, "device", info->device);
  text(out, "dtype", info->dtype);
  text(out, "kv_cache_dtype", info->kv_cache_dtype);
  text(out, "disaggregation_mode", "null");
  number(out, "tp_size", info->n_ranks / info->n_stages);
  number(out, "dp_size", 1);
  number(out, "pp_size", info->n_stages);
  number(out, "context_length", info->max_model_tokens);
  number(out, "max_total_tokens", info->kv_capacity_tokens);
  number(out, "max_total_num_tokens", info->kv_capacity_tokens);
  number(out, "max_running_requests", info->max_seqs);
  number(out, "max_queued_requests", server->options.max_waiting);
  yk_strbuf_append_fmt(out, "\"is_embedding\":%s}", info->only_embeds ? "true" : "false");
  yk_reply_json(&x->reply);
}

void yk_route_model_info(yk_exchange *x)
{
  yk_server *server = x->server;
  yk_strbuf *out = &x->reply.body;
  if (!yk_server_has_engine(x)) return;
  yk_strbuf_append_str(out, "{");
  text(out, "model_path", server->options.model_names[0]);
  text(out, "tokenizer_path", server->options.model_names[0]);
  text(out, "model_type", server->info.family);
  number(out, "vocab_size", server->info.vocab_size);
  number(out, "max_context_length", server->info.max_model_tokens);
  yk_strbuf_append_fmt(out, "\"is_generation\":%s,\"has_image_understanding\":false,\"has_audio_understanding\":false}",
                       server->info.only_embeds ? "false" : "true");
  yk_reply_json(&x->reply);
}

static void append_time(yk_strbuf *out)
{
  char iso[32];
  struct tm parts;
  time_t now = time(NULL);
  gmtime_r(&now, &parts);
  strftime(iso, sizeof iso, "%Y-%m-%dT%H:%M:%S+00:00", &parts);
  text(out, "timestamp", iso);
}

static int64_t used_tokens(const yk_metrics_view *view)
{
  return (view->stats.kv_blocks_total - view->stats.kv_blocks_free) * view->info->kv_block_tokens;
}

void yk_route_loads(yk_exchange *x)
{
  yk_metrics_view view;
  yk_strbuf *out = &x->reply.body;
  if (!yk_server_has_engine(x)) return;
  yk_server_view(x->server, &view);
  const yk_engine_stats *s = &view.stats;
  int64_t n_used = used_tokens(&view), n_all = s->kv_blocks_total * view.info->kv_block_tokens;
  int64_t n_waiting = s->waiting + view.n_preparing;
  yk_strbuf_append_str(out, "{");
  append_time(out);
  text(out, "version", yk_version());
  yk_strbuf_append_str(out, "\"dp_rank_count\":1,\"loads\":[{");
  number(out, "num_running_reqs", s->running);
  number(out, "num_waiting_reqs", n_waiting);
  number(out, "num_waiting_uncached_tokens", s->waiting_tokens);
  number(out, "num_total_reqs", s->running + n_waiting);
  number(out, "num_used_tokens", n_used);
  number(out, "num_total_tokens", n_used + s->waiting_tokens);
  number(out, "max_total_num_tokens", n_all);
  number(out, "max_running_requests", view.info->max_seqs);
  real(out, "token_usage", n_all ? (double)n_used / (double)n_all : 0);
  real(out, "utilization", (double)s->running / view.info->max_seqs);
  real(out, "gen_throughput", x->server->stats_log.output_rate);
  real(out, "cache_hit_rate", s->prefix_tokens ? (double)s->prefix_reused_tokens / (double)s->prefix_tokens : 0);
  yk_strbuf_append_str(out, "\"dp_rank\":0}]}");
  yk_reply_json(&x->reply);
}

void yk_route_get_load(yk_exchange *x)
{
  yk_metrics_view view;
  yk_strbuf *out = &x->reply.body;
  if (!yk_server_has_engine(x)) return;
  yk_server_view(x->server, &view);
  const yk_engine_stats *s = &view.stats;
  int64_t n_waiting = s->waiting + view.n_preparing;
  yk_strbuf_append_str(out, "[{");
  number(out, "num_reqs", s->running + n_waiting);
  number(out, "num_waiting_reqs", n_waiting);
  number(out, "num_tokens", used_tokens(&view) + s->waiting_tokens);
  yk_strbuf_append_str(out, "\"dp_rank\":0}]");
  yk_reply_json(&x->reply);
}

void yk_route_reset_prefix_cache(yk_exchange *x)
{
  yk_err err = YK_ERR_INIT;
  if (!yk_exchange_lease_engine(x)) return;
  if (yk_engine_reset_prefixes(x->engine, &err) == YK_OK) {
    yk_strbuf_append_str(&x->reply.body, "{\"success\":true}");
    yk_reply_json(&x->reply);
  } else {
    yk_reply_failure(&x->reply, &err, NULL);
  }
  yk_exchange_return_engine(x);
}

void yk_route_tokenizer_info(yk_exchange *x)
{
  const yk_server_options *options = &x->server->options;
  const char *tokenizer = options->engine.tokenizer ? options->engine.tokenizer : options->engine.model_dir;
  yk_err err = YK_ERR_INIT;
  if (!options->serves_tokenizer_info) {
    yk_reply_refuse(&x->reply, 404, NULL, "start the server with --enable-tokenizer-info-endpoint to use this route");
  } else if (yk_tokenizer_info_append(tokenizer, options->chat_template, &x->reply.body, &err) == YK_OK) {
    yk_reply_json(&x->reply);
  } else { /* the message names folders, which clients must not see */
    yk_log_write(x->server->log, YK_LOG_WARN, "/tokenizer_info: %s", err.message);
    yk_reply_refuse(&x->reply, 500, NULL, "the tokenizer's configuration cannot be read; see the server's log");
  }
}
