#include "server/stats_log.h"

#include "server/server_internal.h"
#include "server/server_view.h"

static yk_stats_sums sums_of(const yk_server *server, const yk_engine_stats *now)
{
  const yk_metrics *m = &server->metrics;
  const yk_engine_stats *before = &m->before;
  return (yk_stats_sums){.requests = m->params_n.count,
                         .prompt_tokens = m->prompt_tokens,
                         .output_tokens = now->output_tokens + before->output_tokens,
                         .prefix_tokens = now->prefix_tokens + before->prefix_tokens,
                         .prefix_reused_tokens = now->prefix_reused_tokens + before->prefix_reused_tokens};
}

static double percent(uint64_t part, uint64_t all)
{
  return all ? 100 * (double)part / (double)all : 0;
}

static void look(yk_server *server, int64_t now_ns)
{
  yk_stats_log *log = &server->stats_log;
  yk_metrics_view view;
  yk_server_view(server, &view);
  const yk_engine_stats *s = &view.stats;
  const yk_stats_sums before = log->before, now = sums_of(server, s);
  double seconds = (double)(now_ns - log->began_ns) * 1e-9;
  log->output_rate = (double)(now.output_tokens - before.output_tokens) / seconds;
  log->before = now;
  if (!server->options.logs_stats) return;
  yk_log_write(
      server->log, YK_LOG_INFO,
      "stats: running %d, waiting %d, prompt %.1f tokens/s, output %.1f tokens/s, KV cache %.1f %%, prefix hits "
      "%.1f %%",
      s->running, s->waiting + view.n_preparing, (double)(now.prompt_tokens - before.prompt_tokens) / seconds,
      log->output_rate, percent((uint64_t)(s->kv_blocks_total - s->kv_blocks_free), (uint64_t)s->kv_blocks_total),
      percent(now.prefix_reused_tokens - before.prefix_reused_tokens, now.prefix_tokens - before.prefix_tokens));
}

int64_t yk_stats_log_expire(yk_server *server, int64_t now_ns)
{
  yk_stats_log *log = &server->stats_log;
  int64_t interval_ns = (int64_t)(server->options.stats_interval_s * 1e9);
  bool is_active = atomic_load(&server->n_open) > 0 || server->metrics.params_n.count != log->before.requests;
  if (log->due_ns && now_ns < log->due_ns) return log->due_ns;
  if (log->due_ns) {
    look(server, now_ns);
    is_active = atomic_load(&server->n_open) > 0;
    if (!is_active) log->output_rate = 0;
  }
  log->began_ns = now_ns;
  log->due_ns = is_active ? now_ns + interval_ns : 0;
  return is_active ? log->due_ns : INT64_MAX;
}
