/* load.h - the load of one benchmark run: number of requests, times, lengths, and objectives. */
#ifndef YK_BENCH_LOAD_H
#define YK_BENCH_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "bench/trace.h"

struct yk_adapter_path; /* yoke/engine.h */
struct yk_bench_gpus;

/* Measured times of a request.
 *   TTFT  from the request to its first token    TPOT  mean time of each further token
 *   ITL   between one token and the next         E2EL  from the request to its last token */
typedef enum yk_bench_time { YK_BENCH_TTFT, YK_BENCH_TPOT, YK_BENCH_ITL, YK_BENCH_E2EL, YK_BENCH_TIMES } yk_bench_time;

typedef enum yk_bench_arrivals {
  YK_BENCH_POISSON,   /* times between arrivals are drawn from an exponential distribution */
  YK_BENCH_CONSTANT,  /* all times between arrivals are the same */
  YK_BENCH_TRACE_TIME /* the trace's own times; scaled to the request rate if there is one */
} yk_bench_arrivals;

/* A length in tokens, drawn uniformly from min to max, both included; constant if they are equal. */
typedef struct yk_bench_lengths {
  int32_t min, max;
} yk_bench_lengths;

/* Exactly one of batch, n_clients, and arrivals by request_rate or the trace's times. */
typedef struct yk_bench_load {
  int32_t batch;              /* > 0: a fixed batch, all submitted at once */
  int32_t n_clients;          /* > 0: closed loop: each client sends its next request when the last one has ended */
  double request_rate;        /* > 0: requests per second, sent even if the engine does not keep up */
  yk_bench_arrivals arrivals; /* for an offered load */
  int32_t n_requests;         /* for an offered load and a closed loop; a batch has its own size */
  yk_bench_lengths input, output;
  /* borrowed; not NULL: the rows' lengths are used in order, starting again at the end */
  const yk_bench_trace *trace;
  int32_t shared_prefix; /* number of tokens at the beginning of all prompts of a run; fewer than input */
  const struct yk_adapter_path *adapters; /* [n_adapters] borrowed: request i has adapter i % n_adapters; 0: none */
  size_t n_adapters;
  float temperature, top_p;      /* temperature 0: greedy */
  int32_t top_k;                 /* 0: all */
  uint64_t seed;                 /* for lengths, arrivals and prompts */
  int32_t run;                   /* number of the run: prompts differ between runs, lengths and arrivals do not */
  double slo_ms[YK_BENCH_TIMES]; /* service-level objectives; 0: none. A request is good if it meets all of them */
  struct yk_bench_gpus *gpus;    /* borrowed (bench/gpus.h): energy, clocks and temperature; NULL: not measured */
  /* called some 20 times per second; true ends the run with YK_E_CANCELLED. May be NULL */
  bool (*stops)(void *user);
  void *stops_user;
} yk_bench_load;

/* yk_bench_load_init - a batch of 1, 512 tokens in, 100 out, greedy, seed 0, no objectives. Call first. */
void yk_bench_load_init(yk_bench_load *load);

/* yk_bench_load_requests - number of requests of a run. */
int32_t yk_bench_load_requests(const yk_bench_load *load);

/* yk_bench_load_lengths - input and output tokens of request number i, from 0: a function of seed and i only. */
void yk_bench_load_lengths(const yk_bench_load *load, int32_t i, int32_t *input_tokens, int32_t *output_tokens);

/* Limits of an engine; 0: unknown. */
typedef struct yk_bench_limits {
  int32_t max_seqs, max_model_tokens;
  int64_t kv_tokens; /* capacity for KV */
} yk_bench_limits;

/* yk_bench_load_check - check that a load is valid and that an engine with these limits can run it as specified: a
 *   fixed batch must run at once, so it must exceed neither max_seqs nor the KV memory.
 *   Errors: YK_E_INVAL (a field out of range, or not exactly one kind of load), YK_E_CAPACITY (more than the limits),
 *   each naming the option of `yoke bench`, expected and found. Thread: any. */
yk_status yk_bench_load_check(const yk_bench_load *load, const yk_bench_limits *limits, yk_err *err);

/* yk_bench_load_longest - tokens of the longest prompt, of the longest output and of the longest request. */
typedef struct yk_bench_longest {
  int32_t input_tokens, output_tokens;
  int64_t both_tokens;
} yk_bench_longest;
yk_bench_longest yk_bench_load_longest(const yk_bench_load *load);

/* yk_bench_slo_parse - parse "ttft:200,tpot:50,e2el:3000" in milliseconds into slo_ms [YK_BENCH_TIMES].
 *   Errors: YK_E_INVAL: an unknown or repeated name, a time that is not a number above 0; slo_ms is then unchanged. */
yk_status yk_bench_slo_parse(const char *text, double slo_ms[YK_BENCH_TIMES], yk_err *err);

/* yk_bench_time_name - "ttft", "tpot", "itl", "e2el". */
const char *yk_bench_time_name(yk_bench_time time);

#endif
