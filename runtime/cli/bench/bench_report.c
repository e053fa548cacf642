#include "cli/bench/bench_report.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/units.h"
#include "cli/bench/bench_times.h"

/* ---- Table */

/* "512" or "128-512". */
static const char *lengths_text(yk_bench_lengths lengths, char out[32])
{
  if (lengths.min == lengths.max)
    snprintf(out, 32, "%d", lengths.min);
  else
    snprintf(out, 32, "%d-%d", lengths.min, lengths.max);
  return out;
}

static void print_load(const yk_bench_options *o)
{
  char input[32], output[32];
  const yk_bench_load *load = &o->load;
  if (load->batch > 0)
    printf("batch of %d", load->batch);
  else if (load->n_clients > 0)
    printf("%d requests of %d clients", load->n_requests, load->n_clients);
  else if (load->request_rate > 0)
    printf("%d requests, %g a second", load->n_requests, load->request_rate);
  else
    printf("%d requests at the trace's times", load->n_requests);
  if (load->trace)
    printf(", lengths of %s", o->lengths_path);
  else
    printf(", %s tokens in, %s out", lengths_text(load->input, input), lengths_text(load->output, output));
  if (load->shared_prefix > 0) printf(", %d of them shared", load->shared_prefix);
  if (load->n_adapters > 0) printf(", %zu adapters", load->n_adapters);
  printf("\n");
}

void yk_bench_report_print_head(const yk_bench_report *report)
{
  const yk_engine_info *info = &report->info;
  printf("%s on %d %s rank%s", info->family, info->n_ranks, info->device, info->n_ranks > 1 ? "s" : "");
  if (info->n_stages > 1) printf(" in %d pipeline stages", info->n_stages);
  printf(", %s, loaded in %.2f s: ", info->dtype, info->load_s);
  print_load(report->options);
}

/* Prints four significant digits, or more if all are before the point. */
static void print_value(double value, int width)
{
  int n_before = value != 0 ? (int)floor(log10(fabs(value))) + 1 : 1;
  int n_behind = n_before >= 4 ? 0 : n_before <= -4 ? 8 : 4 - n_before;
  if (value == floor(value) && fabs(value) < 1e15) n_behind = 0;
  if (isnan(value))
    printf("%*s", width, "-");
  else
    printf("%*.*f", width, n_behind, value);
}

typedef struct row {
  const char *label;
  size_t offset; /* of the figure in yk_bench_figures */
} row;

#define ROW(text, field)                                                                                               \
  {                                                                                                                    \
    text, offsetof(yk_bench_figures, field)                                                                            \
  }

static const row rows[] = {
    ROW("prefill (pp), tokens/s", prefill_throughput),
    ROW("decode (tg), tokens/s", decode_throughput),
    ROW("output, tokens/s", output_throughput),
    ROW("input and output, tokens/s", total_token_throughput),
    ROW("requests/s", request_throughput),
    ROW("goodput, requests/s", request_goodput),
    ROW("duration, s", duration_s),
    ROW("requests completed", completed),
    ROW("input tokens", total_input_tokens),
    ROW("output tokens", total_output_tokens),
    ROW("requests running, mean", running),
    ROW("KV blocks in use, peak share", kv_use),
    ROW("prompt tokens reused, share", prefix_reuse),
    ROW("preemptions", preemptions),
    ROW("busiest rank's experts, share", expert_busiest_share),
    ROW("time between steps, share", between_share),
    ROW("scheduling, us a step", scheduling_us),
    ROW("handing out, us a step", hand_out_us),
    ROW("latest request, ms", late_ms),
    ROW("energy, J", energy_j),
    ROW("energy, J/token", energy_j_per_token),
    ROW("energy, J/token and GPU", energy_j_per_token_per_gpu),
};

static void print_times(const yk_bench_figures *median)
{
  static const char *const labels[YK_BENCH_TIMES] = {"TTFT, ms", "TPOT, ms", "ITL, ms", "E2EL, ms"};
  printf("\n%-10s %10s %10s %10s %10s %10s %10s\n", "", "mean", "median", "std", "p90", "p95", "p99");
  for (int i = 0; i < YK_BENCH_TIMES; i++) {
    const yk_bench_statistics *s = &median->times_ms[i];
    const double values[] = {s->mean, s->median, s->std, s->p90, s->p95, s->p99};
    if (isnan(s->mean)) continue;
    printf("%-10s", labels[i]);
    for (size_t k = 0; k < sizeof values / sizeof values[0]; k++) {
      printf(" ");
      print_value(values[k], 10);
    }
    printf("\n");
  }
}

