#include "bench/point.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "bench/arrivals.h"
#include "bench/requests.h"

/* Interval of sampling the engine's counters, and of calling stops. */
static const int64_t look_ns = 5000000, poll_ns = 50000000;

/* The current run. */
typedef struct point {
  yk_bench_requests all;
  const yk_bench_load *load;
  double *arrivals_s; /* [all.n], owned; NULL without an offered load */
  int32_t n_sent;
  int64_t start_ns, looked_ns, polled_ns, latest_ns;
  double kv_use;
} point;

static yk_status look(point *p, yk_err *err)
{
  int64_t now_ns = yk_clock_now_ns();
  if (now_ns - p->looked_ns >= look_ns) {
    yk_engine_stats stats;
    yk_engine_get_stats(p->all.engine, &stats);
    double use = stats.kv_blocks_total > 0 ? 1 - (double)stats.kv_blocks_free / (double)stats.kv_blocks_total : 0;
    if (use > p->kv_use) p->kv_use = use;
    p->looked_ns = now_ns;
  }
  if (p->load->stops && now_ns - p->polled_ns >= poll_ns) {
    p->polled_ns = now_ns;
    if (p->load->stops(p->load->stops_user))
      return yk_err_set(err, YK_E_CANCELLED, "stopped after %d of %d requests", p->all.n_done, p->all.n);
  }
  return YK_OK;
}

static yk_status send_next(point *p, int64_t sent_ns, yk_err *err)
{
  YK_TRY(yk_bench_requests_prepare(&p->all, p->n_sent, err));
  YK_TRY(yk_bench_requests_submit(&p->all, p->n_sent, sent_ns, err));
  p->n_sent++;
  return YK_OK;
}

static yk_status send_now(point *p, yk_err *err)
{
  return send_next(p, yk_clock_now_ns(), err);
}

/* Sends the requests that are due. The waiting time of a late request counts from its due time. */
static yk_status send_due(point *p, int64_t *next_ns, yk_err *err)
{
  *next_ns = INT64_MAX;
  while (p->n_sent < p->all.n) {
    int64_t due_ns = p->start_ns + (int64_t)(p->arrivals_s[p->n_sent] * 1e9), now_ns = yk_clock_now_ns();
    if (due_ns > now_ns) {
      *next_ns = due_ns;
      return yk_bench_requests_prepare(&p->all, p->n_sent, err);
    }
    p->latest_ns = yk_max_i64(p->latest_ns, now_ns - due_ns);
    YK_TRY(send_next(p, due_ns, err));
  }
  return YK_OK;
}

/* Sends and reads requests until the last one has ended. */
static yk_status drive(point *p, yk_err *err)
{
  int32_t n_at_once = p->load->batch > 0 ? p->all.n : p->load->n_clients;
  while (!p->arrivals_s && p->n_sent < n_at_once && p->n_sent < p->all.n) YK_TRY(send_now(p, err));
  while (p->all.n_done < p->all.n) {
    int64_t next_ns = INT64_MAX;
    int32_t n_ended;
    if (p->arrivals_s) YK_TRY(send_due(p, &next_ns, err));
    YK_TRY(yk_bench_requests_read(&p->all, yk_min_i64(next_ns, yk_clock_now_ns() + look_ns), &n_ended, err));
    for (; n_ended > 0 && p->load->n_clients > 0 && p->n_sent < p->all.n; n_ended--) YK_TRY(send_now(p, err));
    YK_TRY(look(p, err));
  }
  return YK_OK;
}

/* Prepares the prompts of all requests that are sent at once, before the clock starts. */
static yk_status prepare(point *p, yk_err *err)
{
  int32_t n_at_once = p->load->batch > 0 ? p->all.n : p->load->n_clients > 0 ? p->load->n_clients : 1;
  for (int32_t i = 0; i < n_at_once && i < p->all.n; i++) YK_TRY(yk_bench_requests_prepare(&p->all, i, err));
  if (p->load->batch > 0 || p->load->n_clients > 0) return YK_OK;
  p->arrivals_s = malloc((size_t)p->all.n * sizeof *p->arrivals_s);
  if (!p->arrivals_s) return yk_err_set(err, YK_E_NOMEM, "no memory for the times of %d requests", p->all.n);
  yk_bench_arrivals_fill(p->load, p->arrivals_s);
  return YK_OK;
}

