#include "bench/figures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const yk_bench_metric metrics[] = {
#define FIGURE(name, field)                                                                                            \
  {                                                                                                                    \
    name, offsetof(yk_bench_figures, field)                                                                            \
  }
#define TIME(time, index)                                                                                              \
  FIGURE("mean_" time "_ms", times_ms[index].mean), FIGURE("median_" time "_ms", times_ms[index].median),              \
      FIGURE("std_" time "_ms", times_ms[index].std), FIGURE("p90_" time "_ms", times_ms[index].p90),                  \
      FIGURE("p95_" time "_ms", times_ms[index].p95), FIGURE("p99_" time "_ms", times_ms[index].p99)
    FIGURE("duration", duration_s),
    FIGURE("completed", completed),
    FIGURE("total_input_tokens", total_input_tokens),
    FIGURE("total_output_tokens", total_output_tokens),
    FIGURE("request_throughput", request_throughput),
    FIGURE("request_goodput", request_goodput),
    FIGURE("output_throughput", output_throughput),
    FIGURE("total_token_throughput", total_token_throughput),
    FIGURE("prefill_throughput", prefill_throughput),
    FIGURE("decode_throughput", decode_throughput),
    TIME("ttft", YK_BENCH_TTFT),
    TIME("tpot", YK_BENCH_TPOT),
    TIME("itl", YK_BENCH_ITL),
    TIME("e2el", YK_BENCH_E2EL),
    FIGURE("running", running),
    FIGURE("kv_use", kv_use),
    FIGURE("prefix_reuse", prefix_reuse),
    FIGURE("preemptions", preemptions),
    FIGURE("expert_busiest_share", expert_busiest_share),
    FIGURE("memory_bytes", memory_bytes),
    FIGURE("between_share", between_share),
    FIGURE("scheduling_us", scheduling_us),
    FIGURE("hand_out_us", hand_out_us),
    FIGURE("late_ms", late_ms),
    FIGURE("energy_j", energy_j),
    FIGURE("energy_j_per_token", energy_j_per_token),
    FIGURE("energy_j_per_token_per_gpu", energy_j_per_token_per_gpu),
#undef TIME
#undef FIGURE
};
_Static_assert(sizeof metrics / sizeof metrics[0] == YK_BENCH_METRICS, "YK_BENCH_METRICS is their number");

const yk_bench_metric *yk_bench_metrics(void)
{
  return metrics;
}

