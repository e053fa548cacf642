#include "cli/batch/batch_progress.h"

#include <stdio.h>

#include "base/clock.h"

enum { REDRAW_MS = 200 };

void yk_batch_progress_start(yk_batch_progress *progress, yk_console *console, yk_engine *engine)
{
  progress->console = console;
  progress->engine = engine;
  progress->started_ns = yk_clock_now_ns();
  progress->drawn_ns = progress->started_ns;
}

/* "12 of 40 lines (1 failed)  3.1 lines/s  0:00:09 left  212 tokens/s" */
static void describe(const yk_batch_progress *p, double elapsed_s, char *text, size_t n_bytes)
{
  int64_t done = p->n_before + p->n_done, left = p->n_total - done;
  double lines_per_s = (double)p->n_done / elapsed_s;
  char total[32] = "", failed[40] = "", remaining[40] = "";
  yk_engine_stats stats;
  yk_engine_get_stats(p->engine, &stats);
  if (p->n_total > 0) snprintf(total, sizeof total, " of %lld", (long long)p->n_total);
  if (p->n_failed) snprintf(failed, sizeof failed, " (%lld failed)", (long long)p->n_failed);
  if (p->n_total > 0 && lines_per_s > 0) {
    long long left_s = (long long)((double)left / lines_per_s);
    snprintf(remaining, sizeof remaining, "  %lld:%02lld:%02lld left", left_s / 3600, left_s / 60 % 60, left_s % 60);
  }
  snprintf(text, n_bytes, "%lld%s lines%s  %.1f lines/s%s  %.0f tokens/s", (long long)done, total, failed, lines_per_s,
           remaining, (double)stats.output_tokens / elapsed_s);
}

void yk_batch_progress_draw(yk_batch_progress *progress)
{
  char text[256];
  int64_t now = yk_clock_now_ns(), done = progress->n_before + progress->n_done;
  if (!progress->console->has_bar || now - progress->drawn_ns < (int64_t)REDRAW_MS * 1000000) return;
  progress->drawn_ns = now;
  describe(progress, (double)(now - progress->started_ns) * 1e-9, text, sizeof text);
  double share = progress->n_total > 0 ? (double)done / (double)progress->n_total : -1;
  yk_console_bar(progress->console, "batch", share, text);
}

void yk_batch_progress_summarise(yk_batch_progress *progress)
{
  const yk_log *log = &progress->console->log;
  double elapsed_s = yk_clock_seconds_since(progress->started_ns);
  yk_engine_stats stats;
  yk_engine_get_stats(progress->engine, &stats);
  yk_console_clear(progress->console);
  if (progress->n_before)
    yk_log_write(log, YK_LOG_INFO, "finished by an earlier run: %lld lines (%lld failed)",
                 (long long)progress->n_before, (long long)progress->n_failed_before);
  yk_log_write(log, YK_LOG_INFO, "finished: %lld lines (%lld failed) in %.1f s, %.1f lines/s",
               (long long)progress->n_done, (long long)progress->n_failed, elapsed_s,
               elapsed_s > 0 ? (double)progress->n_done / elapsed_s : 0);
  yk_log_write(log, YK_LOG_INFO, "%lld prompt tokens, %lld output tokens, %.1f output tokens/s",
               (long long)progress->prompt_tokens, (long long)progress->output_tokens,
               elapsed_s > 0 ? (double)stats.output_tokens / elapsed_s : 0);
  int64_t left = progress->n_total - progress->n_before - progress->n_done;
  if (progress->n_total > 0 && left > 0)
    yk_log_write(log, YK_LOG_INFO, "left: %lld lines; the same command continues with them", (long long)left);
  if (stats.prefix_reused_tokens)
    yk_log_write(log, YK_LOG_INFO, "prefixes: %llu of %llu tokens were found computed",
                 (unsigned long long)stats.prefix_reused_tokens, (unsigned long long)stats.prefix_tokens);
  if (stats.preemptions)
    yk_log_write(log, YK_LOG_INFO, "preemptions: %llu, because KV memory was full",
                 (unsigned long long)stats.preemptions);
}