static void print_gpus(const yk_bench_figures *median)
{
  if (median->n_gpus == 0) return;
  printf("\n%-6s %12s %20s %16s %14s %12s\n", "GPU", "energy, J", "SM clock, MHz", "temperature, C", "power cap, W",
         "power, W");
  for (int i = 0; i < median->n_gpus; i++) {
    const yk_bench_gpu_run *gpu = &median->gpus[i];
    printf("%-6d %12.1f %9.0f -> %7.0f %7.0f -> %5.0f %14.0f %12.0f\n", gpu->id, gpu->energy_j,
           gpu->before.sm_clock_mhz, gpu->after.sm_clock_mhz, gpu->before.temperature_c, gpu->after.temperature_c,
           gpu->after.power_cap_w, gpu->after.power_w);
  }
}

static void print_memory(const yk_engine_info *info)
{
  printf("\n%-6s %12s %12s %12s %12s\n", "rank", "weights", "KV", "states", "workspace");
  for (int i = 0; i < info->n_ranks; i++) {
    char weights[YK_BYTES_TEXT], kv[YK_BYTES_TEXT], states[YK_BYTES_TEXT], workspace[YK_BYTES_TEXT];
    const yk_rank_memory *memory = &info->memory[i];
    printf("%-6d %12s %12s %12s %12s\n", i, yk_bytes_format(memory->weight_bytes, weights),
           yk_bytes_format(memory->kv_bytes, kv), yk_bytes_format(info->state_bytes[i], states),
           yk_bytes_format(memory->workspace_bytes, workspace));
  }
}

void yk_bench_report_print(const yk_bench_report *report)
{
  printf("%-30s %12s %12s   over %d run%s after a warm-up%s\n", "", "median", "spread", report->n_runs,
         report->n_runs > 1 ? "s" : "", report->is_interrupted ? ", interrupted" : "");
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const yk_bench_metric metric = {rows[i].label, rows[i].offset};
    double median = yk_bench_metric_of(&report->median, &metric);
    if (isnan(median)) continue;
    printf("%-30s ", rows[i].label);
    print_value(median, 12);
    printf(" ");
    print_value(yk_bench_metric_of(&report->spread, &metric), 12);
    printf("\n");
  }
  print_times(&report->median);
  print_memory(&report->info);
  print_gpus(&report->median);
  if (!report->has_times) return;
  yk_bench_times_print(&report->times, &report->info);
  printf("%-20s %9.1f   (%.1f in the other runs)\n", "output, tokens/s", report->timed.output_throughput,
         report->median.output_throughput);
}

/* ---- JSON */

static json_t *lengths_json(yk_bench_lengths lengths)
{
  char text[32];
  return lengths.min == lengths.max ? json_integer(lengths.min) : json_string(lengths_text(lengths, text));
}

static json_t *memory_json(const yk_engine_info *info)
{
  json_t *list = json_array();
  for (int i = 0; i < info->n_ranks; i++)
    json_array_append_new(
        list, json_pack("{s:I, s:I, s:I, s:I}", "weight_bytes", (json_int_t)info->memory[i].weight_bytes, "kv_bytes",
                        (json_int_t)info->memory[i].kv_bytes, "state_bytes", (json_int_t)info->state_bytes[i],
                        "workspace_bytes", (json_int_t)info->memory[i].workspace_bytes));
  return list;
}

static void add_load(const yk_bench_options *o, json_t *object)
{
  static const char *const arrivals[] = {"poisson", "constant", "trace"};
  const yk_bench_load *load = &o->load;
  json_t *slo = json_object();
  bool is_offered = load->batch == 0 && load->n_clients == 0;
  if (load->batch > 0) json_object_set_new(object, "batch", json_integer(load->batch));
  if (load->n_clients > 0) json_object_set_new(object, "clients", json_integer(load->n_clients));
  if (is_offered) {
    json_object_set_new(object, "request_rate", load->request_rate > 0 ? json_real(load->request_rate) : json_null());
    json_object_set_new(object, "arrivals", json_string(arrivals[load->arrivals]));
  }
  json_object_set_new(object, "requests", json_integer(yk_bench_load_requests(load)));
  json_object_set_new(object, "input_len", load->trace ? json_null() : lengths_json(load->input));
  json_object_set_new(object, "output_len", load->trace ? json_null() : lengths_json(load->output));
  if (load->trace) json_object_set_new(object, "lengths", json_string(o->lengths_path));
  json_object_set_new(object, "shared_prefix", json_integer(load->shared_prefix));
  json_object_set_new(object, "adapters", json_integer((json_int_t)load->n_adapters));
  json_object_set_new(object, "temperature", json_real(o->temperature));
  json_object_set_new(object, "top_k", json_integer(load->top_k));
  json_object_set_new(object, "top_p", json_real(o->top_p));
  json_object_set_new(object, "seed", json_integer((json_int_t)load->seed));
  for (int i = 0; i < YK_BENCH_TIMES; i++)
    if (load->slo_ms[i] > 0) json_object_set_new(slo, yk_bench_time_name((yk_bench_time)i), json_real(load->slo_ms[i]));
  json_object_set_new(object, "slo_ms", slo);
}