static void add_engine_figures(const point *p, const yk_engine_stats *before, const yk_engine_stats *after,
                               yk_bench_figures *out)
{
  yk_engine_info info;
  yk_engine_get_info(p->all.engine, &info);
  double steps = (double)(after->steps - before->steps), n_reused = 0;
  double scheduling_s = after->scheduling_s - before->scheduling_s, hand_out_s = after->hand_out_s - before->hand_out_s;
  double in_steps_s = after->prefill_s - before->prefill_s + after->decode_s - before->decode_s;
  for (int32_t i = 0; i < p->all.n; i++) n_reused += p->all.records[i].n_reused;
  out->kv_use = p->kv_use;
  out->preemptions = (double)(after->preemptions - before->preemptions);
  out->prefix_reuse = n_reused / out->total_input_tokens;
  out->memory_bytes = 0;
  for (int i = 0; i < info.n_ranks; i++) {
    const yk_rank_memory *memory = &info.memory[i];
    int64_t n_bytes = memory->weight_bytes + memory->kv_bytes + info.state_bytes[i] + memory->workspace_bytes;
    out->memory_bytes = fmax(out->memory_bytes, (double)n_bytes);
  }
  if (!p->arrivals_s) out->between_share = fmax(0, 1 - in_steps_s / out->duration_s);
  if (p->arrivals_s) out->late_ms = (double)p->latest_ns * 1e-6;
  out->scheduling_us = scheduling_s / steps * 1e6;
  out->hand_out_us = hand_out_s / steps * 1e6;
}

static void add_gpu_figures(const yk_bench_gpu_run *gpus, int n, yk_bench_figures *out)
{
  if (n == 0) return;
  out->n_gpus = n;
  memcpy(out->gpus, gpus, (size_t)n * sizeof *gpus);
  yk_bench_gpus_compare(gpus, n, &out->warnings);
  out->energy_j = 0;
  for (int i = 0; i < n; i++) out->energy_j += out->gpus[i].energy_j; /* NaN if one is unknown */
  out->energy_j_per_token = out->energy_j / out->total_output_tokens;
  out->energy_j_per_token_per_gpu = out->energy_j_per_token / n;
}

/* before: the load at the run's start. */
static yk_status add_experts(const point *p, const yk_expert_load *before, yk_bench_figures *out, yk_err *err)
{
  yk_expert_load now;
  YK_TRY(yk_engine_get_expert_load(p->all.engine, true, &now, err));
  if (now.n_layers > 0) {
    yk_expert_load_subtract(&now, before);
    out->expert_busiest_share = now.busiest_share;
  }
  yk_expert_load_free(&now);
  return YK_OK;
}

static yk_status measure(point *p, const yk_expert_load *experts, yk_bench_figures *out, yk_err *err)
{
  yk_bench_gpu_run gpus[YK_BENCH_MAX_GPUS];
  yk_engine_stats before, after;
  YK_TRY(prepare(p, err));
  yk_engine_get_stats(p->all.engine, &before);
  YK_TRY(yk_bench_gpus_start(p->load->gpus, err));
  p->start_ns = p->looked_ns = p->polled_ns = yk_clock_now_ns();
  yk_status status = drive(p, err);
  int n_gpus = yk_bench_gpus_stop(p->load->gpus, gpus);
  YK_TRY(status);
  yk_engine_get_stats(p->all.engine, &after);
  YK_TRY(yk_bench_measure(p->load, p->all.records, (size_t)p->all.n, p->start_ns, out, err));
  add_engine_figures(p, &before, &after, out);
  YK_TRY(add_experts(p, experts, out, err));
  add_gpu_figures(gpus, n_gpus, out);
  if (p->load->batch > 0 && isnan(out->decode_throughput))
    yk_bench_warn(&out->warnings, "no decode rate: the sequences never decoded all at once; take more --output-len");
  if (p->load->batch > 0 && out->preemptions > 0)
    yk_bench_warn(&out->warnings, "KV memory did not hold the batch: sequences were computed again %.0f times",
                  out->preemptions);
  return YK_OK;
}

yk_status yk_bench_run(yk_engine *engine, const yk_bench_load *load, yk_bench_figures *out, yk_err *err)
{
  yk_engine_info info;
  yk_engine_get_info(engine, &info);
  yk_bench_limits limits = {info.max_seqs, info.max_model_tokens, info.kv_capacity_tokens};
  YK_TRY(yk_bench_load_check(load, &limits, err));
  point p = {.load = load};
  yk_expert_load experts;
  YK_TRY(yk_engine_get_expert_load(engine, true, &experts, err));
  yk_status status = yk_bench_requests_create(&p.all, engine, load, err);
  if (status == YK_OK) status = measure(&p, &experts, out, err);
  yk_bench_requests_free(&p.all);
  yk_expert_load_free(&experts);
  free(p.arrivals_s);
  return status;
}
