#include "bench/load.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/rng.h"

/* Streams of random numbers; streams from 16 on belong to prompts (requests.c). */
enum { DRAW_INPUT = 1, DRAW_OUTPUT = 2 };

void yk_bench_load_init(yk_bench_load *load)
{
  *load = (yk_bench_load){.batch = 1, .n_requests = 1, .input = {512, 512}, .output = {100, 100}, .top_p = 1};
}

int32_t yk_bench_load_requests(const yk_bench_load *load)
{
  return load->batch > 0 ? load->batch : load->n_requests;
}

static int32_t draw(const yk_bench_load *load, yk_bench_lengths lengths, uint32_t stream, int32_t i)
{
  double share = (double)yk_rng_uniform(load->seed, stream, (uint32_t)i);
  return lengths.min + (int32_t)(share * ((double)lengths.max - lengths.min + 1));
}

void yk_bench_load_lengths(const yk_bench_load *load, int32_t i, int32_t *input_tokens, int32_t *output_tokens)
{
  if (load->trace) {
    const yk_bench_trace_row *row = &load->trace->rows[(size_t)i % load->trace->n_rows];
    *input_tokens = row->input_tokens;
    *output_tokens = row->output_tokens;
    return;
  }
  *input_tokens = draw(load, load->input, DRAW_INPUT, i);
  *output_tokens = draw(load, load->output, DRAW_OUTPUT, i);
}

yk_bench_longest yk_bench_load_longest(const yk_bench_load *load)
{
  if (!load->trace)
    return (yk_bench_longest){load->input.max, load->output.max, (int64_t)load->input.max + load->output.max};
  yk_bench_longest longest = {0};
  size_t n = (size_t)yk_bench_load_requests(load);
  for (size_t i = 0; i < load->trace->n_rows && i < n; i++) {
    const yk_bench_trace_row *row = &load->trace->rows[i];
    if (row->input_tokens > longest.input_tokens) longest.input_tokens = row->input_tokens;
    if (row->output_tokens > longest.output_tokens) longest.output_tokens = row->output_tokens;
    longest.both_tokens = yk_max_i64(longest.both_tokens, (int64_t)row->input_tokens + row->output_tokens);
  }
  return longest;
}

const char *yk_bench_time_name(yk_bench_time time)
{
  static const char *const names[YK_BENCH_TIMES] = {"ttft", "tpot", "itl", "e2el"};
  return (unsigned)time < YK_BENCH_TIMES ? names[time] : "unknown";
}

/* ---- Service-level objectives */

static int time_of(const char *name, size_t n_bytes)
{
  for (int i = 0; i < YK_BENCH_TIMES; i++) {
    const char *known = yk_bench_time_name((yk_bench_time)i);
    if (strlen(known) == n_bytes && strncmp(known, name, n_bytes) == 0) return i;
  }
  return -1;
}

/* Parses one "name:ms"; *text advances after it. */
static yk_status parse_objective(const char **text, double slo_ms[YK_BENCH_TIMES], yk_err *err)
{
  size_t n_name = strcspn(*text, ":,");
  int time = time_of(*text, n_name);
  if (time < 0)
    return yk_err_set(err, YK_E_INVAL,
                      "expected ttft, tpot, itl or e2el with milliseconds, as ttft:200, found \"%.60s\"", *text);
  if ((*text)[n_name] != ':')
    return yk_err_set(err, YK_E_INVAL, "expected %s:MILLISECONDS, found \"%.60s\"", yk_bench_time_name(time), *text);
  if (slo_ms[time] > 0)
    return yk_err_set(err, YK_E_INVAL, "expected each time once, found %s twice", yk_bench_time_name(time));
  const char *number = *text + n_name + 1;
  char *end;
  double value = strtod(number, &end);
  bool is_number = isdigit((unsigned char)*number) || *number == '.';
  if (!is_number || end == number || (*end && *end != ',') || !(value > 0) || !isfinite(value))
    return yk_err_set(err, YK_E_INVAL, "%s: expected milliseconds above 0, found \"%.60s\"", yk_bench_time_name(time),
                      number);
  slo_ms[time] = value;
  *text = end;
  return YK_OK;
}

yk_status yk_bench_slo_parse(const char *text, double slo_ms[YK_BENCH_TIMES], yk_err *err)
{
  double parsed[YK_BENCH_TIMES] = {0};
  for (;;) {
    YK_TRY(parse_objective(&text, parsed, err));
    if (!*text) break;
    text++; /* a comma, after which another one must follow */
  }
  memcpy(slo_ms, parsed, sizeof parsed);
  return YK_OK;
}