static int compare(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double yk_bench_percentile(const double *values, size_t n, double share)
{
  double place = (double)(n - 1) * share / 100;
  size_t low = (size_t)place, high = low + 1 < n ? low + 1 : n - 1;
  return values[low] + (values[high] - values[low]) * (place - (double)low);
}

yk_bench_statistics yk_bench_statistics_of(double *values, size_t n)
{
  if (n == 0) return (yk_bench_statistics){NAN, NAN, NAN, NAN, NAN, NAN};
  double sum = 0, squares = 0;
  qsort(values, n, sizeof *values, compare);
  for (size_t i = 0; i < n; i++) sum += values[i];
  double mean = sum / (double)n;
  for (size_t i = 0; i < n; i++) squares += (values[i] - mean) * (values[i] - mean);
  return (yk_bench_statistics){.mean = mean,
                               .median = yk_bench_percentile(values, n, 50),
                               .std = sqrt(squares / (double)n),
                               .p90 = yk_bench_percentile(values, n, 90),
                               .p95 = yk_bench_percentile(values, n, 95),
                               .p99 = yk_bench_percentile(values, n, 99)};
}

static double *place_of(yk_bench_figures *figures, const yk_bench_metric *metric)
{
  return (double *)(void *)((char *)figures + metric->offset);
}

/* Moves the values that are not NaN to the front; returns their number. */
static size_t known_of(double *values, int n)
{
  size_t n_known = 0;
  for (int i = 0; i < n; i++)
    if (!isnan(values[i])) values[n_known++] = values[i];
  qsort(values, n_known, sizeof *values, compare);
  return n_known;
}

static void merge_gpus(const yk_bench_figures *runs, int n, double *values, yk_bench_figures *out)
{
  for (int gpu = 0; gpu < out->n_gpus; gpu++) {
    for (int i = 0; i < n; i++) values[i] = runs[i].gpus[gpu].energy_j;
    size_t n_known = known_of(values, n);
    out->gpus[gpu].energy_j = n_known > 0 ? yk_bench_percentile(values, n_known, 50) : NAN;
    out->gpus[gpu].before = runs[0].gpus[gpu].before;
  }
  yk_bench_gpus_compare(out->gpus, out->n_gpus, &out->warnings);
}

yk_status yk_bench_figures_median(const yk_bench_figures *runs, int n, yk_bench_figures *out, yk_bench_figures *spread,
                                  yk_err *err)
{
  double *values = malloc((size_t)n * sizeof *values);
  if (!values) return yk_err_set(err, YK_E_NOMEM, "no memory for the figures of %d runs", n);
  *out = runs[n - 1];
  if (spread) *spread = (yk_bench_figures){0};
  for (const yk_bench_metric *metric = metrics; metric < metrics + YK_BENCH_METRICS; metric++) {
    for (int i = 0; i < n; i++) values[i] = yk_bench_metric_of(&runs[i], metric);
    size_t n_known = known_of(values, n);
    *place_of(out, metric) = n_known > 0 ? yk_bench_percentile(values, n_known, 50) : NAN;
    if (spread) *place_of(spread, metric) = n_known > 0 ? values[n_known - 1] - values[0] : NAN;
  }
  out->warnings.n = 0;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < runs[i].warnings.n; k++) yk_bench_warn(&out->warnings, "%s", runs[i].warnings.text[k]);
  merge_gpus(runs, n, values, out);
  free(values);
  return YK_OK;
}

/* False: no memory. */
static bool set_real(json_t *object, const char *name, double value)
{
  return json_object_set_new(object, name, isfinite(value) ? json_real(value) : json_null()) == 0;
}

static json_t *state_json(const yk_bench_gpu_state *state)
{
  json_t *object = json_object();
  bool ok = object && set_real(object, "sm_clock_mhz", state->sm_clock_mhz) &&
            set_real(object, "memory_clock_mhz", state->memory_clock_mhz) &&
            set_real(object, "temperature_c", state->temperature_c) && set_real(object, "power_w", state->power_w) &&
            set_real(object, "power_cap_w", state->power_cap_w) &&
            json_object_set_new(object, "throttle_reasons", json_integer((json_int_t)state->throttle_reasons)) == 0;
  if (ok) return object;
  json_decref(object);
  return NULL;
}

static bool add_gpu(json_t *list, const yk_bench_gpu_run *gpu)
{
  json_t *object = json_object();
  bool ok = object && json_object_set_new(object, "id", json_integer(gpu->id)) == 0 &&
            set_real(object, "energy_j", gpu->energy_j) &&
            json_object_set_new(object, "before", state_json(&gpu->before)) == 0 &&
            json_object_set_new(object, "after", state_json(&gpu->after)) == 0;
  if (ok) return json_array_append_new(list, object) == 0;
  json_decref(object);
  return false;
}

yk_status yk_bench_figures_json(const yk_bench_figures *figures, json_t *object, yk_err *err)
{
  json_t *gpus = json_array(), *warnings = json_array();
  bool ok = gpus && warnings;
  for (int i = 0; i < YK_BENCH_METRICS && ok; i++)
    ok = set_real(object, metrics[i].name, yk_bench_metric_of(figures, &metrics[i]));
  for (int i = 0; i < figures->n_gpus && ok; i++) ok = add_gpu(gpus, &figures->gpus[i]);
  for (int i = 0; i < figures->warnings.n && ok; i++)
    ok = json_array_append_new(warnings, json_string(figures->warnings.text[i])) == 0;
  ok = ok && json_object_set(object, "gpus", gpus) == 0 && json_object_set(object, "warnings", warnings) == 0;
  json_decref(gpus);
  json_decref(warnings);
  return ok ? YK_OK : yk_err_set(err, YK_E_NOMEM, "no memory for figures");
}