static void add_engine(const yk_bench_report *report, json_t *object)
{
  const yk_engine_info *info = &report->info;
  json_object_set_new(object, "yoke_bench", json_integer(1));
  json_object_set_new(object, "version", json_string(yk_version()));
  json_object_set_new(object, "model", json_string(report->options->model.checkpoint.name));
  json_object_set_new(object, "family", json_string(info->family));
  json_object_set_new(object, "device", json_string(info->device));
  json_object_set_new(object, "dtype", json_string(info->dtype));
  json_object_set_new(object, "kv_cache_dtype", json_string(info->kv_cache_dtype));
  json_object_set_new(object, "activations", json_string(info->activations));
  json_object_set_new(object, "lm_head", json_string(info->lm_head));
  json_object_set_new(object, "ranks", json_integer(info->n_ranks));
  if (info->n_stages > 1) json_object_set_new(object, "stages", json_integer(info->n_stages));
  if (info->n_processes > 1) json_object_set_new(object, "processes", json_integer(info->n_processes));
  json_object_set_new(object, "max_num_seqs", json_integer(info->max_seqs));
  json_object_set_new(object, "max_model_len", json_integer(info->max_model_tokens));
  json_object_set_new(object, "load_s", json_real(info->load_s));
  json_object_set_new(object, "memory", memory_json(info));
}

/* Rows of each expert, layer by layer. */
static void add_experts(const yk_expert_load *load, json_t *object)
{
  json_t *layers = json_array(), *shares = json_array();
  if (load->n_layers > 0) {
    for (int rank = 0; rank < load->n_ranks; rank++) json_array_append_new(shares, json_real(load->rank_shares[rank]));
    for (int32_t i = 0; i < load->n_layers; i++) {
      json_t *counts = json_array();
      for (int32_t e = 0; e < load->n_experts; e++)
        json_array_append_new(counts, json_integer(load->rows[(int64_t)i * load->n_experts + e]));
      json_array_append_new(layers, json_pack("{s:i, s:o}", "layer", load->layers[i], "rows", counts));
    }
    json_object_set_new(object, "experts",
                        json_pack("{s:i, s:i, s:f, s:O, s:O}", "n_experts", load->n_experts, "top_k", load->top_k,
                                  "busiest_rank_share", load->busiest_share, "rank_shares", shares, "layers", layers));
  }
  json_decref(layers);
  json_decref(shares);
}

static yk_status add_runs(const yk_bench_report *report, json_t *object, yk_err *err)
{
  json_t *spread = json_object(), *runs = json_array();
  yk_status status = YK_OK;
  json_object_set_new(object, "repeats", json_integer(report->options->repeats));
  json_object_set_new(object, "n_runs", json_integer(report->n_runs));
  json_object_set_new(object, "interrupted", json_boolean(report->is_interrupted));
  if (report->n_runs > 0) {
    status = yk_bench_figures_json(&report->median, object, err);
    if (status == YK_OK) status = yk_bench_figures_json(&report->spread, spread, err);
    json_object_del(spread, "gpus");
    json_object_del(spread, "warnings");
  }
  for (int i = 0; i < report->n_runs && status == YK_OK; i++) {
    json_t *run = json_object();
    status = yk_bench_figures_json(&report->runs[i], run, err);
    json_array_append_new(runs, run);
  }
  json_object_set_new(object, "spread", spread);
  json_object_set_new(object, "runs", runs);
  return status;
}

static yk_status add_times(const yk_bench_report *report, json_t *object, yk_err *err)
{
  json_t *timed = json_object();
  YK_TRY(yk_bench_times_add(&report->times, &report->info, object, err));
  yk_status status = yk_bench_figures_json(&report->timed, timed, err);
  json_object_set_new(object, "timed_run", timed);
  return status;
}

yk_status yk_bench_report_write(const yk_bench_report *report, FILE *file, yk_err *err)
{
  json_t *object = json_object();
  if (!object) return yk_err_set(err, YK_E_NOMEM, "no memory for a report");
  add_engine(report, object);
  add_load(report->options, object);
  add_experts(&report->experts, object);
  yk_status status = add_runs(report, object, err);
  if (status == YK_OK && report->has_times) status = add_times(report, object, err);
  errno = 0;
  bool ok = status != YK_OK || (json_dumpf(object, file, JSON_INDENT(2) | JSON_REAL_PRECISION(9)) == 0 &&
                                fputc('\n', file) != EOF && fflush(file) == 0);
  json_decref(object);
  if (ok) return status;
  return yk_err_set(err, YK_E_IO, "%s: cannot be written: %s", report->options->output_path, strerror(errno));
}