/* ---- Checks */

static yk_status check_kind(const yk_bench_load *load, yk_err *err)
{
  bool replays = load->arrivals == YK_BENCH_TRACE_TIME;
  bool is_offered = load->request_rate != 0 || replays;
  if ((load->batch != 0) + (load->n_clients != 0) + is_offered != 1)
    return yk_err_set(err, YK_E_INVAL, "expected one of --batch, --clients and --request-rate, found %s",
                      load->batch || load->n_clients || is_offered ? "several" : "none");
  if (load->batch < 0) return yk_err_set(err, YK_E_INVAL, "--batch: expected 1 or more, found %d", load->batch);
  if (load->n_clients < 0)
    return yk_err_set(err, YK_E_INVAL, "--clients: expected 1 or more, found %d", load->n_clients);
  if (!isfinite(load->request_rate) || load->request_rate < 0)
    return yk_err_set(err, YK_E_INVAL, "--request-rate: expected more than 0 requests a second, found %g",
                      load->request_rate);
  if (replays && (!load->trace || !load->trace->has_times))
    return yk_err_set(err, YK_E_INVAL, "--arrivals trace: expected --lengths with a file of times, found %s",
                      load->trace ? "a file without" : "none");
  if (yk_bench_load_requests(load) < 1)
    return yk_err_set(err, YK_E_INVAL, "--requests: expected 1 or more, found %d", load->n_requests);
  return YK_OK;
}

static yk_status check_lengths(const char *option, yk_bench_lengths lengths, yk_err *err)
{
  if (lengths.min >= 1 && lengths.min <= lengths.max) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "%s: expected 1 token or more, the smaller number first, found %d-%d", option,
                    lengths.min, lengths.max);
}

static yk_status check_prefix(const yk_bench_load *load, yk_err *err)
{
  int32_t shortest = load->input.min;
  for (size_t i = 0; load->trace && i < load->trace->n_rows && i < (size_t)yk_bench_load_requests(load); i++)
    if (i == 0 || load->trace->rows[i].input_tokens < shortest) shortest = load->trace->rows[i].input_tokens;
  if (load->shared_prefix >= 0 && (load->shared_prefix == 0 || load->shared_prefix < shortest)) return YK_OK;
  return yk_err_set(err, YK_E_INVAL, "--shared-prefix: expected fewer tokens than the shortest prompt, %d, found %d",
                    shortest, load->shared_prefix);
}

static yk_status check_capacity(const yk_bench_load *load, const yk_bench_limits *limits, yk_err *err)
{
  yk_bench_longest longest = yk_bench_load_longest(load);
  if (limits->max_model_tokens > 0 && longest.both_tokens > limits->max_model_tokens)
    return yk_err_set(err, YK_E_CAPACITY,
                      "a request of %lld tokens: expected at most %d, the context (--max-model-len)",
                      (long long)longest.both_tokens, limits->max_model_tokens);
  if (limits->max_seqs > 0 && load->batch > limits->max_seqs)
    return yk_err_set(err, YK_E_CAPACITY,
                      "--batch: expected at most %d, as --max-num-seqs and --max-num-batched-tokens allow, found %d",
                      limits->max_seqs, load->batch);
  int64_t needed = 0;
  for (int32_t i = 0; i < load->batch; i++) {
    int32_t input, output;
    yk_bench_load_lengths(load, i, &input, &output);
    needed += (int64_t)input + output - (i > 0 ? load->shared_prefix : 0);
  }
  if (limits->kv_tokens > 0 && needed > limits->kv_tokens)
    return yk_err_set(err, YK_E_CAPACITY,
                      "--batch %d: expected at most %lld tokens, the capacity of the KV cache, found %lld", load->batch,
                      (long long)limits->kv_tokens, (long long)needed);
  return YK_OK;
}

yk_status yk_bench_load_check(const yk_bench_load *load, const yk_bench_limits *limits, yk_err *err)
{
  YK_TRY(check_kind(load, err));
  if (!load->trace) {
    YK_TRY(check_lengths("--input-len", load->input, err));
    YK_TRY(check_lengths("--output-len", load->output, err));
  }
  YK_TRY(check_prefix(load, err));
  return check_capacity(load, limits, err);
}
