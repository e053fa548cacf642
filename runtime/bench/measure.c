#include "bench/measure.h"

#include <math.h>
#include <stdlib.h>

/* The times of all requests, one sample each. */
typedef struct samples {
  double *values_ms[YK_BENCH_TIMES]; /* owned */
  size_t n[YK_BENCH_TIMES];
} samples;

static yk_status samples_create(samples *s, size_t n_requests, size_t n_tokens, yk_err *err)
{
  for (int i = 0; i < YK_BENCH_TIMES; i++) {
    size_t n = i == YK_BENCH_ITL ? n_tokens : n_requests;
    s->values_ms[i] = malloc((n + 1) * sizeof(double));
    if (!s->values_ms[i]) return yk_err_set(err, YK_E_NOMEM, "no memory for the times of %zu requests", n_requests);
  }
  return YK_OK;
}

static void samples_free(samples *s)
{
  for (int i = 0; i < YK_BENCH_TIMES; i++) free(s->values_ms[i]);
}

static void add(samples *s, yk_bench_time time, double value_ms)
{
  s->values_ms[time][s->n[time]++] = value_ms;
}

static double ms_between(int64_t from_ns, int64_t to_ns)
{
  return (double)(to_ns - from_ns) * 1e-6;
}

/* Adds the request's times. Returns whether it meets every objective; an objective for a time that the request lacks is
 * met. */
static bool add_request(samples *s, const yk_bench_load *load, const yk_bench_record *r)
{
  double times_ms[YK_BENCH_TIMES] = {0};
  int64_t first_ns = r->times_ns[0], last_ns = r->times_ns[r->n_tokens - 1];
  add(s, YK_BENCH_TTFT, times_ms[YK_BENCH_TTFT] = ms_between(r->sent_ns, first_ns));
  add(s, YK_BENCH_E2EL, times_ms[YK_BENCH_E2EL] = ms_between(r->sent_ns, last_ns));
  for (int32_t i = 1; i < r->n_tokens; i++) {
    double itl_ms = ms_between(r->times_ns[i - 1], r->times_ns[i]);
    add(s, YK_BENCH_ITL, itl_ms);
    if (itl_ms > times_ms[YK_BENCH_ITL]) times_ms[YK_BENCH_ITL] = itl_ms;
  }
  if (r->n_tokens > 1)
    add(s, YK_BENCH_TPOT, times_ms[YK_BENCH_TPOT] = ms_between(first_ns, last_ns) / (r->n_tokens - 1));
  for (int i = 0; i < YK_BENCH_TIMES; i++)
    if (load->slo_ms[i] > 0 && times_ms[i] > load->slo_ms[i]) return false;
  return true;
}

/* Index of the last token at or before a time; -1: none. */
static int32_t last_token_by(const yk_bench_record *r, int64_t time_ns)
{
  int32_t low = 0, high = r->n_tokens;
  while (low < high) {
    int32_t middle = low + (high - low) / 2;
    if (r->times_ns[middle] <= time_ns)
      low = middle + 1;
    else
      high = middle;
  }
  return low - 1;
}

/* A step delivers its tokens one after another, so the moments at which the window begins and ends precede the tokens
 * that other sequences get from the same steps. Each sequence's rate is therefore measured between its own tokens, and
 * the rates are added. */
static double rate_between(const yk_bench_record *records, size_t n, int64_t from_ns, int64_t to_ns)
{
  double rate = 0;
  for (size_t i = 0; i < n; i++) {
    int32_t a = last_token_by(&records[i], from_ns), b = last_token_by(&records[i], to_ns);
    if (a < 0 || b <= a) return NAN;
    rate += (b - a) / (ms_between(records[i].times_ns[a], records[i].times_ns[b]) * 1e-3);
  }
  return isfinite(rate) ? rate : NAN;
}

static void measure_batch(const yk_bench_record *records, size_t n, int64_t start_ns, yk_bench_figures *out)
{
  int64_t all_began_ns = start_ns, first_end_ns = INT64_MAX;
  for (size_t i = 0; i < n; i++) {
    if (!records[i].is_done || records[i].n_tokens == 0) return;
    int64_t end_ns = records[i].times_ns[records[i].n_tokens - 1];
    if (records[i].times_ns[0] > all_began_ns) all_began_ns = records[i].times_ns[0];
    if (end_ns < first_end_ns) first_end_ns = end_ns;
  }
  out->prefill_throughput = out->total_input_tokens / (ms_between(start_ns, all_began_ns) * 1e-3);
  if (first_end_ns > all_began_ns) out->decode_throughput = rate_between(records, n, all_began_ns, first_end_ns);
}

static void set_unknown(yk_bench_figures *out)
{
  *out = (yk_bench_figures){0};
  for (int i = 0; i < YK_BENCH_METRICS; i++) *(double *)(void *)((char *)out + yk_bench_metrics()[i].offset) = NAN;
}

static void set_rates(yk_bench_figures *out, double n_good, bool has_slo, double running_s)
{
  double seconds = out->duration_s;
  if (!(seconds > 0)) return;
  out->request_throughput = out->completed / seconds;
  out->output_throughput = out->total_output_tokens / seconds;
  out->total_token_throughput = (out->total_input_tokens + out->total_output_tokens) / seconds;
  out->running = running_s / seconds;
  if (has_slo) out->request_goodput = n_good / seconds;
}

yk_status yk_bench_measure(const yk_bench_load *load, const yk_bench_record *records, size_t n, int64_t start_ns,
                           yk_bench_figures *out, yk_err *err)
{
  samples s = {0};
  size_t n_tokens = 0;
  int64_t end_ns = start_ns;
  double n_good = 0, running_s = 0;
  bool has_slo = false;
  set_unknown(out);
  for (size_t i = 0; i < n; i++) n_tokens += (size_t)records[i].n_tokens;
  for (int i = 0; i < YK_BENCH_TIMES; i++) has_slo |= load->slo_ms[i] > 0;
  yk_status status = samples_create(&s, n, n_tokens, err);
  out->completed = out->total_input_tokens = out->total_output_tokens = 0;
  for (size_t i = 0; i < n && status == YK_OK; i++) {
    const yk_bench_record *r = &records[i];
    if (!r->is_done || r->n_tokens == 0) continue;
    out->completed++;
    out->total_input_tokens += r->n_input;
    out->total_output_tokens += r->n_tokens;
    n_good += add_request(&s, load, r);
    running_s += r->running_s;
    if (r->times_ns[r->n_tokens - 1] > end_ns) end_ns = r->times_ns[r->n_tokens - 1];
  }
  if (status == YK_OK) {
    out->duration_s = ms_between(start_ns, end_ns) * 1e-3;
    set_rates(out, n_good, has_slo, running_s);
    for (int i = 0; i < YK_BENCH_TIMES; i++) out->times_ms[i] = yk_bench_statistics_of(s.values_ms[i], s.n[i]);
    if (load->batch > 0) measure_batch(records, n, start_ns, out);
  }
  samples_free(&s);
  return status;
}
