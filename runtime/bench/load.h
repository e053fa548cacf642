/* load.h - what one run of a benchmark asks of an engine: how many requests, when, how long, and what is promised. */
#ifndef YK_BENCH_LOAD_H
#define YK_BENCH_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"
#include "bench/trace.h"

struct yk_bench_gpus;

/* Times of a request that are measured.
 *   TTFT  from the request to its first token    TPOT  mean time of each further token
 *   ITL   between one token and the next         E2EL  from the request to its last token */
typedef enum yk_bench_time { YK_BENCH_TTFT, YK_BENCH_TPOT, YK_BENCH_ITL, YK_BENCH_E2EL, YK_BENCH_TIMES } yk_bench_time;

typedef enum yk_bench_arrivals {
  YK_BENCH_POISSON,   /* times between arrivals are drawn from an exponential distribution */
  YK_BENCH_CONSTANT,  /* all times between arrivals are the same */
  YK_BENCH_TRACE_TIME /* the trace's own times; stretched to the request rate where there is one */
} yk_bench_arrivals;

/* A length in tokens, drawn evenly from min to max, both included; fixed where they are the same. */
typedef struct yk_bench_lengths {
  int32_t min, max;
} yk_bench_lengths;

/* Exactly one of batch, n_clients, and arrivals by request_rate or the trace's times. */
typedef struct yk_bench_load {
  int32_t batch;              /* > 0: a fixed batch, all submitted at once */
  int32_t n_clients;          /* > 0: closed loop: each client sends its next request when its last one has ended */
  double request_rate;        /* > 0: requests a second, offered whether or not the engine keeps up */
  yk_bench_arrivals arrivals; /* of offered load */
  int32_t n_requests;         /* of offered load and closed loop; of a batch its size counts */
  yk_bench_lengths input, output;
  const yk_bench_trace *trace;   /* borrowed; not NULL: its rows' lengths in order, from the first again at the end */
  int32_t shared_prefix;         /* tokens, the same in all prompts of a run, that each begins with; fewer than input */
  float temperature, top_p;      /* temperature 0: greedy */
  int32_t top_k;                 /* 0: all */
  uint64_t seed;                 /* of lengths, arrivals and prompts */
  int32_t run;                   /* number of the run: prompts differ from run to run, lengths and arrivals do not */
  double slo_ms[YK_BENCH_TIMES]; /* service-level objective; 0: none. A request is good where it keeps all of them */
  struct yk_bench_gpus *gpus;    /* borrowed (bench/gpus.h): energy, clocks and temperature; NULL: not measured */
  bool (*stops)(void *user);     /* asked some 20 times a second; true ends the run with YK_E_CANCELLED. May be NULL */
  void *stops_user;
} yk_bench_load;

/* yk_bench_load_init - a batch of 1, 512 tokens in, 100 out, greedy, seed 0, nothing promised. Call it first. */
void yk_bench_load_init(yk_bench_load *load);

/* yk_bench_load_requests - how many requests a run has. */
int32_t yk_bench_load_requests(const yk_bench_load *load);

/* yk_bench_load_lengths - tokens in and out of request number i, from 0: a function of seed and i alone. */
void yk_bench_load_lengths(const yk_bench_load *load, int32_t i, int32_t *input_tokens, int32_t *output_tokens);

/* What an engine can take; 0: not known. */
typedef struct yk_bench_limits {
  int32_t max_seqs, max_model_tokens;
  int64_t kv_tokens; /* of KV */
} yk_bench_limits;

/* yk_bench_load_check - whether a load makes sense and an engine of these limits can run it as asked: a fixed batch
 *   must run at once, so that it may neither exceed max_seqs nor the KV memory.
 *   Errors: YK_E_INVAL (a field out of range, or not exactly one kind of load), YK_E_CAPACITY (more than the limits),
 *   each naming the option of `yoke bench`, expected and found. Thread: any. */
yk_status yk_bench_load_check(const yk_bench_load *load, const yk_bench_limits *limits, yk_err *err);

/* yk_bench_load_longest - tokens of the longest prompt, of the longest output and of the longest request. */
typedef struct yk_bench_longest {
  int32_t input_tokens, output_tokens;
  int64_t both_tokens;
} yk_bench_longest;
yk_bench_longest yk_bench_load_longest(const yk_bench_load *load);

/* yk_bench_slo_parse - "ttft:200,tpot:50,e2el:3000" in milliseconds into slo_ms [YK_BENCH_TIMES].
 *   Errors: YK_E_INVAL: an unknown or repeated name, a time that is no number above 0; slo_ms is then as before. */
yk_status yk_bench_slo_parse(const char *text, double slo_ms[YK_BENCH_TIMES], yk_err *err);

/* yk_bench_time_name - "ttft", "tpot", "itl", "e2el". */
const char *yk_bench_time_name(yk_bench_time time);

#endif
